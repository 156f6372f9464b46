"""Estimates phi(a | I, q) for models that return text but no probabilities."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from ivqa.ranges import Count, Positive
from ivqa.text.normalisation import normalise_answer
from ivqa.vqa.served.openai_replies import WrittenToken

_LEAST = 1e-6  # what remains for unreached answers where rounding leaves nothing
_SMOOTHING = 0.5  # Krichevsky and Trofimov 1981: the mean under Jeffreys' prior


@dataclass(frozen=True)
class Scoring:
    """How phi(a | I, q) is estimated.

    Args:
        phi: "logprobs" reads the log-probabilities of the written tokens and their alternatives,
            "samples" counts sampled answers. "auto" takes "logprobs" if the endpoint returns them,
            and samples for the replies of which they cannot be used.
        top_logprobs: Alternatives of each token; endpoints allow up to 5 or 20.
        num_samples: Sampled answers to a question.
        temperature: Of the sampled answers; phi belongs to this temperature.
    """

    version: ClassVar[int] = 1

    phi: Literal["auto", "logprobs", "samples"] = "auto"
    top_logprobs: Count = 20
    num_samples: Count = 20
    temperature: Positive = 1.0


def reached_answers(tokens: Sequence[WrittenToken]) -> dict[str, float]:
    """Adds up the probabilities of all answers that one decoded text and its alternatives reach.

    A text either equals the written tokens w_1 ... w_T, or leaves them at some position t with
    another token v: the events (t, v) exclude each other and have the probabilities
    p(w_1) ... p(w_{t-1}) p(v). Texts that are equal after official normalisation, such as "Yes",
    " yes" and "yes.", are one answer, whose probability is their sum.

    The probability of a text that leaves the written tokens is that of all texts which begin with
    it: without further requests it is not known whether the model would stop there. It is exact if
    v is the end token. That of the written text contains the end token if the endpoint returns it.

    Example:
        >>> def log(p): return math.log(p)
        >>> yes = WrittenToken(b"Yes", log(0.5), ((b"no", log(0.25)), (b"yes", log(0.125))))
        >>> {answer: round(p, 3) for answer, p in reached_answers([yes]).items()}
        {'no': 0.25, 'yes': 0.625}
    """
    reached: dict[str, float] = {}

    def add(text: bytes, log_prob: float) -> None:
        answer = normalise_answer(text.decode(errors="ignore"))
        reached[answer] = reached.get(answer, 0.0) + math.exp(log_prob)

    written, log_prob = b"", 0.0
    for token in tokens:
        for text, other in token.others:
            add(written + text, log_prob + other)
        written, log_prob = written + token.text, log_prob + token.log_prob
    add(written, log_prob)
    # Rounding of the endpoint can bring a sum above 1.
    return {answer: min(p, 1.0) for answer, p in reached.items()}


def log_phi(tokens: Sequence[WrittenToken], answers: Sequence[str]) -> tuple[list[float], int]:
    """Estimates log phi of normalised answers by `reached_answers`; the sum of phi is at most 1.

    The answers that are not reached have the probability of `unreached_log_prob`, and together at
    most the probability that the reached answers leave; equal answers count once.

    Returns:
        The log of the estimate of each answer, and how many answers are not reached.

    Example:
        >>> written = [WrittenToken(b"yes", math.log(0.9), ())]
        >>> values, unreached = log_phi(written, ["yes", "no", "red"])
        >>> [round(math.exp(value), 3) for value in values], unreached
        ([0.9, 0.05, 0.05], 2)
    """
    reached = reached_answers(tokens)
    total = sum(reached.values())
    # A log-probability of -800 or so is 0 as a probability.
    absent = {answer for answer in answers if not reached.get(answer)}
    left = max(1 - total, _LEAST) / max(len(absent), 1)
    unreached = min(unreached_log_prob(tokens), math.log(left))
    # Rounding of the endpoint can bring the sum above 1.
    excess = math.log(max(total, 1.0))
    values = [unreached if a in absent else math.log(reached[a]) - excess for a in answers]
    return values, sum(answer in absent for answer in answers)


def unreached_log_prob(tokens: Sequence[WrittenToken]) -> float:
    """Log-probability that stands for an answer which `reached_answers` does not contain.

    It is the smallest one that was returned for the first token: a first token outside of the
    list has at most this one. -inf without tokens.
    """
    if not tokens:
        return -math.inf
    return min([tokens[0].log_prob, *(log_prob for _, log_prob in tokens[0].others)])


def frequency_log_probs(counts: Mapping[str, int], answers: Sequence[str]) -> list[float]:
    """Estimates log phi of normalised answers from n sampled ones: (count + 0.5) / (n + 0.5 K).

    K is the number of different answers that were sampled or are asked for, at least 2, so that the
    estimates add up to at most 1. The smoothing keeps the probability of an answer that no sample
    gave above 0. Without samples nothing is known, and the estimates are 0.

    Example:
        >>> [round(math.exp(p), 2) for p in frequency_log_probs({"red": 3, "blue": 1}, ["red"])]
        [0.7]
    """
    if not counts:
        return [-math.inf] * len(answers)
    total = sum(counts.values()) + _SMOOTHING * max(2, len({*counts, *answers}))
    return [math.log((counts.get(answer, 0) + _SMOOTHING) / total) for answer in answers]
