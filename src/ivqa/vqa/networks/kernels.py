"""Computations that are faster than the equations they stand for.

`benchmarks/plain_kernels.py` has the equations; tests compare both.

Step time with the reference version over step time with the fast one, on 2 cores with AVX-512 and
bfloat16, in one thread, at the sizes of conf/model (`python -m benchmarks kernels` measures it). A
training step has 64 questions about 63 images of 144 positions, in bfloat16; a search step scores
512 questions about 8 images in float32, as belief search does.

| kernels                          | model | training | search |
|----------------------------------|-------|---------:|-------:|
| repeat_images, matmul_by_image   | mlb   |     1.17 |    5.5 |
| repeat_images, matmul_by_image   | mutan |     1.02 |    4.1 |
| repeat_images, matmul_by_image   | n2nmn |     0.99 |    1.8 |
| fusion_scores                    | mutan |     1.49 |    7.6 |
| normalised_scores                | n2nmn |     2.44 |    5.7 |

A kernel that gains less than 1.3 in both columns is not worth its code. Five were removed, with
1.00 to 1.14 in training and at most 1.23 in search: tanh of bfloat16 through float32, tanh by
sigmoid in HieCoAtt, custom backward passes of products and of circular convolutions, and shared
spectra in MCB.
"""

import torch
from torch import Tensor, nn

# Added to the mean square in norm(), which would divide 0 by 0 for a vector of zeros.
TINY = 1e-8
# Rows with padding, as a multiple of those without, up to which padding is cheaper than repeating
# images: with sixteen times the rows, MLB's products take a third of the time of the copies.
_PADDING = 16


def repeat_images(values: Tensor, index: Tensor) -> tuple[Tensor, Tensor | None]:
    """The values of each question's image, where at most a few questions share an image.

    Otherwise, what follows is computed once an image instead of once a question. Features have no
    gradient, so where few questions share an image, it is cheaper to repeat the features than what
    is computed from them.

    Returns:
        values[index] and None, or `values` (M, ...) and `index` (B,) as they are.
    """
    if 2 * len(values) > len(index):
        return values.index_select(0, index), None
    return values, index


def matmul_by_image(left: Tensor, right: Tensor, index: Tensor | None) -> Tensor:
    """The matrix product (B, G, m) of each question with its image, left[b] @ right[index[b]].

    Questions about one image are multiplied with it together, so that the image need not be
    repeated for each of them. Where the images have very different numbers of questions, padding
    would cost more than repeating; then they are repeated.

    Args:
        left: Matrices of B questions, (B, G, n).
        right: Matrices of M images, (M, n, m).
        index: Image of each question, (B,) int64; None where image b belongs to question b.
    """
    if index is None:
        return _matmul(left, right)
    if 2 * len(right) > len(index):
        return _matmul(left, _repeated(right, index))
    used, index, counts = index.unique(return_inverse=True, return_counts=True)
    if len(used) < len(right):
        right = right.index_select(0, used)
    width = int(counts.max())  # questions of the image that has most
    if width * len(right) > _PADDING * len(index):
        return _matmul(left, _repeated(right, index))
    # Question b goes to row `slot[b]` of M blocks of `width` rows; unused rows stay 0.
    order = index.argsort(stable=True)
    earlier = (counts.cumsum(0) - counts)[index[order]]  # questions about the images before
    slot = torch.empty_like(index)
    slot[order] = index[order] * width + torch.arange(len(index), device=index.device) - earlier
    blocks = left.new_zeros(len(right) * width, *left.shape[1:]).index_copy(0, slot, left)
    products = torch.bmm(blocks.view(len(right), -1, left.shape[2]), right)  # (M, width G, m)
    return products.view(len(blocks), left.shape[1], -1).index_select(0, slot)


def fusion_scores(
    factors: Tensor, readout: Tensor, layer: nn.Linear, places: Tensor, index: Tensor | None
) -> Tensor:
    """Scores P^T z (B, G, L) of MUTAN's attention, z = sum_r (M_r q~) * (N_r v~ + n_r).

    Computes neither z (B, L, t) nor N_r v~ (B, L, R, t). The scores are linear in v~:
    P^T z = sum_r (P * M_r q~)^T N_r v~ + (P * M_r q~)^T n_r. The question's factors are multiplied
    with N_r first, which leaves one product with the places.

    Args:
        factors: M_r q~ of B questions, (B, R, t).
        readout: P^T, (G, t).
        layer: All N_r and n_r, a layer from h to R t.
        places: v~ of the positions of M images, (M, L, h).
        index: See `matmul_by_image`.
    """
    guided = (factors[:, None] * readout[:, None]).flatten(2)  # P * M_r q~, (B, G, R t)
    scores = matmul_by_image(guided @ layer.weight, places.mT, index)
    return scores + (guided @ layer.bias)[:, :, None]


def normalised_scores(
    guides: Tensor, project: nn.Linear, score: nn.Linear, x: Tensor, index: Tensor | None
) -> Tensor:
    """Scores w^T norm(W x * guide) + b of the modules of N2NMN, (B, G, L); norm gives norm sqrt(d).

    Computes no products W x * guide, (B, G, L, d). Their sums under w are linear in x, so the
    guides are multiplied with W first; their squared norms are products of the squares, (W x)^2 and
    guide^2.

    Args:
        guides: G guides of each of B questions, (B, G, d).
        project: W, a layer from d_x to d.
        score: w and b, a layer from d to 1.
        x: Positions of M images, (M, L, d_x).
        index: See `matmul_by_image`.
    """
    weighted = guides * score.weight  # (B, G, d)
    sums = matmul_by_image(weighted @ project.weight, x.mT, index)
    sums = sums + (weighted @ project.bias)[..., None]  # (B, G, L)
    squares = matmul_by_image(guides.square(), project(x).square().mT, index)
    return sums * (squares / guides.shape[2] + TINY).rsqrt() + score.bias


def _matmul(left: Tensor, right: Tensor) -> Tensor:
    """The product left @ right; transposed where the gradient of `right` is transposed in memory.

    The gradient then has the memory layout of `right`, which all backward passes before it read
    faster: 8 percent of a training step of MLB.
    """
    if right.requires_grad and right.mT.is_contiguous():
        return torch.bmm(right.mT, left.mT).mT
    return torch.bmm(left, right)


def _repeated(values: Tensor, index: Tensor) -> Tensor:
    """values[index]; a transposed tensor is copied in the order of its memory, which is faster."""
    if values.mT.is_contiguous():
        return values.mT.index_select(0, index).mT
    return values.index_select(0, index)
