"""The LASSO inside a working set, solved exactly by an active-set method in compiled code.

It minimises 1/2 x^T G x - c^T x + lam |x|_1 over the p columns of a working set. The active set
holds the variables with x != 0 (they are "inside"). A variable outside enters: it grows from zero
until its gradient is lam, while the variables inside move so that they stay optimal. A variable
inside that reaches zero on the way leaves. The inverse of G over the variables inside is kept by
updates of rank one.

Threads that call these functions run in parallel.
"""

from typing import NamedTuple

import numpy as np

from ivqa.lasso.column_products import SLACK
from ivqa.lasso.compiling import Floats, Ints, compiled

# Variables that enter before the solver computes all gradients again.
_ENTERING = 16
# Rounds of entering variables. If more seem necessary, rounding keeps x from the minimum.
_MAX_ROUNDS = 60
# A column depends on those inside where its curvature is at most this share of its squared norm:
# about 50 roundings of float64.
_DEPENDENT = 1e-14
# Newton steps that correct rounding in each round.
_MAX_REFINEMENTS = 3
# The step, counted from 0, that computes the inverse again: two with the old one did not converge.
_REFINEMENT_WITH_NEW_INVERSE = 2
# Refinement ends where gradients inside differ from lam by at most this share of the tolerance.
_REFINED = 0.1


class _Basis(NamedTuple):
    """The variables inside, and the inverse of their Gram matrix.

    Of p columns: their Gram matrix `gram`; `inside` (p,), of which the first `size` are the
    variables inside; `inverse`, that of the Gram matrix of these in their order, in its first rows
    and columns; `change` (p,), the direction in which x inside moves, one number a slot; and a
    buffer (p,).
    """

    gram: Floats
    inside: Ints
    inverse: Floats
    change: Floats
    column: Floats


@compiled
def solve_active_set(
    gram: Floats,
    gradient: Floats,
    lam: float,
    positive: bool,
    x: Floats,
    inside: Ints,
    inverse: Floats,
    size: int,
) -> int:
    """Solves in place, starting from the given x.

    Args:
        gram: G in its first p rows and columns.
        gradient: c - G x, (p,), updated.
        lam: Weight of |x|_1.
        positive: Whether x >= 0; otherwise signs are free.
        x: (p,), updated.
        inside: (p,), of which the first `size` are the variables with x != 0; updated.
        inverse: The inverse of G over these in their order, in its first rows and columns; updated.
        size: Variables inside.

    Returns:
        The new number of variables inside.
    """
    count, limit = len(gradient), lam * (1 + SLACK)
    basis = _Basis(gram, inside, inverse, np.empty(count), np.empty(count))
    target = _linear_term(basis, gradient, x, size)
    key, signs = np.empty(count), np.sign(x)
    size = _settle(basis, target, lam, x, signs, size)
    for _ in range(_MAX_ROUNDS):
        _refine(basis, target, lam, x, signs, size, gradient)
        # How much each variable violates the optimality conditions. Those inside meet them, so they
        # get 0.
        for at in range(count):
            key[at] = gradient[at] if positive else abs(gradient[at])
        for slot in range(size):
            key[inside[slot]] = 0
        if key.max() <= limit:
            break
        for _ in range(_ENTERING):
            entering = int(key.argmax())
            if key[entering] <= limit:
                break
            key[entering] = 0
            # `gradient` is stale once a variable has entered, so the slope of this one is computed
            # again: one product of length `size` instead of the whole matrix.
            slope = target[entering]
            for slot in range(size):
                slope -= gram[entering, inside[slot]] * x[inside[slot]]
            if (slope if positive else abs(slope)) > limit:
                size = _enter(basis, lam, x, signs, size, entering, slope)
    # Refinement does not watch for coefficients that cross zero.
    return _remove_wrong_signs(basis, x, signs, size)


@compiled
def _linear_term(basis: _Basis, gradient: Floats, x: Floats, size: int) -> Floats:
    """The vector c (p,) from the gradient c - G x."""
    gram, inside = basis.gram, basis.inside
    target = gradient.copy()
    for slot in range(size):
        row, weight = inside[slot], x[inside[slot]]
        for at in range(len(target)):  # G is symmetric
            target[at] += gram[row, at] * weight
    return target


