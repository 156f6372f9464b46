"""The solver for a GPU, on tensors of the processor: optimal, as on the processor, few waits."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from lasso_pools import KINDS, clustered, isotropic, objective_and_bound, unit
from numpy.typing import NDArray
from scipy.optimize import nnls
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from ivqa.lasso import LassoSolver, SolverSettings, batched_solver
from ivqa.lasso.batched_solver import BatchedSolver, _line_search, batched_minimum
from ivqa.lasso.pool_products import PoolProducts
from ivqa.lasso.screening import Screening
from ivqa.lasso.working_set import WorkingSet

MODES = {"non-negative": (True, False), "signed": (False, False), "published": (False, True)}


def _solver(pool: NDArray, lam: float, positive: bool, **options: Any) -> LassoSolver:
    """A solver that solves as on a GPU, on the processor."""
    solver = LassoSolver(pool, lam, positive, on_uncertified="error", **options)
    solver._batched = BatchedSolver(solver.pool, solver._screening, "cpu", solver.tolerance)
    return solver


def _solutions(solver: LassoSolver, vectors: NDArray) -> tuple[NDArray, NDArray, int]:
    """The whole x (B, N), the gaps (B,), and the passes over the pool."""
    assert solver._batched is not None
    targets = torch.from_numpy(vectors.astype(np.float64))
    targets -= targets.mean(dim=1, keepdim=True) if solver.intercept else 0
    nothing = torch.zeros(len(targets), 0, dtype=torch.int64)
    x, gaps, most = np.zeros((len(targets), len(solver.pool))), np.ones(len(targets)), 0
    for done, passes in solver._batched.solve(targets, nothing, 5):
        gaps[done.number], most = done.gap, passes
        for row, columns, weights in zip(done.number, done.columns, done.weights, strict=True):
            used = columns >= 0
            np.add.at(x[row], columns[used].numpy(), weights[used].numpy())
    return x, gaps, most


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("lam", [1e-8, 1e-3, 0.3])
@pytest.mark.parametrize("rows", [12, 60])  # fewer and more than the 40 variables
def test_minima_of_working_sets_are_optimal_from_any_start(
    rows: int, lam: float, positive: bool
) -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(6, rows, 40)) + rng.normal(size=(6, rows, 1))
    columns = torch.from_numpy(columns / np.linalg.norm(columns, axis=1, keepdims=True))
    target = columns[:, :, :3].sum(dim=2) + torch.from_numpy(rng.normal(size=(6, rows)))
    gram, linear = columns.mT @ columns, (columns.mT @ target[:, :, None])[:, :, 0]
    allowed = torch.ones(6, 40, dtype=torch.bool)
    allowed[:, 30:] = False
    x = torch.zeros(6, 40, dtype=torch.float64)
    for weight in (0.1, lam):  # the solution for another lam is a start as well
        gradient = linear - (gram @ x[:, :, None])[:, :, 0]
        lams = torch.full((6,), weight, dtype=torch.float64)
        x = batched_minimum(gram, gradient, lams, x, allowed, positive=positive)
    gradient = linear - (gram @ x[:, :, None])[:, :, 0]
    assert (x[:, 30:] == 0).all()
    assert not positive or (x >= 0).all()
    key = gradient if positive else gradient.abs()
    assert (key[:, :30] <= lam * (1 + 1e-6) + 1e-14).all()
    assert ((gradient - lam * x.sign()).abs()[x != 0] <= 1e-6 * lam + 1e-14).all()
    assert (x != 0).any() or lam > 0.1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lam", [1e-8, 1e-3, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_solutions_are_optimal(kind: str, lam: float, mode: str) -> None:
    """By a certificate that is computed from x alone."""
    positive, intercept = MODES[mode]
    rng = np.random.default_rng(int(-np.log10(lam)))
    pool, vectors = KINDS[kind](150, 16, rng), KINDS[kind](3, 16, rng)
    vectors = unit(vectors + 0.07 * rng.normal(size=vectors.shape))
    x, gaps, _ = _solutions(_solver(pool, lam, positive, intercept=intercept), vectors)
    assert (gaps <= 1e-6).all()
    for row, vector in enumerate(vectors):
        objective, bound = objective_and_bound(pool, vector, x[row], lam, positive, intercept)
        assert objective - bound <= 2e-6 * objective
        assert not positive or (x[row] >= 0).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lam", [1e-6, 1e-2])
def test_rankings_are_those_of_the_processor(
    mode: str, lam: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    positive, intercept = MODES[mode]
    rng = np.random.default_rng(1)
    pool = clustered(400, 24, rng)
    vectors = np.concatenate([clustered(5, 24, rng), pool[:2], np.zeros((1, 24), np.float32)])
    exclude = [[]] * 5 + [[0, 3], [1], [5]]  # two questions are in the pool themselves
    options = {"intercept": intercept, "settings": SolverSettings(batch_size=7)}
    expected = LassoSolver(pool, lam, positive, intercept=intercept).rank(vectors, 30, exclude)
    solver = _solver(pool, lam, positive, **options)
    # Chunks of the pool and parts of a batch change nothing.
    monkeypatch.setattr(batched_solver, "_PRODUCTS", 24 * 101)
    monkeypatch.setattr(batched_solver, "_GATHERED", 24 * 300)
    monkeypatch.setattr(WorkingSet, "improve", None)  # no step is one of the processor
    found = solver.rank(vectors, 30, exclude)
    np.testing.assert_array_equal(found.support, expected.support)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6, atol=1e-6)
    for row, support in enumerate(found.support):
        ours, others = found.indices[row], expected.indices[row]
        np.testing.assert_array_equal(ours[:support], others[:support])
        assert len(set(ours.tolist())) == 30
        assert not set(ours.tolist()) & set(exclude[row])
        if vectors[row].any():  # behind the support by correlation, whose rounding may differ
            assert len(set(ours.tolist()) & set(others.tolist())) >= 29
    assert (found.gap <= 1e-6).all()
    assert found.uncertified == 0 < found.rounds


@pytest.mark.parametrize("lam", [1e-6, 0.1])
def test_solutions_are_those_of_non_negative_least_squares(lam: float) -> None:
    rng = np.random.default_rng(2)
    pool, vectors = clustered(60, 80, rng), clustered(5, 80, rng)
    x, _, _ = _solutions(_solver(pool, lam, True), vectors)
    a = np.vstack([pool.T.astype(np.float64), np.zeros((1, 60))])
    for row, vector in enumerate(vectors.astype(np.float64)):
        # 1/2 |A x - b|^2 + lam 1^T x, with A^T A x <= A^T b - lam as the normal equations.
        shift = np.linalg.lstsq(a[:80].T, np.full(60, lam), rcond=None)[0]
        expected, _ = nnls(a[:80], vector - shift)
        np.testing.assert_allclose(x[row], expected, atol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_signed_solutions_are_those_of_scikit_learn(intercept: bool) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(3)
    pool, vectors = clustered(200, 48, rng), clustered(4, 48, rng)
    x, _, _ = _solutions(_solver(pool, 0.048, False, intercept=intercept), vectors)
    for row, vector in enumerate(vectors.astype(np.float64)):
        model = linear_model.Lasso(1e-3, tol=1e-14, max_iter=100_000, fit_intercept=intercept)
        expected = model.fit(pool.T.astype(np.float64), vector).coef_
        assert (expected < 0).any()
        np.testing.assert_allclose(x[row], expected, atol=1e-7)


@pytest.mark.parametrize("positive", [True, False])
def test_pools_smaller_than_a_working_set_and_empty_supports(positive: bool) -> None:
    pool = np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 3]]
    pool[4] = 0  # a zero vector never gets a score
    vectors = np.float32([[0.2, 0.9, 0.05, 0], [0.1, 0.05, -0.04, 0.02], [0, 0, 0, 0]])
    found = _solver(pool, 0.1, positive).rank(vectors, k=5)
    assert found.indices[0, :2].tolist() == [1, 0]
    np.testing.assert_allclose(found.scores[0], [0.8, 0.1, 0, 0, 0], atol=1e-7)
    assert found.support.tolist() == [2, 0, 0]
    # Behind the support by correlation with the residual, with their signs.
    assert found.indices[1].tolist() == [0, 1, 3, 4, 2]
    assert sorted(found.indices[2].tolist()) == [0, 1, 2, 3, 4]
    assert (found.gap <= 1e-6).all()


def test_negative_coefficients_come_last() -> None:
    pool = np.eye(4, dtype=np.float32)
    vectors = np.float32([[0.5, -0.9, 0.05, -0.7]])
    found = _solver(pool, 0.1, False).rank(vectors, k=4)
    assert found.indices.tolist() == [[0, 2, 3, 1]]
    np.testing.assert_allclose(found.scores, [[0.4, 0, 0, 0]], atol=1e-7)


@pytest.mark.parametrize(("positive", "noise"), [(True, 0), (True, 1e-4), (False, 1e-3)])
def test_columns_that_nearly_depend_on_each_other(positive: bool, noise: float) -> None:
    rng = np.random.default_rng(20)
    pool = isotropic(400, 12, rng) @ np.linalg.qr(rng.normal(size=(200, 12)))[0].T
    pool = (pool + noise * rng.normal(size=pool.shape)).astype(np.float32)
    vectors = clustered(4, 200, rng)
    x, gaps, _ = _solutions(_solver(pool, 1e-6, positive), vectors)
    assert (gaps <= 1e-6).all()
    for row, vector in enumerate(vectors):
        objective, bound = objective_and_bound(pool, vector, x[row], 1e-6, positive, False)
        assert objective - bound <= 2e-6 * objective


def _watched_formats(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """The number formats of all passes from here on."""
    formats, largest = list[torch.dtype](), BatchedSolver._largest

    def watched(self: BatchedSolver, *given: Any, magnitude: bool) -> tuple[Tensor, Tensor]:
        formats.append(given[3])
        return largest(self, *given, magnitude=magnitude)

    monkeypatch.setattr(BatchedSolver, "_largest", watched)
    return formats


@pytest.mark.parametrize("positive", [True, False])
def test_no_pass_certifies_beyond_its_error(
    positive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a large bound on the error of float32, only passes in float64 can certify."""
    rng = np.random.default_rng(6)
    pool, vectors = clustered(400, 24, rng), clustered(3, 24, rng)
    formats = _watched_formats(monkeypatch)
    _solutions(_solver(pool, 0.05, positive), vectors)
    assert set(formats) == {torch.float32}
    bound = PoolProducts.error_bound
    monkeypatch.setattr(PoolProducts, "error_bound", lambda *given: bound(*given) + 0.2)
    formats.clear()
    _, gaps, _ = _solutions(_solver(pool, 0.05, positive), vectors)
    assert formats[-1] == torch.float64
    assert (gaps <= 1e-6).all()


