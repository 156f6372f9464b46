"""Data sets with file layouts of their own, read entry by entry."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from ivqa.data.batches.columns import Columns, Entry
from ivqa.data.dataset import VQADataset
from ivqa.data.file_patterns import FilePatterns
from ivqa.data.formats.json_stream import entries
from ivqa.data.images import ImageFiles
from ivqa.data.split import AnswerMetric, ServerResults, VQASplit
from ivqa.data.validation import Problems, shown
from ivqa.data.vqa_json import check_images
from ivqa.store.files import check_regular

Record = dict[str, Any]

REMEDY = "repair the record or download the file again"


# Reads the questions of a split from one file, and collects the faults of the file.
Reader = Callable[[Path, str, Problems], Iterator[Entry]]


class PublishedDataset(VQADataset):
    """A data set whose questions and answers are in files of its own layout.

    `root`, `train`, `val`, `test` and `title` are those of `VQADataset`.

    Args:
        reader: Reads a file of questions.
        files: `question_file` and `image_pattern` are used. A split may also be a folder of files,
            named like the file without its ending.
        images_in: Lists the images of a folder whose names match a pattern.
        metric: The official evaluation of the data set; None for VQA accuracy.
        server_results: See `VQASplit`.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        reader: Reader,
        train: str | None,
        val: str | None,
        test: str | None,
        files: FilePatterns,
        images_in: Callable[[Path, str], ImageFiles] = ImageFiles.in_folder,
        metric: AnswerMetric | None = None,
        server_results: ServerResults | None = None,
        title: str | None = None,
    ) -> None:
        super().__init__(root, train=train, val=val, test=test, files=files, title=title)
        self._reader = reader
        self._images_in = images_in
        self._metric = metric
        self._server_results = server_results

    @override
    def lacks_annotations(self, stage_or_name: str) -> bool:
        name = self.name_of(stage_or_name)
        if name not in self._splits:
            self.prepare()
            first = next(self._entries(name, Problems()), None)
            return first is not None and first[1].answers is None
        return not self._splits[name].has_answers

    def _read(self, name: str) -> VQASplit:
        if not any(self._files(name).values()):
            raise self._no_questions(name)
        images, problems = self._images(name), Problems()
        columns = Columns()
        path = None
        for path, entry in self._entries(name, problems):
            columns.add(entry, path, problems)
        if path is None and not len(problems):
            problems.add(self._paths(name)[0], "", "", f"holds no question of split '{name}'")
        if images is not None and path is not None:
            check_images(images, np.array(columns.image_ids, dtype=np.int64), path, problems)
            _check_names(images, columns.image_files, path, problems)
        problems.raise_if_any()
        tried = tuple(map(str, self._image_paths(name)))
        split = columns.split(name, images, tried, self.metric(name))
        return replace(split, server_results=self._server_results)

    def metric(self, name: str) -> AnswerMetric | None:
        """The official evaluation of the questions of a split; None for VQA accuracy."""
        return self._metric

    def _entries(self, name: str, problems: Problems) -> Iterator[tuple[Path, Entry]]:
        for path in self._paths(name):
            for entry in self._reader(check_regular(path), name, problems):
                yield path, entry

    def _paths(self, name: str) -> list[Path]:
        return [path for path in self._files(name).values() if path is not None]

    def _files(self, name: str) -> dict[str, Path | None]:
        found = super()._files(name)["questions"]
        folder = self.root / self.files.question_file.replace("{split}", name)
        if found is None and folder.is_dir():
            return {f"questions {path.name}": path for path in sorted(folder.glob("*.json"))}
        return {"questions": found}


def _check_names(
    images: ImageFiles, names: Mapping[int, str], path: Path, problems: Problems
) -> None:
    """Reports files that have the number of an image, but the name of another split's image."""
    known = set(images.ids.tolist())
    for image_id, name in names.items():
        if image_id in known and (file := images.path(image_id)).stem != Path(name).stem:
            fault = f"is {file.name} in {file.parent}; use questions and images of one split"
            problems.add(path, f"image {image_id}", name, fault)


def records(path: Path, key: str | None, problems: Problems) -> Iterator[tuple[str, Record]]:
    """Reads the objects in a list or an object, one by one; see `json_stream.entries`.

    `problems` collects the faults of entries that are not objects; they are left out.
    """
    for name, record in entries(path, key):
        if isinstance(record, dict):
            yield name, record
        else:
            problems.add(path, f"entry {name}", "", f"must be an object, not {shown(record)}")


def number_in(file_name: str) -> int | None:
    """The number at the end of the name of an image file, as in CLEVR_val_000042.png."""
    found = re.search(r"(\d+)\.\w+$", file_name)
    return None if found is None else int(found[1])
