"""How various the questions are that a generator asks about one image and answer."""

from collections.abc import Collection, Sequence

import numpy as np

from ivqa.metrics.ngrams import NGramIndex
from ivqa.text.tokens import tokenise


def question_diversity(
    questions_by_pair: Sequence[Sequence[str]], training_questions: Collection[str] = ()
) -> dict[str, float]:
    """Diversity of the questions sampled for each of P (image, answer) pairs.

    unique: distinct questions a pair, mean (U# of [iVQA]). novel: share of all distinct questions
    that are not among the training questions; absent without these. distinct_1, distinct_2:
    distinct words and bigrams of a pair's questions per word and bigram, mean (Li et al. 2016).
    Questions are compared as words: case and punctuation do not count.

    >>> scores = question_diversity([["Is it red?", "is it red", "Is it blue?"]], ["Is it red?"])
    >>> scores["unique"], scores["novel"], round(scores["distinct_1"], 3)
    (2.0, 0.5, 0.444)
    """
    if not questions_by_pair:
        raise ValueError("diversity needs the questions of at least one pair")
    tokenised = [[tuple(tokenise(text)) for text in texts] for texts in questions_by_pair]
    distinct = [set(questions) for questions in tokenised]
    scores = {"unique": float(np.mean([len(questions) for questions in distinct]))}
    if training_questions:
        known = {tuple(tokenise(text)) for text in training_questions}
        asked = set().union(*distinct)
        scores["novel"] = len(asked - known) / max(len(asked), 1)
    for order in (1, 2):
        scores[f"distinct_{order}"] = float(
            np.mean([_distinct_share(questions, order) for questions in tokenised])
        )
    return scores


def _distinct_share(questions: Sequence[Sequence[str]], order: int) -> float:
    index = NGramIndex(order)
    counts = index.counts(questions)
    return len(index.numbers) / max(counts.sum(), 1)
