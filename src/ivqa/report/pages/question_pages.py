"""Pages about a question generator: a contact sheet as HTML and PNG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ivqa.data import VQASplit
from ivqa.generators.evaluation import AskedPair
from ivqa.ranges import CountOrZero
from ivqa.report.contact_sheet import write_contact_sheet, write_contact_sheet_png

_PICTURED = 12  # pairs in questions.png


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
        """Writes the pages.

        Args:
            items: The image-answer pairs of the split, in its order.
            split: The split; it has images.
            run_dir: The run directory.
            title: The title of the run.
            metrics: Metrics of the benchmark; the contact sheet shows some of them at the top.

        Returns:
            The contact sheet, questions.html.
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
