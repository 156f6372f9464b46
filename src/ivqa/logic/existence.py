"""Which things a picture shows, from noisy answers about them: a Bayesian network and its EM.

A proposition is true or false in a picture ("there is a red star"). It is true only if its parents
are ("there is a star", "there is a red thing"). Reports say something about it, each with error
rates of its own kind. Prior and error rates are estimated without labels, as in Dawid and Skene
(Applied Statistics 1979), here with the logical constraints of Platanios et al. (NIPS 2017).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_BINS = 12  # of the values of a report; each has its own rates
_SMOOTHING = 5.0  # reports that the rates of a bin start from
_PRIOR = 2.0  # propositions that a prior starts from
_ITERATIONS = 60  # of EM; in simulations, 150 change the mean probability by less than 0.01
_SWEEPS = 15  # of belief propagation
_DAMPING = 0.3  # share of the old message, against oscillation in loops


@dataclass(frozen=True, eq=False)
class Propositions:
    """K propositions about all pictures, and what is reported of them.

    Args:
        kinds: Kind of each, (K,) integers >= 0; one prior for each kind.
        reports: Values (K, V) of V kinds of reports, the greater the more for it; NaN where there
            is none. The first is the log-odds that the model itself gives; the sign of the others
            says whether it names the thing, or what a witness says.
        child: Propositions that are true only if their `parent` is, (E,).
        parent: Their parents, (E,); a child may have several.
    """

    kinds: Ints
    reports: Floats
    child: Ints
    parent: Ints


def existence(propositions: Propositions) -> Floats:
    """Estimates the probability of each of K propositions by EM, without labels; (K,) in [0, 1]."""
    child, parent = propositions.child, propositions.parent
    bins = [_binned(propositions, number) for number in range(propositions.reports.shape[1])]
    first = propositions.reports[:, 0]
    # What the model names is the start, since that is right even where it says yes to everything;
    # else its own log-odds. Such a start needs no relabelling of true and false.
    named = np.nan_to_num(np.sign(propositions.reports[:, 1:])).mean(axis=1)
    own = np.where(np.isnan(first), 0.0, first)
    probability = expit(np.where(np.isnan(propositions.reports[:, 1:]).all(axis=1), own, 2 * named))
    # A kind with few propositions keeps the prior that the model itself gives.
    kinds = propositions.kinds
    start = _PRIOR * np.bincount(kinds, probability) / np.maximum(np.bincount(kinds), 1)
    for _ in range(_ITERATIONS):
        # M: prior given that all parents are true, and rates of each bin.
        possible = np.maximum(probability, _product(child, probability[parent], len(probability)))
        trues = np.bincount(kinds, probability) + start
        prior = (trues / (np.bincount(kinds, possible) + _PRIOR))[kinds]
        evidence = sum((_log_ratio(one, probability) for one in bins), np.zeros(len(probability)))
        # E
        probability = posterior(prior, evidence, child, parent)
    return probability


def posterior(prior: Floats, evidence: Floats, child: Ints, parent: Ints) -> Floats:
    """Belief propagation in the network of parents and children.

    `prior` (K,) is the probability of each proposition given that all its parents are true,
    `evidence` (K,) the log-likelihood ratio of its reports; child and parent are (E,).

    Returns:
        Posterior probabilities (K,), exact where the network is a tree (Pearl 1982).

    Example:
        >>> posterior(np.array([0.5, 0.5]), np.zeros(2), np.array([1]), np.array([0])).round(3)
        array([0.5 , 0.25])
    """
    number = len(prior)
    prior = np.clip(prior, 0.02, 0.98)
    upward = np.zeros(len(child))
    downward = logit(prior)
    for _ in range(_SWEEPS):
        total = evidence + np.bincount(parent, upward, minlength=number)
        true = np.maximum(expit(downward[parent] + total[parent] - upward), 1e-9)
        all_true = _product(child, true, number)
        # Prior of the child if this parent is true, whatever the others are.
        others = np.clip(prior[child] * all_true[child] / true, 1e-12, 1 - 1e-9)
        message = np.logaddexp(np.log1p(-others), np.log(others) + np.clip(total[child], -30, 30))
        upward = _DAMPING * upward + (1 - _DAMPING) * message
        new = logit(np.clip(prior * all_true, 1e-9, 1 - 1e-9))
        downward = _DAMPING * downward + (1 - _DAMPING) * new
    result: Floats = expit(downward + evidence + np.bincount(parent, upward, minlength=number))
    return result


def _product(child: Ints, values: Floats, number: int) -> Floats:
    """The product over the parents of each proposition; 1 without parents."""
    logs = np.log(np.maximum(values, 1e-9))
    product: Floats = np.exp(np.bincount(child, logs, minlength=number))
    return product


def _binned(propositions: Propositions, number: int) -> tuple[Ints, Ints]:
    """The bin of each report of one kind (K,), -1 for none, and the group of each bin."""
    values = propositions.reports[:, number]
    known = ~np.isnan(values)
    bins = np.full(len(values), -1)
    if not known.any():
        return bins, np.zeros(0, int)
    edges = np.unique(np.quantile(values[known], np.linspace(0, 1, _BINS + 1)[1:-1]))
    # The model's own answer is more often wrong about narrow phrases: rates for each kind.
    group = propositions.kinds[known] if number == 0 else np.zeros(known.sum(), int)
    bins[known] = np.searchsorted(edges, values[known]) + _BINS * group
    return bins, np.arange(bins.max() + 1) // _BINS


def _log_ratio(binned: tuple[Ints, Ints], probability: Floats) -> Floats:
    """Log-likelihood ratio of the reports of one kind, from the rates of their bins."""
    bins, group = binned
    known = bins >= 0
    result = np.zeros(len(bins))
    if not known.any():
        return result
    rates = []
    everyone = np.bincount(bins[known], minlength=len(group))
    share = everyone / np.maximum(np.bincount(group, everyone), 1)[group]
    for weight in (probability[known], 1 - probability[known]):
        found = np.bincount(bins[known], weight, minlength=len(group))
        total = np.bincount(group, found)[group]
        rates.append((found + _SMOOTHING * share) / (total + _SMOOTHING))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(rates[0] / rates[1])
    result[known] = ratio[bins[known]]
    return result
