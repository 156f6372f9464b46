"""Metrics of a search, compared with values computed by hand on a few questions."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from toy_diagnosis import ANSWERS, LongIsLegal, WordAnswerer, toy_images

from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis import Candidates, ListedBeliefs, SearchFigures, search_metrics
from ivqa.diagnosis.beliefs.figures import _best_scores
from ivqa.diagnosis.beliefs.recall import estimated_total, listed_beliefs
from ivqa.diagnosis.search.search import Found
from ivqa.errors import UserError
from ivqa.generators import Questions
from ivqa.metrics import CiderStatistics, bleu, cider_scores
from ivqa.scenes import SceneOracle
from ivqa.text.vocabulary import Vocabulary

PAIRS = [(7, "yes"), (8, "red"), (9, "no")]
# question, pair, phi of the pair's answer, whether the model gives it, legal, understood
ROWS = [
    ("Is there a star?", 0, 0.8, True, True, True),
    ("Star?", 0, 0.8, True, False, False),
    ("Is it it?", 0, 0.1, False, True, True),
    ("What color is it?", 1, 0.8, True, True, False),
    ("What color is a star?", 1, 0.8, True, True, True),
    ("What star is it?", 2, 0.1, False, True, True),
]
REFERENCES = {
    (7, "yes"): ["Is there a star?", "Do you see a star?", "Is there a star?"],
    (8, "red"): ["What color is the star?"],
    (9, "no"): ["Is it a heart?", "Is there a cross?"],
    (5, "no"): ["Is there a pair that was not searched?"],
}
STATISTICS = CiderStatistics.of([[text] for own in REFERENCES.values() for text in own])
SAMPLES = {"supervised": [0, 1, 1, 2, 3, 3, 3, 5], "rl": [0, 0, 0, 2, 4, 4, 3, 5, 5, 5]}
KEPT = [0, 3, 4]  # believed and legal


class _Grammar:
    def judge_many(self, images: Sequence[int], questions: Sequence[str]) -> list[Any]:
        known = {(PAIRS[row[1]][0], row[0]): row[5] for row in ROWS}
        return [
            SimpleNamespace(understood=known[key]) for key in zip(images, questions, strict=True)
        ]

    def fact(self, question: str) -> str | None:
        """The meaning is the last word, but for three questions."""
        return {"Is there a star?": "star", "Star?": "star", "What color is it?": None}.get(
            question, question.split()[-1]
        )


def _found(rows: Sequence[int] = range(len(ROWS))) -> Found:
    """The search result for the given rows, without the samples of other rows."""
    chosen = [ROWS[row] for row in rows]
    texts, place = [row[0] for row in chosen], {row: at for at, row in enumerate(rows)}
    tokens = Vocabulary.build(texts).encode(texts)
    pair = torch.tensor([row[1] for row in chosen])
    questions = Questions(tokens, texts, torch.zeros(len(texts)), pair)
    candidates = Candidates(
        questions, toy_images(3), [answer for _, answer in PAIRS], WordAnswerer(), ANSWERS,
        LongIsLegal(),
    )  # fmt: skip
    return Found(
        candidates,
        legal=torch.tensor([row[4] for row in chosen]),
        source=torch.zeros(len(texts), dtype=torch.int64),
        kept=torch.tensor([place[row] for row in KEPT if row in place], dtype=torch.int64),
        samples={
            name: torch.tensor([place[row] for row in own if row in place])
            for name, own in SAMPLES.items()
        },
    )


def _best(rows: Sequence[int], score: Any) -> float:
    """Mean, over the questions of the data set, of the best score with a question of the pair."""
    best = []
    for pair, key in enumerate(PAIRS):
        found = [ROWS[row][0] for row in set(rows) if ROWS[row][1] == pair]
        best += [
            max((score(text, reference) for text in found), default=0.0)
            for reference in REFERENCES[key]
        ]
    assert len(best) == 6
    return sum(best) / 6


def _cider(text: str, reference: str) -> float:
    return float(cider_scores([text], [[reference]], STATISTICS)[0])


def _bleu4(text: str, reference: str) -> float:
    return bleu([text], [[reference]])[3]


@pytest.fixture
def metrics() -> dict[str, float]:
    figures = SearchFigures(REFERENCES, STATISTICS, _Grammar())  # type: ignore[arg-type]
    assert torch.allclose(_found().candidates.phi, torch.tensor([row[2] for row in ROWS]))
    assert _found().candidates.believed.tolist() == [row[3] for row in ROWS]
    return search_metrics([figures.sums(_found(), PAIRS)])


def test_shares_and_means_are_over_the_samples_of_a_generator(metrics: dict[str, float]) -> None:
    for name, samples in SAMPLES.items():
        rows = [ROWS[row] for row in samples]
        distinct = set(samples)
        expected = {
            "mean_score": sum(row[2] for row in rows) / len(rows),
            "legal": sum(row[4] for row in rows) / len(rows),
            "understood": sum(row[5] for row in rows) / len(rows),
            "unique_per_pair": len(distinct) / 3,
            "per_pair": len(distinct & set(KEPT)) / 3,
            "understood_per_pair": sum(ROWS[row][5] for row in distinct & set(KEPT)) / 3,
        }
        for term, value in expected.items():
            assert metrics[f"{name}/{term}"] == pytest.approx(value, rel=1e-6), term
    assert metrics["rl/mean_score"] == pytest.approx((6 * 0.8 + 4 * 0.1) / 10)
    assert metrics["rl/unique_per_pair"] == pytest.approx(5 / 3)
    assert metrics["beliefs/mean_score"] == metrics["rl/mean_score"]
    assert metrics["beliefs/unique_per_pair"] == metrics["rl/unique_per_pair"]


def test_the_best_scores_of_each_pair_count_once_a_question(metrics: dict[str, float]) -> None:
    # Distinct and legal: rows 0, 2, 3 and 5 of supervised; 0, 2, 3, 4 and 5 of rl.
    assert metrics["supervised/mean_score_of_20"] == pytest.approx((0.8 + 0.1 + 0.8 + 0.1) / 4)
    assert metrics["rl/mean_score_of_20"] == pytest.approx((0.8 + 0.1 + 0.8 + 0.8 + 0.1) / 5)
    # Of 30 questions of one pair, 20 count; of another pair, all three.
    phi = np.linspace(0, 1, 33, dtype=np.float32)
    groups = np.repeat([4, 2, 4], [10, 3, 20])
    expected = [*phi[13:], *phi[10:13]]
    assert _best_scores(phi, groups) == {"best_phi": pytest.approx(sum(expected)), "best": 23}
    nothing = {"best_phi": 0.0, "best": 0}
    assert _best_scores(phi[:0], groups[:0]) == nothing


def test_meanings_and_unseen_beliefs_by_hand(metrics: dict[str, float]) -> None:
    # Beliefs of supervised: row 0 once, row 3 three times; of rl: row 0 three times, row 3 once,
    # row 4 twice. Row 3 states no fact.
    assert metrics["supervised/meanings_per_pair"] == pytest.approx(1 / 3)
    assert metrics["rl/meanings_per_pair"] == pytest.approx(2 / 3)
    assert metrics["supervised/next_is_new"] == pytest.approx(1 / 4)
    assert metrics["rl/next_is_new"] == pytest.approx(1 / 6)
    # Chao per pair. supervised: 1 + 0 and 1 + 0; rl: 1 + 0 and 2 + 1 * 0 / 4.
    assert metrics["supervised/found"] == metrics["rl/found"] == 1
    assert not {"supervised/recall", "beliefs/found"} & set(metrics)


def test_recall_compares_with_all_facts_that_the_model_believes() -> None:
    class Asked:
        """Answers yes to questions with "star" and red to those with "color"; counts images."""

        def __init__(self) -> None:
            self.images: set[int] = set()

        def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
            self.images |= set(images.index.tolist())
            return [
                "yes" if "star" in text else "red" if "color" in text else "maybe"
                for text in questions
            ]

    asked = Asked()
    found = _found()
    found = replace(found, candidates=replace(found.candidates, answerer=asked))  # type: ignore[arg-type]
    # Precomputed, because the toy model above has no scores.
    vars(found.candidates)["_scores"] = _found().candidates._scores
    listed = ListedBeliefs(
        {"star": "a star?", "heart": "a heart?", "star?": "color?", "dog": "star"}
    )
    figures = SearchFigures(REFERENCES, STATISTICS, _Grammar(), listed)  # type: ignore[arg-type]
    metrics = search_metrics([figures.sums(found, PAIRS)])
    assert asked.images == {0, 1, 2}
    # Believed: (7, yes): star and dog; (8, red): "star?"; (9, no): nothing, so it does not count.
    # supervised found star of pair 7 and no fact of pair 8; rl found star, and "star?" by row 4.
    assert metrics["supervised/recall"] == pytest.approx((1 / 2 + 0) / 2)
    assert metrics["rl/recall"] == pytest.approx((1 / 2 + 1) / 2)


@pytest.mark.parametrize(
    ("counts", "total"),
    [([1, 1, 1, 2, 5], 5 + 3 * 2 / 4), ([1, 1], 2 + 2 * 1 / 2), ([3, 4], 2), ([2, 2, 1], 3)],
)
def test_estimated_total_after_chao(counts: list[int], total: float) -> None:
    assert estimated_total(np.array(counts)) == total


def test_the_estimate_approaches_the_number_of_things() -> None:
    rng = np.random.default_rng(0)
    # 200 things of unequal probability; half of the draws that find all of them.
    weights = rng.dirichlet(np.full(200, 2.0))
    estimates, seen = [], []
    for _ in range(50):
        counts = np.bincount(rng.choice(200, 300, p=weights), minlength=200)
        seen.append((counts > 0).sum())
        estimates.append(estimated_total(counts[counts > 0]))
    assert np.mean(seen) < 150
    assert np.mean(seen) + 20 < np.mean(estimates) < 205


def test_beliefs_are_counted_once_for_all_generators(metrics: dict[str, float]) -> None:
    assert metrics["beliefs/count"] == 3
    assert metrics["beliefs/per_pair"] == 1
    assert metrics["beliefs/understood_per_pair"] == pytest.approx(2 / 3)
    assert not {"beliefs/legal", "beliefs/understood"} & set(metrics)


@pytest.mark.parametrize(("name", "rows"), [*SAMPLES.items(), ("beliefs", KEPT)])
def test_oracle_scores_are_means_over_the_reference_questions(
    name: str, rows: list[int], metrics: dict[str, float]
) -> None:
    assert metrics[f"{name}/oracle_cider"] == pytest.approx(_best(rows, _cider))
    assert metrics[f"{name}/oracle_bleu4"] == pytest.approx(_best(rows, _bleu4))
    assert metrics[f"{name}/oracle_bleu4"] != pytest.approx(
        _best(rows, lambda text, reference: bleu([text], [[reference]])[0])
    )


def test_chunks_add_up_to_the_whole(metrics: dict[str, float]) -> None:
    figures = SearchFigures(REFERENCES, STATISTICS, _Grammar())  # type: ignore[arg-type]
    first = figures.sums(_found(), PAIRS)
    twice = search_metrics([first, first])
    assert twice.pop("beliefs/count") == 6
    for name, value in twice.items():
        assert value == pytest.approx(metrics[name]), name
    plain = SearchFigures(REFERENCES, STATISTICS).sums(_found(), PAIRS)
    assert not [name for name in search_metrics([plain]) if "understood" in name]
    nothing = search_metrics([SearchFigures({}, STATISTICS).sums(_found(), PAIRS)])
    assert not [name for name in nothing if "oracle" in name]


def test_recall_needs_an_oracle_that_lists_its_questions() -> None:
    assert len(listed_beliefs(SceneOracle({})).questions) == 7306
    for oracle in (None, _Grammar()):
        with pytest.raises(UserError, match="recall=true needs data"):
            listed_beliefs(oracle)
