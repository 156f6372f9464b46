from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ivqa.metrics import r_score
from ivqa.ranking import (
    CosineRanker,
    LassoQuestionRanker,
    QuestionRanker,
    RandomRanker,
    Ranking,
    duplicates_of,
)
from ivqa.robustness import (
    BasicQuestionNoise,
    NoiseAugmentation,
    NoiseCurve,
    WordShuffling,
)
from ivqa.text.encoders import TfidfEncoder
from ivqa.text.tokens import tokenise

COLORS = ["red", "blue", "green", "yellow", "black", "white"]
NOUNS = ["car", "bus", "cat", "dog", "tree"]
POOL = [
    *[f"What color is the {noun}?" for noun in NOUNS],
    *[f"Is the {noun} {color}?" for noun in NOUNS for color in COLORS],
    *[f"How many {color} {noun}s are there?" for noun in NOUNS for color in COLORS],
]


@pytest.mark.parametrize(
    "ranker",
    [
        LassoQuestionRanker(TfidfEncoder(size=24, min_count=1)),
        LassoQuestionRanker(
            TfidfEncoder(size=24, min_count=1), lam=None, alpha=1e-5, positive=False, intercept=True
        ),
        CosineRanker(TfidfEncoder(size=24, min_count=1)),
        RandomRanker(),
    ],
)
def test_noise_is_what_the_ranking_says(ranker: QuestionRanker) -> None:
    questions = ["Is the car red?", "How many cats are there?", "Is the car red?"]
    noise = BasicQuestionNoise(ranker, levels=7, a_level=3)
    noisy = noise.disturbed(questions, [*POOL, POOL[0].lower()])
    assert [len(level) for level in noisy] == [3] * 7
    for row, question in enumerate(questions):
        added = []
        for level in noisy:
            assert level[row].startswith(question + " ")
            added += [part + "?" for part in level[row][len(question) + 1 :].split("?")[:-1]]
        added = [text.strip() for text in added]
        assert len(added) == 21
        assert len(set(added)) == 21  # the pool holds each question once
        assert question not in added  # and the main question is not among its own noise
    assert noisy[0][0] == noisy[0][2]


def test_lasso_puts_close_questions_before_far_ones() -> None:
    ranker = LassoQuestionRanker(TfidfEncoder(size=30, min_count=1))
    question = ["Is the car pink?"]
    ranking = ranker.rank(question, POOL, 21, duplicates_of(question, POOL))
    assert ranking.gap.max() < 1e-6
    first = [POOL[row] for row in ranking.indices[0][:2]]
    assert all({"is", "car"} & set(tokenise(text)) for text in first)


@pytest.mark.parametrize(("lam", "short"), [(1e-6, 0.0), (0.6, 0.5)])
def test_the_noise_tells_how_exact_its_rankings_are(
    lam: float, short: float, tmp_path: Path
) -> None:
    ranker = LassoQuestionRanker(TfidfEncoder(size=24, min_count=1), lam=lam)
    questions = ["Is the pink car big?", "How many red and blue cats or dogs are there?"]
    noise = BasicQuestionNoise(ranker, levels=2, a_level=2, cache=str(tmp_path))
    pool, exclude = [*POOL], duplicates_of(questions, POOL)
    ranking = ranker.rank(questions, pool, 4, exclude)
    figures = noise.figures(questions, POOL)
    assert figures == {"gap": ranking.gap.max(), "uncertified": 0, "short_rankings": short}
    assert 0 < figures["gap"] < 1e-6
    # A later process finds the certificate with the ranking.
    assert BasicQuestionNoise(ranker, 2, 2, str(tmp_path)).figures(questions, POOL) == figures
    unsolved = BasicQuestionNoise(RandomRanker(), levels=2, a_level=2)
    assert unsolved.figures(questions, POOL) == {"short_rankings": 1.0}