def test_a_coefficient_that_ends_at_zero_is_zero() -> None:
    """Where the objective increases all the way, the first one to reach zero leaves at once."""
    generator = torch.manual_seed(0)
    old = 0.01 + torch.rand(2000, 3, generator=generator).double()
    step = torch.tensor([[-1000.0, 1.0, -0.001]]).double() * old  # only the first changes its sign
    step = step * torch.rand(2000, 3, generator=generator).clamp_min(0.1)
    wrong = old + step <= 0
    square, right = torch.eye(3).double().expand(2000, 3, 3), -1e6 * step
    best = _line_search(square, right, old, step, torch.ones_like(old), wrong)
    assert (best == 0).tolist() == [[True, False, False]] * 2000


def test_float64_decides_what_rounding_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 300 copies of each column more correlations than listed are lam up to rounding."""
    rng = np.random.default_rng(4)
    pool, vectors = np.tile(isotropic(6, 16, rng), (300, 1)), isotropic(4, 16, rng)
    formats = _watched_formats(monkeypatch)
    settings = SolverSettings(screening=torch.bfloat16)
    x, gaps, _ = _solutions(_solver(pool, 1e-6, True, settings=settings), vectors)
    assert (gaps <= 1e-6).all()
    assert formats[:3] == [torch.bfloat16, torch.bfloat16, torch.float32]
    assert torch.float64 in formats[3:]
    once, _, _ = _solutions(_solver(pool[:6], 1e-6, True), vectors)
    np.testing.assert_allclose(x.reshape(4, 300, 6).sum(axis=1), once, atol=1e-7)


def test_the_processor_solves_what_is_uncertified(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    pool, vectors = clustered(400, 24, rng), clustered(5, 24, rng)
    expected = LassoSolver(pool, 1e-6).rank(vectors)
    improved, improve = set[int](), WorkingSet.improve

    def watched(self: WorkingSet, question: Any, *given: Any) -> None:
        improved.add(question.number)
        improve(self, question, *given)

    solver = _solver(pool, 1e-6, True, settings=SolverSettings(batch_size=3))
    _, _, passes = _solutions(solver, vectors)
    monkeypatch.setattr(batched_solver, "_MAX_ROUNDS", passes - 1)
    monkeypatch.setattr(WorkingSet, "improve", watched)
    found = solver.rank(vectors)
    assert 0 < len(improved) < 5
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
    assert found.uncertified == 0


def test_only_other_devices_than_the_processor_solve_in_batches() -> None:
    pool = isotropic(9, 4, np.random.default_rng(0))
    assert LassoSolver(pool)._batched is None
    batched = LassoSolver(pool, device="meta")._batched
    assert batched is not None
    assert batched.rows.device == batched.device == torch.device("meta")


def test_a_pool_that_does_not_fit_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = PoolProducts(np.ones((500, 4000), np.float32), centred=False)
    screening = Screening(pool, 0.1, positive=True, dtype=torch.float32)

    def full(*_: Any) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Tensor, "to", full)
    with pytest.raises(ValueError, match=r"pool of 0\.0 GB does not fit on cuda; use cpu"):
        BatchedSolver(pool, screening, "cuda", 1e-6)


class _Waits(TorchDispatchMode):
    """Counts what the host waits for; fake tensors have no values, so it makes them up."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[str]()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        indices = args[1] if name in ("index", "index_put_", "index_put") else []
        # An index of booleans is one with `nonzero`.
        assert not any(one is not None and one.dtype == torch.bool for one in indices)
        if name == "_local_scalar_dense":
            self.counts["value"] += 1
            return True if args[0].dtype == torch.bool else 3
        if name == "nonzero":
            self.counts["places"] += 1
            return torch.arange(len(args[0]), device=args[0].device)[:, None]
        if name == "_to_copy" and (kwargs or {}).get("device") == torch.device("cpu"):
            self.counts["copy"] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("size", [2, 200])
