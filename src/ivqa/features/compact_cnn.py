"""A small convolutional network that predicts concepts; equations and shapes only."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Positions of the coarse map that the global vector reads: it must know what is where.
_COARSE = 4


class CompactCNN(nn.Module):
    """Concept logits from an image, with a grid and a pooled vector on the way.

    grid    G = five convolutions of the image, stride 8 in all            (B, L, d)
    pooled  g = ReLU(W_g [G averaged over 4 x 4 cells])                    (B, d_g)
    logits  l_c = log mean_i exp(w_c G_i) + u_c g                          (B, C)

    The first term of a logit is a smooth maximum over positions, for things however small; the
    second sees where things are, for concepts such as "star left".

    num_concepts: C. width: d. pooled_size: d_g.
    """

    def __init__(self, *, num_concepts: int, width: int = 128, pooled_size: int = 256) -> None:
        super().__init__()
        self.grid_size, self.pooled_size, self.num_concepts = width, pooled_size, num_concepts
        sizes = (3, width // 4, width // 2, width, width, width)
        strides, kernels = (2, 2, 2, 1, 1), (5, 3, 3, 3, 3)
        layers: list[nn.Module] = []
        for before, after, stride, kernel in zip(sizes, sizes[1:], strides, kernels, strict=False):
            layers += [
                nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(),
            ]
        self.convolutions = nn.Sequential(*layers)
        self.pooled = nn.Linear(width * _COARSE**2, pooled_size)
        self.local = nn.Linear(width, num_concepts)
        self.overall = nn.Linear(pooled_size, num_concepts, bias=False)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(grid (B, L, d), pooled (B, d_g), logits (B, C)) of images (B, 3, H, W), RGB in [0, 1]."""
        maps = self.convolutions((images - 0.5) / 0.25)  # (B, d, H / 8, W / 8)
        grid = maps.flatten(2).transpose(1, 2)  # (B, L, d)
        coarse = F.adaptive_avg_pool2d(maps, _COARSE).flatten(1)  # (B, 16 d)
        pooled = self.pooled(coarse).relu()
        scores = self.local(grid)  # (B, L, C)
        smooth_maximum = torch.logsumexp(scores, dim=1) - math.log(scores.shape[1])
        return grid, pooled, smooth_maximum + self.overall(pooled)
