"""Multiple choice: the most probable of the candidate answers of each question."""

import re
from collections.abc import Sequence

import torch
from rich.console import Console
from rich.progress import track

from ivqa.data import VQADataModule
from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.text.normalisation import normalise_answer
from ivqa.vqa.protocol import Answerer

_LETTER = re.compile(r"^[(\[*\s]*([A-Z])(?:[)\].:*,]|\s*$)")  # "B", "(B)", "B. dog", "**B**"
_TOLD = re.compile(r"\b(?:answer|option|choice)(?: is|:)?[\s(*]*([A-Z])\b(?![' ]?[a-z])", re.I)


def choose_answers(
    module: Answerer, datamodule: VQADataModule, stage: str, console: Console, batch_size: int
) -> tuple[list[str], float]:
    """Chooses the most probable of the multiple choices of each question of a split.

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
    """Chooses the most probable of the candidates of each of B questions.

    Returns:
        B chosen answers, "" where the model knows none of the candidates. A model with a
        `choice_prompt` writes its choice, which is "" where it cannot be read.
    """
    if getattr(module, "choice_prompt", None) is not None:
        asked = [f"{q}\n{_lettered(own)}" for q, own in zip(questions, choices, strict=True)]
        written = module.written_choices(images, asked)  # type: ignore[attr-defined]
        return [read_choice(text, own) for text, own in zip(written, choices, strict=True)]
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


def read_choice(text: str, choices: Sequence[str]) -> str:
    """Finds the choice that a text names: by its letter, its words, or as the only one in it.

    `text` is what a model wrote about the choices A, B, ..., at most 26. The result is "" if it
    names none or several.

    Example:
        >>> kinds = ["cat", "dog", "hot dog"]
        >>> [read_choice(text, kinds) for text in ("B", "(C) hot dog", "The answer is A.", "Dog.")]
        ['dog', 'hot dog', 'cat', 'dog']
        >>> [read_choice(text, kinds) for text in ("a big cat", "a cat or a bird", "D", "A dog")]
        ['cat', 'cat', '', 'dog']
        >>> read_choice("B", ["B", "A"])
        'A'
    """
    spelled = [normalise_answer(choice) for choice in choices]
    said = normalise_answer(text)
    letter = _LETTER.search(text.strip())
    if letter is None and said and said in spelled:
        return choices[spelled.index(said)]
    if (letter := letter or _TOLD.search(text)) is not None:
        at = ord(letter[1].upper()) - ord("A")
        return choices[at] if at < len(choices) else ""
    within = [at for at, own in enumerate(spelled) if own and f" {own} " in f" {said} "]
    # "hot dog" names one choice, though "dog" is another.
    longest = [at for at in within if not any(_within(spelled[at], spelled[b]) for b in within)]
    return choices[longest[0]] if len(longest) == 1 else ""


def _within(part: str, whole: str) -> bool:
    return part != whole and f" {part} " in f" {whole} "


def _lettered(choices: Sequence[str]) -> str:
    return "\n".join(f"{chr(ord('A') + at)}. {choice}" for at, choice in enumerate(choices))


def _known(module: Answerer, candidates: Sequence[str]) -> list[str]:
    """The candidates in the closed set of a model; all without one."""
    return [answer for answer in candidates if module.answers is None or answer in module.answers]
