"""Data sets of the Hugging Face hub, or folders of Parquet files, as `datasets` reads them."""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from huggingface_hub import HfApi
from PIL import Image
from typing_extensions import TypedDict, override

from ivqa.data.dataset import VQADataset
from ivqa.data.formats.aokvqa import question_number
from ivqa.data.records import Record, answer_records, write_records
from ivqa.data.validation import DataError, listed
from ivqa.errors import UserError, reason_of
from ivqa.hub import check_hub_id, check_revision
from ivqa.ranges import Cache, Count, NonEmptyText
from ivqa.store.digests import bytes_digest, digest
from ivqa.store.files import read_bytes, write_bytes
from ivqa.store.locks import folder_lock
from ivqa.terminal import terminal

Names = NonEmptyText | Sequence[NonEmptyText] | None

_ENDINGS = {"JPEG": "jpg", "PNG": "png", "GIF": "gif", "WEBP": "webp", "BMP": "bmp"}
_NOTHING = (None, "", "nan")  # how tables write an empty cell


class Columns(TypedDict, total=False):
    """The columns of a data set by what they hold; null where there is none.

    One that is named otherwise than by default must exist.
    """

    question: Names  # several are joined by line breaks, such as [hint, question]
    answers: Names  # a list of texts or of {"answer": text}
    main_answer: Names  # one text; the letter of a column or the position of a choice, too
    image: Names
    question_id: Names  # null: the position of the row
    image_id: Names  # null: the digest of the picture
    multiple_choices: Names  # a column with a list, or a column for each choice, such as [A, B]
    answer_type: Names
    question_type: Names
    kind: Names


class Pictures(TypedDict):
    """Where the pictures are, if another configuration of the data set holds them."""

    config: NonEmptyText
    image_id: NonEmptyText
    image: NonEmptyText


# What ivqa itself exports (export=datasets).
_EXPORTED = {key: key for key in Columns.__annotations__} | {"main_answer": "answer"}


class HFDataset(VQADataset):
    """A data set of `datasets`, written into a cache folder in VQA layout when a split is used.

    Rows are streamed: nothing else is stored. Ids that are no integers become the number of
    `question_number`. A split in which no question has an answer is one without annotations.

    Args:
        path: A folder of Parquet (JSON, CSV) files, with or without a card, or a hub id.
        cache_dir: Folder of the data that were read.
        revision: Branch, tag or commit of a hub id; None for "main".
        config: Name of the configuration (subset); None for the only one. `{split}` stands for
            the name of the split.
        columns: The columns, see `Columns`; those that are left out have the names of
            `export=datasets`.
        pictures: The configuration that holds the pictures, see `Pictures`; None: `columns` do.
        limit: Number of questions of a split, from its beginning; None for all.
        train: Name of the training split; None for none.
        val: Name of the validation split, or None.
        test: Name of the test split, or None.

    Raises:
        UserError: The path is neither a folder nor a hub id.
    """

    def __init__(
        self,
        path: NonEmptyText,
        *,
        cache_dir: Cache,
        revision: str | None = None,
        config: str | None = None,
        columns: Columns | None = None,
        pictures: Pictures | None = None,
        limit: Count | None = None,
        train: str | None = "train",
        val: str | None = "validation",
        test: str | None = "test",
    ) -> None:
        check_revision(path, revision)
        if not Path(path).is_dir():
            check_hub_id(path, "lmms-lab/VQAv2", "set data.path to one of Parquet files")
        self.path, self.revision, self.config = path, revision, config
        self.columns: dict[str, Any] = {**_EXPORTED, **(columns or {})}
        self.pictures, self.limit = pictures, limit
        self._cache = Path(cache_dir)
        super().__init__(self._cache, train=train, val=val, test=test, title=Path(path).name)

    @override
    def prepare(self) -> None:
        settings = [self.path, self.config, self.columns, self.pictures, self.limit]
        self.root = self._cache / f"hf_{digest([*settings, self._version])}"

    @property
    @override
    def has_images(self) -> bool:
        self.prepare()
        self._files(self.names[0])
        return super().has_images

    @override
    def _files(self, name: str) -> dict[str, Path | None]:
        with folder_lock(self.root):
            if not (self.root / f"questions_{name}.json").is_file():
                self._write(name)
        return super()._files(name)

    @cached_property
    def _version(self) -> Any:
        """What tells versions of the data apart: the commit, or the files of a folder."""
        if Path(self.path).is_dir():
            files = sorted(file for file in Path(self.path).rglob("*") if file.is_file())
            return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]
        try:
            return HfApi().dataset_info(self.path, revision=self.revision).sha
        except Exception:  # of the HTTP library; what is in the cache is used
            return self.revision

    def _write(self, name: str) -> None:
        """Writes a split in VQA layout; its questions last, which complete it."""
        terminal().print(f"reading split '{name}' of {self.path}", soft_wrap=True)
        folder = self.root / "images" / name
        questions, annotations = list[Record](), list[Record]()
        reader, known = None, set[int]()
        for position, row in enumerate(self._rows(name, self.config, self.limit)):
            reader = reader or _Reader.of(self.columns, list(row), self.path)
            question, picture = reader.question(row, position), reader.picture(row)
            if picture is not None and question["image_id"] not in known:
                _save(picture, folder, question["image_id"])
            known.add(question["image_id"])
            questions.append(question)
            if answers := reader.annotation(row):
                ids = {key: question[key] for key in ("question_id", "image_id")}
                annotations.append({**ids, **answers})
        if not questions:
            raise DataError(f"split '{name}' of {self.path} has no rows; choose another split")
        if self.pictures is not None:
            self._write_pictures(name, known, folder)
        write_records(self.root, name, questions, annotations)

    def _write_pictures(self, name: str, wanted: set[int], folder: Path) -> None:
        assert self.pictures is not None
        for row in self._rows(name, self.pictures["config"], None):
            if (number := _number(row[self.pictures["image_id"]])) in wanted:
                _save(row[self.pictures["image"]], folder, number)
                wanted = wanted - {number}
            if not wanted:
                return
        config = self.pictures["config"].replace("{split}", name)
        raise DataError(
            f"data.pictures: {config} of {self.path} lacks {len(wanted)} pictures "
            f"of split '{name}'; name the configuration that holds them"
        )

    def _rows(self, name: str, config: str | None, limit: int | None) -> Iterator[Record]:
        """Streams the rows of a split; pictures are {"bytes", "path"}."""
        datasets = _datasets_package()
        chosen = config and config.replace("{split}", name)
        revision = None if Path(self.path).is_dir() else self._version
        try:
            rows = datasets.load_dataset(
                self.path, chosen, split=name, revision=revision, streaming=True
            )
            for column, kind in (rows.features or {}).items():
                if isinstance(kind, datasets.Image):
                    rows = rows.cast_column(column, datasets.Image(decode=False))
            yield from rows if limit is None else rows.take(limit)
        except Exception as error:  # datasets raises many kinds
            raise UserError(
                f"cannot read split '{name}' of data.path={self.path}: {reason_of(error)}; set "
                "data.train, data.val, data.test, data.config or data.revision to what it has"
            ) from error


