"""Accuracies of given answers, as a whole and by kind of question."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ivqa.data import VQASplit
from ivqa.data.split import means_by
from ivqa.metrics.bootstrap import interval, resampled_means, with_ends
from ivqa.metrics.polling import polling_metrics
from ivqa.metrics.wups import wups
from ivqa.text.answers import vqa_accuracies
from ivqa.text.normalisation import normalise_answer

_RESAMPLES = 1000  # of the bootstrap
_MAX_KINDS = 100  # VQA has 65 question types; types derived from first words can be thousands


def mean_accuracy(
    accuracies: NDArray[np.float64], image_ids: NDArray[np.int64]
) -> dict[str, float]:
    """Averages accuracies (N,) in [0, 1] over questions.

    Returns:
        vqa/accuracy, and the bounds vqa/accuracy_low and vqa/accuracy_high of its 95 percent
        interval; the bootstrap draws images, (N,) `image_ids`, whose questions are alike.
    """
    ends = interval(resampled_means(accuracies[None], _RESAMPLES, 0, image_ids)[:, 0])
    return with_ends("vqa/accuracy", accuracies.mean(), *ends)


def score_answers(
    split: VQASplit, answers: Sequence[str], probability: NDArray[np.float64] | None = None
) -> dict[str, float]:
    """Computes official accuracies: those of the data set, which are VQA's by default.

    Args:
        split: The questions with annotations.
        answers: The answer to each question.
        probability: phi of the answer `probed` of the split's metric, (N,), where it is known.

    Returns:
        Fractions in [0, 1]: vqa/accuracy and its interval of `mean_accuracy`, and vqa/yes_no,
        vqa/number and vqa/other by answer type, over the questions that the metric counts; its
        further accuracies, for VQA vqa/accuracy_shortcut, min(matches / 3, 1) without
        leave-one-out, and vqa/accuracy_2015, of the evaluation code before 2018;
        vqa/question_type/... of the most frequent question types;
        vqa/kind/... by expert layout, if the data have layouts; vqa/belief/... by kind of belief,
        if the questions are beliefs; polling/... of `polling_metrics`, with intervals, if every
        normalised right answer is yes or no; the figures of the metric. Types without questions
        are left out, and all accuracies if no question counts.

    Raises:
        UserError: The split has no annotations.
    """
    human, metric = split.require_answers().answers, split.metric
    accuracies = vqa_accuracies(answers, human, rule=metric.rule)
    counted = np.flatnonzero(metric.counted(split)).tolist()
    own = accuracies[counted]

    def by(prefix: str, kinds: Sequence[str]) -> dict[str, float]:
        """Mean accuracy of each of the most frequent kinds, by PREFIX/KIND."""
        found, codes = np.unique(np.array(kinds)[counted], return_inverse=True)
        counts, sums = np.bincount(codes), np.bincount(codes, weights=own)
        return {
            f"{prefix}/{str(found[at]).replace(' ', '_')}": float(sums[at] / counts[at])
            for at in np.argsort(-counts, kind="stable")[:_MAX_KINDS]
        }

    metrics: dict[str, float] = {}
    if len(counted):
        metrics |= mean_accuracy(own, split.image_ids[counted])
        types = metric.answer_types(split)
        for kind, mean in means_by([types[row] for row in counted], own).items():
            metrics[f"vqa/{kind.replace('/', '_')}"] = mean
        for name, rule in metric.further.items():
            metrics[f"vqa/{name}"] = float(
                vqa_accuracies(answers, human, rule=rule)[counted].mean()
            )
    if split.layouts is not None:
        layouts = [split.layouts.get(number, ()) for number in split.question_ids.tolist()]
        metrics |= by("vqa/kind", [kind_of_layout(layout) for layout in layouts])
    if split.kinds is not None:
        metrics |= by("vqa/belief", [kind or "unknown" for kind in split.kinds])
    right = list(map(normalise_answer, split.main_answers))
    if set(right) <= {"yes", "no"}:
        present = [answer == "yes" for answer in right]
        figures = polling_metrics(answers, present, split.image_ids)
        metrics |= {f"polling/{name}": value for name, value in figures.items()}
    metrics |= by("vqa/question_type", split.question_types)
    return metrics | metric.figures(split, answers, accuracies, probability)


def score_choices(split: VQASplit, chosen: Sequence[str]) -> dict[str, float]:
    """Computes vqa/multiple_choice in [0, 1], the official accuracy of chosen candidates.

    It is the mean over the questions that have candidates; `chosen` is "" for none.
    """
    right = split.metric.choice_accuracies(split, chosen)
    asked = np.array([bool(choices) for choices in split.multiple_choices or ()])
    return {"vqa/multiple_choice": float(right[asked].mean())}


def wups_metrics(
    split: VQASplit, answers: Sequence[str], thresholds: Sequence[float]
) -> dict[str, float]:
    """Computes the mean WUPS in [0, 1] at each threshold, such as vqa/wups_0.9.

    Similarities below a threshold are multiplied by 0.1.
    """
    human = split.require_answers().answers
    return {f"vqa/wups_{at:.1f}": float(wups(answers, human, at).mean()) for at in thresholds}


def kind_of_layout(layout: Sequence[str]) -> str:
    """Names the kind of a question by the last module of its layout.

    It is "none" without a layout, and ends in "_by_place" if the layout has a _Transform.

    Example:
        >>> kind_of_layout(["_Find", "_Find", "_MoreNum"])
        'more_num'
        >>> kind_of_layout(["_Find", "_Transform", "_Find", "_And", "_Count"])
        'count_by_place'
    """
    if not layout:
        return "none"
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", layout[-1].strip("_")).lower()
    return f"{name}_by_place" if "_Transform" in layout else name
