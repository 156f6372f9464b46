"""The figures of consistency, with 95 percent intervals over images."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ivqa.consistency.implied import AnsweredQuestion, answer_form
from ivqa.consistency.records import ConsistencyRecords
from ivqa.data import VQASplit
from ivqa.data.oracles import Oracle
from ivqa.metrics.bootstrap import interval, resampled_means, with_ends
from ivqa.metrics.vqa_accuracy import vqa_accuracies


def consistency_figures(
    records: ConsistencyRecords, resamples: int, seed: int, wrong: NDArray[np.float64] | None
) -> dict[str, float]:
    """Computes the figures of a measurement.

    Args:
        records: The answers, N to questions of the data set and M to further questions.
        resamples: Number of resamples of the bootstrap, which draws images.
        seed: Its seed.
        wrong: How wrong each of the N + M answers is, in [0, 1], image by image, see `wrongness`;
            NaN where unknown; None if all are.

    Returns:
        By name, each with NAME_low and NAME_high, except the numbers:

        - images, questions (N), asked, implied: numbers; implied questions that the data set asks
          itself are in `implied` and not in `asked`.
        - unclear: number of further yes/no questions whose answer is neither yes nor no. They are
          in `asked`, and not among the M answers that the figures are about.
        - witness: number of answers of a witness, if there is one.
        - rate: share of the implied questions that are answered as implied; RULE/rate and the
          number RULE/implied for each rule.
        - coverage: share of the N questions from whose answer anything follows.
        - errors_at_least: least number of wrong answers by certain contradictions, summed over
          images and divided by the N + M answers.
        - error_estimate: estimated share of wrong answers among the N.
        - suspects: share of suspected answers among the N, see `suspicions`.

        Where it is known which answers are wrong, also error (the share among the N),
        suspects/precision and suspects/recall, and all_errors, the share among those of the N + M
        answers that can be judged, if some of the M can.
    """
    answers = [one for image in records.images for one in image.answers]
    own = np.array([one.question_id is not None for one in answers], bool)
    images = np.array([one.image_id for one in answers], np.int64)
    share = {image.image_id: image.errors_at_least / len(image.answers) for image in records.images}
    right = np.array([one.probability_right for one in answers])
    suspect = np.array([one.suspect for one in answers], float)
    figures = {
        "images": float(len(records.images)),
        "questions": float(own.sum()),
        "asked": float((~own).sum() + records.unclear),
        "implied": float(len(records.implied)),
        "unclear": float(records.unclear),
    }
    if records.witness:
        figures["witness"] = float(records.witness)

    def add(name: str, values: NDArray[np.float64], of: NDArray[np.int64]) -> None:
        """A mean with its interval; nothing without values."""
        if len(values):
            ends = interval(resampled_means(values[None], resamples, seed, of)[:, 0])
            figures.update(with_ends(name, values.mean(), *ends))

    consistent = records.consistent.astype(float)
    owners = np.array([one.premise.image_id for one, _ in records.implied], np.int64)
    rules = np.array([one.implication.rule for one, _ in records.implied], str)
    add("rate", consistent, owners)
    for rule in sorted(set(rules.tolist())):
        of_rule, name = rules == rule, rule.replace(" ", "_")
        add(f"{name}/rate", consistent[of_rule], owners[of_rule])
        figures[f"{name}/implied"] = float(of_rule.sum())
    covered = [records.covered[one.question_id] for one in answers if one.question_id is not None]
    add("coverage", np.array(covered, float), images[own])
    # The least number of errors about an image, shared among its answers: drawn images count with
    # the number of their answers.
    add("errors_at_least", np.array([share[image] for image in images.tolist()]), images)
    add("error_estimate", 1 - right[own], images[own])
    add("suspects", suspect[own], images[own])
    if wrong is None:
        return figures
    judged = own & ~np.isnan(wrong)
    add("error", wrong[judged], images[judged])
    if len(both := wrong[~np.isnan(wrong)]) > judged.sum():
        add("all_errors", both, images[~np.isnan(wrong)])
    hits = float((wrong * suspect)[judged].sum())
    for name, total in (("precision", suspect[judged].sum()), ("recall", wrong[judged].sum())):
        if total:
            figures[f"suspects/{name}"] = hits / float(total)
    return figures


def wrongness(
    records: ConsistencyRecords, split: VQASplit, oracle: Oracle | None
) -> NDArray[np.float64] | None:
    """Computes how wrong the answers are, by the oracle, or else by the annotations of the split.

    Returns:
        In [0, 1] for each answer, image by image: 0 or 1 by the oracle, to which any answer to a
        question with a false premise is wrong; else 1 - accuracy. NaN where neither knows it or the
        accuracy does not count the question. None if nothing is known.
    """
    answers = [one for image in records.images for one in image.answers]
    values = np.full(len(answers), np.nan)
    if split.has_answers:
        values = _by_annotations(answers, split)
    if oracle is not None:
        ids, texts = [one.image_id for one in answers], [one.question for one in answers]
        for row, judged in enumerate(oracle.judge_many(ids, texts)):
            if judged.understood:
                accepted = {answer_form(text) for text in judged.acceptable}
                values[row] = float(answer_form(answers[row].answer) not in accepted)
    return None if np.isnan(values).all() else values


def _by_annotations(answers: Sequence[AnsweredQuestion], split: VQASplit) -> NDArray[np.float64]:
    counted = split.metric.counted(split)
    rows: Mapping[int, int] = {
        number: row for row, number in enumerate(split.question_ids.tolist()) if counted[row]
    }
    known = [
        (at, rows[one.question_id])
        for at, one in enumerate(answers)
        if one.question_id is not None and one.question_id in rows
    ]
    human = [split.answers[row] for _, row in known]
    given = [answers[at].answer for at, _ in known]
    values = np.full(len(answers), np.nan)
    values[[at for at, _ in known]] = 1 - vqa_accuracies(given, human, rule=split.metric.rule)
    return values
