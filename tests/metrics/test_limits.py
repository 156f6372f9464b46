"""Metrics of empty and single inputs and at their bounds, with values computed by hand."""

import math
import random
import warnings
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from ivqa.metrics import (
    CiderStatistics,
    bleu,
    cider,
    meteor_stages,
    question_diversity,
    r_score,
    resampled_means,
    self_bleu,
)
from ivqa.metrics.captions.meteor import _NoSynonyms, stem, synonyms
from ivqa.metrics.captions.rouge_l import longest_common_subsequences


def test_r_score_of_the_widest_bounds() -> None:
    assert r_score(0.75, 0.5, t=0, m=1) == pytest.approx(0.5)  # 1 - sqrt(1/4)
    assert r_score(1.0, 1.0) == r_score(0.0, 0.0) == 1
    assert r_score(1.0, 0.0) == r_score(0.0, 1.0) == 0
    with pytest.raises(ValueError, match="over 1"):
        r_score(1.5, 0.5)
    with pytest.raises(ValueError, match="t < m <= 1"):
        r_score(0.5, 0.4, 0.1, 1.5)


def test_r_score_is_1_at_the_tolerance_despite_rounding() -> None:
    assert 0.8 - 0.7 > 0.1  # float64 rounding
    assert r_score(0.8, 0.7, t=0.1, m=0.5) == 1
    assert 0.3 - 0.2 < 0.1
    assert r_score(0.3, 0.2, t=0.01, m=0.1) == 0


def test_r_score_of_float32_accuracies_is_computed_in_float64() -> None:
    clean = np.array([0.9, 0.8, 0.77, 0.95], dtype=np.float32)
    noisy = np.array([0.31, 0.17, 0.2, 0.1], dtype=np.float32)
    for before, after, found in zip(clean, noisy, r_score(clean, noisy, t=0, m=1), strict=True):
        assert found == pytest.approx(1 - math.sqrt(float(before) - float(after)), rel=1e-12)


def test_50_pairs_give_no_warning_about_cider() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cider([f"is it {n}" for n in range(50)], [[f"is it {n}"] for n in range(50)])
    with pytest.warns(UserWarning, match="CIDEr of 49 pairs"):
        cider(["is it"] * 49, [["is it"]] * 49)


def test_document_frequencies_count_each_list_of_references_once() -> None:
    statistics = CiderStatistics.of([["a b", "b a b"], ["a"], ["p q r s t"]])
    assert statistics.documents == 3
    assert statistics.frequency == {
        ("a",): 2, ("b",): 1, ("a", "b"): 1, ("b", "a"): 1, ("b", "a", "b"): 1,
        ("p",): 1, ("q",): 1, ("r",): 1, ("s",): 1, ("t",): 1,
        ("p", "q"): 1, ("q", "r"): 1, ("r", "s"): 1, ("s", "t"): 1,
        ("p", "q", "r"): 1, ("q", "r", "s"): 1, ("r", "s", "t"): 1,
        ("p", "q", "r", "s"): 1, ("q", "r", "s", "t"): 1,
    }  # fmt: skip


def test_given_statistics_replace_those_of_the_pairs_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Two of the four orders have n-grams, each with cosine 1: 10 / 4 * 2.
        assert cider(["red star"], [["red star"]], CiderStatistics({}, 8)) == pytest.approx(5)


def test_a_corpus_of_one_word() -> None:
    assert bleu(["red", "red"], [["red"], ["red"]])[0] == pytest.approx(1)


def test_padding_never_matches() -> None:
    short, long = [["x", "y", "z"], ["x"]], [["x", "y", "z"], ["x", "y"]]
    assert longest_common_subsequences(short, long).tolist() == [3, 1]
    assert longest_common_subsequences(long, short).tolist() == [3, 1]
    assert longest_common_subsequences(short, long).dtype == np.int64
    assert longest_common_subsequences([], []).tolist() == []


class _WordNet:
    """WordNet with one set of synonyms."""

    def synsets(self, word: str) -> list[SimpleNamespace]:
        names = ("picture", "image", "ikon", "mental_image") if word == "image" else ()
        lemmas = [SimpleNamespace(name=lambda name=name: name) for name in names]
        return [SimpleNamespace(lemmas=lambda: lemmas)]


def test_stages_of_meteor_with_and_without_wordnet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stem("running") == stem("runs") == "run"
    monkeypatch.setattr("ivqa.metrics.captions.meteor._synonyms", _WordNet)
    assert meteor_stages() == ("exact", "stem", "synonym")
    assert synonyms("image") == {"picture", "image", "ikon"}
    assert synonyms("star") == set()
    monkeypatch.setattr("ivqa.metrics.captions.meteor._synonyms", _NoSynonyms)
    assert meteor_stages() == ("exact", "stem")
    assert synonyms("image") == set()


def test_diversity_of_single_questions_and_words() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = question_diversity([["Why?"]], ["Is it red?"])
    assert (one["unique_of_n"], one["novel"], one["distinct_1"], one["distinct_2"]) == (1, 1, 1, 0)
    repeated = question_diversity([["red star red star"]])
    assert repeated["distinct_1"] == pytest.approx(2 / 4)
    assert repeated["distinct_2"] == pytest.approx(2 / 3)


def test_a_pair_without_questions_counts_as_a_pair() -> None:
    scores = question_diversity([[], ["Is it red?"]], ["Is it red?"])
    assert (scores["unique_of_n"], scores["distinct_1"], scores["novel"]) == (0.5, 0.5, 0)


def _self_bleu(questions: list[list[str]], at: int) -> float:
    """BLEU-4 of one question against the others, with the effective order."""
    own, others = questions[at], questions[:at] + questions[at + 1 :]
    log_precision = 0.0
    for order in range(1, min(len(own), 4) + 1):
        counts = [
            Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))
            for words in (own, *others)
        ]
        allowed: Counter[tuple[str, ...]] = Counter()
        for other in counts[1:]:
            allowed |= other
        log_precision += math.log(((counts[0] & allowed).total() + 1e-15) / counts[0].total())
    closest = min((abs(len(words) - len(own)), len(words)) for words in others)[1]
    if not own:
        return float(closest == 0)
    return math.exp(log_precision / min(len(own), 4) + min(0, 1 - closest / len(own)))


def test_self_bleu_of_questions_of_all_lengths_follows_the_definition() -> None:
    rng = random.Random(2)
    for _ in range(200):
        questions = [
            rng.choices(["is", "it", "red"], k=rng.randrange(8)) for _ in range(rng.randint(2, 5))
        ]
        expected = [_self_bleu(questions, at) for at in range(len(questions))]
        assert self_bleu(questions) == pytest.approx(expected, rel=1e-9)


def test_the_bootstrap_draws_every_question_equally_often() -> None:
    means = resampled_means(np.eye(5), 2000, seed=0)
    # A share of 5 draws: variance 0.16 / 5; 2000 of them: standard error 0.004.
    assert means.mean(axis=0) == pytest.approx([0.2] * 5, abs=0.02)
    assert means.sum(axis=1) == pytest.approx(np.ones(2000))