def test_rankings_are_kept_by_content(tmp_path: Path) -> None:
    class Counting:
        calls = 0

        def rank(
            self,
            questions: Sequence[str],
            pool: Sequence[str],
            k: int,
            exclude: Sequence[Sequence[int]],
        ) -> Ranking:
            type(self).calls += 1
            return RandomRanker().rank(questions, pool, k, exclude)

    noise = BasicQuestionNoise(Counting(), cache=str(tmp_path))
    first = noise.disturbed(["Is it?"], POOL)
    assert noise.disturbed(["Is it?"], POOL) == first
    assert Counting.calls == 1
    noise.disturbed(["Is it there?"], POOL)
    assert Counting.calls == 2


@pytest.mark.parametrize(("number", "disturbed"), [(None, 60), (5, 5), (100, 60)])
def test_training_questions_are_disturbed_at_every_level_or_never(
    number: int | None, disturbed: int
) -> None:
    questions = [f"Is the thing number {i} red?" for i in range(60)]
    augmentation = NoiseAugmentation(WordShuffling(levels=2), num_questions=number)
    levels = augmentation.variants(questions)
    assert [len(level) for level in levels] == [60, 60]
    changed = [
        {row for row, text in enumerate(level) if text != questions[row]} for level in levels
    ]
    assert len(changed[0]) == disturbed
    assert changed[0] == changed[1]
    assert augmentation.variants(questions) == levels
    other = NoiseAugmentation(WordShuffling(levels=2), num_questions=5, seed=1)
    assert other.variants(questions) != levels


def test_shuffling_moves_exactly_as_many_words_as_the_level_says() -> None:
    question = "how many red cars are parked near the old house"
    levels = WordShuffling(levels=7).disturbed([question, "Why?"], [])
    for level, (shuffled, single) in enumerate(levels, start=1):
        moved = [a != b for a, b in zip(tokenise(shuffled), question.split(), strict=True)]
        assert sum(moved) == level + 1
        assert sorted(tokenise(shuffled)) == sorted(question.split())
        assert single == "Why?"


def test_a_curve_and_its_interval() -> None:
    rng = np.random.default_rng(0)
    clean = (rng.random(4000) < 0.8).astype(float)
    falling = [clean * (rng.random(4000) < keep) for keep in (0.95, 0.9, 0.8)]
    kinds = ["yes/no"] * 2000 + ["other"] * 2000
    figures = NoiseCurve(np.stack([clean, *falling]), kinds).metrics()
    assert figures["trend"] == -1
    assert figures["r_score"] == r_score(clean.mean(), falling[0].mean())
    assert figures["r_score_low"] < figures["r_score"] < figures["r_score_high"]
    assert figures["r_score_high"] - figures["r_score_low"] < 0.15
    assert 0.8 < figures["area"] < 0.95
    halves = figures["partition_1/yes_no"] + figures["partition_1/other"]
    assert halves / 2 == pytest.approx(figures["partition_1/accuracy"])
    assert "partition_0/number" not in figures


def test_the_encoder_gives_unit_vectors_and_the_same_ones_again() -> None:
    first, second = (TfidfEncoder(size=16, min_count=1).fit(POOL) for _ in range(2))
    vectors = first.encode([*POOL, "zebra"])
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors[:-1], axis=1), 1, atol=1e-5)
    assert not vectors[-1].any()
    assert np.allclose(vectors, second.encode([*POOL, "zebra"]), atol=1e-5)
    with pytest.raises(ValueError, match="call fit first"):
        TfidfEncoder().encode(["why"])


@pytest.mark.parametrize("ranker", [RandomRanker(), CosineRanker(TfidfEncoder(min_count=1))])
def test_a_pool_too_small_is_told(ranker: QuestionRanker) -> None:
    with pytest.raises(ValueError, match="only 3 questions to rank, but k is 21"):
        BasicQuestionNoise(ranker).disturbed(["Is it?"], POOL[:3])
