"""The LASSO inside a working set, solved by a dual active-set method on orthogonal factors.

It solves what the Gram matrices of `active_set` cannot: solutions with as many columns as there
are dimensions, and columns that nearly depend on each other.

The residual r = b - A x of the solution is lam * y. Here y is the point of the polyhedron
{y: a_j^T y <= 1 for all columns} that is nearest to b / lam, and x are the multipliers of its
constraints (signed problems: |a_j^T y| <= 1). The method of Goldfarb and Idnani [Math. Programming
27, 1983] starts outside the polyhedron. It makes one violated constraint after another active, and
drops those whose multiplier falls to zero. The active columns S are stored as S = Q R, which is
updated by rotations. Errors therefore grow with the condition of S and not with its square.

The arrays `basis`, `signs`, `x`, `q` and `r` are updated in place; `solve_by_factors` describes
them.
"""

import numpy as np
from numpy.typing import NDArray

from ivqa.lasso.compiling import compiled

# Tolerated violation of a constraint a_j^T y <= 1, far below what a gap of 1e-6 allows.
TOLERANCE = 1e-9
# The same relative to |y|, where it is larger: the rounding of a product with a long y.
_ROUNDINGS = 4 * float(np.finfo(np.float64).eps)
# A column depends on the basis where its part orthogonal to it is at most this share of its norm.
_DEPENDENT = 1e-11
# Pivots after which x and y are computed again from the factors, because rounding accumulates.
_REFRESHED = 50
# Violated constraints that become active before all are computed again.
_ENTERING = 4


@compiled
def solve_by_factors(
    columns: NDArray[np.float32],
    target: NDArray[np.float64],
    lam: float,
    positive: bool,
    centred: bool,
    basis: NDArray[np.int64],
    signs: NDArray[np.float64],
    x: NDArray[np.float64],
    q: NDArray[np.float64],
    r: NDArray[np.float64],
    y: NDArray[np.float64],
    size: int,
    max_pivots: int,
) -> tuple[int, int]:
    """Solves in place, from a basis and any x >= 0 for it.

    Args:
        columns: A of the working set, a column a row, (p, d).
        target: b, (d,), centred where columns are.
        lam: Weight of |x|_1.
        positive: Whether x >= 0; otherwise signs are free.
        centred: Whether the problem has columns minus their mean over the coordinates.
        basis: (m,), of which the first `size` are the rows of `columns` with x != 0; m <= d.
        signs: (m,), their signs.
        x: (m,), the magnitudes of their coefficients.
        q: (m, d), orthonormal rows that span signs * columns[basis].
        r: (m, m), upper triangular: signs * columns[basis] = r^T q.
        y: (d,), written: the residual over lam.
        size: Columns in the basis.
        max_pivots: Pivots after which the method stops.

    Returns:
        The new size and the number of pivots.
    """
    size = _settle(target, lam, basis, signs, x, q, r, y, size)
    # fresh: x and y have been computed from the factors since the last pivot.
    key, done, fresh = np.empty(len(columns)), np.zeros(len(columns), np.bool_), True
    pivots = since_refresh = 0
    while pivots < max_pivots:
        _price(columns, y, positive, done, basis[:size], key)
        limit = 1 + _tolerance(y)
        size, steps, unchanged, tried = _enter_violated(
            columns, lam, positive, centred, limit, key, done, basis, signs, x, q, r, y, size
        )
        pivots += steps
        since_refresh += steps + unchanged
        if fresh and not tried:
            break  # no constraint is violated by more than rounding
        fresh = False
        if not tried or since_refresh >= _REFRESHED:
            size = _settle(target, lam, basis, signs, x, q, r, y, size)
            fresh, since_refresh = True, 0
    if not fresh:
        size = _settle(target, lam, basis, signs, x, q, r, y, size)
    return size, pivots


