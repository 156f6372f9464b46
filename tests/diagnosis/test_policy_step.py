"""A step of REINFORCE, compared with loops over samples and words."""

from functools import partial
from typing import Any

import pytest
import torch
from toy_diagnosis import ANSWERS, toy_images, toy_policy

from ivqa.data.batches.batch import VQABatch
from ivqa.diagnosis import PolicyGradientModule
from ivqa.generators import GeneratorModule, Questions, Sampling
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
    questioner: GeneratorModule, questions: Questions, temperature: float = 1.0
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


def _gradient(loss: torch.Tensor, policy: PolicyGradientModule) -> torch.Tensor:
    return torch.autograd.grad(loss, policy.questioner.network.decoder.output.weight)[0]


@pytest.mark.parametrize("temperature", [1.0, 0.8])
def test_a_step_is_reinforce_with_the_mean_of_the_other_samples(temperature: float) -> None:
    """The gradient is A grad log pi, summed over samples and words, per word."""
    policy = _silent(_policy(temperature=temperature))
    torch.manual_seed(5)
    gradient = _gradient(policy.training_step(_batch(), 0), policy)
    torch.manual_seed(5)
    questions = policy.sample(toy_images(12), ASKED, SAMPLES, Sampling(temperature=temperature))
    reward = policy.candidates(questions, toy_images(12), ASKED).phi.tolist()
    log_probs = _word_log_probs(policy.questioner, questions, temperature)
    terms = []
    for at, own in enumerate(log_probs):
        first = at - at % SAMPLES
        others = [reward[i] for i in range(first, first + SAMPLES) if i != at]
        terms.append((reward[at] - sum(others) / len(others)) * sum(own))
    expected = -sum(terms) / sum(map(len, log_probs))
    assert gradient.abs().max() > 0
    torch.testing.assert_close(gradient, _gradient(expected, policy), atol=1e-5, rtol=1e-3)
