"""The peers of benchmarks.lasso, each in its own process so that it can be stopped.

`python -m benchmarks.lasso_peers PEER FOLDER LAM POSITIVE INTERCEPT` solves the main questions of
FOLDER (pool.npy, main.npy) and prints a line of JSON for each. The time is that of the loosest
tolerance whose solution has the required gap; attempts with looser ones are not counted.
"""

import importlib
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# (a, b, alpha, positive, intercept, tolerance) -> coefficients
Solver = Callable[[NDArray, NDArray, float, bool, bool, float], NDArray]

GAP = 1e-6


def peer_results(
    peer: str, folder: Path, *, lam: float, positive: bool, intercept: bool, seconds: float
) -> list[dict[str, Any]]:
    """Runs a peer for a limited time.

    Args:
        peer: A key of PEERS.
        folder: Holds pool.npy (N, d) and main.npy (B, d).
        lam: Weight of |x|_1.
        positive: Whether x >= 0.
        intercept: Whether vectors are centred.
        seconds: The time after which the peer is stopped.

    Returns:
        {"seconds", "gap", "primal"} of each main question that it solved.
    """
    module = "benchmarks.lasso_peers"
    arguments = [peer, str(folder), repr(lam), str(int(positive)), str(int(intercept))]
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
    return [json.loads(line) for line in text.splitlines()]


def relative_gap(
    a: NDArray, b: NDArray, x: NDArray, lam: float, positive: bool
) -> tuple[float, float]:
    """The relative duality gap over all columns in float64, and the primal.

    Args:
        a: All columns, (d, N), centred where the problem has an intercept.
        b: The main question, (d,), centred likewise.
        x: The solution, (N,).
        lam: Weight of |x|_1.
        positive: Whether x >= 0.
    """
    residual = b - a @ x
    correlations = a.T @ residual
    largest = correlations.max() if positive else np.abs(correlations).max()
    square, along = residual @ residual, b @ residual
    scale = min(max(along / square, 0), lam / max(largest, lam * 1e-6))
    primal = 0.5 * square + lam * np.abs(x).sum()
    return (primal - (scale * along - 0.5 * scale**2 * square)) / primal, primal


def _coordinate_descent(
    a: NDArray, b: NDArray, alpha: float, positive: bool, intercept: bool, tolerance: float
) -> NDArray:
    from sklearn.linear_model import Lasso

    sweeps = 1000 if tolerance == 1e-4 else 100_000  # its default, or enough to converge
    model = Lasso(alpha, positive=positive, fit_intercept=intercept, tol=tolerance, max_iter=sweeps)
    return model.fit(a, b).coef_


def _least_angle(
    a: NDArray, b: NDArray, alpha: float, positive: bool, intercept: bool, tolerance: float
) -> NDArray:
    from sklearn.linear_model import LassoLars

    model = LassoLars(alpha, positive=positive, fit_intercept=intercept, max_iter=10_000)
    return model.fit(a, b).coef_


def _working_sets(package: str) -> Solver:
    """The estimator of celer or skglm, which take the same arguments."""

    def solve(
        a: NDArray, b: NDArray, alpha: float, positive: bool, intercept: bool, tolerance: float
    ) -> NDArray:
        model = importlib.import_module(package).Lasso(
            alpha,
            positive=positive,
            fit_intercept=intercept,
            tol=tolerance,
            max_iter=500,
            max_epochs=100_000,
        )
        return model.fit(a, b).coef_

    return solve


def _nnls(
    a: NDArray, b: NDArray, alpha: float, positive: bool, intercept: bool, tolerance: float
) -> NDArray:
    from scipy.optimize import nnls

    return nnls(a, b)[0]


# The tolerances of a solver, loosest first: each defines them in its own way.
PEERS: dict[str, tuple[Solver, tuple[float, ...]]] = {
    "scikit-learn, defaults": (_coordinate_descent, (1e-4,)),
    "scikit-learn": (_coordinate_descent, (1e-7, 1e-9)),
    "scikit-learn LARS": (_least_angle, (0.0,)),
    "celer": (_working_sets("celer"), (1e-8, 1e-10, 1e-12)),
    "skglm": (_working_sets("skglm"), (1e-8, 1e-10, 1e-12, 1e-14, 1e-16)),
    "scipy nnls": (_nnls, (0.0,)),
}


def main(peer: str, folder: str, lam: str, positive: str, intercept: str) -> None:
    """Solves one main question after another until it is stopped."""
    warnings.filterwarnings("ignore")
    solve, tolerances = PEERS[peer]
    signs, centre, weight = bool(int(positive)), bool(int(intercept)), float(lam)
    pool = np.load(Path(folder) / "pool.npy")
    vectors = np.load(Path(folder) / "main.npy").astype(np.float64)
    # Column-major float64, as the solvers need it; scikit-learn divides the squared error by d.
    columns, alpha = pool.T.astype(np.float64), weight / pool.shape[1]
    del pool
    centred = columns - columns.mean(axis=0) if centre else columns
    solve(
        columns[:, :50], vectors[0], alpha, signs, centre, 1e-2
    )  # numba compiles before the timing starts
    level = 0
    for vector in vectors:
        target = vector - vector.mean() if centre else vector
        while True:
            start = time.perf_counter()
            found = solve(columns, vector, alpha, signs, centre, tolerances[level])
            seconds = time.perf_counter() - start
            gap, primal = relative_gap(centred, target, found, weight, signs)
            if gap <= GAP or level == len(tolerances) - 1:
                break
            level += 1
        print(json.dumps({"seconds": seconds, "gap": gap, "primal": primal}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