@compiled
def _enter_violated(
    columns: NDArray[np.float32],
    lam: float,
    positive: bool,
    centred: bool,
    limit: float,
    key: NDArray[np.float64],
    done: NDArray[np.bool_],
    basis: NDArray[np.int64],
    signs: NDArray[np.float64],
    x: NDArray[np.float64],
    q: NDArray[np.float64],
    r: NDArray[np.float64],
    y: NDArray[np.float64],
    size: int,
) -> tuple[int, int, int, bool]:
    """Makes the most violated constraints active, `_ENTERING` at most.

    Returns the new size, the pivots, the columns that left the size as it was, and whether a
    constraint was violated.
    """
    pivots, unchanged, tried = 0, 0, False
    for _ in range(_ENTERING):
        entering = int(key.argmax())
        if key[entering] <= limit:
            break
        key[entering] = 0
        column = columns[entering].astype(np.float64)
        if centred:
            column -= column.mean()
        # A column that entered before has moved y, so `key` is stale.
        slope = _dot(column, y)
        value = slope if positive else abs(slope)
        if value <= limit:
            continue
        tried = True
        # Where signs are free, -a_j^T y <= 1 is a constraint too, with the column -a_j.
        if slope < 0:
            column *= -1
        before = size
        size, steps = _enter(column, value - 1, lam, basis, signs, x, q, r, y, size)
        if steps < 0:
            done[entering] = True  # no constraint limits it: its violation is within rounding
            steps = -steps
        else:
            basis[size - 1], signs[size - 1] = entering, 1.0 if slope > 0 else -1.0
        pivots += steps
        unchanged += before == size
    return size, pivots, unchanged, tried


@compiled
def _tolerance(y: NDArray[np.float64]) -> float:
    """How far a constraint may be violated at y."""
    return max(TOLERANCE, _ROUNDINGS * np.sqrt(_dot(y, y)))


