"""Consistency in tasks: follow-ups, a table, a page, and result files of other systems."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.progress import track

from ivqa.consistency import (
    AnsweredQuestion,
    ConsistencyMeasure,
    affordable,
    answered,
    answers_of,
    implied_by,
    implied_split,
    read_images,
)
from ivqa.data import VQADataModule, VQASplit
from ivqa.data.extended import write_questions
from ivqa.data.oracles import Oracle
from ivqa.data.results import answers_any, read_results
from ivqa.diagnosis import AskedLog, Belief, GivenAnswer, given_answers, write_beliefs
from ivqa.errors import UserError
from ivqa.logic import unclear
from ivqa.provenance import note_questions
from ivqa.report.model_names import title_of
from ivqa.report.pages.consistency_page import (
    consistency_rows,
    consistency_sentences,
    write_consistency_page,
)
from ivqa.report.tables import print_table
from ivqa.terminal import terminal
from ivqa.text.failed_answers import failure
from ivqa.vqa import Answerer

_AT_ONCE = 500  # questions that are answered together; a kill loses at most so many


def show_consistency(
    metrics: Mapping[str, float], name: str, run_dir: Path, split: VQASplit, console: Console
) -> dict[str, Any]:
    """Shows the figures of consistency, if `metrics` have them, and writes consistency.html.

    Returns:
        Page and table as media for `log_results`; empty without the figures.
    """
    if "consistency/questions" not in metrics:
        return {}
    page, rows = run_dir / "consistency.html", consistency_rows(metrics)
    if rows:
        print_table(rows, title="answers that follow from other answers", console=console)
    for sentence in consistency_sentences(metrics, title_of(name)):
        console.print(sentence, soft_wrap=True)
    title = f"Answers of {title_of(name)} that cannot all be true"
    write_consistency_page(page, title, title_of(name), read_images(run_dir), metrics, split)
    console.print(f"contradictions: {page}", soft_wrap=True)
    return {"consistency": page, "consistency_table": pd.DataFrame(rows)}


def divided(files: Sequence[Path], split: VQASplit) -> tuple[list[Path], list[Path]]:
    """Divides result files into those about a split, and those about further questions.

    A list of files means levels of noise, whose questions have the ids of the clean ones. The ids
    of further questions are others, so that such a file may stand at any place but the first.
    """
    about = [file for file in files[1:] if not answers_any(file, split)]
    return [file for file in files if file not in about], about


def score_implied(
    measure: ConsistencyMeasure,
    split: VQASplit,
    file: Path,
    further: Sequence[Path],
    oracle: Oracle | None,
    run_dir: Path,
    root: Path | None,
    console: Console,
) -> dict[str, float]:
    """Derives the questions that follow from a result file, and scores or writes them.

    Args:
        measure: Chooses the images and computes the figures.
        split: The questions that `file` answers.
        further: The result files with the answers to further questions, one a round.
        root: Data root to write with the questions of the next round; None writes none.

    Returns:
        The figures of consistency; none without answers to further questions.

    Raises:
        UserError: No question is left to write, or other questions are answered.
        DataError: A result file does not fit its questions.
    """
    given = dict(zip(split.question_ids.tolist(), read_results(file, split), strict=True))
    chosen = measure.chosen(split)
    own = answered(chosen, [given[number] for number in chosen.question_ids.tolist()])
    rest, unwritten = list(further), root

    def ask(questions: Sequence[tuple[int, str]]) -> list[AnsweredQuestion] | None:
        nonlocal unwritten
        asked = implied_split(chosen, questions)
        if rest:
            answers = rest.pop(0)
            if not answers_any(answers, asked):
                raise UserError(
                    f"{answers}: none of its questions is in split '{split.name}' or follows from "
                    "the answers before; write them again with write_implications=true"
                )
            return answered(asked, read_results(answers, asked), implied=True)
        if unwritten is not None:
            write_questions(unwritten, asked)
            if asked.images is not None:
                folder = unwritten / "images" / asked.name
                asked.images.copy(set(asked.image_ids.tolist()), folder)
            console.print(
                f"{len(asked):,} questions that follow, about "
                f"{len(set(asked.image_ids.tolist())):,} images: data=vqa_json "
                f"data.root={unwritten} data.test={asked.name}",
                soft_wrap=True,
            )
            unwritten = None
        return None

    records = measure.asked(own, ask)
    if rest:
        raise UserError(
            f"{rest[0]} is one file too many: no further question follows from the answers before, "
            f"or they were asked in consistency.rounds={measure.rounds} rounds"
        )
    if unwritten is not None:
        raise UserError(
            f"write_implications=true: after {len(further)} rounds no question is left to ask; "
            "the rules know English questions, and consistency.rounds= says how many rounds"
        )
    if not further:
        return {}
    records.write(run_dir)
    return measure.figures(records, split, oracle)


def follow_up_answers(
    beliefs: Sequence[Belief],
    answerer: Answerer,
    datamodule: VQADataModule,
    split: str,
    max_questions: int,
    run_dir: Path,
    origin: Mapping[str, Any],
) -> list[Belief]:
    """Asks what follows from beliefs, and whether the things are there that they need.

    At most `max_questions` are asked about an image. follow_ups.jsonl gets the answers, and
    parts/asked.jsonl keeps them at once, so that a killed run asks nothing twice; `origin` is what
    determines them.

    Returns:
        The answers, as beliefs of the source "follow_up", without failed ones and those that say
        nothing.
    """
    own = answers_of(beliefs)
    wanted = implied_by(own, max_questions=max_questions).wanted
    questions = affordable(wanted, own, max_questions)

    def ask(pairs: Sequence[tuple[int, str]]) -> list[GivenAnswer]:
        images = datamodule.images_of(split, [image for image, _ in pairs])
        return given_answers(answerer, images, [question for _, question in pairs])

    log = AskedLog(run_dir / "parts" / "asked.jsonl", ask, origin)
    found: list[Belief] = []
    starts = range(0, len(questions), _AT_ONCE)
    for start in track(starts, "asking follow-ups", console=terminal(), transient=True):
        part = questions[start : start + _AT_ONCE]
        for (image_id, question), given in zip(part, log(part), strict=True):
            if failure(given.answer) is None and not unclear(question, given.answer):
                phi = round(given.probability, 6)
                found.append(
                    Belief(image_id, given.answer, question, phi, 0.0, 1.0, source="follow_up")
                )
    note_questions(log.asked)
    write_beliefs(run_dir / "follow_ups.jsonl", found)
    return found
