"""What a search brings for its questions, where an oracle knows the truth."""

from collections import defaultdict
from collections.abc import Sequence

from scipy.stats import nbinom

from ivqa.diagnosis.beliefs.beliefs import Belief
from ivqa.diagnosis.beliefs.mistakes import mistake_in, shares_error
from ivqa.logic import contradictions, errors_at_least
from ivqa.metrics import with_ends
from ivqa.scenes import Oracle

CONFIDENT = 0.75  # phi from which a wrong belief counts as confident
_EXAMPLES, _SHARE = 5, 0.02  # of a kind of mistake, and of the wrong beliefs
_MORE = 100  # questions that a prediction is about, and the fewest that it rests on
_DISPERSION = 2.0  # of the number of proven errors, as a multiple of the variance
_EACH = 4  # questions about each image before a prediction
_RECENT = 0.25  # share of the questions whose rate predicts that of the next ones


def search_figures(beliefs: Sequence[Belief], oracle: Oracle | None) -> dict[str, float]:
    """Computes what the questions of a search have brought.

    Args:
        beliefs: Every question that was asked, in this order, typed by the oracle.
        oracle: The oracle; None without one.

    Returns:
        By name:

        - search/questions: Number of questions.
        - search/wrong_facts_per_1000: Different facts about images that the model gets wrong,
          without questions about things that are not there (adversarial beliefs), for 1,000
          questions.
        - search/confident_wrong_facts_per_1000: Those with phi of `CONFIDENT` or more.
        - search/questions_to_five_of_each_kind: Questions until each kind of mistake that makes up
          2 percent or more of the wrong beliefs, irrelevant ones too, has five examples. Absent
          where a kind has fewer.
        - search/kinds_with_five_examples: Number of kinds of mistakes with five examples, rare ones
          too: a source that finds few kinds has five examples of each of these soon.
        - search/shares_error: See `shares_error`; absent where nothing was drawn by chance.
        - suspects/precision, suspects/recall: Share of the suspects that are wrong, and share of
          the wrong beliefs that are suspected, among the typed beliefs.

        Without an oracle only the first, and always those of `next_hundred`.
    """
    metrics = {"search/questions": float(len(beliefs)), **next_hundred(beliefs)}
    if oracle is None or not beliefs:
        return metrics
    adversarial = [belief for belief in beliefs if belief.type == "adversarial"]
    sure = [belief for belief in adversarial if belief.phi >= CONFIDENT]
    for name, own in (("wrong", adversarial), ("confident_wrong", sure)):
        facts = {(belief.image_id, oracle.fact(belief.question)) for belief in own}
        metrics[f"search/{name}_facts_per_1000"] = 1000 * len(facts) / len(beliefs)
    if (error := shares_error(beliefs, oracle)) is not None:
        metrics["search/shares_error"] = error
    kinds = _kinds(beliefs, oracle)
    enough = sum(len(rows) >= _EXAMPLES for rows in kinds)
    metrics["search/kinds_with_five_examples"] = float(enough)
    common = [rows for rows in kinds if len(rows) >= _SHARE * sum(map(len, kinds))]
    if common and all(len(rows) >= _EXAMPLES for rows in common):
        last = max(rows[_EXAMPLES - 1] for rows in common)
        metrics["search/questions_to_five_of_each_kind"] = float(last)
    typed = [belief for belief in beliefs if belief.type is not None]
    wrong = [belief for belief in typed if belief.type in ("adversarial", "irrelevant")]
    suspects = [belief for belief in typed if belief.suspect]
    both = sum(bool(belief.suspect) for belief in wrong)
    if suspects and wrong:
        metrics |= {
            "suspects/precision": both / len(suspects),
            "suspects/recall": both / len(wrong),
        }
    return metrics


def _kinds(beliefs: Sequence[Belief], oracle: Oracle) -> list[list[int]]:
    """For each kind of mistake, the number of questions after each example."""
    describe = mistake_in(oracle)
    kinds: dict[str, list[int]] = {}
    for number, belief in enumerate(beliefs, start=1):
        if belief.type in ("adversarial", "irrelevant"):
            kinds.setdefault(describe(belief)[0], []).append(number)
    return list(kinds.values())


def next_hundred(beliefs: Sequence[Belief]) -> dict[str, float]:
    """Predicts how many more wrong answers one hundred more questions prove.

    Proven is the least number of wrong answers, see `with_suspects`. It grew by k over the last n
    questions, a quarter of all and at least 100. With Jeffreys' prior of the rate of a Poisson
    process, k of the next 100 has a negative binomial distribution. Its variance is doubled,
    because contradictions come in clusters: of three VQA models on scenes, 125 of 132 intervals
    held with it, and 111 without.

    Args:
        beliefs: Every question that was asked, in this order.

    Returns:
        search/next_100 (the mean), search/next_100_low and search/next_100_high (the 95 percent
        interval); nothing for fewer than 200 questions, or 4 about each image: the first answers
        have little that they could contradict.

    Example:
        >>> lone = Belief(1, "yes", "Is it day?", 1, 0, 1, "plain_english")
        >>> next_hundred([lone] * 200)
        {'search/next_100': 0.5, 'search/next_100_low': 0.0, 'search/next_100_high': 5.0}
    """
    by_image: dict[int, list[int]] = defaultdict(list)
    for row, belief in enumerate(beliefs):
        by_image[belief.image_id].append(row)
    if len(beliefs) < max(2 * _MORE, _EACH * len(by_image)):
        return {}
    recent = max(_MORE, round(_RECENT * len(beliefs)))
    proven = 0
    for rows in by_image.values():
        found = contradictions([(beliefs[row].question, beliefs[row].answer) for row in rows])
        before = sum(row < len(beliefs) - recent for row in rows)
        earlier = [one for one in found if max(one.members) < before]
        proven += errors_at_least(len(rows), found) - errors_at_least(before, earlier)
    mean = (proven + 0.5) * _MORE / recent
    variance = _DISPERSION * (mean + mean**2 / (proven + 0.5))
    shape = mean**2 / (variance - mean)
    ends = nbinom.ppf([0.025, 0.975], shape, mean / variance)
    return with_ends("search/next_100", mean, *ends)
