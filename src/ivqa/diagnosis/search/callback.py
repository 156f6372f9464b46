"""callbacks=beliefs: a Lightning callback that watches what a VQA model wrongly believes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from ivqa.data import VQADataModule, VQADataset
from ivqa.diagnosis.beliefs.pairs import Pool
from ivqa.diagnosis.candidates import LegalityJudge
from ivqa.diagnosis.search.probe import BeliefProbe, belief_figures
from ivqa.generators import Questioner
from ivqa.ranges import Count, CountOrZero, Seed, Share
from ivqa.vqa import Answerer, MeasuringCallback


class BeliefCallback(MeasuringCallback):
    """Asks a model the questions of a fixed probe, and logs how many of its beliefs are wrong.

    `MeasuringCallback` says when it runs. A belief is a legal question that the model answers with
    the answer that the generator asked for [iVQA 5]. The questions are the same in every epoch.
    The arguments that are not named here are those of `BeliefProbe`.

    Args:
        questioner: The generator.
        every_n_epochs: In training, measure after every so many epochs; 0 for never.
    """

    def __init__(
        self,
        questioner: Questioner,
        legality_model: LegalityJudge,
        *,
        num_images: Count | None = 50,
        pool: Pool = "ground_truth",
        num_top_answers: Count = 20,
        num_latents: Count = 20,
        legality: Share | None = None,
        every_n_epochs: CountOrZero = 1,
        seed: Seed = 0,
    ) -> None:
        super().__init__(every_n_epochs)
        self.probe = BeliefProbe(
            {"supervised": questioner},
            legality_model,
            num_images=num_images,
            pool=pool,
            num_top_answers=num_top_answers,
            num_latents=num_latents,
            legality=legality,
            seed=seed,
        )

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """The names of the metrics that the callback logs in training, on any data.

        Such as "beliefs/wrong_rate"; none if it does not run in training.
        """
        if not arguments.get("every_n_epochs", 1):
            return set()
        return {"beliefs/wrong_rate", "beliefs/per_pair"}

    def check_data(self, dataset: VQADataset, stage: str) -> None:
        """Checks, before a long computation, that the split has annotations.

        Raises:
            DataError: It has none, so there are no image-answer pairs.
        """
        dataset.split(stage).require_answers()

    @override
    def metrics(
        self,
        answerer: Answerer,
        datamodule: VQADataModule,
        stage: str,
        run_dir: Path | None = None,
    ) -> dict[str, float]:
        figures = belief_figures(*self.probe.beliefs(answerer, datamodule, stage))
        return {f"beliefs/{name}": value for name, value in figures.items()}
