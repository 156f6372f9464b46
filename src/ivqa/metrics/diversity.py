"""Diversity of the questions that a generator samples for one image and answer."""

from collections.abc import Collection, Sequence

import numpy as np

from ivqa.metrics.captions.ngrams import NGramIndex
from ivqa.text.tokens import tokenise

_MAX_SELF_BLEU_PAIRS = 100  # bounds the time on large test sets
_TINY = 1e-15  # keeps the logarithm of zero matches finite, as in BLEU


def question_diversity(
    questions_by_pair: Sequence[Sequence[str]], training_questions: Collection[str] = ()
) -> dict[str, float]:
    """Computes the diversity of the questions sampled for P (image, answer) pairs.

    Questions are compared as lists of words, so case and punctuation do not count.

    Args:
        questions_by_pair: The sampled questions of each pair.
        training_questions: Questions of the training split.

    Returns:
        - "unique_of_n": Mean number of distinct questions of a pair, U# of [iVQA].
        - "novel": Share of all distinct questions that are not training questions; NaN without
          training questions.
        - "distinct_1", "distinct_2": Number of distinct words (bigrams) divided by the number of
          words (bigrams) of a pair's questions, mean over pairs (Li et al. 2016).
        - "self_bleu4": Mean `self_bleu` of at most 100 pairs (Zhu et al. 2018); low values mean
          high diversity. NaN if no pair has two questions.

    Raises:
        ValueError: There is no pair.

    Example:
        >>> questions = ["Is it red?", "is it red", "Is it blue?"]
        >>> scores = question_diversity([questions], ["Is it red?"])
        >>> scores["unique_of_n"], scores["novel"], round(scores["distinct_1"], 3)
        (2.0, 0.5, 0.444)
    """
    if not questions_by_pair:
        raise ValueError("diversity needs the questions of at least one pair")
    tokenised = [[tuple(tokenise(text)) for text in texts] for texts in questions_by_pair]
    distinct = [set(questions) for questions in tokenised]
    unique = float(np.mean([len(questions) for questions in distinct]))
    scores = {"unique_of_n": unique, "novel": float("nan")}
    if training_questions:
        known = {tuple(tokenise(text)) for text in training_questions}
        sampled = set().union(*distinct)
        scores["novel"] = len(sampled - known) / max(len(sampled), 1)
    for order in (1, 2):
        shares = [_distinct_share(questions, order) for questions in tokenised]
        scores[f"distinct_{order}"] = float(np.mean(shares))
    several = [questions for questions in tokenised if len(questions) > 1]
    # Evenly spaced pairs: the value does not depend on a random draw.
    chosen = np.linspace(0, len(several) - 1, min(len(several), _MAX_SELF_BLEU_PAIRS)).astype(int)
    values = [self_bleu(several[at]).mean() for at in chosen]
    scores["self_bleu4"] = float(np.mean(values)) if values else float("nan")
    return scores


def self_bleu(questions: Sequence[Sequence[str]]) -> np.ndarray:
    """Computes BLEU-4 of each question with all other questions as references (Zhu et al. 2018).

    A question of fewer than four words has no n-grams of the highest orders; its geometric mean is
    over the orders that it has (effective order, Post 2018), so that copies of any length score 1.

    Args:
        questions: n tokenised questions, n >= 2.

    Returns:
        (n,) float64 in [0, 1].

    Raises:
        ValueError: There are fewer than two questions.

    Example:
        >>> self_bleu([["is", "it", "red"], ["is", "it", "red"], ["why"]]).round(3)
        array([1., 1., 0.])
    """
    if len(questions) < 2:
        raise ValueError(f"self-BLEU needs at least 2 questions of a pair, not {len(questions)}")
    lengths = np.array([len(words) for words in questions])
    log_precision = np.zeros(len(questions))
    for order in range(1, 5):
        counts = NGramIndex(order).counts(questions).toarray()  # (n, n-grams)
        # (2, n-grams): the second highest and the highest count of each n-gram.
        highest = np.sort(counts, axis=0)[-2:]
        # The highest count among the other questions: the second highest of all where this question
        # has the highest.
        allowed = np.where(counts == highest[1], highest[0], highest[1])
        correct = np.minimum(counts, allowed).sum(axis=1)
        total = np.maximum(lengths - order + 1, 0)
        log_precision += np.where(total > 0, np.log((correct + _TINY) / np.maximum(total, 1)), 0)
    precision = np.exp(log_precision / np.clip(lengths, 1, 4))
    return precision * _brevity(lengths, _closest_other(lengths))


def _closest_other(lengths: np.ndarray) -> np.ndarray:
    """For each length the closest other length, (n,); of two equally close ones the shorter."""
    distance = np.abs(lengths[:, None] - lengths[None, :])
    # Orders by distance, then by length.
    rank = distance * (lengths.max() + 1) + lengths[None, :]
    # A question is not a reference of itself.
    np.fill_diagonal(rank, rank.max() + 1)
    closest: np.ndarray = lengths[rank.argmin(axis=1)]
    return closest


def _brevity(lengths: np.ndarray, closest: np.ndarray) -> np.ndarray:
    """The brevity penalty of BLEU; an empty question matches only an empty one."""
    penalty = np.exp(np.minimum(0, 1 - closest / np.maximum(lengths, 1)))
    return np.where(lengths > 0, penalty, closest == 0)


def _distinct_share(questions: Sequence[Sequence[str]], order: int) -> float:
    """Distinct n-grams divided by n-grams."""
    index = NGramIndex(order)
    counts = index.counts(questions)
    return len(index.numbers) / max(counts.sum(), 1)
