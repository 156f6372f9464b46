"""Policy gradient on a generator that is a transformers model with adapters."""

from functools import partial
from pathlib import Path

import pytest
import torch
from tiny_writer import LORA, batch, images, module_of, tiny_writer
from toy_diagnosis import WordAnswerer

from ivqa.diagnosis import GoalReward, PolicyGradientModule, PolicyObjective
from ivqa.generators import Questions, Sampling
from ivqa.generators.transformers.transformer_module import TransformerModule

ASKED = ["yes", "red", "no", "red"]


@pytest.fixture
def questioner(tmp_path: Path) -> TransformerModule:
    return module_of(tiny_writer(tmp_path), lora=LORA)


def _policy(questioner: TransformerModule, **objective: float) -> PolicyGradientModule:
    return PolicyGradientModule(
        questioner=questioner,
        answerer=WordAnswerer(),
        rewards={"goal": GoalReward()},
        optimizer=partial(torch.optim.Adam, lr=0.02),
        objective=PolicyObjective(num_samples=8, latent="prior", **objective),  # type: ignore[arg-type]
    )


def _log_probs(policy: PolicyGradientModule, questions: Questions) -> torch.Tensor:
    own = batch().question
    return policy.objective.log_probs(policy.questioner, images(), ASKED, questions, own)


def test_the_gradient_is_that_of_the_log_probability(questioner: TransformerModule) -> None:
    """By finite differences along the gradient, at a temperature."""
    policy = _policy(questioner, temperature=1.5)
    network = policy.questioner.network
    torch.manual_seed(5)
    adapters = list(policy.trained_parameters())
    with torch.no_grad():
        for value in adapters:
            value.normal_(std=0.1)
    questions = policy.questioner.sample(images(), ASKED, 2, Sampling(temperature=1.5))
    log_probs = _log_probs(policy, questions)
    assert network.training
    log_probs.sum().backward()
    gradients = [value.grad for value in adapters]
    assert all(gradient is not None for gradient in gradients)
    assert all(value.grad is None for value in network.parameters() if not value.requires_grad)
    norm = torch.stack([g.square().sum() for g in gradients if g is not None]).sum().sqrt()
    sums = []
    for sign in (1, -2):  # from the point to +h, and from there to -h
        with torch.no_grad():
            for value, gradient in zip(adapters, gradients, strict=True):
                value += sign * 1e-3 * gradient / norm
            moved = _log_probs(policy, questions)
            sums.append(moved.double().sum())
    torch.testing.assert_close((sums[0] - sums[1]) / 2e-3, norm.double(), rtol=0.02, atol=0)


def test_a_policy_trains_its_adapters_and_learns(questioner: TransformerModule) -> None:
    policy = _policy(questioner, kl_weight=0.001, entropy_weight=0.001, supervised_weight=0.001)
    policy.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
    reference = [value.clone() for value in policy.reference.parameters()]
    optimizer = torch.optim.Adam(policy.trained_parameters(), lr=0.02)
    asked = batch()
    torch.manual_seed(0)

    def reward() -> float:
        generator = torch.Generator().manual_seed(9)
        questions = policy.sample(asked.images, ASKED, 30, generator=generator)
        return float(policy.candidates(questions, asked.images, ASKED).phi.mean())

    target = policy.answerer.answers
    assert target is not None
    asked = type(asked)(**{**vars(asked), "target": target.encode(ASKED)})
    before = reward()
    for _ in range(40):
        loss = policy.training_step(asked, 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert reward() > before + 0.1
    after = list(policy.reference.parameters())
    assert all(torch.equal(a, b) for a, b in zip(reference, after, strict=True))
    own = dict(policy.questioner.named_parameters())
    changed = {
        n for (n, old) in policy.reference.named_parameters() if not torch.equal(old, own[n])
    }
    assert changed == {name for name in own if "lora_" in name}
    assert {key.split(".")[0] for key in policy.state_dict()} == {"questioner"}
    assert all("lora_" in key or key.endswith("_base") for key in policy.state_dict())
