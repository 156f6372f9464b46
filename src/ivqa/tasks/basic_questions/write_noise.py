"""Noisy questions as files, for VQA systems outside ivqa."""

from pathlib import Path
from typing import Annotated

from hydra.utils import instantiate
from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.errors import UserError
from ivqa.robustness import DisturbsImages
from ivqa.store.files import write_json
from ivqa.terminal import terminal


class Keys(CommandKeys, total=False):
    """Keys of task=write_noise."""

    write_noisy_questions: bool


def write_noise(cfg: Annotated[DictConfig, Keys]) -> float:
    """Writes the questions of cfg.split at every level of cfg.noise (task=write_noise).

    Writes questions_SPLIT_level_K.json in the official format into the run directory, with the ids
    of the clean questions, for VQA systems outside ivqa. Level 0 is clean.

    Args:
        cfg: The configuration of evaluate.py.

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
    run_dir.mkdir(parents=True, exist_ok=True)
    for level, questions in enumerate(levels):
        records = [
            {"image_id": image_id, "question_id": question_id, "question": question}
            for image_id, question_id, question in zip(
                split.image_ids.tolist(), split.question_ids.tolist(), questions, strict=True
            )
        ]
        write_json(
            run_dir / f"questions_{split.name}_level_{level}.json",
            {"questions": records},
            indent=None,
        )
    terminal().print(f"run: {run_dir}", soft_wrap=True)
    return float(len(levels) - 1)
