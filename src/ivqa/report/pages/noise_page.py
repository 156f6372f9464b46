"""robustness.html: accuracy under noise, and questions whose answers change at each level."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ivqa.data import VQASplit
from ivqa.metrics import PUBLISHED_R_SCORE, RScore
from ivqa.report.charts import noise_chart
from ivqa.report.noise_words import (
    accuracy_in_words,
    below_blind,
    change_in_words,
    score_in_words,
)
from ivqa.report.pages.annotation_page import picture
from ivqa.report.pages.base import write_page
from ivqa.report.tables import noise_columns
from ivqa.robustness.comparison import RIGHT, Flips, common_questions, flips_at
from ivqa.robustness.records import NoiseRecords

_EXAMPLES = 6  # of a level
_THUMBNAIL = 224  # pixels of the longer side


def write_noise_page(
    path: Path,
    title: str,
    models: Sequence[tuple[str, NoiseRecords]],
    split: VQASplit | None,
    r_score: RScore = PUBLISHED_R_SCORE,
) -> None:
    """Writes robustness.html, one file without links to others.

    It shows the accuracies of all models by level as a chart, a table of accuracies by level and
    answer type for each model, and for each level the accuracies with their intervals, how many
    answers change, and examples: questions whose answers by the first model change under noise.
    Several models are compared on their common questions.

    Args:
        models: The name of each model and its answers at every level of noise.
        split: The split of the questions, which has the pictures and the right answers; None shows
            neither.

    Raises:
        UserError: The models have no common question or different levels of noise.
    """
    records = common_questions([answers for _, answers in models])
    names = [name for name, _ in models]
    figures = [one.curve(r_score).metrics() for one in records]
    changes = [
        [flips_at(one, level) for one in records] for level in range(1, len(records[0].accuracies))
    ]
    write_page(
        path,
        "noise.html.j2",
        title=title,
        subtitle=f"{len(records[0]):,} questions, {accuracy_in_words(r_score.accuracy)}",
        tables=[_table(name, own) for name, own in zip(names, figures, strict=True) if changes],
        chart=noise_chart(dict(zip(names, map(_metrics, figures), strict=True))),
        headline=_headline(names, records, figures, changes),
        clean=[_accuracy(name, own, 0) for name, own in zip(names, figures, strict=True)],
        levels=[
            {
                "level": level,
                "accuracies": [_accuracy(*own, level) for own in zip(names, figures, strict=True)],
                "changes": [
                    _changes(*own, r_score, level)
                    for own in zip(names, flips, records, strict=True)
                ],
                "examples": [
                    _example(row, level, names, records, split)
                    for row in flips[0].examples(_EXAMPLES)
                ],
            }
            for level, flips in enumerate(changes, start=1)
        ],
    )


def _headline(
    names: Sequence[str],
    records: Sequence[NoiseRecords],
    figures: Sequence[dict[str, float]],
    changes: Sequence[Sequence[Flips]],
) -> list[str]:
    """What noise of level 1 does to each model, in a sentence."""
    if not changes:
        return []
    return [
        line
        for name, own, flips, answers in zip(names, figures, changes[0], records, strict=True)
        for line in (
            f"{name} answers {own['partition_0/accuracy']:.0%} of the questions correctly, and "
            f"{own['partition_1/accuracy']:.0%} with the least noise: "
            f"{len(flips.broken):,} of {int((answers.accuracies[0] >= RIGHT).sum()):,} right "
            "answers become wrong.",
            *below_blind(name, own, prefix=""),
        )
    ]


def _accuracy(name: str, figures: dict[str, float], level: int) -> dict[str, Any]:
    """The accuracy of a model at a level as a bar with its interval, in percent."""
    at = f"partition_{level}/accuracy"
    value, low, high = (100 * figures[key] for key in (at, f"{at}_low", f"{at}_high"))
    text = f"{value:.0f}% ({low:.0f} to {high:.0f})"
    return {"name": name, "value": value, "low": low, "high": high, "text": text}


def _metrics(figures: dict[str, float]) -> dict[str, float]:
    """Figures of a curve with the names that metrics.json gives them."""
    return {f"robustness/{key}": value for key, value in figures.items()}


def _table(name: str, figures: dict[str, float]) -> dict[str, Any]:
    """The table of a model: its columns' headings, and a row of cells for each level."""
    columns = noise_columns(_metrics(figures))
    rows = list(zip(*(cells for _, cells in columns), strict=True))
    return {"name": name, "headings": [heading for heading, _ in columns], "rows": rows}


def _changes(name: str, flips: Flips, records: NoiseRecords, r_score: RScore, level: int) -> str:
    changed = sum(map(len, (flips.broken, flips.repaired, flips.other)))
    clean, noisy = records.accuracies[[0, level]].mean(axis=1).tolist()
    return (
        f"The accuracy of {name} {change_in_words(clean, noisy)} "
        f"({score_in_words(clean, noisy, r_score)}). "
        f"{name} changes {changed / len(records):.0%} of its answers: {len(flips.broken):,} from "
        f"right to wrong, {len(flips.repaired):,} from wrong to right"
    )


def _example(
    row: int,
    level: int,
    names: Sequence[str],
    records: Sequence[NoiseRecords],
    split: VQASplit | None,
) -> dict[str, Any]:
    """A question with the answers of all models, without noise and at a level."""
    number = int(records[0].question_ids[row])
    asked = records[0].questions
    clean, noisy = ("", "") if asked is None else (asked[0][row], asked[level][row])
    # Basic questions are appended, so that most noisy questions begin with the clean one.
    added = noisy[len(clean) :].strip() if noisy.startswith(clean) else ""
    example: dict[str, Any] = {
        "anchor": f"question-{number}-level-{level}",
        "number": number,
        "question": clean,
        "added": added,
        "instead": "" if added or noisy == clean else noisy,
        "picture": "",
        "right": "",
        "answers": [
            {
                "name": name,
                "clean": one.answers[0][row],
                "noisy": one.answers[level][row],
                "clean_right": bool(one.accuracies[0][row] >= RIGHT),
                "noisy_right": bool(one.accuracies[level][row] >= RIGHT),
            }
            for name, one in zip(names, records, strict=True)
        ],
    }
    if split is not None:
        at = split.question_ids.tolist().index(number)
        example["picture"] = picture(split, int(split.image_ids[at]), _THUMBNAIL)
        example["right"] = split.main_answers[at]
        example["question"] = clean or split.questions[at]
    return example
