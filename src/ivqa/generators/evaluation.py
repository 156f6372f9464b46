"""The iVQA benchmark of a question generator: quality, diversity and consistency of questions."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.progress import track

from ivqa.data import VQADataModule, VQASplit
from ivqa.data.batches.batch import ANSWER_TYPES
from ivqa.generators.decoding.beam import Beam
from ivqa.generators.decoding.inference import ask
from ivqa.generators.decoding.strategies import Sampling
from ivqa.generators.module import GeneratorModule
from ivqa.generators.pool_ranking import PoolRanking
from ivqa.generators.protocol import Questioner, Questions, RemembersTraining
from ivqa.metrics import caption_metrics, oracle_consistency, question_diversity, verdict
from ivqa.ranges import Count, CountOrZero, NonNegative, Positive, Seed
from ivqa.scenes import Oracle, oracle_of
from ivqa.store.files import write_text

T = TypeVar("T")


@dataclass(frozen=True)
class GeneratedQuestion:
    """A generated question, and its log p(q | z, I, a) in nats.

    `verdict` is the oracle's (`ivqa.metrics.verdict`); None for data without an oracle.
    """

    text: str
    log_likelihood: float
    verdict: str | None = None


@dataclass(frozen=True)
class AskedPair:
    """The questions of one (image, answer) pair: the most probable one found, and samples.

    `image` is the image or its path, `answer_type` such as yes/no, `reference` the question of the
    data set.
    """

    image: Path | Image.Image
    answer: str
    answer_type: str
    reference: str
    best: GeneratedQuestion
    samples: Sequence[GeneratedQuestion]


WritesPages = Callable[[Sequence[AskedPair], VQASplit, Path, str, Mapping[str, float]], Path]
"""Writes HTML pages of generated questions, and returns the path of the main page.