@compiled
def _dot(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The inner product of two vectors."""
    total = 0.0
    for at in range(len(one)):
        total += one[at] * other[at]
    return total


@compiled
def _price(
    columns: NDArray[np.float32],
    y: NDArray[np.float64],
    positive: bool,
    done: NDArray[np.bool_],
    basis: NDArray[np.int64],
    key: NDArray[np.float64],
) -> None:
    """Writes a_j^T y of all columns into `key`, (p,): its magnitude where signs are free.

    Columns of the basis, and those that are done, get 0.
    """
    whole = len(columns) // 4 * 4
    for first in range(0, whole, 4):
        a, b = columns[first], columns[first + 1]
        c, d = columns[first + 2], columns[first + 3]
        one, two, three, four = 0.0, 0.0, 0.0, 0.0
        for at in range(len(y)):
            one += a[at] * y[at]
            two += b[at] * y[at]
            three += c[at] * y[at]
            four += d[at] * y[at]
        key[first], key[first + 1], key[first + 2], key[first + 3] = one, two, three, four
    for row in range(whole, len(columns)):
        total = 0.0
        for at in range(len(y)):
            total += columns[row, at] * y[at]
        key[row] = total
    for row in range(len(columns)):
        if not positive:
            key[row] = abs(key[row])
        if done[row]:
            key[row] = 0
    for row in basis:
        key[row] = 0


@compiled
def _enter(
    column: NDArray[np.float64],
    violation: float,
    lam: float,
    basis: NDArray[np.int64],
    signs: NDArray[np.float64],
    x: NDArray[np.float64],
    q: NDArray[np.float64],
    r: NDArray[np.float64],
    y: NDArray[np.float64],
    size: int,
) -> tuple[int, int]:
    """Makes the constraint column^T y <= 1 active; returns the new size and the pivots.

    The column becomes the last of the basis. Where it cannot enter, pivots are negative.
    """
    grown, pivots, length = 0.0, 1, np.sqrt(_dot(column, column))
    parts, change = np.empty(len(x) + 1), np.empty(len(x) + 1)
    while True:
        outside = _project(column, q, size, parts)
        rho = np.sqrt(_dot(outside, outside))
        _solve_upper(r, size, parts, change)
        # Two steps compete: `full` makes the constraint active, `room` takes the multiplier of an
        # active one to zero (t_2 and t_1 of Goldfarb and Idnani).
        full = lam * violation / (rho * rho) if rho > _DEPENDENT * length else np.inf
        # In a full basis one column must leave before another enters.
        if size == len(x):
            full = np.inf
        leaving, step = -1, full
        for slot in range(size):
            if change[slot] > 0:
                room = max(x[slot], 0.0) / change[slot]
                if room < step:
                    leaving, step = slot, room
        if step == np.inf:
            return size, -pivots
        for slot in range(size):
            x[slot] -= step * change[slot]
        grown += step
        # Where the column depends on the basis, y cannot move and only multipliers change.
        if full < np.inf:
            share = step / lam
            for at in range(len(y)):
                y[at] -= share * outside[at]
            violation -= share * rho * rho
        if leaving < 0:
            break
        size = _leave(basis, signs, x, q, r, size, leaving)
        pivots += 1
    # The orthogonal part, scaled to length 1, is the new row of q.
    for at in range(len(y)):
        q[size, at] = outside[at] / rho
    for slot in range(size):
        r[slot, size], r[size, slot] = parts[slot], 0
    r[size, size], x[size] = rho, grown
    return size + 1, pivots


@compiled
def _project(
    column: NDArray[np.float64],
    q: NDArray[np.float64],
    size: int,
    parts: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Writes q column into `parts`, (size,); returns the part orthogonal to q, (d,)."""
    outside = column.copy()
    parts[:size] = 0
    for _ in range(2):  # a second projection makes it orthogonal to working accuracy [Parlett 1980]
        for slot in range(size):
            part = 0.0
            for at in range(len(column)):
                part += q[slot, at] * outside[at]
            for at in range(len(column)):
                outside[at] -= part * q[slot, at]
            parts[slot] += part
    return outside


@compiled
def _solve_upper(
    r: NDArray[np.float64],
    size: int,
    right: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Writes the solution of r out = right."""
    for slot in range(size - 1, -1, -1):
        total = right[slot]
        for other in range(slot + 1, size):
            total -= r[slot, other] * out[other]
        out[slot] = total / r[slot, slot]


@compiled
def _leave(
    basis: NDArray[np.int64],
    signs: NDArray[np.float64],
    x: NDArray[np.float64],
    q: NDArray[np.float64],
    r: NDArray[np.float64],
    size: int,
    leaving: int,
) -> int:
    """Removes a column from the basis by rotations; returns the new size."""
    for slot in range(leaving, size - 1):
        basis[slot], signs[slot], x[slot] = basis[slot + 1], signs[slot + 1], x[slot + 1]
    # Later columns move one place to the left, which leaves entries below the diagonal of r.
    for row in range(size):
        for slot in range(max(leaving, row - 1), size - 1):
            r[row, slot] = r[row, slot + 1]
    # Givens rotations remove them. The same rotations of q keep r^T q unchanged.
    for row in range(leaving, size - 1):
        one, two = r[row, row], r[row + 1, row]
        length = np.hypot(one, two)
        cosine, sine = one / length, two / length
        for slot in range(row, size - 1):
            upper, lower = r[row, slot], r[row + 1, slot]
            r[row, slot] = cosine * upper + sine * lower
            r[row + 1, slot] = cosine * lower - sine * upper
        r[row + 1, row] = 0
        for at in range(q.shape[1]):
            upper, lower = q[row, at], q[row + 1, at]
            q[row, at] = cosine * upper + sine * lower
            q[row + 1, at] = cosine * lower - sine * upper
    return size - 1


@compiled
def _settle(
    target: NDArray[np.float64],
    lam: float,
    basis: NDArray[np.int64],
    signs: NDArray[np.float64],
    x: NDArray[np.float64],
    q: NDArray[np.float64],
    r: NDArray[np.float64],
    y: NDArray[np.float64],
    size: int,
) -> int:
    """Moves x to the minimum over the basis, and y with it; returns the new size.

    Columns whose coefficient reaches zero on the way leave.
    """
    goal, ones, parts = np.empty(len(x)), np.empty(len(x)), np.empty(len(x))
    # The minimum solves S^T S x = S^T b - lam 1, that is r x = q b - lam r^-T 1.
    while True:
        for slot in range(size):  # r^T ones = 1
            total = 1.0
            for other in range(slot):
                total -= r[other, slot] * ones[other]
            ones[slot] = total / r[slot, slot]
        outside = _project(target, q, size, parts)
        for slot in range(size):
            parts[slot] -= lam * ones[slot]
        _solve_upper(r, size, parts, goal)
        leaving, step = -1, 1.0
        for slot in range(size):
            if goal[slot] <= 0:
                # Share of the way at which the coefficient is zero; 1e-300 avoids 0 / 0.
                room = max(x[slot], 0.0) / (max(x[slot], 0.0) - goal[slot] + 1e-300)
                if leaving < 0 or room < step:
                    leaving, step = slot, room
        for slot in range(size):
            x[slot] += step * (goal[slot] - x[slot])
        if leaving < 0:
            break
        size = _leave(basis, signs, x, q, r, size, leaving)
    # y = (b - S x) / lam = outside / lam + q^T r^-T 1. A basis of d columns has no outside.
    for at in range(len(y)):
        y[at] = outside[at] / lam if size < len(target) else 0.0
    for slot in range(size):
        for at in range(len(y)):
            y[at] += ones[slot] * q[slot, at]
    return size
