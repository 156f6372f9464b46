"""The robustness of a VQA model as a Lightning callback: plugs into any run."""

from typing import Any

import numpy as np
import pytorch_lightning as pl
from numpy.typing import NDArray
from rich.progress import track

from ivqa.data import VQADataModule
from ivqa.metrics import vqa_accuracies
from ivqa.robustness.curve import NoiseCurve
from ivqa.robustness.noise import Certified, Noise
from ivqa.text.tokens import tokenise
from ivqa.vqa import Answerer


class RobustnessCallback(pl.Callback):
    """Asks a model every question at every level of noise; logs accuracies and R_score.

    Runs at the end of Trainer.validate and Trainer.test, and in training after every
    `every_n_epochs` validations (0: not in training). The trainer needs a `VQADataModule`; a
    module that answers no questions, such as a generator, is left alone.
    num_questions: of the split, the first ones of a random order; None takes all.
    batch_size: questions answered at once. resamples: of the bootstrap.
    """

    def __init__(
        self,
        noise: Noise,
        *,
        num_questions: int | None = None,
        every_n_epochs: int = 0,
        batch_size: int = 500,
        resamples: int = 1000,
        seed: int = 0,
    ) -> None:
        self.noise = noise
        self.num_questions = num_questions
        self.every_n_epochs = every_n_epochs
        self.batch_size = batch_size
        self.resamples = resamples
        self.seed = seed

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measures, and logs robustness/... beside the module's own metrics."""
        if trainer.sanity_checking:
            return
        if trainer.state.fn == "fit":
            epoch = trainer.current_epoch + 1
            if not self.every_n_epochs or epoch % self.every_n_epochs:
                return
        self._log(trainer, pl_module, "val")

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measures, and logs robustness/... beside the module's own metrics."""
        self._log(trainer, pl_module, "test")

    def measure(self, answerer: Answerer, datamodule: VQADataModule, stage: str) -> NoiseCurve:
        """The accuracy of every question of a split at every level of noise.

        Raises ValueError where the split has no annotations.
        """
        split = datamodule.dataset.split(stage).require_answers()
        rows = np.arange(len(split))
        if self.num_questions is not None and self.num_questions < len(rows):
            rows = np.random.default_rng(self.seed).permutation(rows)[: self.num_questions]
            rows.sort()
        clean = [split.questions[row] for row in rows]
        training = datamodule.dataset.split("train").questions
        levels = [clean, *self.noise.disturbed(clean, training)]
        human = [split.answers[row] for row in rows]
        accuracies = [
            vqa_accuracies(
                self._answers(answerer, datamodule, stage, split.image_ids[rows], q), human
            )
            for q in track(levels, description="noisy questions", transient=True)
        ]
        self.levels = levels
        self.certificate = (
            self.noise.figures(clean, training) if isinstance(self.noise, Certified) else {}
        )
        return NoiseCurve(np.stack(accuracies), [split.answer_types[row] for row in rows])

    def metrics(
        self, answerer: Answerer, datamodule: VQADataModule, stage: str
    ) -> dict[str, float]:
        """robustness/...: figures of the curve and of the noise, and the share of cut questions."""
        curve = self.measure(answerer, datamodule, stage)
        figures = {**curve.metrics(self.resamples, self.seed), **self.certificate}
        if (limit := getattr(answerer, "max_question_length", None)) is not None:
            lengths = [len(tokenise(text)) for text in self.levels[1]]
            figures["truncated"] = float(np.mean(np.array(lengths) > limit))
        return {f"robustness/{name}": value for name, value in figures.items()}

    def _answers(
        self,
        answerer: Answerer,
        datamodule: VQADataModule,
        stage: str,
        image_ids: NDArray[np.int64],
        questions: list[str],
    ) -> list[str]:
        answers: list[str] = []
        for start in range(0, len(questions), self.batch_size):
            part = slice(start, start + self.batch_size)
            images = datamodule.images_of(stage, image_ids[part])
            answers += answerer.answer(images, questions[part])
        return answers

    def _log(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if not hasattr(pl_module, "answer"):
            return
        datamodule: Any = trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(datamodule, VQADataModule):
            raise ValueError("callbacks=robustness needs a trainer with a VQADataModule")
        stage = datamodule.evaluated or stage
        pl_module.log_dict(self.metrics(pl_module, datamodule, stage))  # type: ignore[arg-type]