@compiled
def _remove_wrong_signs(basis: _Basis, x: Floats, signs: Floats, size: int) -> int:
    """Removes the variables that refinement moved to zero or beyond; returns the new size."""
    inside = basis.inside
    for slot in range(size - 1, -1, -1):
        if x[inside[slot]] * signs[inside[slot]] <= 0:
            _leave(basis, x, signs, size, slot)
            size -= 1
    return size


@compiled
def invert_gram(gram: Floats, inside: Ints, inverse: Floats) -> None:
    """Writes the inverse of G over the variables inside (s,), built one variable at a time.

    G stands in the first p rows and columns of `gram`, the inverse in the first s of `inverse`. A
    variable whose column depends on those before it gets zeros.
    """
    basis = _Basis(gram, inside, inverse, np.empty(len(inside)), np.empty(len(inside)))
    for size in range(len(inside)):
        # Bordering: with v = (-inverse g, 1) and the Schur complement s = G_jj - g^T inverse g, the
        # new inverse is the old one, padded with zeros, plus v v^T / s.
        curvature = _entering_direction(basis, size, inside[size], 1.0)
        dependent = _DEPENDENT * gram[inside[size], inside[size]]
        _append(basis, size, 1.0, 1 / curvature if curvature > dependent else 0.0)


@compiled
def _entering_direction(basis: _Basis, size: int, entering: int, sign: float) -> float:
    """Writes the change of x inside for a unit of |x_entering|; returns the curvature."""
    gram, inside, inverse, change, column = basis
    for slot in range(size):
        column[slot] = gram[entering, inside[slot]]
    _times(inverse, size, column, change)
    # The second derivative of the objective along this direction: the Schur complement.
    curvature = gram[entering, entering]
    for slot in range(size):
        curvature -= column[slot] * change[slot]
        change[slot] *= -sign
    return curvature


@compiled
def _times(matrix: Floats, size: int, vector: Floats, out: Floats) -> None:
    """Writes the product of a matrix's first `size` rows and columns with a vector."""
    for row in range(size):
        total = 0.0
        for at in range(size):
            total += matrix[row, at] * vector[at]
        out[row] = total


@compiled
def _append(basis: _Basis, size: int, sign: float, weight: float) -> None:
    """Extends the inverse by a variable behind those inside."""
    inverse, change = basis.inverse, basis.change
    change[size] = sign
    for at in range(size + 1):
        inverse[size, at] = 0
        inverse[at, size] = 0
    _add_square(inverse, size + 1, change, weight)


@compiled
def _add_square(inverse: Floats, size: int, vector: Floats, weight: float) -> None:
    """Adds weight * vector vector^T to a matrix's first `size` rows and columns."""
    for row in range(size):
        factor = weight * vector[row]
        for at in range(size):
            inverse[row, at] += factor * vector[at]


@compiled
def _enter(
    basis: _Basis, lam: float, x: Floats, signs: Floats, size: int, entering: int, slope: float
) -> int:
    """Grows |x_entering| until its gradient, `slope` at first, is lam; returns the new size."""
    sign, excess = np.sign(slope), abs(slope) - lam
    curvature = _entering_direction(basis, size, entering, sign)
    grown, dependent = 0.0, _DEPENDENT * basis.gram[entering, entering]
    # Along `change` the entering gradient falls by `curvature` a unit. Each round ends at the first
    # event: the gradient reaches lam, or a variable inside reaches zero.
    while True:
        first, room = _first_to_zero(basis, x, signs, size)
        reach = excess / curvature if curvature > dependent else np.inf
        if reach <= room:
            break
        _move(basis, x, size, room)
        grown += room
        excess -= room * curvature
        # One variable fewer compensates for the entering one, so the curvature increases.
        curvature += _leave(basis, x, signs, size, first)
        size -= 1
    if reach == np.inf:
        return size  # flat direction without a limit: the column adds nothing to those inside
    _move(basis, x, size, reach)
    x[entering], signs[entering] = sign * (grown + reach), sign
    basis.inside[size] = entering
    _append(basis, size, sign, 1 / curvature)
    return size + 1