@dataclass(frozen=True)
class _Reader:
    """Reads rows whose columns are known to be there."""

    columns: Mapping[str, Names]

    @classmethod
    def of(cls, columns: Mapping[str, Names], there: Sequence[str], path: str) -> Self:
        """Leaves out columns that have their default names and are not there."""
        found = dict(columns)
        for key, column in columns.items():
            absent = [one for one in _listed(column) if one not in there]
            if absent and (column != _EXPORTED.get(key) or key == "question"):
                raise DataError(
                    f"data.columns.{key}: {path} has no column '{absent[0]}'; its columns are "
                    f"{listed(there, 30)}"
                )
            if absent:
                found[key] = None
        return cls(found)

    def question(self, row: Record, position: int) -> Record:
        """The record of a question, with the id of its image."""
        columns, picture = self.columns, self.picture(row)
        number = _number(self._cell(row, "question_id", position))
        parts = [row[one] for one in _listed(columns["question"])]
        found: Record = {
            "question_id": number,
            "question": "\n".join(str(part) for part in parts if part not in _NOTHING),
        }
        if columns["image_id"] is not None:
            found["image_id"] = _number(self._cell(row, "image_id"))
        else:
            found["image_id"] = number if picture is None else _digest_number(_content(picture))
        if columns["kind"] is not None:
            found["kind"] = self._cell(row, "kind")
        if columns["multiple_choices"] is not None:
            found["multiple_choices"] = list(self._choices(row).values())
        return found

    def annotation(self, row: Record) -> Record:
        """The answers of a question and their types; empty without answers."""
        main, given = self._cell(row, "main_answer"), self._cell(row, "answers")
        several = given is not None
        if not several:
            given = main
        if isinstance(given, Mapping):  # a sequence of records is stored as a record of sequences
            given = given["answer"]
        values = given if isinstance(given, list) else [given]
        texts = [one["answer"] if isinstance(one, Mapping) else one for one in values]
        choices = self._choices(row)
        answers = [str(choices.get(one, one)) for one in texts if one not in (None, "")]
        if not answers:
            return {}
        found: Record = {"answers": answer_records(answers)}
        if several and main not in _NOTHING:
            found["multiple_choice_answer"] = str(main)
        types = {key: self._cell(row, key) for key in ("question_type", "answer_type")}
        return found | {key: value for key, value in types.items() if value not in _NOTHING}

    def picture(self, row: Record) -> Any:
        """The picture of a row, {"bytes", "path"}; None for text alone."""
        return self._cell(row, "image")

    def _choices(self, row: Record) -> dict[Any, str]:
        """The choices of a question by the letter or the position that names them."""
        named = self.columns["multiple_choices"]
        if isinstance(named, str):
            return dict(enumerate(row[named] or ()))
        return {one: str(row[one]) for one in _listed(named) if row[one] not in _NOTHING}

    def _cell(self, row: Record, key: str, default: Any = None) -> Any:
        column = self.columns[key]
        return default if column is None else row[column]  # type: ignore[index]


def _listed(column: Names) -> list[str]:
    return [] if column is None else [column] if isinstance(column, str) else list(column)


def _number(value: Any) -> int:
    """An id as an integer.

    Example:
        >>> _number(7), _number("7"), _number("07") == question_number("07")
        (7, 7, True)
    """
    text = str(value)
    return int(text) if re.fullmatch(r"0|[1-9]\d{0,17}", text) else question_number(text)


def _digest_number(content: bytes) -> int:
    return int(bytes_digest(content), 16) >> 1


def _content(picture: Any) -> bytes:
    return picture["bytes"] or read_bytes(picture["path"])


def _save(picture: Any, folder: Path, number: int) -> None:
    """Writes a picture as it is, or as PNG if its format is none that every reader knows."""
    content = _content(picture)
    with Image.open(io.BytesIO(content)) as opened:
        ending = _ENDINGS.get(opened.format or "")
        if ending is None:
            buffer = io.BytesIO()
            opened.save(buffer, "PNG")
            content, ending = buffer.getvalue(), "png"
    write_bytes(folder / f"{number:012d}.{ending}", content)


def _datasets_package() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise UserError(
            "data=hf needs the package datasets: pip install 'ivqa[datasets]'"
        ) from error
    return datasets