def test_the_host_waits_a_few_times_a_batch(
    size: int, positive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a device of fake tensors, which raise an error where one of the processor meets them."""
    rounds, steps = 3, 2
    monkeypatch.setattr(batched_solver, "_MAX_ROUNDS", rounds)
    monkeypatch.setattr(batched_solver, "_MAX_STEPS", steps)
    pool = PoolProducts(isotropic(300, 16, np.random.default_rng(0)), centred=True)
    screening = Screening(pool, 0.1, positive=positive, dtype=torch.bfloat16)
    assert pool._rounding > 0  # once a pool, on the processor
    with FakeTensorMode(), _Waits() as waits:
        pool.rows = torch.empty(300, 16)
        pool.__dict__["_sample"] = torch.empty(2, 16), torch.empty(2, 2)
        solver = BatchedSolver(pool, screening, "cuda", 1e-6)
        targets = torch.empty(size, 16, dtype=torch.float64)
        found = solver.rank(targets, torch.zeros(size, 2, dtype=torch.int64), 5)
    assert [one.shape[0] for one in found] == [size] * 5
    assert waits.counts["copy"] == 5  # the results
    # A pass: the widths of the lists and of the solutions, and whether rounding hides columns. A
    # step: the width of the active sets. At the end of free signs: whether a ranking is short.
    ends = 0 if positive else rounds + 1
    assert waits.counts["value"] == rounds * 2 + (rounds - 2) + rounds * steps + ends
    assert waits.counts["places"] == rounds * 2 + rounds * steps