@compiled
def _first_to_zero(basis: _Basis, x: Floats, signs: Floats, size: int) -> tuple[int, float]:
    """The slot that reaches zero first along `change`, and the step to it; -1 and inf if none."""
    inside, change = basis.inside, basis.change
    first, room = -1, np.inf
    for slot in range(size):
        at = inside[slot]
        if signs[at] * change[slot] < 0:
            # Rounding may leave x slightly beyond zero; the step is then 0 and not negative.
            step = max(-x[at] / change[slot], 0.0)
            if step < room:
                first, room = slot, step
    return first, room


@compiled
def _move(basis: _Basis, x: Floats, size: int, step: float) -> None:
    """Moves the variables inside by `step` along `change`."""
    inside, change = basis.inside, basis.change
    for slot in range(size):
        x[inside[slot]] += step * change[slot]


@compiled
def _leave(basis: _Basis, x: Floats, signs: Floats, size: int, leaving: int) -> float:
    """Removes a variable; the last one moves into its slot, and `change` is corrected.

    Returns the increase of the curvature.
    """
    _, inside, inverse, change, column = basis
    for slot in range(size):
        # inverse - column column^T / pivot is zero in the row and column of the leaving variable,
        # and the inverse of the smaller G elsewhere. `change` is corrected by the same formula.
        column[slot] = inverse[slot, leaving]
    pivot = column[leaving]
    share = change[leaving] / pivot
    _add_square(inverse, size, column, -1 / pivot)
    for slot in range(size):
        change[slot] -= share * column[slot]
    x[inside[leaving]], signs[inside[leaving]] = 0, 0
    # The last variable fills the free slot, so that those inside stay contiguous.
    last = size - 1
    inside[leaving], change[leaving] = inside[last], change[last]
    for slot in range(size):
        inverse[leaving, slot] = inverse[last, slot]
    for slot in range(size):
        inverse[slot, leaving] = inverse[slot, last]
    return share * share * pivot


@compiled
def _settle(basis: _Basis, target: Floats, lam: float, x: Floats, signs: Floats, size: int) -> int:
    """Moves to the minimum over the variables inside; returns the new size.

    Variables that reach zero on the way leave.
    """
    gram, inside, inverse, change, column = basis
    # One Newton step, inverse (c - lam sign(x) - G x), ends at the minimum for these signs.
    for slot in range(size):
        at = inside[slot]
        total = target[at] - lam * signs[at]
        for other in range(size):
            total -= gram[at, inside[other]] * x[inside[other]]
        column[slot] = total
    _times(inverse, size, column, change)
    while True:
        first, room = _first_to_zero(basis, x, signs, size)
        if room >= 1:
            break
        _move(basis, x, size, room)
        # The part of the step that remains; _leave redirects it.
        for slot in range(size):
            change[slot] *= 1 - room
        _leave(basis, x, signs, size, first)
        size -= 1
    _move(basis, x, size, 1.0)
    return size


@compiled
def _refine(
    basis: _Basis, target: Floats, lam: float, x: Floats, signs: Floats, size: int, gradient: Floats
) -> None:
    """Corrects rounding by Newton steps over the variables inside.

    It computes the inverse again where the steps do not converge, and writes the gradient c - G x,
    (p,).
    """
    gram, inside, inverse, change, column = basis
    for attempt in range(_MAX_REFINEMENTS + 1):
        gradient[:] = target
        for slot in range(size):
            row, weight = inside[slot], x[inside[slot]]
            for at in range(len(target)):  # G is symmetric
                gradient[at] -= gram[row, at] * weight
        worst = 0.0
        for slot in range(size):
            column[slot] = gradient[inside[slot]] - lam * signs[inside[slot]]
            worst = max(worst, abs(column[slot]))
        if worst <= _REFINED * SLACK * lam or attempt == _MAX_REFINEMENTS:
            break
        if attempt == _REFINEMENT_WITH_NEW_INVERSE:
            invert_gram(gram, inside[:size], inverse)
        _times(inverse, size, column, change)
        _move(basis, x, size, 1.0)
