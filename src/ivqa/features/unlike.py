"""Pictures that are unlike those a model was trained on, by their image features."""

import torch
from scipy.stats import betabinom
from torch import Tensor

_LEVEL = 0.01  # share of the training pictures at the limit or beyond
_BY_CHANCE = 0.99  # probability of at most as many unlike pictures if they are of the same kind


def number_unlike(training: Tensor, given: Tensor) -> int:
    """Counts pictures that lie farther from the training pictures than these lie from each other.

    The distance of a picture is the Euclidean one to its nearest training picture. Features are
    standardised by the training pictures. A picture is unlike them if its distance is above the
    99th percentile of their own. Pictures of the same kind pass it too; how many, has a
    beta-binomial distribution (the exceedances of Gumbel and von Schelling, 1950).

    Args:
        training: Features of N >= 2 training pictures, (N, d).
        given: Features of M >= 1 other pictures, (M, d).

    Returns:
        The number of unlike pictures; 0 if chance alone explains it, at a level of 1 percent.

    Example:
        >>> apart = torch.arange(200.0)[:, None]
        >>> number_unlike(apart, torch.tensor([[100.5], [-70.0], [900.0]]))
        2
    """
    mean, deviation = training.mean(dim=0), training.std(dim=0)
    varies = deviation > 0
    training, given = (((one - mean) / deviation)[:, varies].double() for one in (training, given))
    own = torch.cdist(training, training)
    own.fill_diagonal_(torch.inf)
    beyond = max(1, int(_LEVEL * len(training)))  # rank of the limit from the largest distance
    limit = own.amin(dim=1).sort(descending=True).values[beyond - 1]
    unlike = int((torch.cdist(given, training).amin(dim=1) > limit).sum())
    chance = betabinom.ppf(_BY_CHANCE, len(given), beyond, len(training) - beyond + 1)
    return unlike if unlike > chance else 0
