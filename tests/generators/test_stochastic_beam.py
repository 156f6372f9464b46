"""Sampling without replacement has the probabilities of drawing one question after the other."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_decoding_strategies import chain, every_question, texts
from torch import Tensor
from toy_generators import random_images

from ivqa.errors import UserError
from ivqa.generators import DistinctSampling, QuestionGenerator
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK

Factory = Callable[..., QuestionGenerator]
Build = Callable[..., Any]

WORDS, LONGEST, STATES = 7, 2, 30_000


def _transition() -> Tensor:
    torch.manual_seed(5)
    transition = torch.rand(WORDS, WORDS) ** 2
    transition[:, [PAD, BOS, UNK]] = 0
    return transition / transition.sum(dim=1, keepdim=True)


def _log_likelihood(question: tuple[int, ...], transition: Tensor) -> Tensor:
    """The model's log p, where the end of a question of the greatest length is scored too."""
    path = [BOS, *question, EOS]
    return torch.stack([transition[a, b] for a, b in itertools.pairwise(path)]).log().sum()


def _probability(question: tuple[int, ...], transition: Tensor, temperature: float) -> Tensor:
    """The probability of drawing a question: the end is forced at the greatest length."""
    sharp = transition ** (1 / temperature)
    sharp = sharp / sharp.sum(dim=1, keepdim=True)
    path = [BOS, *question] + ([EOS] if len(question) < LONGEST else [])
    return torch.stack([sharp[a, b] for a, b in itertools.pairwise(path)]).prod()


@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_ordered_pairs_have_the_frequencies_of_two_draws(temperature: float) -> None:
    """P(first s, then t) = p(s) p(t) / (1 - p(s)), for every ordered pair of questions."""
    transition = _transition()
    step, start = chain(transition)
    strategy = DistinctSampling(2, temperature)
    decoded = strategy(step, start(STATES), LONGEST, torch.Generator().manual_seed(0))
    drawn = [tuple(question) for question in texts(decoded.tokens)]
    assert len(drawn) == 2 * STATES
    counts: dict[tuple[tuple[int, ...], ...], int] = {}
    for pair in zip(drawn[::2], drawn[1::2], strict=True):
        counts[pair] = counts.get(pair, 0) + 1
    p = {
        question: float(_probability(question, transition, temperature))
        for question in map(tuple, every_question(WORDS, LONGEST))
    }
    assert sum(p.values()) == pytest.approx(1, abs=1e-5)
    for first, second in itertools.product(p, repeat=2):
        expected = p[first] * p[second] / (1 - p[first]) if first != second else 0.0
        error = (expected * (1 - expected) / STATES) ** 0.5
        assert (
            abs(counts.get((first, second), 0) / STATES - expected) <= 5 * error + 3 / STATES
        )  # rare pairs


def test_log_likelihood_is_the_models_own() -> None:
    transition = _transition()
    step, start = chain(transition)
    decoded = DistinctSampling(5, 2.0)(step, start(3), LONGEST, torch.Generator().manual_seed(0))
    for question, value in zip(texts(decoded.tokens), decoded.log_likelihood, strict=True):
        assert float(value) == pytest.approx(
            float(_log_likelihood(tuple(question), transition)), abs=1e-5
        )


def test_all_questions_are_drawn_once_before_any_comes_twice() -> None:
    transition = _transition()
    step, start = chain(transition)
    existing = {tuple(question) for question in every_question(WORDS, LONGEST)}
    number = len(existing)
    decoded = DistinctSampling(number)(step, start(4), LONGEST, torch.Generator().manual_seed(1))
    drawn = [tuple(question) for question in texts(decoded.tokens)]
    for state in range(4):
        assert set(drawn[state * number : (state + 1) * number]) == existing
    more = DistinctSampling(number + 2)(step, start(1), LONGEST, torch.Generator().manual_seed(1))
    drawn = [tuple(question) for question in texts(more.tokens)]
    assert set(drawn) == existing
    assert drawn[number:] == [drawn[0]] * 2
    assert more.log_likelihood.isfinite().all()


def test_states_keep_their_questions_apart() -> None:
    """Each row of the state allows one word only, so its questions show which state they are of."""

    def step(state: tuple[Tensor, ...], tokens: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        log_probs = torch.full((len(tokens), 8), float("-inf"))
        log_probs[torch.arange(len(tokens)), state[0][:, 0].long()] = -0.7
        log_probs[:, EOS] = -0.7
        return log_probs, state

    state = (torch.tensor([[4.0], [6.0], [5.0]]),)
    decoded = DistinctSampling(3)(step, state, 4, torch.Generator().manual_seed(0))
    for at, word in enumerate((4, 6, 5)):
        own = texts(decoded.tokens)[3 * at : 3 * at + 3]
        assert len({tuple(question) for question in own}) == 3
        assert {token for question in own for token in question} <= {word}


@pytest.mark.parametrize("wrong", [{"number": 0}, {"number": 2, "temperature": 0.0}])
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match="must be"):
        DistinctSampling(**wrong)  # type: ignore[arg-type]


def test_it_is_used_through_the_generator(
    variational_factory: Factory, build_module: Build
) -> None:
    """The questions of a z are different and carry it; their number must fit."""
    module = build_module(variational_factory)
    images, answers = random_images(2), ["red", "yes"]
    seeded = torch.Generator().manual_seed(0)
    drawn = module.sample(images, answers, 6, DistinctSampling(3), seeded)
    assert drawn.pair.tolist() == [0] * 6 + [1] * 6
    for start in range(0, 12, 3):
        assert len(set(drawn.text[start : start + 3])) == 3
        assert torch.equal(drawn.z[start], drawn.z[start + 2])
    assert not torch.equal(drawn.z[0], drawn.z[3])
    with pytest.raises(ValueError, match="7 samples cannot come 3 at a time"):
        module.sample(images, answers, 7, DistinctSampling(3))
