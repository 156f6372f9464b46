"""A small convolutional network that predicts concepts; equations and shapes only."""

import math

import torch
from torch import Tensor, nn

# Most concepts are absent from most images; starting there saves the first epoch.
_RARE = -2.0


class CompactCNN(nn.Module):
    """Concept logits from an image, with a grid and a pooled vector on the way.

    grid    G = five convolutions of the image, stride 8 in all            (B, L, d)
    pooled  g = [mean_i G_i ; max_i G_i]                                   (B, 2 d)
    logits  l_c = log mean_i exp(w_c G_i + b_c)                            (B, C)

    A logit is a smooth maximum over positions: a thing counts however small it is, and its
    position learns what is there. (A second path from a global vector to the logits was tried: it
    learns the data by heart and halves the precision on shapes.)

    num_concepts: C. width: d.
    """

    def __init__(self, *, num_concepts: int, width: int = 128) -> None:
        super().__init__()
        self.num_concepts = num_concepts
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
        self.local = nn.Linear(width, num_concepts)
        nn.init.constant_(self.local.bias, _RARE)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(grid (B, L, d), pooled (B, 2 d), logits (B, C)) of RGB images (B, 3, H, W) in [0, 1]."""
        maps = self.convolutions((images - 0.5) / 0.25)  # (B, d, H / 8, W / 8)
        grid = maps.flatten(2).transpose(1, 2)  # (B, L, d)
        pooled = torch.cat([grid.mean(dim=1), grid.amax(dim=1)], dim=1)
        scores = self.local(grid)  # (B, L, C)
        return grid, pooled, torch.logsumexp(scores, dim=1) - math.log(scores.shape[1])
