"""The VQA benchmark of an answerer: official accuracy, and a result file that servers accept."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from ivqa.data import VQADataModule, VQASplit
from ivqa.data.batch import ANSWER_TYPES
from ivqa.data.results import results_text
from ivqa.experiment.artifacts import write_text
from ivqa.metrics.vqa_accuracy import VQAAccuracy, vqa_accuracies
from ivqa.vqa import Answerer


@dataclass(frozen=True, kw_only=True)
class VQABenchmark:
    """Answers every question of a split and scores the answers officially.

    batch_size: questions at once.
    """

    batch_size: int = 500
    headline: str = "vqa/accuracy"

    def run(
        self,
        module: Answerer,
        datamodule: VQADataModule,
        stage: str,
        run_dir: Path,
        title: str,
        console: Console,
    ) -> dict[str, float]:
        """The metrics of `score_answers`, and vqa/questions_per_second, reading data included.

        Writes predictions.json in the official format.
        """
        split = datamodule.dataset.split(stage).require_answers()
        started = time.perf_counter()
        answers = answer_all(
            module,
            datamodule,
            stage,
            split.image_ids,
            split.questions,
            console,
            batch_size=self.batch_size,
        )
        seconds = time.perf_counter() - started
        write_text(run_dir / "predictions.json", results_text(split, answers))
        return {
            **score_answers(split, answers),
            "vqa/questions_per_second": len(split) / seconds,
        }


def answer_all(
    module: Answerer,
    datamodule: VQADataModule,
    stage: str,
    image_ids: NDArray[np.int64],
    questions: Sequence[str],
    console: Console,
    *,
    batch_size: int = 500,
) -> list[str]:
    """The model's answers to any N questions about images of a split, in their order."""
    answers: list[str] = []
    starts = range(0, len(questions), batch_size)
    for start in track(starts, description="answering", console=console, transient=True):
        rows = slice(start, start + batch_size)
        images = datamodule.images_of(stage, image_ids[rows])
        answers += module.answer(images, list(questions[rows]))
    return answers


def score_answers(split: VQASplit, answers: Sequence[str]) -> dict[str, float]:
    """Official accuracies as fractions: vqa/accuracy, vqa/yes_no, vqa/number, vqa/other.

    A type without questions is left out. Raises ValueError where the split has no annotations.
    """
    accuracies = vqa_accuracies(answers, split.require_answers().answers)
    kinds = {kind: index for index, kind in enumerate(ANSWER_TYPES)}
    metric = VQAAccuracy()
    metric.update(
        torch.from_numpy(accuracies),
        torch.tensor([kinds.get(kind, -1) for kind in split.answer_types]),
    )
    return {
        f"vqa/{name.removeprefix('vqa_')}": value.item() for name, value in metric.compute().items()
    }
