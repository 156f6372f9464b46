"""R_score in words: the fall of accuracy, what the ends of the score mean, and blind models."""

from collections.abc import Mapping

from ivqa.metrics import RScore
from ivqa.text.answer_matching import Accuracy


def change_in_words(clean: float, noisy: float) -> str:
    """Says how noise changes an accuracy in [0, 1], as the end of a sentence.

    >>> change_in_words(0.811, 0.588), change_in_words(0.5, 0.504), change_in_words(0.5, 0.5)
    ('falls by 22.3 points', 'rises by 0.4 points', 'does not change')
    """
    if clean == noisy:
        return "does not change"
    points = f"{100 * abs(clean - noisy):.{1 if abs(clean - noisy) >= 0.001 else 2}f} points"
    return f"{'falls' if noisy < clean else 'rises'} by {points}"


def score_in_words(clean: float, noisy: float, r_score: RScore) -> str:
    """Formats R_score, with its meaning where it is at one of its ends.

    >>> score_in_words(0.811, 0.588, RScore())
    'R_score 0.00, because it falls by 20 points or more'
    >>> score_in_words(0.811, 0.724, RScore())
    'R_score 0.36'
    """
    score = r_score(clean, noisy)
    text = f"R_score {score:.2f}"
    verb = "rises" if noisy > clean else "falls" if noisy < clean else "changes"
    if score == 0:
        return f"{text}, because it {verb} by {100 * r_score.limit:g} points or more"
    if score < 1:
        return text
    if r_score.losses_only and noisy > clean:
        return f"{text}, because a rise costs nothing"
    return f"{text}, because it {verb} by {100 * r_score.tolerance:g} points or less"


def ends_of_score(r_score: RScore) -> str:
    """Says what the lowest and the highest R_score mean.

    >>> ends_of_score(RScore())
    'R_score 0: the accuracy changes by 20 points or more; 1: by 0.05 points or less.'
    """
    verb = "falls" if r_score.losses_only else "changes"
    return (
        f"R_score 0: the accuracy {verb} by {100 * r_score.limit:g} points or more; "
        f"1: by {100 * r_score.tolerance:g} points or less."
    )


def accuracy_in_words(accuracy: Accuracy) -> str:
    """Says which accuracy is measured, as a sentence without its full stop.

    >>> accuracy_in_words("official"), accuracy_in_words("paper")
    ('official accuracy of the data set', 'accuracy min(n / 3, 1) of the papers')
    """
    return {
        "official": "official accuracy of the data set",
        "paper": "accuracy min(n / 3, 1) of the papers",
    }[accuracy]


def below_blind(name: str, metrics: Mapping[str, float], prefix: str = "robustness/") -> list[str]:
    """A sentence if a model is not above a blind one: its R_score says nothing. Else none."""
    if not metrics.get(f"{prefix}below_blind"):
        return []
    clean, blind = (
        f"{metrics[prefix + key]:.1%}" for key in ("partition_0/accuracy", "blind_accuracy")
    )
    return [
        f"R_score says nothing about {name}: without noise its accuracy is {clean}, not above the "
        f"{blind} of a blind baseline, the most frequent answer of each answer type."
    ]