`ivqa.report.QuestionPages` does, and describes the arguments. That room stands on this one.
"""

Decoding = Callable[[GeneratorModule], Questioner]
"""Takes a trained generator; returns what is asked in its place."""


@dataclass(frozen=True, kw_only=True)
class QuestionBenchmark:
    """Generates one best and several sampled questions for every (image, answer) pair of a split.

    Args:
        num_latents: Number of z that are decoded for the best question of a pair, each by a beam;
            the most probable question is kept [iVQA 3.2].
        beam_size: Size of each beam.
        num_alternatives: Other answers of the same type, the most frequent ones, with which a
            question should be less probable; 0 chooses the most probable question [iVQA 3.2].
        answer_weight: Weight of this choice, see `inference.ask`.
        num_samples: Questions that are sampled for every pair, for diversity and the oracle.
        temperature: Of the sampling; below 1 the samples are more probable and less diverse.
        num_pairs_of_100: Pairs for which 100 questions are sampled, for unique_of_100.
        batch_size: Pairs that are processed together.
        seed: Of all sampling.
        headline: Name of the metric that summarises the benchmark.
        decoding: Wraps the generator in one that asks and ranks with more than its likelihood, such
            as `ConsensusQuestioner.of`; None asks the generator itself.
        pages: Writes HTML pages if the data have images; None writes none.
        pools: Ranks pools of questions; None ranks none.
    """

    version: ClassVar[int] = 1  # of the figures, which tables rest on

    needs_answers: ClassVar[frozenset[str]] = frozenset({"validation", "scores"})
    num_latents: Count = 10
    beam_size: Count = 3
    num_alternatives: CountOrZero = 0
    answer_weight: NonNegative = 1.0
    num_samples: Count = 20
    temperature: Positive = 1.0
    num_pairs_of_100: Count = 100
    batch_size: Count = 250
    seed: Seed = 0
    headline: str = "cider"
    decoding: Decoding | None = None
    pages: WritesPages | None = None
    pools: PoolRanking | None = None

    def run(
        self,
        module: GeneratorModule,
        datamodule: VQADataModule,
        stage: str,
        run_dir: Path,
        title: str,
        console: Console,
    ) -> dict[str, float]:
        """Runs the benchmark on the split `stage`.

        Writes questions.jsonl, which task=human_study reads, and, if the data have images, a
        contact sheet.

        Returns:
            The seven linguistic metrics of the best questions against the question of the data
            set; unique_of_20 (for 20 samples), unique_of_100, novel, distinct_1 and distinct_2 of
            the samples; and, for data with an oracle, the shares of the best (best/...) and of the
            sampled questions (samples/...) that the oracle understands, whose premise is true and
            whose answer is the given one (consistent); and the metrics of `PoolRanking`.
        """
        split = datamodule.dataset.split(stage).require_answers()
        asked: Questioner = module
        if self.decoding is not None:
            asked = self.decoding(module)
            if isinstance(asked, RemembersTraining):
                asked.remember(datamodule)
        best, samples = self._ask(asked, datamodule, stage, console)
        metrics = caption_metrics(best.text, [[question] for question in split.questions])
        training = datamodule.dataset.split("train").questions
        diversity = question_diversity(_grouped(samples.text, self.num_samples), training)
        metrics[f"unique_of_{self.num_samples}"] = diversity.pop("unique_of_n")
        metrics |= {name: value for name, value in diversity.items() if value == value}  # not NaN
        metrics["unique_of_100"] = self._unique_of_100(asked, datamodule, stage)
        # Only data sets of scenes have an oracle.
        oracle = oracle_of(datamodule.dataset, stage)
        judged: dict[str, list[str]] = {}
        if oracle is not None:
            for name, questions in (("best", best), ("samples", samples)):
                judged[name] = _verdicts(oracle, split, questions)
                shares = oracle_consistency(judged[name])
                metrics |= {f"{name}/{term}": share for term, share in shares.items()}
        if self.pools is not None:
            metrics |= self.pools.run(asked, datamodule, stage, run_dir, console)
        items = list(self._items(split, best, samples, judged))
        _write_questions(run_dir / "questions.jsonl", split, items)
        if self.pages is not None and split.images is not None:
            page = self.pages(items, split, run_dir, title, metrics)
            console.print(f"look at {page}", soft_wrap=True)
        return metrics

    def _ask(
        self,
        module: Questioner,
        datamodule: VQADataModule,
        stage: str,
        console: Console,
    ) -> tuple[Questions, Questions]:
        """The best question of each of P pairs, and their P * num_samples samples."""
        split = datamodule.dataset.split(stage)
        kinds = split.answer_types
        frequent = self._frequent_answers(datamodule.dataset.split("train"))
        generator = torch.Generator().manual_seed(self.seed)
        beam, sampling = Beam(size=self.beam_size), Sampling(temperature=self.temperature)
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
                alternatives=None if frequent is None else [frequent[kinds[row]] for row in rows],
                answer_weight=self.answer_weight,
            )
            best.append(found)
            samples.append(module.sample(images, answers, self.num_samples, sampling, generator))
        return Questions.concatenate(best), Questions.concatenate(samples)

    def _frequent_answers(self, train: VQASplit) -> dict[str, list[str]] | None:
        """The most frequent training answers of each type; None if no alternatives are wanted."""
        if not self.num_alternatives:
            return None
        counts: dict[str, Counter[str]] = {kind: Counter() for kind in ANSWER_TYPES}
        for answer, kind in zip(train.main_answers, train.answer_types, strict=True):
            counts.setdefault(kind, Counter())[answer] += 1
        return {
            kind: [answer for answer, _ in own.most_common(self.num_alternatives)]
            for kind, own in counts.items()
        }

    def _unique_of_100(self, module: Questioner, datamodule: VQADataModule, stage: str) -> float:
        """Mean number of distinct questions among 100 samples, over random pairs."""
        split = datamodule.dataset.split(stage)
        rng = np.random.default_rng(self.seed)
        rows = rng.permutation(len(split))[: self.num_pairs_of_100]
        samples = module.sample(
            datamodule.batch_of(stage, rows).images,
            [split.main_answers[row] for row in rows],
            100,
            Sampling(temperature=self.temperature),
            torch.Generator().manual_seed(self.seed),
        )
        return question_diversity(_grouped(samples.text, 100))["unique_of_n"]

    def _items(
        self, split: VQASplit, best: Questions, samples: Questions, judged: dict[str, list[str]]
    ) -> Iterator[AskedPair]:
        """One item for each pair, in the order of the split."""
        asked = _generated(best, judged.get("best"))
        sampled = _grouped(_generated(samples, judged.get("samples")), self.num_samples)
        for row in range(len(split)):
            image_id = int(split.image_ids[row])
            yield AskedPair(
                image=Path() if split.images is None else split.images.path(image_id),
                answer=split.main_answers[row],
                answer_type=split.answer_types[row],
                reference=split.questions[row],
                best=asked[row],
                samples=sampled[row],
            )


def _grouped(items: Sequence[T], size: int) -> list[list[T]]:
    """Splits a list into lists of `size` items."""
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _verdicts(oracle: Oracle, split: VQASplit, questions: Questions) -> list[str]:
    """The oracle's verdict on each question."""
    rows = questions.pair.tolist()
    judgements = oracle.judge_many([int(split.image_ids[row]) for row in rows], questions.text)
    return [
        verdict(judgement, split.main_answers[row])
        for judgement, row in zip(judgements, rows, strict=True)
    ]


def _generated(questions: Questions, verdicts: list[str] | None) -> list[GeneratedQuestion]:
    likelihoods = questions.log_likelihood.tolist()
    judged: Sequence[str | None] = verdicts or [None] * len(questions)
    return [
        GeneratedQuestion(text, likelihood, name)
        for text, likelihood, name in zip(questions.text, likelihoods, judged, strict=True)
    ]


def _write_questions(path: Path, split: VQASplit, items: list[AskedPair]) -> None:
    """Writes one JSON line for each pair: its questions and the oracle's verdicts."""
    lines = []
    for row, item in enumerate(items):
        record = {
            "question_id": int(split.question_ids[row]),
            "image_id": int(split.image_ids[row]),
            "answer": item.answer,
            "reference": item.reference,
            "best": asdict(item.best),
            "samples": [asdict(sample) for sample in item.samples],
        }
        lines.append(json.dumps(record, ensure_ascii=False))
    write_text(path, "\n".join(lines) + "\n")
