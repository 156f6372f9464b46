"""What a search brings for its questions, where an oracle knows the truth."""

from collections.abc import Sequence

from ivqa.diagnosis.beliefs.beliefs import Belief
from ivqa.diagnosis.beliefs.mistakes import mistake_in
from ivqa.scenes import Oracle

CONFIDENT = 0.75  # phi from which a wrong belief counts as confident
_EXAMPLES, _SHARE = 5, 0.02  # of a kind of mistake, and of the wrong beliefs


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
        - suspects/precision, suspects/recall: Share of the suspects that are wrong, and share of
          the wrong beliefs that are suspected, among the typed beliefs.

        Without an oracle only the first.
    """
    metrics = {"search/questions": float(len(beliefs))}
    if oracle is None or not beliefs:
        return metrics
    adversarial = [belief for belief in beliefs if belief.type == "adversarial"]
    sure = [belief for belief in adversarial if belief.phi >= CONFIDENT]
    for name, own in (("wrong", adversarial), ("confident_wrong", sure)):
        facts = {(belief.image_id, oracle.fact(belief.question)) for belief in own}
        metrics[f"search/{name}_facts_per_1000"] = 1000 * len(facts) / len(beliefs)
    kinds = _kinds(beliefs, oracle)
    if kinds and all(len(rows) >= _EXAMPLES for rows in kinds.values()):
        last = max(rows[_EXAMPLES - 1] for rows in kinds.values())
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


def _kinds(beliefs: Sequence[Belief], oracle: Oracle) -> dict[str, list[int]]:
    """The common kinds of mistakes, with the number of questions after each example."""
    describe = mistake_in(oracle)
    kinds: dict[str, list[int]] = {}
    for number, belief in enumerate(beliefs, start=1):
        if belief.type in ("adversarial", "irrelevant"):
            kinds.setdefault(describe(belief)[0], []).append(number)
    total = sum(map(len, kinds.values()))
    return {kind: rows for kind, rows in kinds.items() if len(rows) >= _SHARE * total}
