"""A data root on disk: finds the files of each split."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ivqa.data.file_patterns import FilePatterns, layouts_in
from ivqa.data.images import ImageFiles
from ivqa.data.json_files import read_bytes
from ivqa.data.oracles import Oracle
from ivqa.data.split import VQASplit
from ivqa.data.validation import DataError, check_root, listed
from ivqa.data.vqa_json import read_split
from ivqa.errors import UserError
from ivqa.store.digests import bytes_digest, digest, file_digest
from ivqa.store.files import check_regular

STAGES = ("train", "val", "test")


class VQADataset:
    """Questions, annotations and images of up to three splits under one root folder.

    The constructor reads nothing; `split` reads and validates a split on first use and keeps it.

    Args:
        root: The folder.
        train: Name of the training split in the file names; None for no split.
        val: Name of the validation split, likewise; splits may coincide.
        test: Name of the test split, likewise.
        files: Paths of the files under the root.
        require_images: Whether text-only data is an error.
        title: What people call the data; None: the name of the folder.

    Raises:
        UserError: A split is named like a stage ("train", "val", "test") that uses another split.

    Example:
        >>> VQADataset("folder", train="train", val="val", test="val").names
        ['train', 'val']
    """

    def __init__(
        self,
        root: str | Path,
        *,
        train: str | None = "train",
        val: str | None = "val",
        test: str | None = None,
        files: FilePatterns | None = None,
        require_images: bool = False,
        title: str | None = None,
    ) -> None:
        self.root = Path(root)
        self._title = title
        self.stages: Mapping[str, str | None] = dict(zip(STAGES, (train, val, test), strict=True))
        self.files = files or FilePatterns()
        self.require_images = require_images
        self._images_in: Callable[[Path, str], ImageFiles] = ImageFiles.in_folder
        self._splits: dict[str, VQASplit] = {}
        self._cache_key: str | None = None
        for stage, name in self.stages.items():
            if name in STAGES and self.stages[name] not in (None, name):
                raise UserError(
                    f"split '{name}' serves as {stage}, while '{name}' itself means the split "
                    f"'{self.stages[name]}'; rename the files so that the two agree"
                )

    def prepare(self) -> None:
        """Checks that the root exists; subclasses may generate it.

        Raises:
            DataError: The root does not exist; the message names the nearest existing folder.
        """
        check_root(self.root)

    @property
    def title(self) -> str:
        """What people call the data, for titles of pages and tables."""
        return self._title or self.root.name

    @property
    def names(self) -> list[str]:
        """The distinct names of the splits in use, in the order train, val, test."""
        return list(dict.fromkeys(name for name in self.stages.values() if name))

    @property
    def has_images(self) -> bool:
        """Whether the first split in use has a folder of images."""
        return bool(self.names) and self._image_folder(self.names[0]) is not None

    def name_of(self, stage_or_name: str) -> str:
        """Returns the name of the split of "train", "val" or "test"; another text is a name itself.

        Raises:
            DataError: The stage has no split.
        """
        name = self.stages.get(stage_or_name, stage_or_name)
        if name is None and stage_or_name in self.names:
            name = stage_or_name
        if name is None:
            used = listed([stage for stage, split in self.stages.items() if split])
            raise DataError(
                f"no {stage_or_name} split is set, only {used}; set data.{stage_or_name}"
            )
        return name

    def split(self, stage_or_name: str) -> VQASplit:
        """Returns the validated split of a stage or a name; it is read on first use and then kept.

        Raises:
            DataError: The split does not exist (the message lists the splits in the root), or its
                files have problems (the message lists them).
        """
        name = self.name_of(stage_or_name)
        if name not in self._splits:
            self.prepare()
            self._splits[name] = self._read(name)
        return self._splits[name]

    def lacks_annotations(self, stage_or_name: str) -> bool:
        """Whether a split has a questions file but no annotations, like the official test sets.

        No file is read.

        Raises:
            DataError: The stage has no split, or the root does not exist.
        """
        self.prepare()
        files = self._files(self.name_of(stage_or_name))
        return files["questions"] is not None and files["annotations"] is None

    def oracle(self, stage_or_name: str) -> Oracle | None:
        """The oracle that judges questions about the images of a stage or a split.

        None; data sets with exact annotations override this.
        """
        return None

    def cache_key(self) -> str:
        """Computes the digest of all splits in use, the same on every machine.

        It covers the unpacked texts, and the names and sizes of the image files.
        """
        if self._cache_key is None:
            self.prepare()
            content: list[Any] = []
            for name in self.names:
                for kind, path in self._files(name).items():
                    content.append([name, kind, _text_digest(path)])
                images = self._images(name)
                paths = images.paths if images is not None else ()
                content.append([[path.name, _size(path)] for path in paths])
            self._cache_key = digest(content)
        return self._cache_key

    def _read(self, name: str) -> VQASplit:
        files = self._files(name)
        if files["questions"] is None:
            raise self._no_questions(name)
        split = read_split(
            name,
            files["questions"],
            files["annotations"],
            files["captions"],
            files["layouts"],
            images=self._images(name),
            images_tried=tuple(map(str, self._image_paths(name))),
        )
        if self.require_images:
            split.require_images()
        return split

    def _no_questions(self, name: str) -> DataError:
        tried = listed(self.files.candidates(name)["questions"])
        there = self.files.splits_in(self.root)
        other = {} if there else layouts_in(self.root)
        hint = " or ".join(f"data={key} (splits {listed(names)})" for key, names in other.items())
        return DataError(
            f"split '{name}' not found: none of {tried} exists in {self.root}; "
            + (f"its files fit {hint}" if hint else f"splits there: {listed(there)}")
        )

    def _files(self, name: str) -> dict[str, Path | None]:
        """The JSON files of a split by kind; None where there is none."""
        return {
            kind: next(
                # lexists: a folder, a pipe or a broken link of that name must be reported.
                (self.root / path for path in paths if os.path.lexists(self.root / path)),
                None,
            )
            for kind, paths in self.files.candidates(name).items()
        }

    def _image_folder(self, name: str) -> tuple[Path, str] | None:
        for path in self._image_paths(name):
            if os.path.lexists(path.parent):
                return path.parent, path.name
        return None

    def _image_paths(self, name: str) -> list[Path]:
        return [self.root / pattern for pattern in self.files.images_of(name)]

    def _images(self, name: str) -> ImageFiles | None:
        if name in self._splits:
            return self._splits[name].images
        found = self._image_folder(name)
        return None if found is None else self._images_in(*found)


def _text_digest(path: Path | None) -> str:
    """Digest of the unpacked text in a file; of no text without a file."""
    if path is None:
        return bytes_digest(b"")
    if path.suffix in (".gz", ".zip"):
        return bytes_digest(read_bytes(path))
    try:
        # In blocks: the questions of GQA take several GB.
        return file_digest(check_regular(path))
    except OSError as error:
        raise DataError(str(error)) from None


def _size(path: Path) -> int | None:
    """Size of a file in bytes; None for a broken link, which is reported when the image is read."""
    try:
        return path.stat().st_size
    except OSError:
        return None


def custom_vqa(
    root: str | Path,
    *,
    train: str | None,
    val: str | None,
    test: str | None,
    question_file: str,
    annotation_file: str,
    caption_file: str | None,
    layout_file: str | None,
    image_pattern: str | Sequence[str] | None,
) -> VQADataset:
    """Opens any root in the official layout; the target of conf/data/vqa_json.yaml.

    It keeps the file patterns beside the other keys of the configuration: `data.image_pattern=...`.
    The arguments are those of `VQADataset` and `FilePatterns`. Nothing is read yet.
    """
    files = FilePatterns(
        question_file=question_file,
        annotation_file=annotation_file,
        caption_file=caption_file,
        layout_file=layout_file,
        image_pattern=image_pattern,
    )
    return VQADataset(root, train=train, val=val, test=test, files=files)


def official_vqa(
    root: str | Path,
    version: Literal[1, 2] = 2,
    *,
    train: str | None = "train2014",
    val: str | None = "val2014",
    test: str | None = None,
    multiple_choice: bool = False,
    require_images: bool = False,
) -> VQADataset:
    """Opens VQA 1.0 or 2.0 under its official file names, as unpacked from the archives.

    Images are searched in images/SPLIT/ and SPLIT/, captions in annotations/ (the folder of COCO).
    The splits "test2015" and its subset "test-dev2015" have questions only. Nothing is read yet.
    The other arguments are those of `VQADataset`.

    Args:
        version: 1 or 2.
        multiple_choice: Whether to read the multiple-choice questions of version 1, which list 18
            candidate answers.

    Raises:
        UserError: There is no such version, or no multiple choice in it.
    """
    if version not in (1, 2) or (multiple_choice and version == 2):
        task = "multiple choice" if multiple_choice else "open-ended"
        raise UserError(f"VQA has no version {version} for {task}; choose 1 or open-ended 2")
    prefix = "v2_" if version == 2 else ""
    task_name = "MultipleChoice" if multiple_choice else "OpenEnded"
    return VQADataset(
        root,
        train=train,
        val=val,
        test=test,
        files=FilePatterns(
            question_file=f"{prefix}{task_name}_mscoco_{{split}}_questions",
            annotation_file=f"{prefix}mscoco_{{split}}_annotations",
            caption_file="annotations/captions_{split}",
            layout_file=None,
            image_pattern=(
                "images/{split}/*{image_id:012d}.*",
                "{split}/*{image_id:012d}.*",
            ),
            image_splits={"test-dev2015": "test2015"},
        ),
        require_images=require_images,
        title=f"VQA v{version}",
    )
