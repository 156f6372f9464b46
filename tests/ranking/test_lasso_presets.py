"""The three LASSO presets of conf/ranker, each against scikit-learn's solution of its problem."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from numpy.typing import NDArray
from sklearn.linear_model import Lasso

CONF = Path(__file__).parents[2] / "conf"
QUESTIONS = ["how old is the car", "what is it", "is it red"]
# What each preset is: whether x >= 0, and whether vectors are centred; lam or alpha below.
PRESETS = {"lasso": (True, False), "lasso_signed": (False, False), "lasso_published": (False, True)}


class Fixed:
    """Unit vectors of `size` dimensions by the text, which lie in half of the space."""

    def __init__(self, size: int) -> None:
        self.size = size

    def fit(self, texts: Sequence[str]) -> "Fixed":
        return self

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        drawn = [
            np.random.default_rng(crc32(text.encode())).normal(size=self.size) for text in texts
        ]
        vectors = np.array(drawn) + 0.3
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _ranker(preset: str, size: int, **changes: Any) -> Any:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("evaluate", ["task=rank", f"ranker={preset}"])
    return instantiate(cfg.ranker, encoder=Fixed(size), **changes)


def _solution(preset: str, alpha: float, pool: Sequence[str], question: str, size: int) -> Any:
    positive, intercept = PRESETS[preset]
    model = Lasso(alpha, positive=positive, fit_intercept=intercept, tol=1e-12, max_iter=10**6)
    encoder = Fixed(size)
    columns, target = encoder.encode(pool).T.astype(np.float64), encoder.encode([question])[0]
    return model.fit(columns, target.astype(np.float64)).coef_


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_solves_its_equation_with_its_own_weight(preset: str) -> None:
    """Fourteen questions in thirty dimensions, so that coordinate descent converges."""
    pool, size = [f"question {number}" for number in range(14)], 30
    # The published code gave scikit-learn alpha = 1e-6, the papers' lambda is 1e-6.
    alpha = 1e-6 if preset == "lasso_published" else 1e-6 / size
    found = _ranker(preset, size).rank(QUESTIONS, pool, 14, [[]] * 3)
    for row, question in enumerate(QUESTIONS):
        weights = _solution(preset, alpha, pool, question, size)
        positive = int((weights > 0).sum())
        assert 2 < positive < 12
        # By value; where signs are free, negative coefficients come last, the least first.
        wanted = np.argsort(-weights, kind="stable")
        wanted = wanted[: None if (weights < 0).any() else positive]
        assert found.indices[row, : len(wanted)].tolist() == wanted.tolist()
        assert found.scores[row] == pytest.approx(np.maximum(np.sort(weights)[::-1], 0), abs=1e-5)
        assert found.support[row] == positive
        assert (weights < 0).any() == (preset != "lasso")


@pytest.mark.parametrize("preset", PRESETS)
def test_more_questions_than_dimensions(preset: str) -> None:
    pool, size, lam = [f"question {number}" for number in range(60)], 24, 2e-2
    weight = {"alpha": lam / size} if preset == "lasso_published" else {"lam": lam}
    found = _ranker(preset, size, **weight).rank(QUESTIONS, pool, 21, [[3], [], [5, 6]])
    for row, (question, own) in enumerate(zip(QUESTIONS, [[3], [], [5, 6]], strict=True)):
        left = [text for number, text in enumerate(pool) if number not in own]
        weights = _solution(preset, lam / size, left, question, size)
        number = min(21, int((weights > 1e-7).sum()))
        ranked = [pool[at] for at in found.indices[row]]
        assert ranked[:number] == [left[at] for at in np.argsort(-weights)[:number]]
        assert found.scores[row, :number] == pytest.approx(
            np.sort(weights)[::-1][:number], abs=1e-5
        )
        assert not found.scores[row, number:].any()
        assert len(set(ranked)) == 21
    assert (np.diff(found.scores, axis=1) <= 0).all()
    assert (found.gap <= 1e-6).all()
    # Of the whole ranking, negative coefficients are the end, after those of 0.
    weights = _solution(preset, lam / size, pool, QUESTIONS[1], size)
    whole = _ranker(preset, size, **weight).rank(QUESTIONS[1:2], pool, 60, [[]]).indices[0]
    negative = int((weights < 0).sum())
    assert set(whole[60 - negative :].tolist()) == set(np.flatnonzero(weights < 0).tolist())
    assert (negative > 2) == (preset != "lasso")
    # Between them, those of coefficient 0 by their correlation with the residual, with its sign.
    encoder = Fixed(size)
    columns, target = encoder.encode(pool), encoder.encode(QUESTIONS[1:2])[0]
    residual = target - weights @ columns
    products = columns @ (residual - residual.mean() * PRESETS[preset][1])
    between = [at for at in np.argsort(-products) if abs(weights[at]) < 1e-7]
    assert whole[60 - negative - len(between) : 60 - negative].tolist() == between
