"""Noise on questions, the noise curve and its intervals."""

from collections.abc import Sequence
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from ivqa.encoders.tfidf import TfidfEncoder
from ivqa.metrics import RScore, r_score, resampled_means
from ivqa.ranking import CosineRanker, LassoQuestionRanker, LassoRanker, RandomRanker, Ranking
from ivqa.ranking.question_rankers import QuestionRanker
from ivqa.robustness import BasicQuestionNoise, NoiseAugmentation, WordShuffling
from ivqa.robustness.curve import NoiseCurve
from ivqa.robustness.word_shuffling import shuffled_at_distance
from ivqa.text.duplicates import duplicates_of
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
def test_noise_follows_the_ranking(ranker: QuestionRanker) -> None:
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
        assert len(set(added)) == 21  # the pool has no duplicates
        assert question not in added  # the main question itself is left out
    assert noisy[0][0] == noisy[0][2]


def test_lasso_puts_close_questions_before_far_ones() -> None:
    ranker = LassoQuestionRanker(TfidfEncoder(size=30, min_count=1))
    question = ["Is the car pink?"]
    ranking = ranker.rank(question, POOL, 21, duplicates_of(question, POOL))
    assert ranking.gap.max() < 1e-6
    first = [POOL[row] for row in ranking.indices[0][:2]]
    assert all({"is", "car"} & set(tokenise(text)) for text in first)


def test_a_main_question_in_its_pool_is_followed_by_its_nearest_neighbours() -> None:
    """Why the curve of [IJCV, Table 8] jumps there and falls here: docs/robustness.md."""
    vectors = np.random.default_rng(0).normal(size=(200, 24)) + 0.3
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    pool = vectors.astype(np.float32)
    cosines = pool[7].astype(np.float64) @ pool.T
    ranker = LassoRanker(pool)
    left_in, excluded = (ranker.rank(pool[7:8], 21, rows) for rows in (None, [[7]]))
    nearest = np.argsort(-cosines)[:21].tolist()
    assert nearest[0] == 7
    assert left_in.indices[0].tolist() == nearest
    assert left_in.scores[0] == pytest.approx([1, *[0] * 20], abs=1e-3)
    # Without the main question, LASSO combines questions that are farther from it.
    assert excluded.support[0] > 5
    at_levels = cosines[np.stack([left_in.indices[0], excluded.indices[0]])].reshape(2, 7, 3)
    assert (at_levels.mean(axis=2)[0] > at_levels.mean(axis=2)[1]).all()


