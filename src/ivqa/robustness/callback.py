"""callbacks=robustness: a Lightning callback that measures the robustness of a VQA model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from typing_extensions import override

from ivqa.data import VQADataModule, VQADataset, VQASplit
from ivqa.errors import UserError
from ivqa.metrics import PUBLISHED_R_SCORE, RScore
from ivqa.provenance import note_questions
from ivqa.ranges import Count, CountOrZero, Seed
from ivqa.robustness.noise import Checkable, DisturbsImages, HasFigures, Noise
from ivqa.robustness.records import NoiseRecords
from ivqa.vqa import Answerer, MeasuringCallback, Metered
from ivqa.vqa.multiple_choice import choose_among


class RobustnessCallback(MeasuringCallback):
    """Asks a model every question at every level of noise, and logs accuracies and R_score.

    `MeasuringCallback` says when it runs. All answers are written to robustness.parquet in the
    default_root_dir of the trainer.

    Args:
        pool: Returns the questions of a data set that the noise may use; None for the training
            questions.
        num_questions: Number of questions of the split, drawn at random; None for all.
        every_n_epochs: In training, measure after every so many epochs; 0 for never.
        seed: Seed of the choice of questions and of the bootstrap.
        r_score: R_score with its tolerance and limit [ROB eq. 3], and which accuracy is measured.
    """

    version: ClassVar[int] = 1  # of the figures and of the noise, which tables rest on

    def __init__(
        self,
        noise: Noise,
        *,
        pool: Callable[[VQADataset], Sequence[str]] | None = None,
        num_questions: Count | None = None,
        every_n_epochs: CountOrZero = 0,
        batch_size: Count = 500,
        resamples: Count = 1000,
        seed: Seed = 0,
        r_score: RScore = PUBLISHED_R_SCORE,
    ) -> None:
        super().__init__(every_n_epochs)
        self.noise = noise
        self.pool = pool
        self.num_questions = num_questions
        self.batch_size = batch_size
        self.resamples = resamples
        self.seed = seed
        self.r_score = r_score

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """The names of the metrics that a callback with these arguments logs in training.

        They are such as "robustness/r_score"; none if it does not run in training.
        """
        if not arguments.get("every_n_epochs"):
            return set()
        levels = arguments["noise"].get("levels", 1)
        curve = {f"robustness/partition_{level}/accuracy" for level in range(levels + 1)}
        return curve | {f"robustness/{name}" for name in ("r_score", "area", "trend", "slope")}

    def measure(
        self, answerer: Answerer, datamodule: VQADataModule, stage: str
    ) -> tuple[NoiseRecords, dict[str, float]]:
        """Asks the questions of a split at every level of noise.

        Returns:
            The answers with their accuracies, and the figures of the noise by name.

        Raises:
            UserError: The split has no annotations, or the noise cannot disturb a question.
        """
        dataset = datamodule.dataset
        split = dataset.split(stage).require_answers()
        rows = self._rows(split)
        clean = [split.questions[row] for row in rows]
        pool = self._pool_of(dataset)
        # Level 0 is the clean split: accuracies of all levels are over the same questions.
        levels = [clean, *self.noise.disturbed(clean, pool)]
        asked = split.select(rows)
        if isinstance(answerer, Metered):  # each question to it costs
            asked = replace(asked, multiple_choices=None)
        answers, choices = [], []
        for level, questions in enumerate(track(levels, "noisy questions", transient=True)):
            given, chosen = self._answers(answerer, datamodule, stage, asked, questions, level)
            answers.append(given)
            choices.append(chosen)
        # Appended basic questions make a question longer than some models read.
        is_cut = getattr(answerer, "is_cut", None)
        records = NoiseRecords.scored(
            split,
            answers,
            levels,
            rows,
            accuracy=self.r_score.accuracy,
            choices=None if asked.multiple_choices is None else choices,
            cut=None if is_cut is None else np.array([is_cut(level) for level in levels]),
        )
        if isinstance(self.noise, HasFigures):
            return records, self.noise.figures(clean, pool)
        return records, {}

    def check_data(self, dataset: VQADataset, stage: str) -> None:
        """Checks, before a long computation, that the noise can disturb the questions of a split.

        Raises:
            UserError: The split has no annotations, the pool cannot be read, or the noise cannot
                disturb a question.
        """
        if dataset.lacks_annotations(stage):
            raise UserError(
                f"callbacks=robustness measures accuracy, and split '{dataset.name_of(stage)}' has "
                "no annotations; leave it out, or choose another split"
            )
        split = dataset.split(stage)
        pool = self._pool_of(dataset)
        if isinstance(self.noise, Checkable):
            self.noise.check([split.questions[row] for row in self._rows(split)], pool)

    def _rows(self, split: VQASplit) -> NDArray[np.int64]:
        """The positions of the questions that are asked, in the order of the split."""
        rows = np.flatnonzero(split.metric.counted(split))
        # A prefix of one random order: more questions contain the fewer ones.
        if self.num_questions is not None and self.num_questions < len(rows):
            rows = np.random.default_rng(self.seed).permutation(rows)[: self.num_questions]
            rows.sort()
        return rows

    def _pool_of(self, dataset: VQADataset) -> Sequence[str]:
        return self.pool(dataset) if self.pool else dataset.split("train").questions

    @override
    def metrics(
        self,
        answerer: Answerer,
        datamodule: VQADataModule,
        stage: str,
        run_dir: Path | None = None,
    ) -> dict[str, float]:
        records, of_noise = self.measure(answerer, datamodule, stage)
        if run_dir is not None:
            records.write(run_dir)
        curve = records.curve(self.r_score)
        figures = {**curve.metrics(self.resamples, self.seed), **of_noise}
        return {f"robustness/{name}": value for name, value in figures.items()}

    def _answers(
        self,
        answerer: Answerer,
        datamodule: VQADataModule,
        stage: str,
        asked: VQASplit,
        questions: list[str],
        level: int,
    ) -> tuple[list[str], list[str]]:
        """The answers to N questions, and their chosen candidates, none for each without choices.

        asked: The clean questions.
        """
        # Level 0 has stored features; disturbed images need new ones, computed from their pixels.
        noise, disturb = self.noise, None
        if level and isinstance(noise, DisturbsImages):
            disturb = partial(noise.disturbed_image, level=level)
        answers, chosen = list[str](), list[str]()
        for start in range(0, len(questions), self.batch_size):
            part = slice(start, start + self.batch_size)
            images = datamodule.images_of(stage, asked.image_ids[part], disturb)
            answers += answerer.answer(images, questions[part])
            if asked.multiple_choices is not None:
                choices = asked.multiple_choices[part]
                chosen += choose_among(answerer, images, questions[part], choices)
        note_questions(len(questions))
        return answers, chosen
