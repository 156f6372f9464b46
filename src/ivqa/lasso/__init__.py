"""A certified solver for many LASSO problems over one large pool of columns.

The problem: minimise 1/2 |A x - b|^2 + lam |x|_1 for each of many vectors b, with x >= 0 or free
signs. A has up to hundreds of thousands of columns, the vectors of a pool, and is the same for all
problems.

The method: Each problem is solved exactly in a small working set of columns by an active-set
method. One product of the residuals with the whole pool, shared by up to 1,024 problems, finds the
columns that the working sets miss. That product may be in bfloat16; bounds on its rounding errors
tell which correlations have to be computed again in float64. A solution is finished when its
duality gap over the whole pool, the certificate, is at most 1e-6 of the objective. A problem that
is not finished after 300 passes ends with its gap, and `Ranking.uncertified` counts it. On a GPU
the same method runs in batches, with the pool and all steps on the device.

The package takes and returns arrays and imports nothing else of ivqa. Numeric constants, with their
reasons, stand beside the code that reads them; they were tuned on a CPU with two cores and pools of
40,000 to 186,027 sentence embeddings with 384 to 4,800 dimensions. None changes the meaning of a
certificate.

Example:
    >>> import numpy as np
    >>> from ivqa.lasso import LassoSolver
    >>> rng = np.random.default_rng(0)
    >>> pool = rng.normal(size=(1000, 64)).astype(np.float32)
    >>> pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    >>> b = 0.6 * pool[[7]] + 0.3 * pool[[500]]
    >>> ranking = LassoSolver(pool, lam=1e-3).rank(b, k=3)
    >>> ranking.indices[0, :2].tolist(), ranking.support.tolist()
    ([7, 500], [2])
    >>> ranking.scores[0].round(2)
    array([0.6, 0.3, 0. ], dtype=float32)
    >>> bool(ranking.gap[0] <= 1e-6)
    True
"""

from ivqa.lasso.certificate import TOLERANCE
from ivqa.lasso.ranking import OnUncertified, Ranking, UncertifiedError
from ivqa.lasso.solver import LassoSolver, SolverSettings

__all__ = [
    "TOLERANCE",
    "LassoSolver",
    "OnUncertified",
    "Ranking",
    "SolverSettings",
    "UncertifiedError",
]
