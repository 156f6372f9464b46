"""Metrics of yes/no polling about objects: POPE (Li et al., EMNLP 2023)."""

from collections.abc import Sequence

import numpy as np


def says_yes(answer: str) -> bool:
    """Reads an answer in free text as yes or no, by the rule of POPE's evaluation.

    Of the text before the first full stop, without commas: it says no if one of its words is "No",
    "no" or "not", else yes.

    Args:
        answer: The answer of a model.

    Returns:
        Whether it says yes.

    Example:
        >>> [says_yes(text) for text in ("Yes", "No, there is not. Yes.", "There is none", "NO")]
        [True, False, True, True]
    """
    words = answer.split(".")[0].replace(",", "").split(" ")
    return not {"No", "no", "not"} & set(words)


def polling_metrics(answers: Sequence[str], present: Sequence[bool]) -> dict[str, float]:
    """Computes the metrics of POPE, where "yes" is the positive class.

    Args:
        answers: N answers in free text, read by `says_yes`.
        present: Whether the right answer is yes, for each of the N questions.

    Returns:
        Fractions in [0, 1] by name: accuracy; precision, the share of right ones among the answers
        "yes" (absent without any); recall, the share of the questions with the answer yes that are
        answered so (absent without any); f1, their harmonic mean (absent without either, or where
        both are 0); yes_ratio, the share of answers "yes".

    Raises:
        ValueError: Answers and questions differ in number, or there are none.

    Example:
        >>> figures = polling_metrics(["yes", "yes", "no", "yes"], [True, False, False, True])
        >>> {name: round(value, 3) for name, value in figures.items()}
        {'accuracy': 0.75, 'precision': 0.667, 'recall': 1.0, 'f1': 0.8, 'yes_ratio': 0.75}
    """
    if len(answers) != len(present) or not answers:
        raise ValueError(f"{len(answers)} answers for {len(present)} questions; give one each")
    said = np.array([says_yes(answer) for answer in answers])
    right = np.array(present, dtype=bool)
    hits, num_said, num_right = int((said & right).sum()), int(said.sum()), int(right.sum())
    metrics = {"accuracy": float((said == right).mean())}
    if num_said:
        metrics["precision"] = hits / num_said
    if num_right:
        metrics["recall"] = hits / num_right
    if hits:
        # 2 p r / (p + r) with p = hits / num_said and r = hits / num_right
        metrics["f1"] = 2 * hits / (num_said + num_right)
    metrics["yes_ratio"] = num_said / len(said)
    return metrics
