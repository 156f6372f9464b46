"""WUPS, the score of DAQUAR: accuracy in which similar words count (Malinowski and Fritz 2014)."""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from nltk.corpus import wordnet
from numpy.typing import NDArray

from ivqa.errors import UserError

_FAR = 0.1  # the factor of a similarity below the threshold


def wups(
    predictions: Sequence[str], human_answers: Sequence[Sequence[str]], threshold: float
) -> NDArray[np.float32]:
    """Computes WUPS of each predicted answer.

    An answer is a set of words or names, separated by commas. With the similarity s of two words,

        WUPS(A, T) = min(prod over a in A of max over t in T of s(a, t),
                         prod over t in T of max over a in A of s(a, t))

    (Malinowski and Fritz, NeurIPS 2014, equation 12). Several annotators count equally, as in the
    average consensus of Malinowski, Rohrbach and Fritz (ICCV 2015).

    Args:
        predictions: N answers.
        human_answers: The annotators' answers to each of the N questions.
        threshold: Similarities below it are multiplied by 0.1: 0.9 and 0.0 are usual.

    Returns:
        (N,) float32 in [0, 1].

    Raises:
        UserError: NLTK's WordNet is not installed.
        ValueError: Predictions and questions differ in number, or a question has no answer.
    """
    if len(predictions) != len(human_answers):
        raise ValueError(
            f"{len(predictions)} predictions for {len(human_answers)} questions; give one each"
        )
    if not all(human_answers):
        raise ValueError("a question has no human answer; WUPS needs one for each question")
    require_wordnet()

    @cache
    def similar(first: str, second: str) -> float:
        similarity = wup_similarity(first, second)
        return similarity if similarity >= threshold else _FAR * similarity

    # Annotators often give the same answer.
    score = cache(lambda answer, truth: _score(_names(answer), _names(truth), similar))
    means = [
        sum(score(answer, truth) for truth in truths) / len(truths)
        for answer, truths in zip(predictions, human_answers, strict=True)
    ]
    return np.array(means, dtype=np.float32)


def require_wordnet() -> None:
    """Raises UserError unless NLTK finds all files of WordNet."""
    try:
        wordnet.synsets("thing")  # reads the files
    except (LookupError, OSError) as error:
        raise UserError(
            "WUPS needs WordNet; install it with `python -m nltk.downloader wordnet`, or copy its "
            "folder to corpora/wordnet of a folder that NLTK_DATA names"
        ) from error


def wup_similarity(first: str, second: str) -> float:
    """The similarity of the most similar senses of two names of things (Wu and Palmer 1994).

    A value in [0, 1]: 1 for equal words, 0 if WordNet does not know a word as a noun.
    """
    if first == second:
        return 1.0
    # WordNet joins the words of a name by underscores.
    senses = [wordnet.synsets(word.replace(" ", "_"), pos=wordnet.NOUN) for word in (first, second)]
    found = (one.wup_similarity(other) for one in senses[0] for other in senses[1])
    return max((value for value in found if value is not None), default=0.0)


def _names(answer: str) -> tuple[str, ...]:
    """The names in an answer, in lower case."""
    return tuple(name.strip().lower() for name in answer.split(",") if name.strip())


def _score(
    answer: Sequence[str], truth: Sequence[str], similar: Callable[[str, str], float]
) -> float:
    if not answer or not truth:
        return float(answer == truth)
    forth = math.prod(max(similar(one, other) for other in truth) for one in answer)
    back = math.prod(max(similar(one, other) for one in answer) for other in truth)
    return min(forth, back)
