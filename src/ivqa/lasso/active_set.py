"""The LASSO inside a working set, solved exactly by single pivots, in compiled code.

min_x 1/2 x^T G x - c^T x + lam |x|_1 over the p columns of a working set. The method walks a path
on which the variables inside (x != 0) stay optimal: a variable outside grows from zero until its
gradient is lam; each one inside that reaches zero on the way leaves. The inverse of G over the
variables inside follows by updates of rank one.

Threads that call these functions run side by side.
"""

import numpy as np
from numpy.typing import NDArray

from ivqa.lasso.compiling import compiled

# Relative to lam: how far a gradient may be over it. At lam = 1e-6 this is all that float64 has.
SLACK = 1e-7
# Variables that enter before all gradients are looked at again.
_ENTERING = 16
# Rounds of that after which something is wrong.
_ROUNDS = 60
# Curvatures relative to a column's own: below, the column depends on those inside.
_FLAT = 1e-14


@compiled
def choose(
    pool: NDArray[np.float32],
    columns: NDArray[np.float32],
    rows: NDArray[np.int64],
    residual: NDArray[np.float64],
    gradient: NDArray[np.float64],
    x: NDArray[np.float64],
    lam: float,
    positive: bool,
    first: int,
    count: int,
    most: int,
    known: bool,
) -> tuple[int, float, float]:
    """Correlates columns at hand with the residual; the worst violations join the working set.

    columns: A, of which the first `count` are in the working set, (m, d); rows: theirs in the
    pool, and behind them those of candidates, (n,), of which up to `most` with gradients over lam
    join. x: (n,). gradient: (n,), written from column `first` on, in float64; known: not of the
    candidates, whose gradients are there. Returns the new count, the largest gradient of all and
    how far the conditions were from being met in the working set, relative to lam; nan where x is.
    """
    _correlate(columns, np.arange(first, count), residual, gradient[first:count])
    if not known:
        _correlate(pool, rows[count:], residual, gradient[count:])
    key, largest, fault = np.empty(len(rows)), 0.0, 0.0
    for row in range(len(rows)):
        key[row] = gradient[row] if positive else abs(gradient[row])
        largest = max(largest, key[row])
        if row < count:
            excess = abs(gradient[row] - lam * np.sign(x[row])) if x[row] != 0 else key[row] - lam
            if not excess <= fault:  # nan as well
                fault = excess
    before = count
    for _ in range(min(most, len(rows) - count)):
        best = count + key[count:].argmax()
        if key[best] <= lam * (1 + SLACK):
            break
        rows[best], rows[count] = rows[count], rows[best]
        gradient[best], gradient[count] = gradient[count], gradient[best]
        key[best] = key[count]
        columns[count] = pool[rows[count]]
        count += 1
    if known:
        _correlate(columns, np.arange(before, count), residual, gradient[before:count])
    return count, largest, fault / lam


