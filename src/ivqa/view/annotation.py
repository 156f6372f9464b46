"""Annotation by several people: the items of annotate.html, kept answers, agreement and export."""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from ivqa.errors import UserError
from ivqa.metrics import krippendorff_alpha, krippendorff_interval
from ivqa.report.pages.annotation_page import HIGHEST_SCORE
from ivqa.report.tables import with_interval
from ivqa.store.digests import digest
from ivqa.store.files import FileError, parse_json, read_text
from ivqa.view.runs import ANNOTATE, StoredRun

DATABASE = "ivqa-view.sqlite3"
QUESTIONS = {
    "relevant": "Does the image show what the question is about?",
    "same_fact": "Does it ask for the same fact as the question in the data set?",
    "correct": "Is the answer correct?",
}
SCORE = "How well does the question fit the image and the answer?"
_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
_RESAMPLES = 500  # of the interval of agreement, which is computed at every look
_LONGEST = 60  # characters of a name and of a right answer, as in annotate.html

Given = dict[str, int | str]
"""What a person has said about an item: "score"; or 0 or 1 for each of `QUESTIONS`, and
"right_answer"."""


@dataclass(frozen=True)
class Item:
    """A question that people judge.

    Attributes:
        id: Of a study; "" in a page about beliefs, whose items have a reference and a weight.
    """

    image: int
    answer: str
    question: str
    id: str = ""
    reference: str = ""
    weight: float | None = None

    def asks(self) -> list[str]:
        """What is asked; without a question of the data set nothing can be compared with it."""
        if self.id:
            return ["score"]
        return [name for name in QUESTIONS if name != "same_fact" or self.reference]

    def is_complete(self, given: Mapping[str, Any]) -> bool:
        """Whether nothing is left to be said about the item."""
        return given.get("relevant") == 0 or all(name in given for name in self.asks())


@dataclass(frozen=True)
class Questionnaire:
    """The items of an annotate.html.

    Attributes:
        id: The id of the study, or a digest of the items: answers belong to these items alone.
        study: Whether people score questions from 0 to 4; else they judge beliefs.
        images: Data URIs by image; "" where the data have no images.
    """

    id: str
    study: bool
    items: Sequence[Item]
    images: Mapping[int, str]


def questionnaire_of(run: StoredRun) -> Questionnaire:
    """Reads the annotate.html of a run.

    Raises:
        UserError: The run has none, or it was not written by ivqa.
    """
    file = run.folder / ANNOTATE
    if not file.is_file() or file.is_symlink():
        raise UserError(f"{run.name} has no {ANNOTATE}: diagnose.py and task=human_study write it")
    return _read(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=8)  # a page holds its pictures, megabytes
def _read(file: Path, written: int) -> Questionnaire:
    del written
    found = _DATA.search(read_text(file))
    data: Any = parse_json(found[1].encode(), file) if found else None
    try:
        # As JSON: a strict validation of Python values wants objects of the class.
        items = TypeAdapter(list[Item]).validate_json(json.dumps(data["items"]), strict=True)
        images = data["images"]
        pairs = images.items() if isinstance(images, dict) else enumerate(images)
        pictures = {int(image): str(uri) for image, uri in pairs}
        study = "study" in data
        name = str(data["study"]) if study else digest([vars(one) for one in items])
        if any(bool(one.id) != study or one.image not in pictures for one in items):
            raise ValueError("items")
    except (ValidationError, AttributeError, TypeError, KeyError, ValueError):
        raise FileError(f"{file} was not written by ivqa; write it again") from None
    shown = {one: uri if uri.startswith("data:image/") else "" for one, uri in pictures.items()}
    return Questionnaire(name, study, items, shown)


def changed(item: Item, given: Given, field: str, value: str) -> Given:
    """What a person has said about an item after one more answer, as annotate.html keeps it.

    Raises:
        UserError: The item has no such question, or the value is no answer to it.
    """
    highest = HIGHEST_SCORE if item.id else 1
    if field == "right_answer" and _is_wrong(given):
        text = " ".join(value.split())[:_LONGEST]
        if text:
            return {**given, field: text}
        return {name: one for name, one in given.items() if name != field}
    if field not in item.asks() or not value.isdecimal() or int(value) > highest:
        raise UserError(f"'{field}={value[:40]}' is no answer to a question of this page.")
    if (given.get("relevant"), field in ("same_fact", "correct")) == (0, True):
        raise UserError("About a question that the image does not show, nothing else is asked.")
    new: Given = {**given, field: int(value)}
    if new.get("relevant") == 0:
        new = {"relevant": 0}
    if not _is_wrong(new):
        new.pop("right_answer", None)
    return new


def _is_wrong(given: Mapping[str, Any]) -> bool:
    return given.get("relevant") == 1 and given.get("correct") == 0


def checked_name(name: str) -> str:
    """The name of an annotator without needless spaces; raises UserError without one."""
    found = " ".join(name.split())[:_LONGEST]
    if not found:
        raise UserError("Write your name first.")
    return found


