"""Compiled products of a working set's columns with the residual and with each other.

A column of the problem is a row of an array here. Threads that call these functions run in
parallel.
"""

import numpy as np
from numpy.typing import NDArray

from ivqa.lasso.compiling import Floats, Ints, compiled

# How far a gradient may exceed lam, as a share of lam. At lam = 1e-6 float64 has no more digits.
SLACK = 1e-7


@compiled
def add_violating_columns(
    pool: NDArray[np.float32],
    columns: NDArray[np.float32],
    rows: Ints,
    residual: Floats,
    gradient: Floats,
    x: Floats,
    lam: float,
    positive: bool,
    first: int,
    count: int,
    max_new: int,
    known: bool,
) -> tuple[int, float, float]:
    """Adds the candidates that violate the optimality conditions most to the working set.

    Args:
        pool: (N, d).
        columns: A, of which the first `count` are in the working set, (n, d).
        rows: Their rows in the pool and, behind them, those of the candidates, (n,).
        residual: b - A x, (d,).
        gradient: A^T (b - A x), (n,), written from column `first` on.
        x: (n,).
        lam: Weight of |x|_1.
        positive: Whether x >= 0.
        first: The first column whose gradient is computed.
        count: Columns in the working set.
        max_new: How many candidates with gradients over lam may join.
        known: Whether `gradient` has the candidates' gradients already.

    Returns:
        The new count, the largest gradient of all, and the largest violation of the conditions in
        the working set relative to lam; nan where x is nan.
    """
    correlate(columns, np.arange(first, count), residual, gradient[first:count])
    if not known:
        correlate(pool, rows[count:], residual, gradient[count:])
    key = np.empty(len(rows))
    largest, fault = _violations(gradient, x, lam, positive, count, key)
    before = count
    for _ in range(min(max_new, len(rows) - count)):
        best = count + key[count:].argmax()
        if key[best] <= lam * (1 + SLACK):
            break
        # A swap keeps the columns of the working set in front of the candidates.
        rows[best], rows[count] = rows[count], rows[best]
        gradient[best], gradient[count] = gradient[count], gradient[best]
        key[best] = key[count]
        columns[count] = pool[rows[count]]
        count += 1
    if known:
        # The known gradients come from a pass in bfloat16 or float32; columns of the working set
        # need theirs in float64.
        correlate(columns, np.arange(before, count), residual, gradient[before:count])
    return count, largest, fault / lam


@compiled
def _violations(
    gradient: Floats, x: Floats, lam: float, positive: bool, count: int, key: Floats
) -> tuple[float, float]:
    """Writes gradients, or their magnitudes where signs are free, to `key`, (n,).

    Returns their maximum, and the largest violation of the optimality conditions among the first
    `count` columns.
    """
    largest, fault = 0.0, 0.0
    for row in range(len(gradient)):
        key[row] = gradient[row] if positive else abs(gradient[row])
        largest = max(largest, key[row])
        if row < count:
            # Where x != 0 the gradient must be lam * sign(x), elsewhere at most lam.
            excess = abs(gradient[row] - lam * np.sign(x[row])) if x[row] != 0 else key[row] - lam
            if not excess <= fault:  # also where it is nan
                fault = excess
    return largest, fault


@compiled
def correlate(matrix: NDArray[np.float32], rows: Ints, residual: Floats, out: Floats) -> None:
    """Writes the products of rows (n,) of a matrix (N, d) with the residual (d,), in float64."""
    whole = len(rows) // 4 * 4
    for first in range(0, whole, 4):  # four rows at a time: the processor fetches them together
        a, b = matrix[rows[first]], matrix[rows[first + 1]]
        c, d = matrix[rows[first + 2]], matrix[rows[first + 3]]
        one, two, three, four = 0.0, 0.0, 0.0, 0.0
        for at in range(len(residual)):
            one += a[at] * residual[at]
            two += b[at] * residual[at]
            three += c[at] * residual[at]
            four += d[at] * residual[at]
        out[first], out[first + 1], out[first + 2], out[first + 3] = one, two, three, four
    for row in range(whole, len(rows)):
        column, total = matrix[rows[row]], 0.0
        for at in range(len(residual)):
            total += column[at] * residual[at]
        out[row] = total


@compiled
def extend_gram(gram: Floats, products: NDArray[np.floating], first: int, ridge: float) -> None:
    """Writes the Gram matrix G of p columns from column `first` on.

    `products` (p, p - first) are those of all columns with those from `first` on; `ridge` is the
    relative increase of the diagonal.
    """
    # The upper triangle is copied and mirrored.
    for row in range(len(products)):
        for at in range(max(first, row), len(products)):
            gram[row, at] = products[row, at - first]
            gram[at, row] = gram[row, at]
    for row in range(first, len(products)):
        gram[row, row] *= 1 + ridge


@compiled
def residual_of(target: Floats, columns: NDArray[np.float32], x: Floats, inside: Ints) -> Floats:
    """The residual b - A x (d,) in float64, for A (n, d) and the columns (s,) with x != 0."""
    residual = target.copy()
    whole = len(inside) // 4 * 4
    for first in range(0, whole, 4):  # reads and writes the residual once for four columns
        one, two, three, four = inside[first : first + 4]
        for at in range(len(residual)):
            residual[at] -= (
                x[one] * columns[one, at]
                + x[two] * columns[two, at]
                + x[three] * columns[three, at]
                + x[four] * columns[four, at]
            )
    for row in inside[whole:]:
        for at in range(len(residual)):
            residual[at] -= x[row] * columns[row, at]
    return residual


@compiled
def submatrix(matrix: Floats, inside: Ints) -> Floats:
    """Copies the rows and columns `inside` (s,) of a square matrix; (s, s)."""
    picked = np.empty((len(inside), len(inside)))
    for row in range(len(inside)):
        for at in range(len(inside)):
            picked[row, at] = matrix[inside[row], inside[at]]
    return picked
