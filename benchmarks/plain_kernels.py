"""The equations of `ivqa.vqa.networks.kernels`, computed plainly.

Arguments and results are those of the functions of the same name there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.vqa.networks import kernels

NAMES = ("repeat_images", "matmul_by_image", "fusion_scores", "normalised_scores")


@contextmanager
def plain_kernels(*names: str) -> Iterator[None]:
    """Replaces kernels of `ivqa.vqa.networks.kernels` by the plain functions of the same name."""
    with mock.patch.dict(vars(kernels), {name: globals()[name] for name in names}):
        yield


def repeat_images(values: Tensor, index: Tensor) -> tuple[Tensor, Tensor | None]:
    """The values of each question's image."""
    return values.index_select(0, index), None


def matmul_by_image(left: Tensor, right: Tensor, index: Tensor | None) -> Tensor:
    """The matrix product of each question with its image, left[b] @ right[index[b]]."""
    return torch.bmm(left, right if index is None else right[index])


def fusion_scores(
    factors: Tensor, readout: Tensor, layer: nn.Linear, places: Tensor, index: Tensor | None
) -> Tensor:
    """Scores P^T z of MUTAN's attention, z = sum_r (M_r q~) * (N_r v~ + n_r)."""
    places = places if index is None else places[index]
    fused = (factors[:, None] * layer(places).unflatten(2, factors.shape[1:])).sum(dim=2)  # z
    return F.linear(fused, readout).mT


def normalised_scores(
    guides: Tensor, project: nn.Linear, score: nn.Linear, x: Tensor, index: Tensor | None
) -> Tensor:
    """Scores w^T norm(W x * guide) + b of the modules of N2NMN; norm() gives l2 norm sqrt(d)."""
    projected = project(x if index is None else x[index])  # W x, (B, L, d)
    joint = projected[:, None] * guides[:, :, None]  # (B, G, L, d)
    scale = (joint.square().mean(dim=3, keepdim=True) + kernels.TINY).rsqrt()
    return score(joint * scale)[..., 0]
