"""Multiple choice: the most probable of the candidate answers of each question."""

from collections.abc import Sequence

import torch
from rich.console import Console
from rich.progress import track

from ivqa.data import VQADataModule
from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.vqa.protocol import Answerer


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
    starts = range(0, len(split), batch_size)
    for start in track(starts, description="choosing", console=console, transient=True):
        rows = slice(start, start + batch_size)
        images = datamodule.images_of(stage, split.image_ids[rows])
        chosen += choose_among(module, images, split.questions[rows], split.multiple_choices[rows])
    known = sum(len(_known(module, candidates)) for candidates in split.multiple_choices)
    return chosen, known / max(sum(map(len, split.multiple_choices)), 1)


def choose_among(
    module: Answerer,
    images: ImageBatch,
    questions: list[str],
    choices: Sequence[Sequence[str]],
) -> list[str]:
    """Chooses the most probable candidate of each question.

    Args:
        module: The VQA system.
        images: Images of B questions.
        questions: B questions.
        choices: The candidates of each question.

    Returns:
        B chosen answers, "" where the model knows none of the candidates.
    """
    scores = None if module.answers is None else module.log_scores(images, questions).cpu()
    chosen: list[str] = []
    for row, candidates in enumerate(choices):
        possible = _known(module, candidates)
        if not possible:
            chosen.append("")
            continue
        if scores is None:
            own = images.select(torch.tensor([row]))
            found = module.log_scores(own, [questions[row]], possible)[0]
        else:
            found = scores[row, module.answers.encode(possible)]  # type: ignore[union-attr]
        chosen.append(possible[int(found.argmax())])
    return chosen


def _known(module: Answerer, candidates: Sequence[str]) -> list[str]:
    """The candidates in the closed set of a model; all without one."""
    return [answer for answer in candidates if module.answers is None or answer in module.answers]
