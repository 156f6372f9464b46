"""Models that answer and ask in the app: loaded in the background, and asked about pictures."""

import tempfile
import time
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import IO, Literal

from PIL import Image, UnidentifiedImageError

from ivqa.api import LoadedAnswerer, LoadedGenerator, load, load_vqa
from ivqa.config.choices import choices_of, conf_dir, config_folders, generator_choices
from ivqa.data.batches.batch import ImageBatch
from ivqa.data.given_pictures import NumberedPictures, read_picture
from ivqa.diagnosis.search.asking import AskedQuestion, GivenAnswer, given_answers
from ivqa.errors import UserError, reason_of
from ivqa.logic import Contradiction, contradictions
from ivqa.report.contact_sheet import data_uri
from ivqa.runs.picture_model import unlike_training
from ivqa.store.files import FileError
from ivqa.view.runs import StoredRun

Kind = Literal["answers", "questions"]
Loaded = LoadedAnswerer | LoadedGenerator

_MOST_PIXELS = 50_000_000  # of a picture; its pixels take 3 bytes each
_MOST_PICTURES = 4  # in memory; the oldest one goes
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
_LONGEST = 200  # characters of a question or an answer
_SHOWN = 640  # pixels of a picture on the page


@dataclass
class Slot:
    """The model of one kind: which one, and how far it is."""

    source: str
    model: "Future[Loaded]"
    started: float = field(default_factory=time.monotonic)

    @property
    def state(self) -> Literal["loading", "ready", "failed"]:
        """Whether it is being loaded, can be asked, or could not be loaded."""
        if not self.model.done():
            return "loading"
        return "ready" if self.model.exception() is None else "failed"

    @property
    def seconds(self) -> int:
        """How long ago its loading began."""
        return int(time.monotonic() - self.started)

    @property
    def error(self) -> str:
        """Why it could not be loaded."""
        error = self.model.exception()
        return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


@dataclass
class AskedPicture:
    """A picture, and what a model has answered about it.

    Attributes:
        found: The questions of the generator for an answer that the user typed last.
        unlike: Says that the picture is unlike the training pictures of a model, by its source.
    """

    name: str
    picture: Image.Image
    shown: str
    given: list[tuple[str, GivenAnswer]] = field(default_factory=list)
    answer: str = ""
    found: list[AskedQuestion] = field(default_factory=list)
    unlike: dict[str, "Future[str]"] = field(default_factory=dict)
    batches: dict[int, ImageBatch] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """What is known about the picture and the models, such as that it is unlike their data."""
        done = [one for one in self.unlike.values() if one.done() and one.exception() is None]
        return list(dict.fromkeys(note for one in done if (note := one.result())))

    @property
    def is_compared(self) -> bool:
        """Whether the comparisons with training pictures have ended."""
        return all(one.done() for one in self.unlike.values())

    def contradictions(self) -> list[Contradiction]:
        """The answers that cannot all be true, by what has been asked so far."""
        return contradictions([(question, one.answer) for question, one in self.given])

    def clashes(self, row: int) -> str:
        """What an answer contradicts, in words: "contradicts 3, 5 and 7"; "" if nothing."""
        rows: dict[bool, set[int]] = {True: set(), False: set()}
        for one in self.contradictions():
            if row in one.members:
                rows[one.certain].update(set(one.members) - {row})
        rows[False] -= rows[True]
        words = {True: "contradicts", False: "hardly fits"}
        return "; ".join(
            f"{words[certain]} {numbers(sorted(found))}" for certain, found in rows.items() if found
        )


