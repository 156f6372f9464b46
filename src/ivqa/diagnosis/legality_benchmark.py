"""How well the legality model tells questions from nonsense."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torchmetrics.functional.classification import binary_auroc

from ivqa.data import VQADataModule
from ivqa.diagnosis.legality import LegalityModule
from ivqa.diagnosis.perturbation import KINDS, perturb
from ivqa.ranges import Count, Seed
from ivqa.scenes import oracle_of, parse


@dataclass(frozen=True, kw_only=True)
class LegalityBenchmark:
    """Scores real questions of a split against copies damaged in each way.

    num_questions: real questions, drawn at random with `seed`.
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
        """Area under the ROC curve: overall, by kind of damage, and on scenes by the grammar.

        legality/kept: real questions above the calibrated threshold; legality/refused: damaged
        ones that are not above it.
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
        if oracle_of(datamodule.dataset, stage) is not None:
            legal = torch.tensor([parse(text) is not None for text in texts])
            everything = torch.cat(scores)
            metrics["legality/auroc_grammar"] = _area(everything[legal], everything[~legal])
        return metrics


def _area(positive: torch.Tensor, negative: torch.Tensor) -> float:
    labels = torch.cat([torch.ones(len(positive)), torch.zeros(len(negative))]).long()
    return float(binary_auroc(torch.cat([positive, negative]), labels))
