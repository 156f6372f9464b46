"""A compact convolutional network that predicts the concepts of an image."""

import math

import torch
from torch import Tensor, nn

# The initial bias of the logits, a probability of 0.12: most concepts are absent from most images,
# and the network need not learn that in the first epoch.
_INITIAL_BIAS = -2.0


class CompactCNN(nn.Module):
    """Predicts concept logits from an image, through a grid of features.

    grid    G = five convolutions of the image, total stride 8             (B, L, d)
    pooled  g = [mean_i G_i ; max_i G_i]                                   (B, 2 d)
    logits  l_c = log mean_i exp(w_c G_i + b_c)                            (B, C)

    A logit is a smooth maximum over the positions i, the log-sum-exp pooling of Pinheiro and
    Collobert (CVPR 2015) with r = 1: a small thing counts as much as a large one, and the features
    of its position learn to represent it. A second path from a global vector to the logits was
    tried: it overfits and halves the precision of shapes.

    Args:
        num_concepts: The number C of concepts.
        width: The number d of channels of the grid, a multiple of 4.
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
        nn.init.constant_(self.local.bias, _INITIAL_BIAS)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Computes features and concept logits of RGB images (B, 3, H, W) in [0, 1].

        Returns:
            The grid (B, L, d), the pooled vector (B, 2 d) and the logits (B, C), where L is
            ceil(H / 8) * ceil(W / 8).
        """
        # The scaling brings the pixels to mean 0 and deviation 1, approximately.
        maps = self.convolutions((images - 0.5) / 0.25)  # (B, d, H / 8, W / 8)
        grid = maps.flatten(2).transpose(1, 2)  # (B, L, d)
        pooled = torch.cat([grid.mean(dim=1), grid.amax(dim=1)], dim=1)
        scores = self.local(grid)  # (B, L, C)
        logits = torch.logsumexp(scores, dim=1) - math.log(scores.shape[1])  # (B, C)
        return grid, pooled, logits
