from functools import partial
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader
from toy_diagnosis import ANSWERS, WordAnswerer, toy_images, toy_questioner

from ivqa.data.batch import VQABatch
from ivqa.diagnosis import DiversityReward, GoalReward, PolicyGradientModule
from ivqa.text.vocabulary import Tokens

ASKED = ["yes", "red", "no"] * 4


def _batch() -> VQABatch:
    size = len(ASKED)
    words = Tokens(torch.full((size, 2), 4), torch.full((size,), 2))
    return VQABatch(
        rows=torch.arange(size),
        images=toy_images(size),
        question=words,
        answer=words,
        answer_type=torch.zeros(size, dtype=torch.int64),
        target=ANSWERS.encode(ASKED),
    )


def _policy(**arguments: Any) -> PolicyGradientModule:
    settings: dict[str, Any] = {
        "questioner": toy_questioner(),
        "answerer": WordAnswerer(),
        "rewards": {"goal": GoalReward()},
        "optimizer": partial(torch.optim.Adam, lr=0.02),
        "latent": "prior",
    }
    return PolicyGradientModule(**settings | arguments)


def _train(policy: PolicyGradientModule, steps: int) -> None:
    trainer = pl.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    torch.manual_seed(0)
    loader: Any = DataLoader([_batch()] * 10, batch_size=None)
    trainer.fit(policy, loader)


def _score(policy: PolicyGradientModule) -> float:
    questions = policy.sample(toy_images(12), ASKED, 40, generator=torch.Generator().manual_seed(9))
    return float(policy.judged(questions, toy_images(12), ASKED).phi.mean())


@pytest.mark.parametrize("baseline", ["pair_mean", "greedy"])
@pytest.mark.parametrize("latent", ["prior", "posterior"])
def test_the_policy_learns_what_is_rewarded(baseline: Any, latent: Any) -> None:
    policy = _policy(baseline=baseline, latent=latent)
    before = _score(policy)
    reference = [value.clone() for value in policy.reference.parameters()]
    _train(policy, 120)
    assert _score(policy) > before + 0.08
    # The supervised generator stays as it was, and is not stored with the policy.
    after = policy.reference.parameters()
    assert all(torch.equal(a, b) for a, b in zip(reference, after, strict=True))
    assert {key.split(".")[0] for key in policy.state_dict()} == {"questioner"}


def test_the_gradient_is_that_of_reinforce() -> None:
    """Against (r - b) grad log p, summed over samples and divided by the words, by hand."""
    policy = _policy(num_samples=4)
    torch.manual_seed(5)
    policy.log_dict = lambda *args, **kwargs: None  # type: ignore[method-assign]
    loss = policy.training_step(_batch(), 0)
    loss.backward()
    torch.manual_seed(5)
    questions = policy.sample(toy_images(12), ASKED, 4)
    reward = policy.judged(questions, toy_images(12), ASKED).phi
    by_pair = reward.view(12, 4)
    baseline = (by_pair.sum(1, keepdim=True) - by_pair) / 3
    network = policy.questioner.network
    conditions, row = policy.questioner.encode_pairs(toy_images(12), ASKED)
    log_probs = network.token_log_probs(
        questions.tokens, questions.z, conditions.select(row[questions.pair])
    ).sum(1)
    words = (questions.tokens.lengths + 1).sum()
    expected = -((by_pair - baseline).flatten() * log_probs).sum() / words
    assert torch.allclose(loss, expected, atol=1e-6)
    assert torch.allclose(log_probs, questions.log_likelihood, atol=1e-4)


def test_the_encoder_learns_only_where_z_is_drawn_from_it() -> None:
    for latent, learns in (("prior", False), ("posterior", True)):
        policy = _policy(latent=latent)
        policy.log_dict = lambda *args, **kwargs: None  # type: ignore[method-assign]
        policy.training_step(_batch(), 0).backward()
        gradient = policy.questioner.network.encoder_mean.weight.grad
        assert (gradient is not None and bool(gradient.abs().sum() > 0)) is learns


def test_entropy_and_kl_are_taken_off_the_reward() -> None:
    policy = _policy(entropy_weight=0.5, kl_weight=2.0)
    questions = policy.sample(toy_images(12), ASKED, 10)
    total, words = questions.log_likelihood, (questions.tokens.lengths + 1).float()
    penalty = policy._penalty(toy_images(12), ASKED, questions, total, words)
    # Untrained, the policy is the supervised generator: no divergence yet.
    assert torch.allclose(penalty, 0.5 * total / words, atol=1e-4)


def test_a_collapse_is_told_once() -> None:
    policy = _policy(rewards={"goal": GoalReward(), "diversity": DiversityReward()})
    shown = {"unique": torch.tensor(0.01), "empty": torch.tensor(0.0), "words": torch.tensor(5.0)}
    policy._trainer = None
    with pytest.warns(UserWarning, match="nearly the same question"):
        policy._alarm(shown)
    policy._alarm(shown)  # filterwarnings would not hide a second one from `warns` above
    assert len(policy._alarmed) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rewards": {}}, "at least one reward"),
        ({"baseline": "mean"}, "baseline must be"),
        ({"latent": "none"}, "latent must be"),
        ({"num_samples": 1}, "2 or more"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _policy(**wrong)
