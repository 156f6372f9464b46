"""What the code that measures computes today, for tests/fingerprints.py.

Tables rest on the versions of benchmarks, callbacks and tasks as well as on trained models. Here
they measure models without weights on eight scenes: answers follow from letters of the questions,
and the questions are those of similar training images, so rounding changes nothing.
"""

import tempfile
from collections.abc import Callable
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from hydra.utils import instantiate
from rich.console import Console
from torch import Tensor, nn

from ivqa.consistency import ConsistencyCallback, ImplicationAugmentation
from ivqa.diagnosis import (
    BeliefLog,
    SearchFigures,
    choose_pairs,
    search_metrics,
    share_of_contradictions,
    shares_of_types,
)
from ivqa.generators import NearestNeighbourQuestioner
from ivqa.generators.evaluation import QuestionBenchmark
from ivqa.generators.pool_ranking import PoolRanking
from ivqa.metrics import CiderStatistics, RScore
from ivqa.robustness import RobustnessCallback
from ivqa.runs.context import RunContext
from ivqa.runs.trained_models import build_module
from ivqa.scenes import oracle_of
from ivqa.tasks import diagnose
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa.evaluation import VQABenchmark

Figures = dict[str, float]
Measure = Callable[[Any, Any, Any], Figures]


class AnswersByLetters(nn.Module):
    """A VQA model whose answer depends on the letters of the question alone."""

    def __init__(self, answers: AnswerVocabulary) -> None:
        super().__init__()
        self.answers = answers

    def log_scores(
        self, images: Any, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        scores = torch.full((len(questions), len(self.answers)), 0.01)
        for row, question in enumerate(questions):
            scores[row, sum(map(ord, question)) % len(self.answers)] = 0.7
        return scores.log()

    def answer(self, images: Any, questions: list[str]) -> list[str]:
        best = self.log_scores(images, questions).argmax(dim=1).tolist()
        return [self.answers.answers[index] for index in best]


class MostAreLegal:
    """p(legal) of a question by its number of letters."""

    limit = 0.5

    def probabilities(self, questions: list[str]) -> Tensor:
        return torch.tensor([0.3 if sum(map(ord, text)) % 3 == 0 else 0.9 for text in questions])


def measures() -> dict[str, tuple[list[Any], Measure]]:
    """By name: what has the versions, and a function of a composer, data and features."""
    return {
        "measure=answers": ([VQABenchmark], _answers),
        "measure=questions": ([QuestionBenchmark, PoolRanking], _questions),
        "measure=noise": ([RobustnessCallback, RScore], _noise),
        "measure=beliefs": ([diagnose.diagnose], _beliefs),
        "measure=consistency": ([ConsistencyCallback], _consistency),
        "augment=implications": ([ImplicationAugmentation], _implications),
    }


def _answers(composed: Any, dataset: Any, features: Any) -> Figures:
    context = _context(composed("evaluate", "model=prior"), dataset, features)
    model = _answerer(context)
    data, folder = context.datamodule(context.vocabularies, model), _folder()
    benchmark = instantiate(context.cfg.model.benchmark)
    found = benchmark.run(model, data, "val", folder, "title", context.console)
    return {name: value for name, value in found.items() if "per_second" not in name}


def _questions(composed: Any, dataset: Any, features: Any) -> Figures:
    small = ["num_samples=4", "pages=null", f"pools.folder={_folder()}"]
    settings = [f"++model.benchmark.{item}" for item in [*small, "num_pairs_of_100=4"]]
    cfg = composed("evaluate", "model=ivqa_nearest_neighbour", *settings)
    context = _context(cfg, dataset, features)
    model, data = _neighbours(context)
    benchmark = instantiate(context.cfg.model.benchmark)
    return dict(benchmark.run(model, data, "val", _folder(), "title", context.console))


def _noise(composed: Any, dataset: Any, features: Any) -> Figures:
    settings = ["callbacks=robustness", "ranker=bleu1", "callbacks.robustness.resamples=100"]
    cfg = composed("evaluate", "model=prior", *settings, f"artifacts={_folder()}")
    context = _context(cfg, dataset, features)
    model = _answerer(context)
    callback = instantiate(cfg.callbacks.robustness)
    return dict(callback.metrics(model, context.datamodule(context.vocabularies, model), "val"))


def _consistency(composed: Any, dataset: Any, features: Any) -> Figures:
    settings = ["num_images=6", "max_questions=40", "rounds=2", "resamples=100"]
    settings = [f"callbacks.consistency.{item}" for item in settings]
    cfg = composed("evaluate", "model=prior", "callbacks=consistency", *settings)
    context = _context(cfg, dataset, features)
    model = _answerer(context)
    callback = instantiate(cfg.callbacks.consistency)
    return dict(callback.metrics(model, context.datamodule(context.vocabularies, model), "val"))


def _implications(composed: Any, dataset: Any, features: Any) -> Figures:
    split = dataset.split("train")
    further, rows = instantiate(composed("train", "augment=implications").augment).further(split)
    letters = [sum(map(ord, text)) for text in further.questions]
    return {
        "questions": float(len(further)),
        "rows": float(rows.sum()),
        "letters": float(sum(letters)),
        "yes": float(further.main_answers.count("yes")),
        "no": float(further.main_answers.count("no")),
    }


def _beliefs(composed: Any, dataset: Any, features: Any) -> Figures:
    """The search, the types and the figures of diagnose.py."""
    settings = ["split=val", "num_images=4", "num_latents=6"]
    cfg = composed("diagnose", "vqa=prior", *settings)
    context = _context(cfg, dataset, features)
    asked = _context(composed("evaluate", "model=ivqa_nearest_neighbour"), dataset, features)
    questioner, data = _neighbours(asked)
    answerer = _answerer(context)
    split, oracle = dataset.split("val"), oracle_of(dataset, "val")
    pairs = choose_pairs(
        split,
        answerer.answers,
        dataset.split("train").main_answers,
        num_images=cfg.num_images,
        pool=cfg.pool,
        num_top_answers=cfg.num_top_answers,
        seed=cfg.seed,
    )
    module: Any = SimpleNamespace(
        reference=questioner,
        questioner=copy(questioner),  # the same model would be searched once
        answerer=answerer,
        answers=answerer.answers,
        legality_model=MostAreLegal(),
    )
    statistics = CiderStatistics.of([[text] for text in split.questions])
    figures = SearchFigures(pairs.references, statistics, oracle, None)
    log = BeliefLog(_folder(), len(pairs), 50, {})
    diagnose._search_beliefs(cfg, module, data, pairs, figures, log, context.console)
    beliefs, agreed = diagnose._type_beliefs(log.beliefs(), split, pairs, oracle, [])
    return {
        **search_metrics(log.figures()),
        **agreed,
        **shares_of_types(beliefs),
        "beliefs/contradictions": share_of_contradictions(beliefs),
    }


def _context(cfg: Any, dataset: Any, features: Any) -> RunContext:
    return RunContext(cfg, dataset, features, Console(quiet=True))


def _answerer(context: RunContext) -> AnswersByLetters:
    answers = context.dataset.split("train").main_answers
    return AnswersByLetters(AnswerVocabulary.build(answers, 4))


def _neighbours(context: RunContext) -> tuple[NearestNeighbourQuestioner, Any]:
    module = build_module(context, context.vocabularies).eval()
    data = context.datamodule(context.vocabularies, module)
    module.remember(data)
    return module, data


def _folder() -> Path:
    return Path(tempfile.mkdtemp())
