"""Decoding strategies against teacher forcing, exhaustive search and known distributions."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from toy_generators import enlarge, random_tokens

from ivqa.generators.decoding import strategies
from ivqa.generators.decoding.beam import Beam
from ivqa.generators.decoding.strategies import (
    Decoded,
    Greedy,
    Sampling,
    _inverse_cdf,
    concatenate_tokens,
)
from ivqa.generators.networks.decoder import QuestionDecoder, State, Step
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK, Tokens

MAX_LENGTH = 5
STRATEGIES = [
    Greedy(),
    Sampling(),
    Sampling(temperature=0.7, top_k=4, top_p=0.9),
    Beam(size=3),
    Beam(size=4, length_norm=0.8),
]


@pytest.fixture(params=["_decode_unfinished", "_decode_all"], autouse=True)
def way(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decodes in the way of a CPU, and in that of a GPU."""
    monkeypatch.setattr(strategies, "_decode_unfinished", getattr(strategies, request.param))


def decoder_of(num_words: int, seed: int = 0, end_bias: float = 0.0) -> QuestionDecoder:
    torch.manual_seed(seed)
    # h_0 at each word, so that a step needs it of the rows that have not ended.
    decoder = QuestionDecoder(
        num_words=num_words, embedding_size=4, hidden_size=6, feed_condition=True
    )
    enlarge(decoder, 1.0)
    with torch.no_grad():
        decoder.output.bias.zero_()
        decoder.output.bias[EOS] = end_bias
    return decoder.eval()


def decode(decoder: QuestionDecoder, hidden: Tensor, strategy: Any, **options: Any) -> Decoded:
    with torch.no_grad():
        return strategy(
            decoder.stepper(len(hidden)),
            decoder.start(hidden),
            options.pop("max_length", MAX_LENGTH),
            **options,
        )


def texts(tokens: Tokens) -> list[tuple[int, ...]]:
    return [
        tuple(row[:length])
        for row, length in zip(tokens.ids.tolist(), tokens.lengths.tolist(), strict=True)
    ]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize(
    ("num_words", "end_bias"),
    [(12, -9.0), (12, 0.0), (12, 2.0), (400, 5.0)],  # 400: no table of the words' gates
)
def test_reported_likelihood_is_the_teacher_forced_one(
    strategy: Any, num_words: int, end_bias: float
) -> None:
    decoder = decoder_of(num_words, end_bias=end_bias)
    hidden = torch.randn(40, 6)
    decoded = decode(decoder, hidden, strategy)
    expected = decoder(hidden, decoded.tokens).sum(dim=1)
    torch.testing.assert_close(decoded.log_likelihood, expected, rtol=1e-4, atol=1e-4)
    assert decoded.log_likelihood.dtype == torch.float32


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_tokens_are_words_followed_by_padding(strategy: Any) -> None:
    tokens = decode(decoder_of(12), torch.randn(60, 6), strategy).tokens
    assert (tokens.ids[tokens.mask] > UNK).all()
    assert (tokens.ids[~tokens.mask] == PAD).all()
    assert tokens.lengths.max() == tokens.ids.shape[1] <= MAX_LENGTH
    assert tokens.lengths.unique().numel() > 1  # rows end at different steps


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_a_row_does_not_depend_on_the_other_rows(strategy: Any) -> None:
    decoder, hidden = decoder_of(12, end_bias=1.0), torch.randn(30, 6)

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(3)

    together = decode(decoder, hidden, strategy, generator=generator())
    # The first rows have the same random numbers with and without the others.
    alone = decode(decoder, hidden[:7], strategy, generator=generator())
    assert texts(alone.tokens) == texts(together.tokens)[:7]
    torch.testing.assert_close(alone.log_likelihood, together.log_likelihood[:7])


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_no_rows_give_no_questions(strategy: Any) -> None:
    decoded = decode(decoder_of(12), torch.zeros(0, 6), strategy)
    assert len(decoded.tokens) == 0
    assert decoded.log_likelihood.shape == (0,)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_a_question_of_max_length_is_ended_by_eos(strategy: Any) -> None:
    decoder = decoder_of(12, end_bias=-30.0)
    decoded = decode(decoder, torch.randn(9, 6), strategy, max_length=4)
    assert (decoded.tokens.lengths == 4).all()
    assert (decoded.log_likelihood < -15).all()  # includes the improbable <eos>


