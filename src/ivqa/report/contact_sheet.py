"""Contact sheets: images with the questions that a generator asks about them."""

import base64
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from ivqa.data import VQASplit
from ivqa.data.images import open_picture
from ivqa.data.rgb import to_rgb
from ivqa.generators.evaluation import AskedPair, GeneratedQuestion
from ivqa.ranges import CountOrZero
from ivqa.report.pages.base import write_page
from ivqa.store.files import write_bytes

_THUMBNAIL = 256  # pixels, of the longer side
_CELL, _TEXT_LINES = 240, 5  # pixels of an image in the PNG, and lines of text below it
_PICTURED = 12  # pairs in questions.png
_VERDICT_COLORS = {
    "consistent": (24, 134, 75),
    "other answer": (196, 88, 12),
    "false premise": (178, 34, 82),
    "not understood": (110, 110, 118),
}


@dataclass(frozen=True)
class NotedQuestion(GeneratedQuestion):
    """A generated question with a remark for the contact sheet, such as its probability."""

    note: str = ""


def write_contact_sheet(
    path: Path,
    items: Sequence[AskedPair],
    title: str,
    subtitle: str,
    summary: Mapping[str, float | str],
) -> None:
    """Writes an HTML page that contains its images and needs no network.

    Args:
        items: Image-answer pairs with their questions, which may be `NotedQuestion`s. An empty
            answer type or reference is left out.
        summary: Figures at the top of the page, by name.
    """
    write_page(
        path,
        "contact_sheet.html.j2",
        title=title,
        subtitle=subtitle,
        summary={
            name: value if isinstance(value, str) else f"{value:.3g}"
            for name, value in summary.items()
        },
        items=[_view(item) for item in items],
        answer_types=sorted({item.answer_type for item in items if item.answer_type}),
        verdicts=[name for name in _VERDICT_COLORS if any(i.best.verdict == name for i in items)],
    )


def write_contact_sheet_png(path: Path, items: Sequence[AskedPair], columns: int = 4) -> None:
    """Writes a picture with image, answer and best question of each pair."""
    font = ImageFont.load_default(13)
    height = _CELL + 18 * _TEXT_LINES
    rows = -(-len(items) // columns)  # rounded up
    sheet = Image.new("RGB", (columns * (_CELL + 16), max(rows, 1) * (height + 12)), "white")
    draw = ImageDraw.Draw(sheet)
    for number, item in enumerate(items):
        x, y = (number % columns) * (_CELL + 16) + 8, (number // columns) * (height + 12) + 8
        picture = _opened(item.image)
        picture.thumbnail((_CELL, _CELL), Image.Resampling.LANCZOS)
        if picture.width < _CELL:
            picture = picture.resize((_CELL, _CELL * picture.height // picture.width))
        sheet.paste(picture, (x, y))
        lines = _wrapped(f"answer: {item.answer}", font) + _wrapped(item.best.text, font)
        color = _VERDICT_COLORS.get(item.best.verdict or "", (30, 30, 36))
        for line, text in enumerate(lines[:_TEXT_LINES]):
            shade = (90, 90, 100) if text.startswith("answer: ") else color
            draw.text((x, y + _CELL + 4 + 18 * line), text, fill=shade, font=font)
    data = io.BytesIO()
    sheet.save(data, "PNG")
    write_bytes(path, data.getvalue())


def _view(item: AskedPair) -> dict[str, Any]:
    """A pair as the template needs it; equal samples are counted."""
    counts = Counter(question.text for question in item.samples)
    # The first sample of each text gives its likelihood and verdict.
    first = {question.text: question for question in reversed(item.samples)}
    return {
        "image": data_uri(item.image),
        "answer": item.answer,
        "answer_type": item.answer_type,
        "reference": item.reference,
        "best": item.best,
        "note": getattr(item.best, "note", ""),
        "samples": [
            (first[text], getattr(first[text], "note", "") or (count if count > 1 else ""))
            for text, count in counts.most_common()
        ],
    }


def data_uri(image: Path | Image.Image, size: int = _THUMBNAIL, quality: int = 88) -> str:
    """A JPEG thumbnail of at most `size` pixels a side as "data:image/jpeg;base64,..."."""
    thumbnail = _opened(image)
    thumbnail.thumbnail((size, size), Image.Resampling.LANCZOS)
    data = io.BytesIO()
    thumbnail.save(data, "JPEG", quality=quality)
    return "data:image/jpeg;base64," + base64.b64encode(data.getvalue()).decode()


def _opened(image: Path | Image.Image) -> Image.Image:
    return to_rgb(image) if isinstance(image, Image.Image) else open_picture(image)


def _wrapped(text: str, font: Any) -> list[str]:
    """The text in lines that fit into the width of a cell."""
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}".strip()
        if line and font.getlength(longer) > _CELL:
            lines.append(line)
            longer = word
        line = longer
    return [*lines, line]


@dataclass(frozen=True, kw_only=True)
class QuestionPages:
    """Writes questions.html and questions.png of an iVQA benchmark.

    Args:
        num_shown: Pairs on the contact sheet, spread evenly over the split.
    """

    num_shown: CountOrZero = 60

    def __call__(
        self,
        items: Sequence[AskedPair],
        split: VQASplit,
        run_dir: Path,
        title: str,
        metrics: Mapping[str, float],
    ) -> Path:
        """Writes the pages about the pairs of a split, in its order, and returns questions.html.

        The contact sheet shows some of the metrics at the top.
        """
        step = max(1, len(items) // max(self.num_shown, 1))
        shown = items[::step][: self.num_shown]
        unique = [name for name in metrics if name.startswith("unique_of_") and name[10:] != "100"]
        summary = {
            name.replace("_", " ").replace("/", ": "): metrics[name]
            for name in ("cider", *unique, "best/consistent")
            if name in metrics
        }
        subtitle = f"{title}: {len(shown)} of {len(items)} image-answer pairs"
        page = run_dir / "questions.html"
        heading = "Questions generated from image and answer"
        write_contact_sheet(page, shown, heading, subtitle, summary)
        write_contact_sheet_png(run_dir / "questions.png", shown[:_PICTURED])
        return page