@compiled
def _correlate(
    matrix: NDArray[np.float32],
    rows: NDArray[np.int64],
    residual: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Writes the products of matrix[rows] with the residual, (n,), in float64."""
    whole = len(rows) // 4 * 4
    for first in range(0, whole, 4):  # four rows are on their way from memory at a time
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
def extend(
    gram: NDArray[np.float64], products: NDArray[np.floating], first: int, ridge: float
) -> None:
    """Writes G from column `first` on, from products (p, p - first) of columns with each other.

    ridge: what is added to its diagonal, relative to it.
    """
    for row in range(len(products)):
        for at in range(max(first, row), len(products)):
            gram[row, at] = products[row, at - first]
            gram[at, row] = gram[row, at]
    for row in range(first, len(products)):
        gram[row, row] *= 1 + ridge


@compiled
def rest(
    target: NDArray[np.float64],
    columns: NDArray[np.float32],
    x: NDArray[np.float64],
    inside: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The residual b - A x, (d,), in float64. columns: A (n, d). inside: (s,), where x != 0."""
    residual = target.copy()
    whole = len(inside) // 4 * 4
    for first in range(0, whole, 4):  # the residual is read and written once for four columns
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
def pick(matrix: NDArray[np.float64], inside: NDArray[np.int64]) -> NDArray[np.float64]:
    """The rows and columns inside, (s, s)."""
    picked = np.empty((len(inside), len(inside)))
    for row in range(len(inside)):
        for at in range(len(inside)):
            picked[row, at] = matrix[inside[row], inside[at]]
    return picked


@compiled
def solve(
    gram: NDArray[np.float64],
    gradient: NDArray[np.float64],
    lam: float,
    positive: bool,
    x: NDArray[np.float64],
    inside: NDArray[np.int64],
    inverse: NDArray[np.float64],
    size: int,
) -> int:
    """Solves in place, from the x at hand; returns how many variables are inside.

    gram: G in its first p rows and columns. gradient: c - G x, (p,), kept up. positive: x >= 0;
    otherwise signs are free. x: (p,). inside: (p,), of which the first `size` are the variables
    with x != 0. inverse: of G over these in their order, in its first rows and columns.
    """
    count, enough = len(gradient), lam * (1 + SLACK)
    target = gradient.copy()
    for slot in range(size):
        row, weight = inside[slot], x[inside[slot]]
        for at in range(count):  # G is symmetric
            target[at] += gram[row, at] * weight
    key, signs = np.empty(count), np.sign(x)
    change, column = np.empty(count), np.empty(count)
    size = _settle(gram, target, lam, x, signs, inside, inverse, size, change, column)
    for _ in range(_ROUNDS):
        _refine(gram, target, lam, x, signs, inside, inverse, size, gradient, change, column)
        for at in range(count):
            key[at] = gradient[at] if positive else abs(gradient[at])
        for slot in range(size):
            key[inside[slot]] = 0
        if key.max() <= enough:
            break
        for _ in range(_ENTERING):
            entering = int(key.argmax())
            if key[entering] <= enough:
                break
            key[entering] = 0
            slope = target[entering]
            for slot in range(size):
                slope -= gram[entering, inside[slot]] * x[inside[slot]]
            if (slope if positive else abs(slope)) > enough:
                size = _enter(
                    gram, lam, x, signs, inside, inverse, size, entering, slope, change, column
                )
    for slot in range(size - 1, -1, -1):
        if x[inside[slot]] * signs[inside[slot]] <= 0:
            _leave(x, signs, inside, inverse, size, slot, change, column)
            size -= 1
    return size


@compiled
def invert(
    gram: NDArray[np.float64], inside: NDArray[np.int64], inverse: NDArray[np.float64]
) -> None:
    """Writes the inverse of G over the variables inside, (s,), letting in one after another.

    A variable whose column depends on those before it gets zeros.
    """
    change, column = np.empty(len(inside)), np.empty(len(inside))
    for size in range(len(inside)):
        curvature = _newcomer(gram, inside, inverse, size, inside[size], 1.0, change, column)
        flat = _FLAT * gram[inside[size], inside[size]]
        _append(inverse, size, change, 1.0, 1 / curvature if curvature > flat else 0.0)


@compiled
def _newcomer(
    gram: NDArray[np.float64],
    inside: NDArray[np.int64],
    inverse: NDArray[np.float64],
    size: int,
    entering: int,
    sign: float,
    change: NDArray[np.float64],
    column: NDArray[np.float64],
) -> float:
    """Writes by how much x inside changes for a unit of |x_entering|; returns the curvature."""
    for slot in range(size):
        column[slot] = gram[entering, inside[slot]]
    _times(inverse, size, column, change)
    curvature = gram[entering, entering]
    for slot in range(size):
        curvature -= column[slot] * change[slot]
        change[slot] *= -sign
    return curvature


@compiled
def _times(
    matrix: NDArray[np.float64], size: int, vector: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    for row in range(size):
        total = 0.0
        for at in range(size):
            total += matrix[row, at] * vector[at]
        out[row] = total


@compiled
def _append(
    inverse: NDArray[np.float64],
    size: int,
    change: NDArray[np.float64],
    sign: float,
    weight: float,
) -> None:
    """The inverse with one variable more, behind those inside."""
    change[size] = sign
    for at in range(size + 1):
        inverse[size, at] = 0
        inverse[at, size] = 0
    _add_square(inverse, size + 1, change, weight)


@compiled
def _add_square(
    inverse: NDArray[np.float64], size: int, vector: NDArray[np.float64], weight: float
) -> None:
    for row in range(size):
        factor = weight * vector[row]
        for at in range(size):
            inverse[row, at] += factor * vector[at]


@compiled
def _enter(
    gram: NDArray[np.float64],
    lam: float,
    x: NDArray[np.float64],
    signs: NDArray[np.float64],
    inside: NDArray[np.int64],
    inverse: NDArray[np.float64],
    size: int,
    entering: int,
    slope: float,
    change: NDArray[np.float64],
    column: NDArray[np.float64],
) -> int:
    """Grows |x_entering|, whose gradient is `slope`, until that is lam."""
    sign, excess = np.sign(slope), abs(slope) - lam
    curvature = _newcomer(gram, inside, inverse, size, entering, sign, change, column)
    grown, flat = 0.0, _FLAT * gram[entering, entering]
    while True:
        first, room = _first_to_zero(x, signs, inside, size, change)
        reach = excess / curvature if curvature > flat else np.inf
        if reach <= room:
            break
        _move(x, inside, size, change, room)
        grown += room
        excess -= room * curvature
        curvature += _leave(x, signs, inside, inverse, size, first, change, column)
        size -= 1
    if reach == np.inf:
        return size  # nothing is gained by it and nothing stops it
    _move(x, inside, size, change, reach)
    x[entering], signs[entering] = sign * (grown + reach), sign
    inside[size] = entering
    _append(inverse, size, change, sign, 1 / curvature)
    return size + 1


@compiled
def _first_to_zero(
    x: NDArray[np.float64],
    signs: NDArray[np.float64],
    inside: NDArray[np.int64],
    size: int,
    change: NDArray[np.float64],
) -> tuple[int, float]:
    """Which variable inside a step along `change` brings to zero first, and how long it is."""
    first, room = -1, np.inf
    for slot in range(size):
        at = inside[slot]
        if signs[at] * change[slot] < 0:
            step = max(-x[at] / change[slot], 0.0)
            if step < room:
                first, room = slot, step
    return first, room


@compiled
def _move(
    x: NDArray[np.float64],
    inside: NDArray[np.int64],
    size: int,
    change: NDArray[np.float64],
    step: float,
) -> None:
    for slot in range(size):
        x[inside[slot]] += step * change[slot]


@compiled
def _leave(
    x: NDArray[np.float64],
    signs: NDArray[np.float64],
    inside: NDArray[np.int64],
    inverse: NDArray[np.float64],
    size: int,
    leaving: int,
    change: NDArray[np.float64],
    column: NDArray[np.float64],
) -> float:
    """Takes a variable out, and the last into its slot; corrects `change`.

    Returns what the curvature gains.
    """
    for slot in range(size):
        column[slot] = inverse[slot, leaving]
    pivot = column[leaving]
    share = change[leaving] / pivot
    _add_square(inverse, size, column, -1 / pivot)
    for slot in range(size):
        change[slot] -= share * column[slot]
    x[inside[leaving]], signs[inside[leaving]] = 0, 0
    last = size - 1
    inside[leaving], change[leaving] = inside[last], change[last]
    for slot in range(size):
        inverse[leaving, slot] = inverse[last, slot]
    for slot in range(size):
        inverse[slot, leaving] = inverse[slot, last]
    return share * share * pivot


@compiled
def _settle(
    gram: NDArray[np.float64],
    target: NDArray[np.float64],
    lam: float,
    x: NDArray[np.float64],
    signs: NDArray[np.float64],
    inside: NDArray[np.int64],
    inverse: NDArray[np.float64],
    size: int,
    change: NDArray[np.float64],
    column: NDArray[np.float64],
) -> int:
    """Moves to the minimum over the variables inside; those that reach zero first leave."""
    for slot in range(size):
        at = inside[slot]
        total = target[at] - lam * signs[at]
        for other in range(size):
            total -= gram[at, inside[other]] * x[inside[other]]
        column[slot] = total
    _times(inverse, size, column, change)
    while True:
        first, room = _first_to_zero(x, signs, inside, size, change)
        if room >= 1:
            break
        _move(x, inside, size, change, room)
        for slot in range(size):
            change[slot] *= 1 - room
        _leave(x, signs, inside, inverse, size, first, change, column)
        size -= 1
    _move(x, inside, size, change, 1.0)
    return size


@compiled
def _refine(
    gram: NDArray[np.float64],
    target: NDArray[np.float64],
    lam: float,
    x: NDArray[np.float64],
    signs: NDArray[np.float64],
    inside: NDArray[np.int64],
    inverse: NDArray[np.float64],
    size: int,
    gradient: NDArray[np.float64],
    change: NDArray[np.float64],
    column: NDArray[np.float64],
) -> None:
    """Newton steps over the variables inside, against rounding; a new inverse if it is bad.

    Writes the gradient c - G x, (p,).
    """
    for attempt in range(4):
        gradient[:] = target
        for slot in range(size):
            row, weight = inside[slot], x[inside[slot]]
            for at in range(len(target)):  # G is symmetric
                gradient[at] -= gram[row, at] * weight
        worst = 0.0
        for slot in range(size):
            column[slot] = gradient[inside[slot]] - lam * signs[inside[slot]]
            worst = max(worst, abs(column[slot]))
        if worst <= 0.1 * SLACK * lam or attempt == 3:
            break
        if attempt == 2:
            invert(gram, inside[:size], inverse)
        _times(inverse, size, column, change)
        _move(x, inside, size, change, 1.0)
