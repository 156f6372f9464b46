"""Main questions on their way to a solution, and the LASSO inside their working sets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ivqa.ranking.active_set import solve_in_working_set
from ivqa.ranking.pool_products import PoolProducts

# Problems solved together, as many as a cache holds, and bytes of their columns at the most.
_BLOCK, _BLOCK_BYTES = 16, 32 * 2**20
# Keeps Gram matrices positive definite that are computed in float32.
_FLOAT_RIDGE = 1e-6


@dataclass
class Question:
    """A main question on its way to a solution.

    number: its place among the main questions. lam: the weight of |x|_1 on its way. target: b,
    (d,) float64. banned: rows of the pool that it must not use. residual: b - A x, (d,) float64.
    columns, weights: rows of the pool with x != 0 (s,) and x itself, float64; the minimum over
    these columns. gram, correlations: products of these columns with each other (s, s) and with b
    (s,). rejected: rows of the last working set with x = 0. inside: the largest correlation of a
    column of the last working set with the residual. rounds: passes over the pool so far.
    certifying: whether the rest is done as exactly as a certificate needs it, in float64; until
    then columns are looked for in float32 or less.
    """

    number: int
    lam: float
    target: Tensor
    banned: Tensor
    residual: Tensor
    columns: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    weights: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64))
    gram: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    correlations: Tensor = field(default_factory=lambda: torch.empty(0))
    rejected: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    inside: float = 0.0
    rounds: int = 0
    certifying: bool = False


def blocks(
    questions: Sequence[Question], joining: Sequence[Tensor], size: int
) -> Iterator[tuple[list[Question], list[Tensor]]]:
    """Questions to be solved together, alike in exactness and size; size: dimensions."""
    width = [
        len(question.columns) + len(rows) for question, rows in zip(questions, joining, strict=True)
    ]
    order = sorted(range(len(width)), key=lambda at: (questions[at].certifying, width[at]))
    while order:
        count = min(_BLOCK, max(1, _BLOCK_BYTES // (4 * width[order[-1]] * size)))
        taken = [
            at
            for at in order[-count:]
            if questions[at].certifying == questions[order[-1]].certifying
        ]
        order = order[: -len(taken)]
        yield [questions[at] for at in taken], [joining[at] for at in taken]


def improve(
    questions: Sequence[Question],
    joining: Sequence[Tensor],
    pool: PoolProducts,
    positive: bool,
) -> None:
    """Moves each question to the minimum over its columns and those that join, rows (m,).

    All are certifying or none is.
    """
    dtype = torch.float64 if questions[0].certifying else torch.float32
    work = [
        torch.cat([question.columns, rows])
        for question, rows in zip(questions, joining, strict=True)
    ]
    counts = [len(rows) for rows in work]
    columns = pool.columns(torch.cat(work)).split(counts)  # B times (p, d)
    gram = torch.zeros(len(work), max(counts), max(counts), dtype=torch.float64)
    correlations = torch.full((len(work), max(counts)), -torch.inf, dtype=torch.float64)
    start = torch.zeros_like(correlations)
    for row, (question, count) in enumerate(zip(questions, counts, strict=True)):
        here = pool.centred(columns[row].to(dtype))
        gram[row, :count, :count], correlations[row, :count] = _products(here, question)
        start[row, : len(question.weights)] = question.weights
    lam = torch.tensor([question.lam for question in questions], dtype=torch.float64)
    found = solve_in_working_set(
        gram,
        correlations,
        lam,
        positive=positive,
        start=start,
        # As many columns as dimensions are nearly dependent.
        exchange=positive or max(counts) < pool.dimensions / 2,
    )
    gradient = correlations - torch.bmm(gram, found[:, :, None])[:, :, 0]
    inside = (gradient if positive else gradient.abs()).nan_to_num(neginf=0).amax(dim=1).tolist()
    for row, question in enumerate(questions):
        x = found[row, : counts[row]]
        used = x.nonzero()[:, 0]
        question.columns, question.weights = work[row][used], x[used]
        question.rejected = work[row][x == 0]
        question.gram = gram[row].index_select(0, used).index_select(1, used).to(dtype)
        question.correlations = correlations[row, used].to(dtype)
        here = pool.centred(columns[row].index_select(0, used).to(dtype))
        question.residual = question.target - question.weights.to(dtype) @ here
        question.inside = inside[row]


def _products(columns: Tensor, question: Question) -> tuple[Tensor, Tensor]:
    """Products of columns (p, d), first the question's own, with each other (p, p) and with b (p,).

    Those among its own are at hand, unless from now on it takes a more exact format.
    """
    known = len(question.gram) if question.gram.dtype == columns.dtype else 0
    fresh = columns @ columns[known:].t()  # (p, m)
    if columns.dtype == torch.float32:
        fresh.diagonal(-known).add_(_FLOAT_RIDGE)
    gram = columns.new_empty(len(columns), len(columns))
    gram[:known, :known] = question.gram[:known, :known]
    gram[:, known:], gram[known:, :known] = fresh, fresh[:known].t()
    correlations = columns[known:] @ question.target.to(columns.dtype)
    return gram, torch.cat([question.correlations[:known].to(columns.dtype), correlations])