def test_greedy_takes_the_most_probable_word_each_time() -> None:
    decoder, hidden = decoder_of(12), torch.randn(20, 6)
    for row, words in enumerate(texts(decode(decoder, hidden, Greedy()).tokens)):
        step, state = decoder.stepper(1), decoder.start(hidden[row : row + 1])
        token = torch.tensor([BOS])
        for word in [*words, *([EOS] if len(words) < MAX_LENGTH else [])]:
            log_probs, state = step(state, token)
            log_probs[:, UNK] = float("-inf")
            assert log_probs.argmax().item() == word
            token = torch.tensor([word])


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), end_bias=st.floats(-3, 3))
def test_a_beam_of_size_one_is_greedy(seed: int, end_bias: float) -> None:
    decoder, hidden = decoder_of(9, seed, end_bias), torch.randn(16, 6)
    greedy, beam = decode(decoder, hidden, Greedy()), decode(decoder, hidden, Beam(size=1))
    assert texts(greedy.tokens) == texts(beam.tokens)
    torch.testing.assert_close(greedy.log_likelihood, beam.log_likelihood)


def every_question(num_words: int, max_length: int) -> list[tuple[int, ...]]:
    words = range(4, num_words)
    return [
        question
        for length in range(max_length + 1)
        for question in itertools.product(words, repeat=length)
    ]