@pytest.mark.parametrize(("lam", "short"), [(1e-6, 0.0), (0.6, 0.5)])
def test_the_noise_reports_the_certificate_of_its_rankings(
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
    # The cache on disk has the certificate of the ranking.
    assert BasicQuestionNoise(ranker, 2, 2, str(tmp_path)).figures(questions, POOL) == figures
    unsolved = BasicQuestionNoise(RandomRanker(), levels=2, a_level=2)
    assert unsolved.figures(questions, POOL) == {"short_rankings": 1.0}


def test_rankings_are_cached_by_content(tmp_path: Path) -> None:
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


def _distance(first: Sequence[str], second: Sequence[str]) -> int:
    return sum(one != other for one, other in zip(first, second, strict=True))


SHORT_QUESTIONS = [  # all patterns of repeated words in up to six words, and two longer questions
    *{tuple(words) for size in range(1, 7) for words in product("abcdef"[:size], repeat=size)
      if list(dict.fromkeys(words)) == list("abcdef"[: len(set(words))])},
    tuple("aaaabcd"),
    tuple("abababa"),
]  # fmt: skip


def test_shuffling_has_the_wanted_distance_if_any_order_has_it() -> None:
    """Compares with every order of the words of all short questions with repeated words."""
    assert len(SHORT_QUESTIONS) == 1 + 2 + 5 + 15 + 52 + 203 + 2  # Bell numbers
    questions = [" ".join(words) for words in SHORT_QUESTIONS]
    shuffled = WordShuffling(levels=7).disturbed(questions, [])
    assert len(shuffled) == 7
    for row, words in enumerate(SHORT_QUESTIONS):
        possible = {_distance(words, order) for order in permutations(words)}
        assert 1 not in possible
        for level in range(1, 8):
            order = tokenise(shuffled[level - 1][row])
            wanted = min(level + 1, len(words))
            assert sorted(order) == sorted(words)
            assert _distance(words, order) == max(d for d in possible if d <= wanted)


def test_the_distance_is_exact_for_long_questions_with_repeats() -> None:
    rng = np.random.default_rng(0)
    common = ["the", "is", "of", "a", *[f"word{n}" for n in range(9)]]
    weights = np.array([6, 3, 2, 2, *[1] * 9]) / 22
    questions = [" ".join(rng.choice(common, size=rng.integers(2, 20), p=weights)) + "?"
                 for _ in range(1500)]  # fmt: skip
    words = [tokenise(text) for text in questions]
    assert np.mean([len(set(own)) < len(own) for own in words]) > 0.8
    reached = np.zeros(7, dtype=int)
    for level, shuffled in enumerate(WordShuffling(levels=7, seed=3).disturbed(questions, []), 1):
        for own, text in zip(words, shuffled, strict=True):
            wanted = min(level + 1, len(own))
            distance = _distance(own, tokenise(text))
            # Every distance is possible if no word fills more than half of the places.
            if max(map(own.count, own)) <= wanted // 2 and len(set(own)) > 2:
                assert distance == wanted
                reached[level - 1] += 1
            assert distance <= wanted
            assert distance != 1
            assert sorted(tokenise(text)) == sorted(own)
    assert reached[6] > 1000


def test_a_question_without_another_order_is_unchanged() -> None:
    noise = WordShuffling(levels=3)
    assert noise.disturbed(["Why?", "NO, no, no!", ""], []) == [["Why?", "NO, no, no!", ""]] * 3


def test_shuffling_is_random_and_reproducible() -> None:
    words = ["how", "many", "red", "cars", "are", "parked", "near", "the", "old", "house"]
    question = " ".join(words) + "?"
    orders = WordShuffling(levels=1, seed=0).disturbed([question] * 600, [])[0]
    assert orders == WordShuffling(levels=1, seed=0).disturbed([question] * 600, [])[0]
    assert orders != WordShuffling(levels=1, seed=1).disturbed([question] * 600, [])[0]
    assert len(set(orders)) == 45  # all pairs of the ten words are swapped
    far = WordShuffling(levels=7).disturbed([question] * 600, [])[6]
    assert len(set(far)) > 590
    moved = np.array([[a != b for a, b in zip(tokenise(text), words, strict=True)] for text in far])
    assert (abs(moved.mean(axis=0) - 0.8) < 0.1).all()  # no place is preferred
    # With repeated words, all orders of the wanted distance are drawn.
    several = {tuple(shuffled_at_distance(list("aabbc"), 4, np.random.default_rng(seed)))
               for seed in range(400)}  # fmt: skip
    assert several == {order for order in permutations("aabbc") if _distance(order, "aabbc") == 4}


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
    wider = NoiseCurve(np.stack([clean, *falling]), kinds, RScore(tolerance=0.01, limit=0.6))
    scores = wider.metrics(resamples=50, seed=3)
    t, m = 0.1, 0.6**0.5  # square roots
    for level, noisy in enumerate(falling, start=1):
        change = (clean.mean() - noisy.mean()) ** 0.5
        assert scores[f"r_score_partition_{level}"] == pytest.approx((m - change) / (m - t))
    assert scores["r_score"] == scores["r_score_partition_1"]
    drawn = resampled_means(np.stack([clean, falling[0]]), 50, 3)
    each = (m - np.sqrt(drawn[:, 0] - drawn[:, 1])) / (m - t)
    low, high = np.quantile(each, [0.025, 0.975])
    assert scores["r_score_low"] == pytest.approx(low)
    assert scores["r_score_high"] == pytest.approx(high)
    halves = figures["partition_1/yes_no"] + figures["partition_1/other"]
    assert halves / 2 == pytest.approx(figures["partition_1/accuracy"])
    assert "partition_0/number" not in figures


def test_every_figure_of_a_curve_by_hand() -> None:
    """Four questions at three noisy levels; R_score = (sqrt m - sqrt d) / (sqrt m - sqrt t)."""
    accuracies = np.array(
        [[1.0, 0.6, 1.0, 0.9], [0.9, 0.6, 1.0, 0.9], [1.0, 0.3, 0.9, 0.9], [0.6, 0.6, 0.9, 0.9]]
    )
    kinds = ["yes/no", "number", "other", "other"]
    figures = NoiseCurve(accuracies, kinds).metrics()
    means = [3.5 / 4, 3.4 / 4, 3.1 / 4, 3.0 / 4]
    for level, mean in enumerate(means):
        name = f"partition_{level}"
        assert figures[f"{name}/accuracy"] == pytest.approx(mean)
        assert figures[f"{name}/yes_no"] == pytest.approx(accuracies[level][0])
        assert figures[f"{name}/number"] == pytest.approx(accuracies[level][1])
        assert figures[f"{name}/other"] == pytest.approx((accuracies[level][2:]).mean())
    for level in (1, 2, 3):
        root = (0.2**0.5 - (means[0] - means[level]) ** 0.5) / (0.2**0.5 - 5e-4**0.5)
        assert figures[f"r_score_partition_{level}"] == pytest.approx(root)
    assert figures["r_score"] == figures["r_score_partition_1"]
    assert figures["area"] == pytest.approx((3.4 + 3.1 + 3.0) / 3 / 3.5)
    assert figures["trend"] == pytest.approx(-1)
    tolerant = NoiseCurve(accuracies, kinds, RScore(tolerance=0.03, limit=0.5)).metrics()
    assert tolerant["r_score"] == 1
    root = (0.5**0.5 - 0.125**0.5) / (0.5**0.5 - 0.03**0.5)
    assert tolerant["r_score_partition_3"] == pytest.approx(root)
    # In the order of levels 2, 1, 3, one of three pairs is swapped.
    turned = NoiseCurve(accuracies[[0, 2, 1, 3]], kinds).metrics()
    assert turned["trend"] == pytest.approx(-0.5)
    assert turned["area"] == pytest.approx(figures["area"])


def test_intervals_are_those_of_the_mean_of_the_questions() -> None:
    """For 800 right or wrong answers, the bounds are the mean +- 1.96 standard errors."""
    rng = np.random.default_rng(2)
    clean = np.repeat([1.0, 0.0], [600, 200])
    noisy = np.where(rng.permutation(800) < 80, 0.0, clean)
    figures = NoiseCurve(np.stack([clean, noisy]), ["other"] * 800).metrics(resamples=4000)
    for level, accuracies in enumerate((clean, noisy)):
        mean = accuracies.mean()
        error = 1.96 * (mean * (1 - mean) / 800) ** 0.5
        low, high = (figures[f"partition_{level}/accuracy_{end}"] for end in ("low", "high"))
        assert low == pytest.approx(mean - error, abs=0.004)
        assert high == pytest.approx(mean + error, abs=0.004)
    # The loss is paired by question, so its standard error is far below that of either level.
    lost = (clean - noisy).mean()
    error = 1.96 * (lost * (1 - lost) / 800) ** 0.5
    ends = [(0.2**0.5 - (lost + sign * error) ** 0.5) / (0.2**0.5 - 5e-4**0.5) for sign in (1, -1)]
    assert figures["r_score_low"] == pytest.approx(ends[0], abs=0.02)
    assert figures["r_score_high"] == pytest.approx(ends[1], abs=0.02)


def test_undefined_figures_are_absent_from_a_curve() -> None:
    clean = NoiseCurve(np.array([[1.0, 0.0]]), ["other", "other"]).metrics()
    assert set(clean) == {"partition_0/accuracy", "partition_0/accuracy_low",
                          "partition_0/accuracy_high", "partition_0/other"}  # fmt: skip
    flat = NoiseCurve(np.zeros((3, 2)), ["other", "other"]).metrics()
    assert "area" not in flat
    assert flat["trend"] == 0
    assert flat["r_score"] == 1
    two = NoiseCurve(np.array([[1.0, 1.0], [1.0, 0.0]]), ["other", "other"]).metrics()
    assert "trend" not in two
    assert two["area"] == 0.5


def test_the_encoder_gives_reproducible_unit_vectors() -> None:
    first, second = (TfidfEncoder(size=16, min_count=1).fit(POOL) for _ in range(2))
    vectors = first.encode([*POOL, "zebra"])
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors[:-1], axis=1), 1, atol=1e-5)
    assert not vectors[-1].any()
    assert np.allclose(vectors, second.encode([*POOL, "zebra"]), atol=1e-5)
    with pytest.raises(ValueError, match="call fit first"):
        TfidfEncoder().encode(["why"])


@pytest.mark.parametrize("ranker", [RandomRanker(), CosineRanker(TfidfEncoder(min_count=1))])
def test_the_message_names_a_pool_that_is_too_small(ranker: QuestionRanker) -> None:
    with pytest.raises(ValueError, match="only 3 questions to rank, but k is 21"):
        BasicQuestionNoise(ranker).disturbed(["Is it?"], POOL[:3])


def test_a_cached_ranking_is_of_the_same_exclusion_of_duplicates(tmp_path: Path) -> None:
    questions, ranker = ["Is the car red?"], CosineRanker(TfidfEncoder(size=24, min_count=1))
    first = {}
    for excluded in (True, False, True):  # from the cache the second time
        noise = BasicQuestionNoise(ranker, 1, 1, str(tmp_path), exclude_duplicates=excluded)
        first[excluded] = noise.disturbed(questions, POOL)[0][0]
        assert (first[excluded] == "Is the car red? Is the car red?") is not excluded
