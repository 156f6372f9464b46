"""Which beliefs people are asked about first, and what their labels say about all beliefs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ivqa.diagnosis.beliefs.beliefs import TYPES, WRONG, Belief
from ivqa.metrics.bootstrap import with_ends
from ivqa.metrics.prediction_powered import MIN_LABELS, prediction_powered

_UNIFORM = 0.5  # share of the drawing that no doubt decides, since doubts may be misplaced


def doubts(beliefs: Sequence[Belief]) -> NDArray[np.float64]:
    """The probability (N,) that each belief is wrong, as far as it is known without people.

    That of the judges; else 0 or 1 by the type; else 1 - phi of the model.
    """
    return np.array(
        [
            one.judge_wrong
            if one.judge_wrong is not None
            else 1 - one.phi
            if one.type is None
            else float(one.type in WRONG)
            for one in beliefs
        ],
        dtype=np.float64,
    )


def drawn_for_labels(
    beliefs: Sequence[Belief], limit: int = 500, seed: int = 0
) -> list[tuple[int, float]]:
    """Draws the beliefs that people label, in the order in which they are asked.

    A label narrows the interval of `prediction_powered` by the more, the less sure the judge is:
    the best probability of drawing is proportional to sqrt(p (1 - p)) for a doubt p (Zrnic and
    Candes, "Active Statistical Inference", 2024). Half of the probability is equal for all beliefs.
    The order is that of sequential Poisson sampling (Ohlsson 1998): u / q for uniform random u. So
    the first n beliefs are a sample in which belief i is with probability n q_i, for each n: people
    may stop when they like.

    Args:
        beliefs: N beliefs with the types and doubts that they have without people.
        limit: Number of beliefs to draw.
        seed: Of the random numbers.

    Returns:
        Row and weight 1 / (N q) of each belief, at most `limit`.
    """
    if not beliefs:
        return []
    p = doubts(beliefs)
    spread = np.sqrt(p * (1 - p))
    even = np.full(len(p), 1 / len(p))
    q = _UNIFORM * even + (1 - _UNIFORM) * spread / spread.sum() if spread.any() else even
    highest = max(0.5 / limit, 1 / len(p))  # the order meets n q closely where it is at most 1/2
    while (q > highest * (1 + 1e-9)).any():
        above = q >= highest
        q = np.where(above, highest, q * (1 - highest * above.sum()) / q[~above].sum())
    order = np.argsort(np.random.default_rng(seed).random(len(q)) / q)[:limit]
    return [(int(row), float(1 / (len(q) * q[row]))) for row in order]


def estimated_shares(
    labelled: Sequence[Belief], judged: Sequence[Belief], weights: NDArray[np.float64]
) -> dict[str, float]:
    """Estimates the shares of wrong beliefs and of the types from labels and judgements.

    Args:
        labelled: The beliefs with the types that people gave to some.
        judged: The same beliefs with the types and doubts that they have without people.
        weights: Weight of each belief (N,), see `label_weights`.

    Returns:
        "beliefs/incorrect_ppi" and "beliefs/<type>_ppi", each with "_low" and "_high", the 95
        percent interval of the share among all N beliefs, and "beliefs/labels", the number of
        labelled beliefs. Empty with fewer than three labels.
    """
    rows = np.flatnonzero([one.type_by == "human" for one in labelled])
    if len(rows) < MIN_LABELS:
        return {}
    own = weights[rows] if len(set(weights[rows].tolist())) > 1 else None
    given = np.array([str(one.type) for one in labelled])
    guessed = np.array([str(one.type) for one in judged])
    pairs = {"incorrect": (np.isin(given, WRONG), doubts(judged))}
    pairs |= {kind: (given == kind, (guessed == kind).astype(float)) for kind in TYPES}
    shares = {"beliefs/labels": float(len(rows))}
    for name, (truth, guess) in pairs.items():
        found = prediction_powered(truth[rows], guess[rows], guess, own)
        shares |= with_ends(f"beliefs/{name}_ppi", found.estimate, found.low, found.high)
    return shares
