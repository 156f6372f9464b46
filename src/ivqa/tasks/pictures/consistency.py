"""Consistency about pictures without data: the questions are in plain English."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from hydra.utils import instantiate
from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.config.model_sources import source_of
from ivqa.consistency import AnsweredQuestion, answers_of, questions_split
from ivqa.data.images import ImageFiles
from ivqa.errors import UserError
from ivqa.provenance import note_questions
from ivqa.ranges import Checkpoint, Count, Place
from ivqa.runs.context import without_measurements
from ivqa.runs.loggers import log_results
from ivqa.runs.picture_model import obtain_picture_model
from ivqa.runs.preparation import open_context
from ivqa.runs.run_directory import begin_run
from ivqa.store.files import write_json
from ivqa.tasks.consistency import show_consistency
from ivqa.tasks.pictures.asking import (
    ask_in_plain_english,
    check_answers_questions,
    drawn_pictures,
    known_by,
    picture_asker,
    without_failed,
)
from ivqa.text.failed_answers import failure
from ivqa.vqa import Metered


class Keys(CommandKeys, total=False):
    """Keys of task=pictures."""

    images: Place
    ckpt: Checkpoint
    max_questions: Count


def evaluate_pictures(cfg: Annotated[DictConfig, Keys]) -> float:
    """Measures the consistency of cfg.model about the pictures of cfg.images (task=pictures).

    Writes metrics.json and the files of callbacks=consistency into the run directory. The questions
    are drawn by chance, so that the rate does not depend on what a search looks for.

    Returns:
        consistency/rate; NaN if nothing follows from the answers.

    Raises:
        UserError: A picture cannot be read, or the configuration does not fit.
    """
    if cfg.resume is not None:
        raise UserError("resume= continues training; start this again without resume=")
    node = (cfg.callbacks or {}).get("consistency")
    if node is None:
        raise UserError("images= measures consistency; give callbacks=consistency too")
    check_answers_questions(cfg.model, "model")
    callback = instantiate(node)
    files = drawn_pictures(str(cfg.images), callback.measure.num_images, cfg.seed)
    image_files = ImageFiles(np.arange(1, len(files) + 1), files)
    context = open_context(without_measurements(cfg), [*source_of(cfg.model).splits])
    run_dir, console = Path(cfg.output_dir), context.console
    begin_run(cfg, run_dir, resume=False)
    model = obtain_picture_model(context)
    ask = picture_asker(model, image_files)
    beliefs = ask_in_plain_english(
        ask,
        image_files.ids.tolist(),
        cfg.max_questions,
        **known_by(model.module),
        seed=cfg.seed,
        explore=1.0,
        console=console,
    )
    beliefs, said = without_failed(beliefs)
    if said:
        console.print(said, soft_wrap=True)

    def further(questions: Sequence[tuple[int, str]]) -> list[AnsweredQuestion]:
        return [
            AnsweredQuestion(*question, one.answer, one.probability)
            for question, one in zip(questions, ask(questions), strict=True)
            if failure(one.answer) is None
        ]

    metered = isinstance(model.module, Metered)
    paid = callback.max_paid_questions if metered else None
    records = callback.measure.asked(answers_of(beliefs), further, paid)
    records.write(run_dir)
    asked = [(one.image_id, one.question) for one in beliefs]
    split = questions_split("pictures", asked, image_files)
    metrics = callback.measure.figures(records, split, None)
    note_questions(int(metrics["consistency/questions"] + metrics["consistency/asked"]))
    metrics |= model.module.usage() if metered else {}
    write_json(run_dir / "metrics.json", metrics)
    log_results(cfg, metrics, show_consistency(metrics, cfg.name, run_dir, split, console))
    console.print(f"run: {run_dir}", soft_wrap=True)
    return metrics.get("consistency/rate", float("nan"))