class Models:
    """The models of the app, one of each kind, and the pictures that they see.

    One thread loads them, one after the other, and nothing else waits for it. A model that is not
    trained is refused: a page is no place to start a training of hours.
    """

    def __init__(self, artifacts: str) -> None:
        self.artifacts = artifacts
        self.slots: dict[Kind, Slot] = {}
        self.pictures: OrderedDict[str, AskedPicture] = OrderedDict()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="models")
        self._comparing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="comparing")
        self._one_at_a_time = Lock()  # a model computes for one request

    def load(self, kind: Kind, source: str, runs: Mapping[str, StoredRun]) -> None:
        """Begins to load a model.

        Args:
            source: A choice of `sources`.

        Raises:
            UserError: It is no such choice, or one of this kind is being loaded.
        """
        if source not in {one for group in sources(kind, runs).values() for one in group}:
            raise UserError(f"{source} is neither a model of conf/model nor a run of this folder")
        slot = self.slots.get(kind)
        if slot is not None and slot.state == "loading":
            raise UserError(f"{slot.source} is being loaded; wait until it is there")
        place = runs[source].folder if source in runs else source
        function = load_vqa if kind == "answers" else load
        future: Future[Loaded] = self._thread.submit(
            function, place, train=False, artifacts=self.artifacts
        )
        self.slots[kind] = Slot(source, future)

    def add(self, name: str, file: IO[bytes]) -> str:
        """Checks an uploaded picture and keeps it; returns its id.

        Raises:
            UserError: It is no picture, or has too many pixels.
        """
        picture = checked_picture(name, file)
        key = token_hex(8)
        self.pictures[key] = AskedPicture(name, picture, data_uri(picture, _SHOWN))
        while len(self.pictures) > _MOST_PICTURES:
            self.pictures.popitem(last=False)
        return key

    def picture(self, key: str) -> AskedPicture:
        """A picture by its id; raises UserError where it is gone."""
        if key not in self.pictures:
            raise UserError("This picture is no longer here; choose it again.")
        return self.pictures[key]

    def ask(self, key: str, question: str) -> None:
        """Asks the VQA model a question about a picture, and keeps the answer."""
        picture, text = self.picture(key), _checked(question, "question")
        model, source = self._ready("answers")
        with self._one_at_a_time:
            module = model.model.module
            (given,) = given_answers(module, self._batch(picture, model, source), [text])
        picture.given = [one for one in picture.given if one[0] != text] + [(text, given)]

    def questions(self, key: str, answer: str) -> None:
        """Finds the questions of the generator that have an answer."""
        picture, text = self.picture(key), _checked(answer, "answer")
        model, source = self._ready("questions")
        assert isinstance(model, LoadedGenerator)
        with self._one_at_a_time:
            self._compare(picture, model, source)
            picture.found, picture.answer = model.ask(picture.picture, text), text

    def _ready(self, kind: Kind) -> tuple[Loaded, str]:
        slot = self.slots.get(kind)
        if slot is None or slot.state != "ready":
            what = "VQA model" if kind == "answers" else "question generator"
            raise UserError(f"There is no {what} yet: load one above.")
        return slot.model.result(), slot.source

    def _batch(self, picture: AskedPicture, model: Loaded, source: str) -> ImageBatch:
        """The features of a picture, which are computed once."""
        self._compare(picture, model, source)
        if id(model) not in picture.batches:
            picture.batches = {id(model): model.model.read(picture.picture)}
        return picture.batches[id(model)]

    def _compare(self, picture: AskedPicture, model: Loaded, source: str) -> None:
        """Begins to compare a picture with the training pictures of a model."""
        if source not in picture.unlike:
            pictures = NumberedPictures({0: picture.picture})
            future = self._comparing.submit(unlike_training, model.model, pictures, [0])
            picture.unlike[source] = future


def sources(kind: Kind, runs: Mapping[str, StoredRun]) -> dict[str, list[str]]:
    """What can be loaded: models of conf/model, and the runs that have a configuration.

    A run may hold models of both kinds, so it is offered for both.
    """
    folders = config_folders(conf_dir(), [])
    answers = kind == "answers"
    models = choices_of("vqa", folders, "evaluate") if answers else generator_choices(folders)
    stored = [name for name, run in runs.items() if (run.folder / "config.yaml").is_file()]
    return {
        "models of conf/model": models,
        "runs of the folder": stored,
    }


def numbers(rows: Sequence[int]) -> str:
    """Rows as people count them.

    >>> numbers([2]), numbers([2, 4, 6])
    ('3', '3, 5 and 7')
    """
    *first, last = [str(row + 1) for row in rows]
    return f"{', '.join(first)} and {last}" if first else last


def checked_picture(name: str, file: IO[bytes]) -> Image.Image:
    """Reads an uploaded picture in RGB, after a look at its format and size.

    Raises:
        UserError: It is no picture, is damaged, or has too many pixels.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(file, formats=_FORMATS) as image:
                width, height = image.size
    except (UnidentifiedImageError, OSError) as error:
        kinds = ", ".join(_FORMATS)
        reason = reason_of(error)
        raise UserError(f"{name} is no picture ({reason}); choose a file of {kinds}") from None
    except Image.DecompressionBombError:  # Pillow's own limit, which is higher
        width = height = _MOST_PIXELS
    if width * height > _MOST_PIXELS:
        most = f"{_MOST_PIXELS // 10**6} million"
        raise UserError(f"{name} has too many pixels; choose a picture of at most {most}")
    file.seek(0)
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(file.read())
        copy.flush()
        try:
            return read_picture(Path(copy.name))
        except FileError as error:
            raise UserError(str(error).replace(copy.name, name)) from None


def _checked(text: str, what: str) -> str:
    found = " ".join(text.split())
    if not found:
        raise UserError(f"Type a {what} first." if what != "answer" else "Type an answer first.")
    if len(found) > _LONGEST:
        raise UserError(f"This {what} has {len(found)} characters; use at most {_LONGEST}.")
    return found
