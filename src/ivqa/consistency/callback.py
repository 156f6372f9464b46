"""callbacks=consistency: a Lightning callback that measures answers that cannot all be true."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.progress import track
from torch import nn
from typing_extensions import override

from ivqa.consistency.implied import AnsweredQuestion
from ivqa.consistency.measure import ConsistencyMeasure, answered, implied_split
from ivqa.consistency.records import ConsistencyRecords
from ivqa.data import VQADataModule, VQASplit
from ivqa.provenance import note_questions
from ivqa.ranges import Count, CountOrZero, ExistingFile, Resamples, Seed
from ivqa.scenes import oracle_of
from ivqa.terminal import terminal
from ivqa.vqa import Answerer, MeasuringCallback, Metered, images_for
from ivqa.vqa.likelihood import answers_with_phi


class ConsistencyCallback(MeasuringCallback):
    """Asks a model what follows from its answers, and logs how often it agrees with itself.

    `MeasuringCallback` says when it runs. It needs neither annotations nor images. The answers are
    written to consistency.jsonl, the implied questions to implications.jsonl, in the
    default_root_dir of the trainer. The arguments that are not named here are those of
    `ConsistencyMeasure`.

    Args:
        witness: Another VQA model, which is asked the same questions and says what is there too;
            None for none.
        max_paid_questions: The most further questions to ask a served model in all, whose
            questions cost; and the most to ask a served witness.
        every_n_epochs: In training, measure after every so many epochs; 0 for never.
        batch_size: Questions answered at once.
    """

    version: ClassVar[int] = 1  # of the figures, which tables rest on

    def __init__(
        self,
        witness: Answerer | None = None,
        *,
        num_images: Count | None = 200,
        max_questions: Count = 500,
        max_paid_questions: Count = 2000,
        rounds: Count = 1,
        entailments: ExistingFile | None = None,
        every_n_epochs: CountOrZero = 0,
        batch_size: Count = 500,
        resamples: Resamples = 1000,
        seed: Seed = 0,
    ) -> None:
        super().__init__(every_n_epochs)
        self.measure = ConsistencyMeasure(
            num_images=num_images,
            max_questions=max_questions,
            rounds=rounds,
            entailments=entailments,
            resamples=resamples,
            seed=seed,
        )
        self.witness = witness
        self.max_paid_questions = max_paid_questions
        self.batch_size = batch_size

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """The names of the metrics that the callback logs in training, on any data.

        Such as "consistency/errors_at_least"; none if it does not run in training.
        """
        if not arguments.get("every_n_epochs"):
            return set()
        names = ("rate", "coverage", "errors_at_least", "error_estimate", "suspects")
        return {f"consistency/{name}" for name in names}

    def records(
        self, answerer: Answerer, datamodule: VQADataModule, stage: str
    ) -> ConsistencyRecords:
        """Asks the questions of a split, and those that follow from the answers.

        Returns:
            All answers, compared.

        Raises:
            UserError: The model gives no answer.
        """
        split = self.measure.chosen(datamodule.dataset.split(stage))
        budget = self.max_paid_questions if isinstance(answerer, Metered) else None
        if budget is not None:
            self._tell_cost(split, budget)
        own = answered(split, *self._ask(answerer, datamodule, stage, split))
        return self.compared(own, answerer, datamodule, stage, budget)

    def compared(
        self,
        own: Sequence[AnsweredQuestion],
        answerer: Answerer,
        datamodule: VQADataModule,
        stage: str,
        budget: int | None = None,
    ) -> ConsistencyRecords:
        """Asks the questions that follow from answers to questions about images of a split.

        At most `budget` in all; None for any number. Returns all answers, compared.
        """
        split = datamodule.dataset.split(stage)

        def ask(
            questions: Sequence[tuple[int, str]], of: Answerer = answerer
        ) -> list[AnsweredQuestion]:
            if budget is not None:
                terminal().print(f"consistency: asking {len(questions):,} further questions")
            further = implied_split(split, questions)
            found = self._ask(of, datamodule, stage, further)
            return answered(further, *found, implied=True)

        witness = self.witness
        if witness is None:
            return self.measure.asked(own, ask, budget)
        if isinstance(witness, nn.Module):
            witness.to(getattr(answerer, "device", "cpu"))

        def ask_witness(questions: Sequence[tuple[int, str]]) -> list[AnsweredQuestion]:
            if isinstance(witness, Metered):
                questions = questions[: self.max_paid_questions]
                terminal().print(f"consistency: asking the witness {len(questions):,} questions")
            return ask(questions, witness)

        return self.measure.asked(own, ask, budget, ask_witness)

    @override
    def metrics(
        self,
        answerer: Answerer,
        datamodule: VQADataModule,
        stage: str,
        run_dir: Path | None = None,
    ) -> dict[str, float]:
        records = self.records(answerer, datamodule, stage)
        if run_dir is not None:
            records.write(run_dir)
        dataset = datamodule.dataset
        figures = self.measure.figures(records, dataset.split(stage), oracle_of(dataset, stage))
        # A checkpoint may be chosen by it: NaN, where nothing follows, is the worst value.
        return {"consistency/rate": float("nan"), **figures}

    def _tell_cost(self, split: VQASplit, budget: int) -> None:
        images = len(np.unique(split.image_ids))
        most = min(budget, images * self.measure.max_questions)
        terminal().print(
            f"consistency: {len(split):,} questions about {images:,} images, and at most {most:,} "
            "further ones (callbacks.consistency.num_images, max_paid_questions)",
            soft_wrap=True,
        )

    def _ask(
        self, answerer: Answerer, datamodule: VQADataModule, stage: str, split: VQASplit
    ) -> tuple[list[str], list[float | None]]:
        """The answers to N questions about images of a stage; confidences unless they cost."""
        answers, confidences = list[str](), list[float | None]()
        starts = range(0, len(split), self.batch_size)
        for start in track(starts, f"{split.name} questions", transient=True):
            part = slice(start, start + self.batch_size)
            images = images_for([answerer], datamodule, stage, split.image_ids[part].tolist())
            texts = split.questions[part]
            if isinstance(answerer, Metered):
                answers += answerer.answer(images, texts)
                confidences += [None] * len(texts)
            else:
                given, phi = answers_with_phi(answerer, images, texts)
                answers += given
                confidences += phi
        note_questions(len(split))
        return answers, confidences
