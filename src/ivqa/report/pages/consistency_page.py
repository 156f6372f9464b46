"""consistency.html: answers of a model that cannot all be true, worst images first."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ivqa.consistency import ImageConsistency
from ivqa.data import VQASplit
from ivqa.logic import Contradiction
from ivqa.report.pages.annotation_page import picture
from ivqa.report.pages.base import write_page

_MOST_IMAGES = 60
_PER_RULE = 3  # contradictions of one rule about an image
_THUMBNAIL = 288  # pixels of the longer side


def consistency_rows(metrics: Mapping[str, float]) -> list[dict[str, Any]]:
    """The rows of a table: all rules together, and each rule.

    Returns:
        Rows with "rule", "implied" (number of implied questions), "as implied" (share that is
        answered so) and "95 percent" (its interval); none without implied questions.
    """
    rules = re.findall(r"^consistency/([^/]+)/rate$", "\n".join(metrics), re.M)
    rows = []
    for rule in ["", *sorted(rules)]:
        rate, number = f"consistency/{rule}/rate".replace("//", "/"), f"consistency/{rule}/implied"
        if rate in metrics:
            low, high = (metrics[f"{rate}_{end}"] for end in ("low", "high"))
            rows.append(
                {
                    "rule": rule.replace("_", " ") or "all",
                    "implied": int(metrics[number.replace("//", "/")]),
                    "as implied": f"{metrics[rate]:.3f}",
                    "95 percent": f"{low:.3f}-{high:.3f}",
                }
            )
    return rows


MOST_SUSPECTS = 0.4
"""Share of suspects above which estimates of the error failed, see docs/consistency.md."""


def consistency_sentences(metrics: Mapping[str, float], name: str) -> list[str]:
    """Says what the figures of consistency of a model mean, in up to six sentences."""
    found = {key.removeprefix("consistency/"): value for key, value in metrics.items()}

    def share(key: str) -> str:
        return f"{found[key]:.1%} ({found[f'{key}_low']:.1%} to {found[f'{key}_high']:.1%})"

    asked = int(found["questions"] + found["asked"] - found["unclear"])
    lines = []
    if "rate" in found:
        lines.append(
            f"{name} answers {found['rate']:.0%} of {int(found['implied']):,} questions as its own "
            "answers imply."
        )
    if found["unclear"]:
        lines.append(
            f"{int(found['unclear']):,} further yes/no questions are left out: it answers them "
            "with neither yes nor no."
        )
    lines.append(
        f"At least {share('errors_at_least')} of its {asked:,} answers are wrong: they contradict "
        "others."
    )
    truth = f"; in truth {found['error']:.1%}" if "error" in found else ""
    lines.append(
        f"Of its {int(found['questions']):,} answers to the questions asked first, an estimated "
        f"{share('error_estimate')} are wrong{truth}."
    )
    if "witness" in found:
        lines.append(
            f"Another model answered {int(found['witness']):,} of the questions too, as a witness "
            "of what is there."
        )
    if found["suspects"] > MOST_SUSPECTS:
        lines.append(
            f"Do not rely on this estimate: {found['suspects']:.0%} of these answers are suspects, "
            "so what it rests on, whether things are there, is probably what the model gets wrong; "
            "another model can say it: witness=NAME."
        )
    return lines


def write_consistency_page(
    path: Path,
    title: str,
    name: str,
    images: Sequence[ImageConsistency],
    metrics: Mapping[str, float],
    split: VQASplit,
) -> None:
    """Writes consistency.html, one file without links to others.

    It shows the figures, the share of implied questions that are answered so by rule, and the
    images with contradictions, those with most certain errors first, at most 60. Pictures and
    right answers are those of the split, as far as it has them.
    """
    worst = sorted(
        (image for image in images if image.contradictions),
        key=lambda image: (-image.errors_at_least, -len(image.contradictions)),
    )
    right = {}
    if split.has_answers:
        right = dict(zip(split.question_ids.tolist(), split.main_answers, strict=True))
    shown = [_image(image, split, right) for image in worst[:_MOST_IMAGES]]
    rules = sorted({clash["rule"] for image in shown for clash in image["clashes"]})
    write_page(
        path,
        "consistency.html.j2",
        title=title,
        subtitle=f"{len(images):,} images, {len(worst):,} with answers that exclude each other",
        headline=consistency_sentences(metrics, name),
        bars=[_bar(row, metrics) for row in consistency_rows(metrics)],
        rules=rules,
        images=shown,
        left=len(worst) - len(shown),
    )


def _bar(row: Mapping[str, Any], metrics: Mapping[str, float]) -> dict[str, Any]:
    """A rule as a bar with its interval, in percent."""
    rule = "" if row["rule"] == "all" else f"{row['rule'].replace(' ', '_')}/"
    keys = (f"consistency/{rule}rate{end}" for end in ("", "_low", "_high"))
    value, low, high = (100 * metrics[key] for key in keys)
    text = f"{value:.0f}% of {row['implied']:,}"
    return {"name": row["rule"], "value": value, "low": low, "high": high, "text": text}


def _image(image: ImageConsistency, split: VQASplit, right: Mapping[int, str]) -> dict[str, Any]:
    clashes = _chosen(image.contradictions)
    return {
        "number": image.image_id,
        "picture": picture(split, image.image_id, _THUMBNAIL),
        "errors": image.errors_at_least,
        "answers": len(image.answers),
        "left": len(image.contradictions) - len(clashes),
        "clashes": [
            {
                "rule": one.rule,
                "certain": one.certain,
                "answers": [
                    {
                        "question": answer.question,
                        "answer": answer.answer,
                        "confidence": answer.confidence,
                        "suspect": answer.suspect,
                        "right": right.get(answer.question_id, "")
                        if answer.question_id is not None
                        else "",
                    }
                    for answer in (image.answers[place] for place in one.members)
                ],
            }
            for one in clashes
        ],
    }


def _chosen(found: Sequence[Contradiction]) -> list[Contradiction]:
    """Contradictions to show: certain ones first, each with an answer that is not shown yet."""
    seen: set[int] = set()
    number: dict[str, int] = {}
    chosen = []
    for one in sorted(found, key=lambda one: not one.certain):
        if number.get(one.rule, 0) < _PER_RULE and not seen.issuperset(one.members):
            chosen.append(one)
            seen.update(one.members)
            number[one.rule] = number.get(one.rule, 0) + 1
    return chosen
