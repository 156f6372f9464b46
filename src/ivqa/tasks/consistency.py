"""Consistency in the results of tasks: a table, a page, and result files of other systems."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from ivqa.consistency import (
    ConsistencyMeasure,
    ConsistencyRecords,
    answered,
    implied_split,
    read_images,
    write_implied,
)
from ivqa.data import VQASplit
from ivqa.data.oracles import Oracle
from ivqa.data.results import answers_any, read_results
from ivqa.errors import UserError
from ivqa.report import (
    consistency_rows,
    consistency_sentences,
    print_table,
    title_of,
    write_consistency_page,
)


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


def divided(files: Sequence[Path], split: VQASplit) -> tuple[list[Path], Path | None]:
    """Divides result files into those about a split, and the one about implied questions.

    A list of files means levels of noise, whose questions have the ids of the clean ones. The ids
    of implied questions are others, so that this file may stand at any place but the first.

    Raises:
        UserError: Several files are about implied questions.
    """
    about = [file for file in files[1:] if not answers_any(file, split)]
    if len(about) > 1:
        raise UserError(
            f"predictions: {about[0].name} and {about[1].name} have no question of split "
            f"'{split.name}'; give at most one file with the answers to implied questions"
        )
    return [file for file in files if file not in about], (about or [None])[0]


def score_implied(
    measure: ConsistencyMeasure,
    split: VQASplit,
    file: Path,
    further: Path | None,
    oracle: Oracle | None,
    run_dir: Path,
    console: Console,
) -> dict[str, float]:
    """Derives the implied questions of a result file, and scores or writes them.

    Args:
        measure: Chooses the images and computes the figures.
        split: The questions that the first file answers.
        file: The result file with the answers to them.
        further: The result file with the answers to the implied questions; None writes these
            questions to run_dir/implied instead.
        oracle: Judges questions about the images; None without one.
        run_dir: Folder of the files.
        console: Where it says what to run next.

    Returns:
        The figures of consistency; none if the questions are written.

    Raises:
        UserError: Nothing follows from the answers, or other questions are answered.
        DataError: A result file does not fit its questions.
    """
    given = dict(zip(split.question_ids.tolist(), read_results(file, split), strict=True))
    chosen = measure.chosen(split)
    own = answered(chosen, [given[number] for number in chosen.question_ids.tolist()])
    implied = measure.implied_by(own)
    asked = implied_split(chosen, implied)
    if further is None:
        root = run_dir / "implied"
        write_implied(root, asked)
        data = f"data=vqa_json data.root={root} data.test={asked.name}"
        console.print(
            f"{len(asked):,} implied questions about {len(set(asked.image_ids.tolist())):,} "
            f"images: {root}\n"
            f"for another tool: python evaluate.py export=lmms_eval {data}\n"
            f"with their answers: python evaluate.py predictions=[{file},ANSWERS] and the same "
            "data= and split=",
            soft_wrap=True,
        )
        return {}
    if not answers_any(further, asked):
        raise UserError(
            f"{further}: none of its questions is in split '{split.name}' or follows from the "
            f"answers in {file}; write them again with write_implications=true"
        )
    answers = answered(asked, read_results(further, asked), implied=True)
    records = ConsistencyRecords.of(own, implied, answers)
    records.write(run_dir)
    return measure.figures(records, split, oracle)
