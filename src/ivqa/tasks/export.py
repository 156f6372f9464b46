"""Questions at every level of noise as files: for other tools, and in the VQA format."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from hydra.utils import instantiate
from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.data.extended import write_questions
from ivqa.errors import UserError
from ivqa.interchange import Exporter, QuestionLevels
from ivqa.interchange.question_levels import drawn
from ivqa.ranges import Component, Count
from ivqa.robustness.noise import DisturbsImages
from ivqa.runs.run_directory import write_config
from ivqa.terminal import terminal


class ExportKeys(CommandKeys, total=False):
    """Keys of task=export."""

    export: Component
    num_questions: Count | None


def export(cfg: Annotated[DictConfig, ExportKeys]) -> float:
    """Writes the questions of cfg.split, at every level of cfg.noise, for a tool (task=export).

    Writes the files of cfg.export into the run directory, and answer_key/, which scores what the
    tool logs.

    Returns:
        The number of questions of each level.

    Raises:
        UserError: The split has no images, or an image cannot be read.
    """
    run_dir, console = Path(cfg.output_dir), terminal()
    dataset = instantiate(cfg.data)
    whole = dataset.split(cfg.split)
    whole.require_images()
    exporter: Exporter = instantiate(cfg.export)
    split = drawn(whole, cfg.num_questions, cfg.seed)
    questions, image_noise = [split.questions], None
    if cfg.get("noise"):  # the group noise=null leaves no key
        noise = instantiate(cfg.noise)
        questions += noise.disturbed(split.questions, instantiate(cfg.bqd)(dataset))
        image_noise = noise if isinstance(noise, DisturbsImages) else None
    levels = QuestionLevels(dataset, split, questions, image_noise, console)
    name = re.sub(r"\W+", "_", f"ivqa_{cfg.name}_{split.name}")
    write_config(cfg, run_dir)
    folder = run_dir / "export"  # apart from config.yaml, which a tool would take for a task
    told = exporter.write(levels, folder, name)
    console.print(f"{len(split)} questions at {levels.num_levels} levels")
    console.print(told, soft_wrap=True, highlight=False)
    console.print(f"run: {run_dir}", soft_wrap=True)
    return float(len(split))


class WriteNoiseKeys(CommandKeys, total=False):
    """Keys of task=write_noise."""

    write_noisy_questions: bool


def write_noise(cfg: Annotated[DictConfig, WriteNoiseKeys]) -> float:
    """Writes the questions of cfg.split at every level of cfg.noise (task=write_noise).

    Writes questions_SPLIT_level_K.json in the official format into the run directory, with the ids
    of the clean questions, for VQA systems outside ivqa. Level 0 is clean.

    Returns:
        The number of noisy levels.

    Raises:
        UserError: cfg.noise disturbs images.
    """
    run_dir = Path(cfg.output_dir)
    dataset = instantiate(cfg.data)
    split, noise = dataset.split(cfg.split), instantiate(cfg.noise)
    if isinstance(noise, DisturbsImages):
        raise UserError(
            "write_noisy_questions=true writes questions, but this noise= disturbs images; "
            "choose noise=basic_questions or word_shuffling"
        )
    pool = instantiate(cfg.bqd)(dataset)
    levels = [split.questions, *noise.disturbed(split.questions, pool)]
    for level, questions in enumerate(levels):
        name = f"{split.name}_level_{level}"
        noisy = replace(split, name=name, questions=list(questions), kinds=None, has_answers=False)
        write_questions(run_dir, noisy)
    terminal().print(f"run: {run_dir}", soft_wrap=True)
    return float(len(levels) - 1)
