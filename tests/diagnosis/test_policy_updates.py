"""Clipped steps and importance weights, compared with loops over samples and words."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader
from toy_diagnosis import ANSWERS, toy_images, toy_policy

from ivqa.data.batch import VQABatch
from ivqa.diagnosis import PolicyGradientModule
from ivqa.diagnosis.policy_updates import clipped_loss
from ivqa.errors import UserError
from ivqa.generators import QuestionGenerationModule, Questions, Sampling
from ivqa.runs.checkpoints import StepSeed
from ivqa.text.vocabulary import BOS, EOS, UNK, Tokens

ASKED = ["yes", "red", "no"] * 4
SAMPLES = 4


def _batch() -> VQABatch:
    size = len(ASKED)
    words = Tokens(torch.full((size, 2), 4), torch.full((size,), 2))
    none = torch.zeros(size, dtype=torch.int64)
    return VQABatch(torch.arange(size), toy_images(size), words, words, none, ANSWERS.encode(ASKED))


def _policy(**arguments: Any) -> PolicyGradientModule:
    optimizer = partial(torch.optim.Adam, lr=0.02)
    given = {"optimizer": optimizer, "latent": "prior", "num_samples": SAMPLES} | arguments
    return toy_policy(**given)


def _silent(policy: PolicyGradientModule) -> PolicyGradientModule:
    policy.log_dict = lambda *args, **kwargs: None  # type: ignore[method-assign]
    return policy


def _word_log_probs(
    questioner: QuestionGenerationModule, questions: Questions, temperature: float = 1.0
) -> list[list[torch.Tensor]]:
    """log pi of each drawn word of each sample, word by word, with gradients."""
    conditions, row = questioner.encode_pairs(toy_images(12), ASKED)
    found = []
    for at in range(len(questions)):
        given = conditions.select(row[questions.pair[[at]]])
        assert questions.z is not None
        step, state = questioner.network.decoding(given, questions.z[[at]])
        length = int(questions.tokens.lengths[at])
        drawn = [*questions.tokens.ids[at, :length].tolist(), EOS][: questioner.max_length]
        word, own = torch.tensor([BOS]), []
        for chosen in drawn:
            log_probs, state = step(state, word)
            weights = (log_probs[0] / temperature).exp()
            total = weights.sum() - weights[UNK]  # <unk> is never drawn
            own.append((weights[chosen] / total).log())
            word = torch.tensor([chosen])
        found.append(own)
    return found


def _group_advantage(reward: torch.Tensor) -> torch.Tensor:
    advantage = torch.zeros(len(reward))
    for first in range(0, len(reward), SAMPLES):
        own = reward[first : first + SAMPLES]
        mean = sum(own) / SAMPLES
        spread = (sum((one - mean) ** 2 for one in own) / SAMPLES) ** 0.5
        if spread > 0:
            advantage[first : first + SAMPLES] = (own - mean) / spread
    return advantage


def _gradient(loss: torch.Tensor, policy: PolicyGradientModule) -> torch.Tensor:
    return torch.autograd.grad(loss, policy.questioner.network.decoder.output.weight)[0]


def test_the_first_step_is_reinforce_with_a_group_baseline() -> None:
    """At a ratio of 1 the gradient is A grad log pi, summed over samples, per word."""
    policy = _silent(_policy(update="grpo"))
    torch.manual_seed(5)
    gradient = _gradient(policy.training_step(_batch(), 0), policy)
    torch.manual_seed(5)
    questions = policy.sample(toy_images(12), ASKED, SAMPLES)
    reward = policy.candidates(questions, toy_images(12), ASKED).phi
    log_probs = _word_log_probs(policy.questioner, questions)
    advantage = _group_advantage(reward)
    words = sum(map(len, log_probs))
    expected = -sum(a * sum(own) for a, own in zip(advantage, log_probs, strict=True)) / words
    assert (advantage != 0).any()
    torch.testing.assert_close(gradient, _gradient(expected, policy), atol=1e-5, rtol=1e-3)


def test_a_further_step_clips_the_ratio_of_each_word() -> None:
    """The loss and the gradient on the same samples, after the policy has changed."""
    policy = _silent(_policy(update="grpo", inner_steps=2, clip=0.1))
    torch.manual_seed(5)
    policy.training_step(_batch(), 0)
    torch.manual_seed(5)
    questions = policy.sample(toy_images(12), ASKED, SAMPLES)
    old = [
        [float(one.detach()) for one in own]
        for own in _word_log_probs(policy.questioner, questions)
    ]
    torch.manual_seed(3)
    with torch.no_grad():
        for value in policy.questioner.parameters():
            value.add_(0.05 * torch.randn_like(value))
    other = _batch()
    other.target.fill_(0)  # a further step does not use its batch
    loss = policy.training_step(other, 1)
    gradient = _gradient(loss, policy)
    reward = policy.candidates(questions, toy_images(12), ASKED).phi
    advantage = _group_advantage(reward).tolist()
    new, gains, clipped = _word_log_probs(policy.questioner, questions), [], 0
    for a, own, earlier in zip(advantage, new, old, strict=True):
        for one, was in zip(own, earlier, strict=True):
            ratio = (one - was).exp()
            outside = (a > 0 and ratio > 1.1) or (a < 0 and ratio < 0.9)
            gains.append(a * (torch.tensor(1.1 if a > 0 else 0.9) if outside else ratio))
            clipped += int(outside)
    assert 0 < clipped < len(gains)
    expected = -sum(gains) / len(gains)
    torch.testing.assert_close(loss, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(gradient, _gradient(expected, policy), atol=1e-5, rtol=1e-3)
    # Both steps are made, so the next one samples again.
    torch.manual_seed(6)
    with torch.no_grad():
        redrawn = policy.training_step(_batch(), 2)
    assert float(redrawn) == pytest.approx(0, abs=0.3)
    assert policy._samples is not None
    assert policy._samples.questions.text != questions.text


def test_clipping_leaves_losses_of_probability_alone() -> None:
    """A ratio beyond the bound still counts in full where it lowers the gain."""
    ratio = torch.tensor([[1.5], [0.5], [1.5], [0.5]])
    advantage, words = torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.ones(4)
    loss, removed = clipped_loss(advantage, ratio, words, 0.2)
    assert float(loss) == pytest.approx(-(1.2 + 0.5 - 1.5 - 0.8) / 4)
    assert float(removed) == 0.5


@pytest.mark.parametrize("update", ["reinforce", "grpo"])
def test_samples_of_another_temperature_are_weighted(update: Any) -> None:
    """(pi at 0.8) / (pi at 2) of the whole question multiplies the advantage, up to 10."""
    policy = _silent(_policy(update=update, temperature=0.8, sampling_temperature=2.0))
    torch.manual_seed(5)
    gradient = _gradient(policy.training_step(_batch(), 0), policy)
    torch.manual_seed(5)
    questions = policy.sample(toy_images(12), ASKED, SAMPLES, Sampling(temperature=2.0))
    reward = policy.candidates(questions, toy_images(12), ASKED).phi
    own = _word_log_probs(policy.questioner, questions, 0.8)
    drawn = _word_log_probs(policy.questioner, questions, 2.0)
    by_pair = reward.view(12, SAMPLES)
    others = (by_pair.sum(1, keepdim=True) - by_pair) / (SAMPLES - 1)
    advantage = _group_advantage(reward) if update == "grpo" else reward - others.flatten()
    terms = []
    for a, one, other in zip(advantage, own, drawn, strict=True):
        weight = min(float((sum(one) - sum(other)).exp()), 10.0)
        terms.append(a * weight * sum(one))
    expected = -sum(terms) / sum(map(len, own))
    torch.testing.assert_close(gradient, _gradient(expected, policy), atol=1e-5, rtol=1e-3)


def _trainer(steps: int, folder: Path) -> pl.Trainer:
    return pl.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=[StepSeed(1)],
    )


@pytest.mark.filterwarnings("ignore:step .*the policy asks")
def test_a_run_resumes_between_the_steps_on_its_samples(tmp_path: Path) -> None:
    """Interrupted after the second of three steps on one batch of samples."""
    loader: Any = DataLoader([_batch()] * 10, batch_size=None)
    whole = _policy(update="grpo", inner_steps=3)
    _trainer(5, tmp_path).fit(whole, loader)
    first = _policy(update="grpo", inner_steps=3)
    trainer = _trainer(2, tmp_path)
    trainer.fit(first, loader)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    second = _policy(update="grpo", inner_steps=3)
    _trainer(5, tmp_path).fit(second, loader, ckpt_path=tmp_path / "last.ckpt")
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(second.state_dict()[name], value, msg=name, atol=0, rtol=0)


@pytest.mark.filterwarnings("ignore:step .*the policy asks")
def test_clipped_steps_learn_what_is_rewarded(tmp_path: Path) -> None:
    """From a mean score of 0.36; the maximum of this answerer is 0.8."""

    def score(policy: PolicyGradientModule) -> float:
        fixed = torch.Generator().manual_seed(9)
        questions = policy.sample(toy_images(12), ASKED, 40, generator=fixed)
        return float(policy.candidates(questions, toy_images(12), ASKED).phi.mean())

    policy = _policy(update="grpo", num_samples=20)
    before = score(policy)
    loader: Any = DataLoader([_batch()] * 10, batch_size=None)
    _trainer(120, tmp_path).fit(policy, loader)
    assert score(policy) > before + 0.2


def test_wrong_updates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="update must be reinforce or grpo, not ppo"):
        _policy(update="ppo")
    with pytest.raises(UserError, match="num_samples to 2 or more"):
        _policy(update="grpo", num_samples=1, baseline="none")
    loader: Any = DataLoader([_batch()] * 10, batch_size=None)
    trainer = _trainer(2, tmp_path)
    trainer.accumulate_grad_batches = 2
    with pytest.raises(UserError, match="accumulate_grad_batches=1"):
        trainer.fit(_policy(update="grpo"), loader)
