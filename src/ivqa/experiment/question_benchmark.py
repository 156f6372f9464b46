"""The iVQA benchmark of a question generator: what it asks, how well, and how variously."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from ivqa.data import VQADataModule, VQASplit
from ivqa.data.scenes import Judgement, Oracle
from ivqa.experiment.artifacts import write_text
from ivqa.generators import Beam, QuestionGenerationModule, Questions, Sampling, ask
from ivqa.metrics import (
    CaptionMetrics,
    oracle_consistency,
    question_diversity,
)
from ivqa.report import (
    ContactSheetItem,
    GeneratedQuestion,
    write_contact_sheet,
    write_contact_sheet_png,
)


@dataclass(frozen=True, kw_only=True)
class QuestionBenchmark:
    """Asks one best and several sampled questions of every (image, answer) pair of a split.

    num_latents: latent vectors tried for the best question of a pair, one beam each; the most
    probable question is kept [iVQA 3.2]. beam_size: of each of them.
    num_samples: questions sampled of every pair, for diversity and the oracle.
    num_pairs_of_100: pairs of which 100 questions are sampled, for the unique questions of 100.
    num_shown: pairs on the contact sheet. batch_size: pairs at once. seed: of all sampling.
    """

    num_latents: int = 10
    beam_size: int = 3
    num_samples: int = 20
    num_pairs_of_100: int = 100
    num_shown: int = 60
    batch_size: int = 250
    seed: int = 0
    headline: str = "cider"

    def run(
        self,
        module: QuestionGenerationModule,
        datamodule: VQADataModule,
        stage: str,
        run_dir: Path,
        console: Console,
    ) -> dict[str, float]:
        """The benchmark's metrics; writes samples.jsonl and, with images, the contact sheet.

        Metrics: the seven linguistic ones against the pair's own question; unique_of_20,
        unique_of_100, novel, distinct_1, distinct_2 of the samples; and where the data have an
        oracle, the shares of best (oracle/...) and of sampled questions (samples/...) that are
        understood, have a true premise, and have the given answer (consistent).
        """
        split = datamodule.dataset.split(stage).require_answers()
        best, samples = self._ask(module, datamodule, stage, console)
        metrics = {
            name: float(value) for name, value in _linguistic(best.text, split.questions).items()
        }
        training = datamodule.dataset.split("train").questions
        metrics |= _diversity(samples, len(split), self.num_samples, training)
        metrics["unique_of_100"] = self._unique_of_100(module, datamodule, stage)
        oracle = datamodule.dataset.oracle(stage)
        best_verdicts = sample_verdicts = None
        if oracle is not None:
            best_verdicts = _judge(oracle, split, best)
            sample_verdicts = _judge(oracle, split, samples)
            metrics |= _consistency("oracle", best_verdicts, split, best)
            metrics |= _consistency("samples", sample_verdicts, split, samples)
        self._write_samples(run_dir / "samples.jsonl", split, best, samples)
        if split.images is not None:
            items = self._items(split, best, best_verdicts, samples, sample_verdicts)
            summary = {name: metrics[name] for name in ("cider", "unique_of_20") if name in metrics}
            if "oracle/consistent" in metrics:
                summary["consistent"] = metrics["oracle/consistent"]
            title, subtitle = "Questions that an answer fits", f"{run_dir.name}, split {split.name}"
            write_contact_sheet(run_dir / "questions.html", items, title, subtitle, summary)
            write_contact_sheet_png(run_dir / "questions.png", items[:12])
            console.print(f"look at {run_dir / 'questions.html'}")
        return metrics

    def _ask(
        self,
        module: QuestionGenerationModule,
        datamodule: VQADataModule,
        stage: str,
        console: Console,
    ) -> tuple[Questions, Questions]:
        """The best question of each pair (P), and the samples of each pair (P * num_samples)."""
        split = datamodule.dataset.split(stage)
        generator = torch.Generator().manual_seed(self.seed)
        beam = Beam(size=self.beam_size)
        best: list[Questions] = []
        samples: list[Questions] = []
        starts = range(0, len(split), self.batch_size)
        for start in track(starts, description="asking questions", console=console, transient=True):
            rows = np.arange(start, min(start + self.batch_size, len(split)))
            images = datamodule.batch_of(stage, rows).images
            answers = [split.main_answers[row] for row in rows]
            found = ask(
                module,
                images,
                answers,
                num_latents=self.num_latents,
                strategy=beam,
                generator=generator,
            )
            best.append(found)
            samples.append(module.sample(images, answers, self.num_samples, Sampling(), generator))
        return Questions.concatenate(best), Questions.concatenate(samples)

    def _unique_of_100(
        self, module: QuestionGenerationModule, datamodule: VQADataModule, stage: str
    ) -> float:
        split = datamodule.dataset.split(stage)
        rng = np.random.default_rng(self.seed)
        rows = rng.permutation(len(split))[: self.num_pairs_of_100]
        answers = [split.main_answers[row] for row in rows]
        generator = torch.Generator().manual_seed(self.seed)
        images = datamodule.batch_of(stage, rows).images
        samples = module.sample(images, answers, 100, Sampling(), generator)
        return _diversity(samples, len(rows), 100, [])["unique_of_100"]