@pytest.mark.parametrize("length_norm", [0.0, 0.7, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_equals_exhaustive_search(seed: int, length_norm: float) -> None:
    num_words, max_length = 7, 3  # three words: 40 questions
    decoder, hidden = decoder_of(num_words, seed), torch.randn(8, 6)
    questions = every_question(num_words, max_length)
    tokens = Tokens(
        torch.tensor([[*words, *[PAD] * (max_length - len(words))] for words in questions]),
        torch.tensor([len(words) for words in questions]),
    )
    rows = torch.arange(8).repeat_interleave(len(questions))
    everything = tokens.select(torch.arange(len(questions)).repeat(8))
    with torch.no_grad():
        scores = decoder(hidden[rows], everything).sum(dim=1).view(8, -1)
    ranked = scores / (tokens.lengths + 1.0) ** length_norm
    found = decode(decoder, hidden, Beam(size=108, length_norm=length_norm), max_length=max_length)
    assert texts(found.tokens) == [questions[index] for index in ranked.argmax(dim=1).tolist()]


@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_beam_finds_more_probable_questions_than_greedy(size: int) -> None:
    decoder, hidden = decoder_of(40, seed=1), torch.randn(300, 6)
    greedy = decode(decoder, hidden, Greedy()).log_likelihood
    beam = decode(decoder, hidden, Beam(size=size)).log_likelihood
    assert (beam - greedy).mean() > 0.1
    assert (beam >= greedy - 1e-5).float().mean() > 0.97  # rarely less probable, see Beam


def test_length_norm_prefers_longer_questions() -> None:
    decoder, hidden = decoder_of(12, end_bias=1.0), torch.randn(100, 6)
    lengths = [
        decode(decoder, hidden, Beam(size=4, length_norm=norm)).tokens.lengths.float().mean()
        for norm in (0.0, 1.0, 3.0)
    ]
    assert lengths[0] < lengths[1] < lengths[2]


def chain(transition: Tensor) -> tuple[Step, Callable[[int], State]]:
    """A Markov chain over words as a step function."""

    def step(state: State, tokens: Tensor) -> tuple[Tensor, State]:
        return transition.index_select(0, tokens).log(), state

    return step, lambda rows: (torch.zeros(rows, 1),)


def test_samples_have_the_frequencies_of_the_model() -> None:
    torch.manual_seed(5)
    transition = torch.rand(8, 8)
    transition[:, [PAD, BOS, UNK]] = 0
    transition /= transition.sum(dim=1, keepdim=True)
    step, start = chain(transition)
    decoded = Sampling()(step, start(40_000), 2, torch.Generator().manual_seed(0))
    counts = dict.fromkeys(every_question(8, 2), 0)
    for question in texts(decoded.tokens):
        counts[question] += 1
    for question, count in counts.items():
        path = [BOS, *question] + ([EOS] if len(question) < 2 else [])
        probability = torch.stack([transition[a, b] for a, b in itertools.pairwise(path)]).prod()
        error = (probability * (1 - probability) / 40_000).sqrt()
        assert abs(count / 40_000 - probability) < 5 * error


@pytest.mark.parametrize(
    ("strategy", "allowed"),
    [
        (Sampling(top_k=1), {4}),
        (Sampling(top_k=2), {4, 5}),
        (Sampling(top_k=99), {4, 5, 6, 7}),
        (Sampling(top_p=0.3), {4}),
        (Sampling(top_p=0.45), {4, 5}),  # 4 alone has 0.4
        (Sampling(top_p=0.75), {4, 5, 6}),
        (Sampling(top_p=1.0), {4, 5, 6, 7}),
        (Sampling(top_k=3, top_p=0.7), {4, 5}),  # of three words' 0.9, the first two have 0.78
        (Sampling(temperature=0.01), {4}),
    ],
    ids=repr,
)
def test_top_k_and_top_p_keep_the_most_probable_words(
    strategy: Sampling, allowed: set[int]
) -> None:
    transition = torch.zeros(8, 8)
    transition[:, 4:] = torch.tensor([0.4, 0.3, 0.2, 0.1])
    transition[4:] = 0
    transition[4:, EOS] = 1
    step, start = chain(transition)
    decoded = strategy(step, start(4_000), 3, torch.Generator().manual_seed(0))
    assert set(decoded.tokens.ids[:, 0].tolist()) == allowed


def test_temperature_sharpens_and_flattens() -> None:
    decoder, hidden = decoder_of(12), torch.randn(500, 6)
    means = [
        decode(decoder, hidden, Sampling(temperature=value)).log_likelihood.mean()
        for value in (0.3, 1.0, 3.0)
    ]
    assert means[0] > means[1] > means[2]


def test_the_random_generator_determines_the_samples() -> None:
    decoder, hidden = decoder_of(12), torch.randn(50, 6)

    def sample(seed: int) -> list[tuple[int, ...]]:
        generator = torch.Generator().manual_seed(seed)
        return texts(decode(decoder, hidden, Sampling(), generator=generator).tokens)

    assert sample(1) == sample(1)
    assert sample(1) != sample(2)


def test_a_word_of_probability_zero_is_never_drawn() -> None:
    weights = torch.tensor([[0.0, 0.3, 0.0, 0.6, 0.0]]).expand(4, 5)
    uniform = torch.tensor([0.0, 1 / 3 - 1e-4, 1 / 3 + 1e-4, 1 - 2**-24])
    assert _inverse_cdf(weights, uniform).tolist() == [1, 1, 3, 3]


def test_concatenated_tokens_keep_their_texts() -> None:
    parts = [random_tokens(3, 9, 4), random_tokens(2, 9, 7), random_tokens(2, 9, 1)]
    joined = concatenate_tokens(parts)
    assert texts(joined) == [text for part in parts for text in texts(part)]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Sampling(temperature=0.0), "temperature must be above 0"),
        (lambda: Sampling(top_k=0), "top_k must be at least 1"),
        (lambda: Sampling(top_p=1.5), r"top_p must be in \(0, 1\]"),
        (lambda: Beam(size=0), "beam size must be at least 1"),
        (lambda: Beam(length_norm=-1.0), "length_norm must not be negative"),
    ],
)
def test_invalid_strategies_are_rejected(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
