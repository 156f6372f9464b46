"""The VQA benchmark of an answerer: official accuracy, and a result file that servers accept."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from ivqa.data import VQADataModule, VQASplit
from ivqa.data.batch import ANSWER_TYPES
from ivqa.data.results import results_text
from ivqa.errors import UserError
from ivqa.files import write_text
from ivqa.metrics.vqa_accuracy import VQAAccuracy, vqa_accuracies
from ivqa.ranges import Count
from ivqa.vqa.module import VQAModule
from ivqa.vqa.protocol import Answerer

_MOST_KINDS = 100  # VQA has 65 question types; types derived from the first words have no end


@dataclass(frozen=True, kw_only=True)
class VQABenchmark:
    """Answers every question of a split and scores the answers officially.

    A split without annotations gets the result file and no accuracy. batch_size: questions at once.
    """

    needs_answers: ClassVar[frozenset[str]] = frozenset({"validation"})
    batch_size: Count = 500
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
        """The metrics of `score_answers` where the split has annotations, and
        vqa/questions_per_second, reading data included.

        vqa/truncated is the share of questions that the model reads only in part, where it says.
        A module network is also scored under the experts' layouts: `expert_metrics`.
        Where the questions have candidates, `choose_answers` adds vqa/multiple_choice.
        Writes predictions.json, and predictions_multiple_choice.json, in the official format.
        """
        split = datamodule.dataset.split(stage)
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
        metrics = write_answers(split, answers, run_dir, console)
        metrics["vqa/questions_per_second"] = len(split) / seconds
        if isinstance(module, VQAModule) and module.network.encode_layouts and split.layouts:
            metrics |= expert_metrics(module, datamodule, stage)
        if (is_cut := getattr(module, "is_cut", None)) is not None:
            metrics["vqa/truncated"] = float(np.mean(is_cut(split.questions)))
        if split.multiple_choices is not None:
            chosen, coverage = choose_answers(module, datamodule, stage, console, self.batch_size)
            write_text(run_dir / "predictions_multiple_choice.json", results_text(split, chosen))
            if split.has_answers:
                right = vqa_accuracies(chosen, split.answers)
                asked = np.array([bool(choices) for choices in split.multiple_choices])
                metrics["vqa/multiple_choice"] = float(right[asked].mean())
            metrics["vqa/multiple_choice_coverage"] = coverage
        return metrics


def write_answers(
    split: VQASplit, answers: Sequence[str], run_dir: Path, console: Console
) -> dict[str, float]:
    """Writes predictions.json, an official result file; returns the metrics of `score_answers`.

    Without annotations there is nothing to score: it returns no metrics, and says so.
    """
    file = run_dir / "predictions.json"
    write_text(file, results_text(split, answers))
    if split.has_answers:
        return score_answers(split, answers)
    console.print(
        f"split '{split.name}' has no annotations, so its accuracy is not known here; {file} "
        f"answers all {len(split)} questions in the format of the evaluation server",
        soft_wrap=True,
    )
    return {}


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


@torch.no_grad()
def expert_metrics(module: VQAModule, datamodule: VQADataModule, stage: str) -> dict[str, float]:
    """Of a module network: what its modules can do, and how well it plans.

    vqa/expert/...: the metrics of `score_answers` where it follows the experts' layouts and the
    split has annotations.
    vqa/layouts: share of questions for which its own layout is the expert's.
    """
    split = datamodule.dataset.split(stage)
    assert split.layouts is not None
    answers, layouts = list[str](), list[list[str]]()
    network = module.network.eval()
    for batch in datamodule.batches(stage):
        moved = batch.to(module.device)
        best = network.follow(moved).argmax(dim=1)
        answers += [module.answers.answers[index] for index in best.tolist()]
        layouts += network.plan(moved.question)
    wanted = [split.layouts[number] for number in split.question_ids.tolist()]
    same = [planned == expert for planned, expert in zip(layouts, wanted, strict=True)]
    followed = score_answers(split, answers) if split.has_answers else {}
    return {
        "vqa/layouts": float(np.mean(same)),
        **{f"vqa/expert/{name.removeprefix('vqa/')}": value for name, value in followed.items()},
    }


def choose_answers(
    module: Answerer, datamodule: VQADataModule, stage: str, console: Console, batch_size: int
) -> tuple[list[str], float]:
    """The most probable of each question's candidates, "" where the model knows none of them.

    Returns also the share of candidates that the model can choose: those in its closed set, or
    all. Raises UserError where the split has no candidates.
    """
    split = datamodule.dataset.split(stage)
    if split.multiple_choices is None:
        raise UserError(f"split '{split.name}' has no multiple_choices in its questions file")
    chosen: list[str] = []
    known, number = 0, 0
    starts = range(0, len(split), batch_size)
    for start in track(starts, description="choosing", console=console, transient=True):
        rows = slice(start, start + batch_size)
        images = datamodule.images_of(stage, split.image_ids[rows])
        choices, questions = split.multiple_choices[rows], split.questions[rows]
        scores = None if module.answers is None else module.log_scores(images, questions).cpu()
        for row, candidates in enumerate(choices):
            possible = candidates
            if module.answers is not None:
                possible = [answer for answer in candidates if answer in module.answers]
            known, number = known + len(possible), number + len(candidates)
            if not possible:
                chosen.append("")
                continue
            if scores is None:
                own = images.select(torch.tensor([row]))
                found = module.log_scores(own, [questions[row]], possible)[0]
            else:
                found = scores[row, module.answers.encode(possible)]  # type: ignore[union-attr]
            chosen.append(possible[int(found.argmax())])
    return chosen, known / max(number, 1)


def score_answers(split: VQASplit, answers: Sequence[str]) -> dict[str, float]:
    """Official accuracies as fractions: vqa/accuracy, vqa/yes_no, vqa/number, vqa/other.

    vqa/accuracy_shortcut is min(matches / 3, 1) without leave-one-out, vqa/accuracy_2015 that of
    the evaluation before 2018. vqa/question_type/...: of the most frequent question types, and
    vqa/kind/...: by expert layout, where the data have those.
    A type without questions is left out. Raises UserError where the split has no annotations.
    """
    human = split.require_answers().answers
    accuracies = vqa_accuracies(answers, human)
    kinds = {kind: index for index, kind in enumerate(ANSWER_TYPES)}
    metric = VQAAccuracy()
    metric.update(
        torch.from_numpy(accuracies),
        torch.tensor([kinds.get(kind, -1) for kind in split.answer_types]),
    )
    metrics = {
        f"vqa/{name.removeprefix('vqa_')}": value.item() for name, value in metric.compute().items()
    }
    shortcut = vqa_accuracies(answers, human, leave_one_out=False)
    metrics["vqa/accuracy_shortcut"] = float(shortcut.mean())
    metrics["vqa/accuracy_2015"] = float(vqa_accuracies(answers, human, revision=2015).mean())
    if split.layouts is not None:
        layouts = [split.layouts.get(number, ()) for number in split.question_ids.tolist()]
        metrics |= _means("vqa/kind", [kind_of_layout(layout) for layout in layouts], accuracies)
    return metrics | _means("vqa/question_type", split.question_types, accuracies)


def kind_of_layout(layout: Sequence[str]) -> str:
    """What is asked, by the last module; and whether places matter, by a _Transform before it.

    >>> kind_of_layout(["_Find", "_Find", "_MoreNum"])
    'more_num'
    >>> kind_of_layout(["_Find", "_Transform", "_Find", "_And", "_Count"])
    'count_by_place'
    """
    if not layout:
        return "none"
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", layout[-1].strip("_")).lower()
    return f"{name}_by_place" if "_Transform" in layout else name


def _means(prefix: str, kinds: Sequence[str], accuracies: NDArray[np.float32]) -> dict[str, float]:
    """The mean accuracy of each of the most frequent kinds."""
    found, codes = np.unique(np.array(kinds), return_inverse=True)
    counts = np.bincount(codes)
    sums = np.bincount(codes, weights=accuracies)
    return {
        f"{prefix}/{str(found[at]).replace(' ', '_')}": float(sums[at] / counts[at])
        for at in np.argsort(-counts, kind="stable")[:_MOST_KINDS]
    }
