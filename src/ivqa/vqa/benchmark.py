"""The VQA benchmark of an answerer: official accuracy, and a result file for the servers.

The file is a little over 300 lines, because the metrics of each function are listed.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

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
from ivqa.metrics.bootstrap import interval, resampled_means
from ivqa.metrics.polling import polling_metrics
from ivqa.metrics.vqa_accuracy import VQAAccuracy, vqa_accuracies
from ivqa.metrics.wups import require_wordnet, wups
from ivqa.provenance import note_questions
from ivqa.ranges import Count, Share
from ivqa.vqa.module import VQAModule
from ivqa.vqa.protocol import Answerer

_RESAMPLES = 1000  # of the bootstrap
_MAX_KINDS = 100  # VQA has 65 question types; types derived from first words can be thousands


@dataclass(frozen=True, kw_only=True)
class VQABenchmark:
    """Answers all questions of a split and computes the official accuracy.

    For a split without annotations, it writes the result file only.

    Args:
        batch_size: Questions at once.
        headline: The metric that stands for the benchmark in tables.
        wups: Thresholds of WUPS, such as [0.9, 0.0] for DAQUAR.
    """

    needs_answers: ClassVar[frozenset[str]] = frozenset({"validation"})
    batch_size: Count = 500
    headline: str = "vqa/accuracy"
    wups: Sequence[Share] = ()

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks that WUPS can be computed, before any model is trained.

        Args:
            arguments: Arguments of the constructor, defaults included.

        Raises:
            UserError: WUPS needs WordNet, which is not installed.
        """
        if arguments["wups"]:
            require_wordnet()

    def run(
        self,
        module: Answerer,
        datamodule: VQADataModule,
        stage: str,
        run_dir: Path,
        title: str,
        console: Console,
    ) -> dict[str, float]:
        """Runs the benchmark and writes predictions.json in the official format.

        Where the questions have multiple choices, it also writes predictions_multiple_choice.json.

        Args:
            module: The VQA system.
            datamodule: The data.
            stage: Which split of the data: train, val or test.
            run_dir: Folder of the files.
            title: Title of the run; not used here.
            console: Where progress is shown.

        Returns:
            The metrics of `score_answers` and `wups_metrics` if the split has annotations;
            vqa/questions_per_second,
            reading data included; vqa/truncated, the share of questions that the model cuts, if it
            has `is_cut`; the metrics of `expert_metrics` for module networks; vqa/multiple_choice
            and vqa/multiple_choice_coverage of `choose_answers` for multiple choices.
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
        if split.has_answers:
            metrics |= wups_metrics(split, answers, self.wups)
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
    """Writes predictions.json, an official result file, and scores the answers.

    Args:
        split: The questions.
        answers: The answer to each question.
        run_dir: Folder of the file.
        console: Where it prints that a split has no annotations.

    Returns:
        The metrics of `score_answers`; none without annotations.
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
    """Answers questions about images of a split.

    Args:
        module: The VQA system.
        datamodule: The data.
        stage: Which split of the data has the images.
        image_ids: Image of each question, (N,).
        questions: N questions; they need not be those of the split.
        console: Where progress is shown.
        batch_size: Questions at once.

    Returns:
        N answers.
    """
    answers: list[str] = []
    starts = range(0, len(questions), batch_size)
    for start in track(starts, description="answering", console=console, transient=True):
        rows = slice(start, start + batch_size)
        images = datamodule.images_of(stage, image_ids[rows])
        answers += module.answer(images, list(questions[rows]))
    note_questions(len(questions))
    return answers


def accuracy_of(
    module: Answerer,
    datamodule: VQADataModule,
    stage: str,
    image_ids: Sequence[int] | None,
    console: Console,
) -> dict[str, float]:
    """Answers the questions of a split and computes the official accuracy.

    Args:
        module: The VQA system.
        datamodule: The data.
        stage: Which split of the data.
        image_ids: Only questions about these images; None for all questions.
        console: Where progress is shown.

    Returns:
        The figures of `mean_accuracy`.

    Raises:
        UserError: The split has no annotations.
    """
    split = datamodule.dataset.split(stage).require_answers()
    rows = np.arange(len(split))
    if image_ids is not None:
        rows = np.flatnonzero(np.isin(split.image_ids, image_ids))
    ids, questions = split.image_ids[rows], [split.questions[row] for row in rows]
    answers = answer_all(module, datamodule, stage, ids, questions, console)
    return mean_accuracy(vqa_accuracies(answers, [split.answers[row] for row in rows]), ids)


def mean_accuracy(
    accuracies: NDArray[np.float32], image_ids: NDArray[np.int64]
) -> dict[str, float]:
    """Averages accuracies over questions.

    Args:
        accuracies: (N,) accuracies in [0, 1].
        image_ids: (N,) ids of the questions' images.

    Returns:
        vqa/accuracy, and the bounds vqa/accuracy_low and vqa/accuracy_high of its 95 percent
        interval; the bootstrap draws images, whose questions are alike.
    """
    low, high = interval(resampled_means(accuracies[None], _RESAMPLES, 0, image_ids)[:, 0])
    # In float32, as torchmetrics computes it in training.
    mean = float(np.float32(accuracies.mean(dtype=np.float64)))
    return {"vqa/accuracy": mean, "vqa/accuracy_low": low.item(), "vqa/accuracy_high": high.item()}


