"""A data root on disk: which files make up which split."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ivqa.data.images import ImageFiles
from ivqa.data.json_files import CONTAINERS, read_bytes
from ivqa.data.validation import DataError, check_root, listed
from ivqa.data.vqa_json import VQASplit, read_split
from ivqa.errors import UserError
from ivqa.files import bytes_digest, digest

STAGES = ("train", "val", "test")


class VQADataset:
    """Questions, annotations and images of up to three splits under one root.

    root: the folder. train, val, test: split names as they stand in the file names; they may
    coincide, and null means that there is none.
    question_file, annotation_file, caption_file, layout_file: paths under the root with
    `{split}`; without an ending, .json, .json.gz and .zip are tried. Only the questions must
    exist; caption_file and layout_file may be None.
    image_pattern: one path under the root or several, tried in this order, with `{split}`,
    `{image_id:012d}` and `*`; the first whose folder exists counts. None, or no such folder:
    text-only data. image_splits: the `{split}` of image_pattern for splits that have none of their
    own: VQA's test-dev2015 asks about images of test2015.
    require_images: whether text-only data is an error.

    Constructing reads nothing; `split` reads, validates and keeps a split on first use.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        train: str | None = "train",
        val: str | None = "val",
        test: str | None = None,
        question_file: str = "questions_{split}",
        annotation_file: str = "annotations_{split}",
        caption_file: str | None = "captions_{split}",
        layout_file: str | None = "layouts_{split}",
        image_pattern: str | Sequence[str] | None = "images/{split}/*{image_id:012d}.*",
        image_splits: Mapping[str, str] | None = None,
        require_images: bool = False,
    ) -> None:
        self.root = Path(root)
        self.stages: Mapping[str, str | None] = dict(zip(STAGES, (train, val, test), strict=True))
        self.question_file = question_file
        self.annotation_file = annotation_file
        self.caption_file = caption_file
        self.layout_file = layout_file
        patterns = [image_pattern] if isinstance(image_pattern, str) else image_pattern
        self.image_patterns = list(patterns or ())
        self.image_splits = dict(image_splits or {})
        self.require_images = require_images
        self._splits: dict[str, VQASplit] = {}
        self._fingerprint: str | None = None
        for stage, name in self.stages.items():
            if name in STAGES and self.stages[name] not in (None, name):
                raise UserError(
                    f"split '{name}' serves as {stage}, while '{name}' itself means the split "
                    f"'{self.stages[name]}'; rename the files so that the two agree"
                )

    def prepare(self) -> None:
        """Makes sure that the root is there. Raises DataError naming the nearest folder if not."""
        check_root(self.root)

    @property
    def names(self) -> list[str]:
        """The distinct split names in use, in the order train, val, test."""
        return list(dict.fromkeys(name for name in self.stages.values() if name))

    @property
    def has_images(self) -> bool:
        """Whether the first split in use has a folder of images."""
        return bool(self.names) and self._image_folder(self.names[0]) is not None

    def name_of(self, stage_or_name: str) -> str:
        """The split name behind "train", "val", "test", or behind itself.

        Raises DataError where the stage is null.
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
        """The validated split of a stage ("train", "val", "test") or of a split name.

        Raises DataError with every problem found, or with the splits that the root has.
        """
        name = self.name_of(stage_or_name)
        if name not in self._splits:
            self.prepare()
            self._splits[name] = self._read(name)
        return self._splits[name]

    def lacks_annotations(self, stage_or_name: str) -> bool:
        """Whether a split has a questions file and no annotations, like the test sets.

        Nothing is read. Raises DataError where the stage is null, or the root is not there.
        """
        self.prepare()
        files = self._files(self.name_of(stage_or_name))
        return files["questions"] is not None and files["annotations"] is None

    def fingerprint(self) -> str:
        """Content hash (16 hex digits) of all splits in use, the same on every machine.

        Covers the JSON texts, packed or not, and the names and sizes of the image files.
        """
        if self._fingerprint is None:
            self.prepare()
            content: list[Any] = []
            for name in self.names:
                for kind, path in self._files(name).items():
                    content.append([name, kind, bytes_digest(read_bytes(path) if path else b"")])
                images = self._images(name)
                paths = images.paths if images is not None else ()
                content.append([[path.name, _size(path)] for path in paths])
            self._fingerprint = digest(content)
        return self._fingerprint

    def _read(self, name: str) -> VQASplit:
        files = self._files(name)
        if files["questions"] is None:
            tried = listed(self._tried(self.question_file, name))
            raise DataError(
                f"split '{name}' not found: none of {tried} exists in {self.root}; "
                f"splits there: {listed(self._available())}"
            )
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

    def _files(self, name: str) -> dict[str, Path | None]:
        patterns = {
            "questions": self.question_file,
            "annotations": self.annotation_file,
            "captions": self.caption_file,
            "layouts": self.layout_file,
        }
        return {
            kind: next(
                (
                    self.root / candidate
                    for candidate in (self._tried(pattern, name) if pattern else ())
                    # A folder, a pipe or a broken link of that name is not skipped in silence.
                    if os.path.lexists(self.root / candidate)
                ),
                None,
            )
            for kind, pattern in patterns.items()
        }

    @staticmethod
    def _tried(pattern: str, name: str) -> list[str]:
        stem = pattern.replace("{split}", name)
        return [stem] if stem.endswith(CONTAINERS) else [stem + ending for ending in CONTAINERS]

    def _available(self) -> list[str]:
        path = Path(self.question_file)
        before, _, after = re.escape(path.name).partition(re.escape("{split}"))
        expression = re.compile(rf"{before}(.+?){after}(?:\.json|\.json\.gz|\.zip)?")
        folder = self.root / path.parent
        found = folder.iterdir() if folder.is_dir() else ()
        return sorted({m[1] for entry in found if (m := expression.fullmatch(entry.name))})

    def _image_folder(self, name: str) -> tuple[Path, str] | None:
        for path in self._image_paths(name):
            if os.path.lexists(path.parent):
                return path.parent, path.name
        return None

    def _image_paths(self, name: str) -> list[Path]:
        split = self.image_splits.get(name, name)
        return [self.root / pattern.replace("{split}", split) for pattern in self.image_patterns]

    def _images(self, name: str) -> ImageFiles | None:
        if name in self._splits:
            return self._splits[name].images
        found = self._image_folder(name)
        return None if found is None else ImageFiles.in_folder(*found)


def _size(path: Path) -> int | None:
    """Bytes of a file, None of a link that leads nowhere; reading that image names it."""
    try:
        return path.stat().st_size
    except OSError:
        return None


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
    """VQA 1.0 or 2.0 under its official file names, as unpacked from the archives.

    Images are looked for in images/SPLIT/ and SPLIT/, captions in annotations/ (COCO's folder).
    test: "test2015" has questions only, and so has its part "test-dev2015".
    multiple_choice: the 18 candidates of version 1.
    Raises UserError for another version, or for multiple choice in version 2, which has none.
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
        question_file=f"{prefix}{task_name}_mscoco_{{split}}_questions",
        annotation_file=f"{prefix}mscoco_{{split}}_annotations",
        caption_file="annotations/captions_{split}",
        layout_file=None,
        image_pattern=(
            "images/{split}/*{image_id:012d}.*",
            "{split}/*{image_id:012d}.*",
        ),
        image_splits={"test-dev2015": "test2015"},
        require_images=require_images,
    )