class Answers:
    """The answers of all people, in an SQLite file of the folder.

    Several people write at once: a write-ahead log lets them read meanwhile, and an answer is
    added to those before it in one transaction.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / DATABASE

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.file, timeout=10, isolation_level=None)) as opened:
                opened.execute("PRAGMA journal_mode=WAL")
                opened.execute(
                    "CREATE TABLE IF NOT EXISTS answers (page TEXT, item INTEGER, person TEXT, "
                    "name TEXT, given TEXT, PRIMARY KEY (page, item, person)) WITHOUT ROWID"
                )
                yield opened
        except sqlite3.Error as error:
            raise UserError(
                f"{self.file}: answers cannot be kept ({error}); make the folder writable, or move "
                "a damaged file away"
            ) from None

    def give(self, page: Questionnaire, at: int, name: str, field: str, value: str) -> Given:
        """Keeps an answer; returns all that the person has said about the item."""
        person = name.casefold()
        with self._open() as opened:
            opened.execute("BEGIN IMMEDIATE")
            key = (page.id, at, person)
            row = opened.execute(
                "SELECT given FROM answers WHERE page = ? AND item = ? AND person = ?", key
            ).fetchone()
            new = changed(page.items[at], json.loads(row[0]) if row else {}, field, value)
            opened.execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)",
                (*key, name, json.dumps(new)),
            )
            opened.execute("COMMIT")
        return new

    def of(self, page: Questionnaire) -> dict[str, dict[int, Given]]:
        """All answers by the name of the person and the position of the item."""
        if not self.file.exists():
            return {}
        with self._open() as opened:
            rows = opened.execute(
                "SELECT person, name, item, given FROM answers WHERE page = ? "
                "ORDER BY person, item",
                (page.id,),
            ).fetchall()
        names: dict[str, str] = {}
        found: dict[str, dict[int, Given]] = {}
        for person, name, item, given in rows:
            if item < len(page.items):
                own = found.setdefault(names.setdefault(person, name), {})
                own[item] = json.loads(given)
        return found


def agreement(page: Questionnaire, answers: Mapping[str, Mapping[int, Given]]) -> dict[str, str]:
    """Krippendorff's alpha of each question with its interval over images, where it is defined.

    A belief that a person calls irrelevant is to this person neither the same fact nor correct, as
    in Table 3.
    """
    found = {}
    clusters = np.array([item.image for item in page.items])
    for field in ["score"] if page.study else QUESTIONS:
        ratings = np.full((len(answers), len(page.items)), np.nan)
        for row, own in enumerate(answers.values()):
            for at, given in own.items():
                if field not in page.items[at].asks():
                    continue
                value = 0 if given.get("relevant") == 0 else given.get(field)
                if isinstance(value, int):
                    ratings[row, at] = value
        alpha = krippendorff_alpha(ratings)
        if not np.isnan(alpha):
            low, high = krippendorff_interval(ratings, clusters, resamples=_RESAMPLES)
            found[field] = with_interval(alpha, low, high)
    return found


def exported(page: Questionnaire, answers: Mapping[str, Mapping[int, Given]]) -> str:
    """The file that annotate.html exports, for one person, or for all that judged beliefs.

    Raises:
        UserError: Nobody has said anything; or several people scored a study, whose task reads one
            file of each.
    """
    people = {name: own for name, own in answers.items() if any(own.values())}
    if not people:
        raise UserError("There are no answers to export yet.")
    value: Any
    if page.study:
        if len(people) > 1:
            raise UserError("A study is exported person by person: evaluate.py reads their files.")
        ((name, own),) = people.items()
        ratings = {page.items[at].id: given["score"] for at, given in own.items()}
        value = {"study": page.id, "person": name, "ratings": ratings}
    else:
        value = [
            _record(page.items[at], name, given)
            for name, own in people.items()
            for at, given in own.items()
            if given
        ]
    return json.dumps(value, ensure_ascii=False, indent=1)


def _record(item: Item, name: str, given: Given) -> dict[str, Any]:
    """A record of annotations.json; a question without an answer has no field."""
    record: dict[str, Any] = {"image_id": item.image, "answer": item.answer}
    record["question"] = item.question
    if (weight := item.weight) is not None:  # a whole number as JavaScript writes it
        record["weight"] = int(weight) if weight.is_integer() else weight
    record["annotator"] = name
    record |= {field: bool(given[field]) for field in QUESTIONS if field in given}
    if "right_answer" in given:
        record["right_answer"] = given["right_answer"]
    if "same_fact" not in item.asks():
        record["same_fact"] = False
    if given.get("relevant") == 0:
        record |= {"same_fact": False, "correct": False}
    return record


def file_name(page: Questionnaire, name: str) -> str:
    """The name of an exported file, as annotate.html chooses it."""
    if not page.study:
        return "annotations.json"
    return (re.sub(r"[\W_]+", "-", name.lower()).strip("-") or "ratings") + ".json"
