"""The benchmark of the legality model: real questions against damaged copies."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torchmetrics.functional.classification import binary_auroc

from ivqa.data import VQADataModule
from ivqa.diagnosis.beliefs.perturbation import KINDS, perturb
from ivqa.diagnosis.legality.module import LegalityModule
from ivqa.ranges import Count, Seed
from ivqa.scenes import SceneOracle, oracle_of


@dataclass(frozen=True, kw_only=True)
class LegalityBenchmark:
    """Measures how well the legality model separates real questions from damaged copies.

    Args:
        num_questions: Number of real questions to draw; each is damaged in every way.
        seed: Seed of the draw and of the damage.
        headline: Name of the main metric.
    """

    num_questions: Count = 2000
    seed: Seed = 0
    headline: str = "legality/auroc"

    def run(
        self,
        module: LegalityModule,
        datamodule: VQADataModule,
        stage: str,
        run_dir: Path,
        title: str,
        console: Console,
    ) -> dict[str, float]:
        """Scores the module on a split.

        Returns:
            - legality/auroc: Area under the ROC curve, real against damaged questions.
            - legality/auroc_<kind>: The same for one kind of damage.
            - legality/auroc_grammar: On scenes, texts that the grammar understands against others.
            - legality/threshold: The calibrated threshold.
            - legality/kept: Share of the real questions above the threshold.
            - legality/refused: Share of the damaged questions that are not above it.
        """
        split = datamodule.dataset.split(stage)
        rng = np.random.default_rng(self.seed)
        chosen = rng.permutation(len(split))[: self.num_questions]
        questions = [split.questions[row] for row in chosen]
        words, generator = module.question_vocabulary, torch.Generator().manual_seed(self.seed)
        tokens = words.encode(questions)
        real = module.probabilities(questions)
        metrics: dict[str, float] = {}
        texts, scores = list(questions), [real]
        for number, kind in enumerate(KINDS):
            kinds = torch.full((len(tokens),), number)
            damaged = words.decode(perturb(tokens, len(words), kinds, generator))
            score = module.probabilities(damaged)
            metrics[f"legality/auroc_{kind}"] = _area(real, score)
            texts += damaged
            scores.append(score)
        fake = torch.cat(scores[1:])
        metrics["legality/auroc"] = _area(real, fake)
        metrics["legality/threshold"] = module.limit
        metrics["legality/kept"] = float((real > module.limit).float().mean())
        metrics["legality/refused"] = float((fake <= module.limit).float().mean())
        oracle = oracle_of(datamodule.dataset, stage)
        if isinstance(oracle, SceneOracle):  # others understand a part of the legal questions
            legal = torch.tensor([oracle.fact(text) is not None for text in texts])
            all_scores = torch.cat(scores)
            metrics["legality/auroc_grammar"] = _area(all_scores[legal], all_scores[~legal])
        return metrics


def _area(positive: torch.Tensor, negative: torch.Tensor) -> float:
    """Area under the ROC curve of the scores of two classes."""
    labels = torch.cat([torch.ones(len(positive)), torch.zeros(len(negative))]).long()
    return float(binary_auroc(torch.cat([positive, negative]), labels))
