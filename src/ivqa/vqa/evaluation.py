"""The VQA benchmark of an answerer: official accuracies, and a result file for the servers."""

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
from ivqa.data.results import results_text
from ivqa.errors import UserError
from ivqa.metrics.vqa_accuracy import vqa_accuracies
from ivqa.metrics.wups import require_wordnet
from ivqa.provenance import note_questions
from ivqa.ranges import Count, Share
from ivqa.store.files import write_text
from ivqa.text.failed_answers import failure
from ivqa.vqa.module import VQAModule
from ivqa.vqa.multiple_choice import choose_answers
from ivqa.vqa.protocol import Answerer, Metered
from ivqa.vqa.scores import mean_accuracy, score_answers, score_choices, wups_metrics

_MOST_FAILED = 0.01  # share of answers that are none without a warning


@dataclass(frozen=True, kw_only=True)
class VQABenchmark:
    """Answers all questions of a split and computes the official accuracy.

    For a split without annotations, it writes the result file only.

    Args:
        batch_size: Questions at once.
        headline: The metric that stands for the benchmark in tables.
        wups: Thresholds of WUPS, such as [0.9, 0.0] for DAQUAR.
    """

    version: ClassVar[int] = 1  # of the figures, which tables rest on

    needs_answers: ClassVar[frozenset[str]] = frozenset({"validation"})
    batch_size: Count = 500
    headline: str = "vqa/accuracy"
    wups: Sequence[Share] = ()

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks that WUPS can be computed, before any model is trained.

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
        """Runs the benchmark on the split `stage`; writes predictions.json in the official format.

        Where the questions have multiple choices, it also writes predictions_multiple_choice.json.

        Returns:
            The metrics of `write_answers`; vqa/questions_per_second, reading data included;
            vqa/truncated, the share of questions that the model cuts, if it has `is_cut`; the
            metrics of `_expert_metrics` for module networks; `score_choices` and
            vqa/multiple_choice_coverage of `choose_answers` for multiple choices.
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
        probability = _probability_of(module, datamodule, stage, self.batch_size)
        metrics = write_answers(split, answers, run_dir, console, probability, wups=self.wups)
        metrics["vqa/questions_per_second"] = len(split) / seconds
        if isinstance(module, VQAModule) and module.network.encode_layouts and split.layouts:
            metrics |= _expert_metrics(module, datamodule, stage)
        if (is_cut := getattr(module, "is_cut", None)) is not None:
            metrics["vqa/truncated"] = float(np.mean(is_cut(split.questions)))
        if split.multiple_choices is not None:
            chosen, coverage = choose_answers(module, datamodule, stage, console, self.batch_size)
            text = results_text(split, None, chosen)
            write_text(run_dir / "predictions_multiple_choice.json", text)
            write_text(run_dir / "predictions.json", results_text(split, answers, chosen))
            if split.has_answers:
                metrics |= score_choices(split, chosen)
            metrics["vqa/multiple_choice_coverage"] = coverage
        return metrics


def write_answers(
    split: VQASplit,
    answers: Sequence[str],
    run_dir: Path,
    console: Console,
    probability: NDArray[np.float64] | None = None,
    wups: Sequence[float] = (),
) -> dict[str, float]:
    """Writes predictions.json, an official result file, and scores the answers to all questions.

    `probability` and `wups` are those of `score_answers` and `wups_metrics`.

    Returns:
        With annotations, vqa/failed, how many texts are no answers (see `failure`), and the
        metrics of `score_answers` and `wups_metrics` over the others; without, vqa/failed if
        there are some.

    Raises:
        UserError: None of them is an answer.
    """
    file = run_dir / "predictions.json"
    write_text(file, results_text(split, answers))
    rows = answered_rows(answers)
    failed = len(answers) - len(rows)
    if failed == len(answers) > 0:
        raise UserError(
            f"none of the {failed:,} answers in {file} is one: they are empty, cut within thoughts "
            "or hold what a failed request left; raise max_new_tokens, or look at the server's log"
        )
    if failed > _MOST_FAILED * len(answers):
        console.print(
            f"warning: {failed:,} of {len(answers):,} answers are none, but empty, cut within "
            "thoughts or what a failed request left (vqa/failed); these questions are left out",
            soft_wrap=True,
        )
    if split.has_answers:
        if failed:
            split, answers = split.select(rows), [answers[row] for row in rows]
            probability = None if probability is None else probability[rows]
        scores = score_answers(split, answers, probability)
        return {"vqa/failed": float(failed), **scores, **wups_metrics(split, answers, wups)}
    console.print(
        f"split '{split.name}' has no annotations, so its accuracy is not known here; {file} "
        f"answers all {len(split)} questions in the format of the evaluation server",
        soft_wrap=True,
    )
    return {"vqa/failed": float(failed)} if failed else {}


def answered_rows(answers: Sequence[str]) -> NDArray[np.int64]:
    """Returns the positions (N',) of the texts that are answers, see `failure`."""
    return np.flatnonzero([failure(answer) is None for answer in answers])


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
    """Answers N questions about images of a split; the questions need not be those of the split."""
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
    """Answers the questions of a split, and computes the official accuracy as `mean_accuracy` does.

    With `image_ids`, only questions about these images are asked.

    Raises:
        UserError: The split has no annotations, or no question that counts has an answer.
    """
    split = datamodule.dataset.split(stage).require_answers()
    asked = split.metric.counted(split)
    if image_ids is not None:
        asked &= np.isin(split.image_ids, image_ids)
    rows = np.flatnonzero(asked)
    ids, questions = split.image_ids[rows], [split.questions[row] for row in rows]
    answers = answer_all(module, datamodule, stage, ids, questions, console)
    given = answered_rows(answers)
    if not len(given):
        raise UserError(
            f"none of the {len(rows):,} questions of split '{split.name}' that count has an answer"
        )
    human = [split.answers[row] for row in rows[given]]
    written = [answers[at] for at in given]
    return mean_accuracy(vqa_accuracies(written, human, rule=split.metric.rule), ids[given])


@torch.no_grad()
def _expert_metrics(module: VQAModule, datamodule: VQADataModule, stage: str) -> dict[str, float]:
    """Scores the modules and the layouts of a module network separately, on a split with layouts.

    Returns vqa/layouts, the share of questions whose predicted layout equals the expert's, and, if
    the split has annotations, vqa/expert/..., the metrics of `score_answers` for the answers under
    the experts' layouts.
    """
    split = datamodule.dataset.split(stage)
    assert split.layouts is not None
    answers, layouts = list[str](), list[list[str]]()
    network: Any = module.eval().network  # with layouts, see `VQANetwork.encode_layouts`
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


def _probability_of(
    module: Answerer, datamodule: VQADataModule, stage: str, batch_size: int
) -> NDArray[np.float64] | None:
    """Phi of the answer that the metric of a split reads, (N,) in [0, 1].

    None if the metric reads none, the model has no closed set with this answer, or each question to
    the model costs.
    """
    split = datamodule.dataset.split(stage)
    answer = split.metric.probed if split.has_answers else None
    if answer is None or answer not in (module.answers or ()) or isinstance(module, Metered):
        return None
    found = [
        module.log_scores(
            datamodule.images_of(stage, ids), split.questions[at : at + len(ids)], [answer]
        )
        for at in range(0, len(split), batch_size)
        for ids in [split.image_ids[at : at + batch_size]]
    ]
    return torch.cat(found)[:, 0].double().exp().cpu().numpy()
