"""Why a model holds a belief: the words of the question that the answer hangs on, and the places.

The weight of a word is what the probability of the answer loses without the word (leave-one-out,
Li et al. 2016): phi(a | I, q) - phi(a | I, q without the word).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import FiniteFloat, TypeAdapter
from typing_extensions import TypedDict

from ivqa.data.batches.batch import ImageBatch
from ivqa.data.validation import read_lines
from ivqa.diagnosis.beliefs.beliefs import Belief
from ivqa.store.files import write_lines
from ivqa.vqa import Answerer, Attends
from ivqa.vqa.likelihood import log_phi

_QUESTIONS_PER_PASS = 256  # attention over a grid needs 150 kB for each


@dataclass(frozen=True)
class Reasons:
    """What the answer of a belief hangs on.

    Attributes:
        falls: For each word of the question, as `words_of` splits it, the fall of phi(a | I, q)
            without this word, in [-1, 1]. A question of one word has none.
        places: Weight of each position of a grid over the image, row by row; they sum to 1. Empty
            for a model without attention.
    """

    falls: tuple[float, ...]
    places: tuple[float, ...] = ()


def words_of(question: str) -> list[str]:
    """Splits a question into the words that `reasons_of` weighs, with their punctuation.

    Example:
        >>> words_of("Is the star red?")
        ['Is', 'the', 'star', 'red?']
    """
    return question.split()


def reasons_of(
    beliefs: Sequence[Belief],
    answerer: Answerer,
    images_of: Callable[[Sequence[int]], ImageBatch],
) -> list[Reasons]:
    """Asks again without each word, and reads the attention where the model has any.

    A belief of T words costs T + 1 questions.

    Args:
        beliefs: N beliefs of the model.
        answerer: The model.
        images_of: Returns the images of image ids, one for each.

    Returns:
        The reasons of the N beliefs.
    """
    asked = [(at, text) for at, one in enumerate(beliefs) for text in _questions(one.question)]
    phi: list[list[float]] = [[] for _ in beliefs]  # of the question, then without each word
    for start in range(0, len(asked), _QUESTIONS_PER_PASS):
        rows, texts = zip(*asked[start : start + _QUESTIONS_PER_PASS], strict=True)
        images = images_of([beliefs[row].image_id for row in rows])
        answers = [beliefs[row].answer for row in rows]
        chances = log_phi(answerer, images, texts, answers).exp().tolist()
        for row, value in zip(rows, chances, strict=True):
            phi[row].append(value)
    places: list[tuple[float, ...]] = []
    for start in range(0, len(beliefs), _QUESTIONS_PER_PASS):
        places += _places(answerer, images_of, beliefs[start : start + _QUESTIONS_PER_PASS])
    return [
        Reasons(tuple(round(whole - without, 3) for without in others), weights)
        for (whole, *others), weights in zip(phi, places, strict=True)
    ]


def _questions(question: str) -> list[str]:
    """The question, then the question without each of its words, if it has several."""
    words = words_of(question)
    without = [" ".join(words[:at] + words[at + 1 :]) for at in range(len(words))]
    return [question, *(without if len(words) > 1 else [])]


def _places(
    answerer: Answerer,
    images_of: Callable[[Sequence[int]], ImageBatch],
    beliefs: Sequence[Belief],
) -> list[tuple[float, ...]]:
    """The attention of each belief; () for a model without attention."""
    maps = None
    if isinstance(answerer, Attends):
        images = images_of([belief.image_id for belief in beliefs])
        maps = answerer.attention(images, [belief.question for belief in beliefs])
    if maps is None:
        return [()] * len(beliefs)
    return [tuple(round(value, 5) for value in own) for own in maps.cpu().tolist()]


def write_reasons(path: Path, reasons: Mapping[int, Reasons]) -> None:
    """Writes reasons as JSON Lines, so that a later comparison need not ask again.

    Args:
        path: The file to write.
        reasons: The reasons by line of beliefs.jsonl, which counts from 1.
    """
    write_lines(path, ({"line": line, **asdict(own)} for line, own in reasons.items()))


def read_reasons(path: Path) -> dict[int, Reasons]:
    """Reads the file that `write_reasons` wrote; it need not exist.

    Raises:
        DataError: A line does not hold reasons; the message names it.
    """
    if not path.is_file():
        return {}
    kind = "the reasons of a belief"
    lines = read_lines(path, TypeAdapter(_Line), "run diagnose.py again", kind=kind)
    return {one["line"]: Reasons(one["falls"], one["places"]) for one in lines}


class _Line(TypedDict):
    line: int
    falls: tuple[FiniteFloat, ...]
    places: tuple[FiniteFloat, ...]
