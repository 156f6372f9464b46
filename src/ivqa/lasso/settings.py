"""Numeric constants of the solver, each with its reason.

Constants that compiled functions read stay beside these functions (`active_set`,
`column_products`, `orthogonal_basis`, `selection`), because numba fixes them when it compiles.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class SolverSettings:
    """Settings of the method; none of them changes the meaning of a certificate.

    The defaults were tuned on a CPU with two cores and pools of 40,000 to 186,027 sentence
    embeddings with 384 to 4,800 dimensions.

    Attributes:
        screening: Number format of the products that look for missed columns, float32 or bfloat16.
            None takes float32. bfloat16 is faster where the processor multiplies it. Correlations
            that its rounding leaves undecided are computed again in float64 or float32.
        batch_size: Questions that share a pass over the pool. More of them make better use of each
            chunk that is read, and need more memory.
        progress: Whether to show a progress bar.
        columns_per_pass: Columns that a pass over the pool adds to a question's candidates. None
            takes 1/512 of the pool, between `min_columns_per_pass` and `max_columns_per_pass`: a
            pass over a larger pool takes longer, so fewer passes with more columns are faster.
        min_columns_per_pass: Lower limit of the default.
        max_columns_per_pass: Upper limit of the default: the solver computes the gradients of all
            candidates after each step.
        screening_margin: How far below lam the correlation of a candidate may be, as a share of
            the residual's norm. Some of these columns exceed lam once others have entered.
        few_missed: Missed columns that are too few to matter: the next pass may be the last, so
            its products are computed as accurately as a certificate needs.
        few_missed_share: The same as a share of the columns in use; the larger number counts.
        certify_after_rounds: Passes after which every pass tries to certify.
        max_rounds_positive: Passes after which a question goes to the full basis where x >= 0. A
            question that needs so many has about as many columns as there are dimensions.
        max_rounds_signed: The same where signs are free. lam falls in steps there, and each step
            needs passes of its own.
        max_failures: Working sets that end without a solution of the required accuracy, after
            which a question goes to the full basis.
        lam_step: The factor by which lam falls from one step to the next where signs are free.
        max_listed: The longest ranking whose columns beyond the support come from the last pass.
            A question with a longer ranking gets one more product with the pool at its end.
        max_undecided: Correlations of a question that are computed again, one by one, where
            rounding hides whether they exceed lam. More of them need another pass.
        relisting_factor: How much longer the list gets where more correlations than listed are
            undecided in float32, as with many copies of a column.
        columns_per_step: Columns that enter the working set at a time.
        max_steps: Steps in the working set before the next pass over the pool.
        min_new_columns: New columns that are worth another step. Fewer can wait for the next
            pass, except while certifying.
        max_idle_steps: Steps without a new column after which the solver computes the Gram matrix
            in float64 or, if it has done so, restarts at x = 0.
        coarse_error: The tolerated error of gradients before certifying, as a share of the
            residual's norm.
        gram_float64_share: Columns, as a share of the dimensions, beyond which the Gram matrix is
            in float64: with so many columns it is too ill-conditioned for float32.
        ridge_float32: Relative increase of the diagonal of Gram matrices in float32, against
            columns that depend on each other. Gradients are exact, so it costs steps and no
            accuracy.
        ridge_float64: The same for Gram matrices in float64.
        full_basis_questions: Questions that share the float64 passes of the full basis. The
            solver collects as many before it starts.
        full_basis_rounds: Passes in the full basis after which a question ends with its gap.
        full_basis_lam_step: The factor by which lam falls from one step to the next there.
        full_basis_min_columns: Columns that a pass adds there: as many as there are dimensions,
            at least this number.
        full_basis_max_columns: Upper limit of the columns that a pass adds there.
        max_pivots_per_column: Pivots of a question, per column of the largest basis.
        max_multiplications: Multiplications of a question in the full basis. It limits the time
            of a question to minutes on one core.
        dependent_share: A column depends on the others of a first basis where its part orthogonal
            to them is at most this share of its norm. It is left out at first.
        cpu_chunk_bytes: Bytes of a chunk of the pool in bfloat16 on a CPU. Chunk and products stay
            in the processor's cache until the largest products are selected.
        cpu_product_bytes: Bytes of its products in float32.
        device_chunk_bytes: Like `cpu_chunk_bytes`, on other devices: larger products are faster
            there.
        device_product_bytes: Like `cpu_product_bytes`, on other devices.
        float64_chunk_bytes: Bytes of a chunk of the pool, and of its products, in float64.
        vectors_multiple_bfloat16: Vectors are padded with zeros to a multiple of this number.
            Other sizes take up to 1.5 times as long, and torch keeps a compiled bfloat16 product
            of several megabytes for every size.
        vectors_multiple_float32: The same in float32.
        rows_multiple: Rows of a chunk are a multiple of this number, for the same reasons.
        sample_divisor: The first pass correlates columns with the residual of a regression on a
            sample of the pool. The sample has as many rows as the pool has rows or dimensions,
            whichever is smaller, divided by this number.
        sample_ridge: Ridge of that regression, relative to the mean squared norm of its rows.
        float32_error: Error of a product in float32 relative to the norms of its factors: ten
            times the largest one observed.
        bfloat16_error: Error of a product in bfloat16 relative to the norms, at one dimension:
            four standard deviations. It falls with the root of the dimensions.
    """

    screening: torch.dtype | None = None
    batch_size: int = 1024
    progress: bool = False
    columns_per_pass: int | None = None
    min_columns_per_pass: int = 192
    max_columns_per_pass: int = 384
    screening_margin: float = 0.003
    few_missed: int = 4
    few_missed_share: float = 1 / 16
    certify_after_rounds: int = 20
    max_rounds_positive: int = 24
    max_rounds_signed: int = 100
    max_failures: int = 5
    lam_step: float = 3.0
    max_listed: int = 64
    max_undecided: int = 512
    relisting_factor: int = 16
    columns_per_step: int = 64
    max_steps: int = 20
    min_new_columns: int = 16
    max_idle_steps: int = 3
    coarse_error: float = 1e-5
    gram_float64_share: float = 0.5
    ridge_float32: float = 1e-6
    ridge_float64: float = 1e-13
    full_basis_questions: int = 128
    full_basis_rounds: int = 100
    full_basis_lam_step: float = 10.0
    full_basis_min_columns: int = 192
    full_basis_max_columns: int = 1024
    max_pivots_per_column: int = 1000
    max_multiplications: float = 5e11
    dependent_share: float = 1e-9
    cpu_chunk_bytes: int = 8 * 2**20
    cpu_product_bytes: int = 4 * 2**20
    device_chunk_bytes: int = 64 * 2**20
    device_product_bytes: int = 32 * 2**20
    float64_chunk_bytes: int = 16 * 2**20
    vectors_multiple_bfloat16: int = 64
    vectors_multiple_float32: int = 8
    rows_multiple: int = 64
    sample_divisor: int = 8
    sample_ridge: float = 1e-2
    float32_error: float = 5e-7
    bfloat16_error: float = 6e-3

    def columns_of_a_pass(self, pool_size: int) -> int:
        """Columns that a pass over the pool adds to a question's candidates.

        Args:
            pool_size: Columns of the pool.

        Example:
            >>> SolverSettings().columns_of_a_pass(150_000), SolverSettings().columns_of_a_pass(9)
            (292, 9)
        """
        default = max(self.min_columns_per_pass, pool_size // 512)
        columns = self.columns_per_pass or min(default, self.max_columns_per_pass)
        return min(columns, pool_size)

    def vectors_multiple(self, dtype: torch.dtype) -> int:
        """The number of vectors in a product is padded to a multiple of this number.

        Args:
            dtype: Number format of the product, float32 or bfloat16.
        """
        if dtype == torch.bfloat16:
            return self.vectors_multiple_bfloat16
        return self.vectors_multiple_float32

    def ridge(self, dtype: torch.dtype) -> float:
        """Relative increase of the diagonal of a Gram matrix.

        Args:
            dtype: Number format of the matrix, float32 or float64.
        """
        return self.ridge_float32 if dtype == torch.float32 else self.ridge_float64
