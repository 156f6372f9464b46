"""Consistency of generated questions with their answers, judged by the oracle of the scenes."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from ivqa.data.oracles import Judgement

# From all conditions met to none; `oracle_consistency` relies on this order.
VERDICTS = ("consistent", "other answer", "false premise", "not understood")


def verdict(judgement: Judgement, answer: str) -> str:
    """Compares the oracle's judgement of a question with the answer that it was generated for.

    Returns one of `VERDICTS`.
    """
    if not judgement.understood:
        return "not understood"
    if not judgement.premise:
        return "false premise"
    return "consistent" if answer in judgement.acceptable else "other answer"


def oracle_consistency(verdicts: Sequence[str]) -> dict[str, float]:
    """Computes the shares of generated questions that meet the oracle's conditions.

    Args:
        verdicts: The `verdict` on each question.

    Returns:
        Shares of all questions, in [0, 1]: "understood"; "true_premise", of these the ones with a
        true premise; "consistent", of these the ones whose right answers include the given answer.

    Raises:
        ValueError: There is no question, or an unknown verdict.

    Example:
        >>> oracle_consistency(["consistent", "other answer", "false premise", "not understood"])
        {'understood': 0.75, 'true_premise': 0.5, 'consistent': 0.25}
    """
    if unknown := set(verdicts) - set(VERDICTS):
        raise ValueError(f"'{min(unknown)}' is not a verdict; valid are {', '.join(VERDICTS)}")
    if not verdicts:
        raise ValueError("oracle consistency needs the verdict of at least one question")
    counts = Counter(verdicts)
    # The conditions are nested: cumulative sums count the questions that meet each of them.
    consistent, true_premise, understood, total = accumulate(counts[name] for name in VERDICTS)
    return {
        "understood": understood / total,
        "true_premise": true_premise / total,
        "consistent": consistent / total,
    }