@torch.no_grad()
def expert_metrics(module: VQAModule, datamodule: VQADataModule, stage: str) -> dict[str, float]:
    """Scores the modules and the layouts of a module network separately.

    Args:
        module: A module network.
        datamodule: The data.
        stage: Which split of the data; it has layouts.

    Returns:
        vqa/layouts, the share of questions whose predicted layout equals the expert's, and, if the
        split has annotations, vqa/expert/..., the metrics of `score_answers` for the answers under
        the experts' layouts.
    """
    split = datamodule.dataset.split(stage)
    assert split.layouts is not None
    answers, layouts = list[str](), list[list[str]]()
    network = module.eval().network
    for batch in datamodule.batches(stage):
        moved = batch.to(module.device).encoded(module.image_encoder)
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
    """Chooses the most probable of each question's multiple choices.

    Args:
        module: The VQA system.
        datamodule: The data.
        stage: Which split of the data.
        console: Where progress is shown.
        batch_size: Questions at once.

    Returns:
        The chosen answers, "" where the model knows none of the choices, and the share of choices
        that the model knows: those in its closed set, or all without one.

    Raises:
        UserError: The questions of the split have no multiple choices.
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
    """Computes official accuracies.

    Args:
        split: The questions with annotations.
        answers: The answer to each question.

    Returns:
        Fractions in [0, 1]: vqa/accuracy and its interval of `mean_accuracy`; vqa/yes_no,
        vqa/number and vqa/other by answer type;
        vqa/accuracy_shortcut, min(matches / 3, 1) without leave-one-out; vqa/accuracy_2015, of the
        evaluation code before 2018; vqa/question_type/... of the most frequent question types;
        vqa/kind/... by expert layout, if the data have layouts; vqa/belief/... by kind of belief,
        if the questions are beliefs; polling/... of `polling_metrics`, if every right answer is
        yes or no. Types without questions are left out.

    Raises:
        UserError: The split has no annotations.
    """
    human = split.require_answers().answers
    accuracies = vqa_accuracies(answers, human)
    kinds = {kind: index for index, kind in enumerate(ANSWER_TYPES)}
    metric = VQAAccuracy()
    metric.update(
        torch.from_numpy(accuracies),
        torch.tensor([kinds.get(kind, -1) for kind in split.answer_types]),
    )
    metrics = mean_accuracy(accuracies, split.image_ids)
    metrics |= {
        f"vqa/{name.removeprefix('vqa_')}": value.item() for name, value in metric.compute().items()
    }
    shortcut = vqa_accuracies(answers, human, leave_one_out=False)
    metrics["vqa/accuracy_shortcut"] = float(shortcut.mean())
    metrics["vqa/accuracy_2015"] = float(vqa_accuracies(answers, human, revision=2015).mean())
    if split.layouts is not None:
        layouts = [split.layouts.get(number, ()) for number in split.question_ids.tolist()]
        metrics |= _means("vqa/kind", [kind_of_layout(layout) for layout in layouts], accuracies)
    if split.kinds is not None:
        kinds_of_belief = [kind or "unknown" for kind in split.kinds]
        metrics |= _means("vqa/belief", kinds_of_belief, accuracies)
    if set(split.main_answers) == {"yes", "no"}:
        figures = polling_metrics(answers, [answer == "yes" for answer in split.main_answers])
        metrics |= {f"polling/{name}": value for name, value in figures.items()}
    return metrics | _means("vqa/question_type", split.question_types, accuracies)


def wups_metrics(
    split: VQASplit, answers: Sequence[str], thresholds: Sequence[float]
) -> dict[str, float]:
    """Computes the mean WUPS at each threshold.

    Args:
        split: The questions with annotations.
        answers: The answer to each question.
        thresholds: Similarities below a threshold are multiplied by 0.1.

    Returns:
        vqa/wups_THRESHOLD in [0, 1], such as vqa/wups_0.9.
    """
    human = split.require_answers().answers
    return {f"vqa/wups_{at:.1f}": float(wups(answers, human, at).mean()) for at in thresholds}


def kind_of_layout(layout: Sequence[str]) -> str:
    """Names the kind of a question by the last module of its layout.

    Args:
        layout: Module names; empty for a question without a layout.

    Returns:
        The kind, with "_by_place" if the layout has a _Transform; "none" without a layout.

    Example:
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
    """Mean accuracy of each of the most frequent kinds, by PREFIX/KIND."""
    found, codes = np.unique(np.array(kinds), return_inverse=True)
    counts = np.bincount(codes)
    sums = np.bincount(codes, weights=accuracies)
    return {
        f"{prefix}/{str(found[at]).replace(' ', '_')}": float(sums[at] / counts[at])
        for at in np.argsort(-counts, kind="stable")[:_MAX_KINDS]
    }
