"""VQA data whose validation and test splits are disjoint images of one official file."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from typing_extensions import override

from ivqa.data.dataset import VQADataset, official_vqa
from ivqa.data.json_files import open_json
from ivqa.data.split import VQASplit
from ivqa.data.validation import DataError, is_id
from ivqa.ranges import Count, Place, Seed
from ivqa.store.digests import bytes_digest, digest
from ivqa.store.files import read_bytes, read_text

PARTS = ("val", "test")


class DividedVQA(VQADataset):
    """VQA whose splits "val" and "test" are images of one split of the files [iVQA 4].

    The official test sets have no answers, so a paper that chooses the checkpoint on a part of
    val2014 reports on another part. All questions about an image are in one part. Images of neither
    part are not used.

    Args:
        root: The folder, as `official_vqa` reads it.
        version: 1 or 2.
        train: Name of the training split in the file names.
        of: Name of the split in the file names that is divided.
        val_images: Number of images of "val", drawn with `seed`.
        test_images: Number of images of "test", drawn with `seed`.
        seed: Seed of the draw. It depends on the ids of the images alone.
        split_file: A published split in place of the draw: a JSON file such as dataset_coco.json of
            Karpathy, {"images": [{"cocoid": 9, "split": "val"}]}, or {"val": [9], "test": [25]}; or
            one text file for each part, with {split} in the path, whose lines end with an id or the
            name of an image file.

    Raises:
        DataError: When a split is read: the split has fewer images than wanted, or `split_file` is
            damaged or names an image that is in both parts or about which there is no question.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        version: Literal[1, 2] = 1,
        train: str | None = "train2014",
        of: str = "val2014",
        val_images: Count = 5000,
        test_images: Count = 5000,
        seed: Seed = 0,
        split_file: Place | None = None,
    ) -> None:
        official = official_vqa(root, version)
        val, test = PARTS
        super().__init__(
            root, train=train, val=val, test=test, files=official.files, title=official.title
        )
        self.of, self.seed, self.split_file = of, seed, split_file
        self.num_images = dict(zip(PARTS, (val_images, test_images), strict=True))

    @override
    def cache_key(self) -> str:
        if self.split_file is None:
            parts: Any = [self.seed, self.num_images]
        else:
            parts = [bytes_digest(read_bytes(self._listed_in(part))) for part in PARTS]
        return digest([super().cache_key(), parts])

    @override
    def _files(self, name: str) -> dict[str, Path | None]:
        return super()._files(self.of if name in PARTS else name)

    @override
    def _no_questions(self, name: str) -> DataError:
        return super()._no_questions(self.of if name in PARTS else name)

    @override
    def _image_paths(self, name: str) -> list[Path]:
        return super()._image_paths(self.of if name in PARTS else name)

    @override
    def _read(self, name: str) -> VQASplit:
        split = super()._read(name)
        if name not in PARTS:
            return split
        chosen = self._chosen(np.unique(split.image_ids).tolist())[name]
        part = split.select(np.flatnonzero(np.isin(split.image_ids, sorted(chosen))))
        captions = {key: texts for key, texts in (split.captions or {}).items() if key in chosen}
        return replace(part, captions=None if split.captions is None else captions)

    def _chosen(self, image_ids: Sequence[int]) -> dict[str, set[int]]:
        """The images of each part, among those that the questions are about."""
        if self.split_file is not None:
            return self._published(set(image_ids))
        wanted = sum(self.num_images.values())
        if wanted > len(image_ids):
            counts = " and ".join(f"data.{part}_images={n}" for part, n in self.num_images.items())
            raise DataError(
                f"split '{self.of}' in {self.root} has questions about {len(image_ids):,} images; "
                f"{counts} need {wanted:,}: lower them"
            )
        # A digest, so that no version of a library draws other images.
        drawn = sorted(image_ids, key=lambda image_id: digest([self.seed, image_id]))
        first = self.num_images["val"]
        return {"val": set(drawn[:first]), "test": set(drawn[first:wanted])}

    def _published(self, known: set[int]) -> dict[str, set[int]]:
        """The images of each part in `split_file`."""
        found = {part: set(_read_ids(self._listed_in(part), part)) for part in PARTS}
        for part, ids in found.items():
            file = self._listed_in(part)
            if not ids:
                raise DataError(f"{file}: names no image of '{part}'; is it a list of images?")
            if absent := sorted(ids - known):
                raise DataError(
                    f"{file}: split '{self.of}' has no question about {len(absent):,} of the "
                    f"{len(ids):,} images of '{part}', such as {absent[0]}; give the list of "
                    "these data"
                )
        if both := sorted(found["val"] & found["test"]):
            raise DataError(
                f"{self.split_file}: image {both[0]} is in 'val' and in 'test'; an image must be "
                "in one of them"
            )
        return found

    def _listed_in(self, part: str) -> Path:
        return Path(str(self.split_file).replace("{split}", part)).expanduser()


def _read_ids(file: Path, part: str) -> list[int]:
    """The image ids of a part in a published list."""
    if ".json" not in file.suffixes:
        return [_id_at_end(file, line) for line in read_text(file).split("\n") if line.strip()]
    content = open_json(file)
    ids: Any = content.get(part) if isinstance(content, dict) else None
    if isinstance(content, dict) and isinstance(content.get("images"), list):
        images = [one for one in content["images"] if isinstance(one, dict)]
        ids = [one.get("cocoid") for one in images if one.get("split") == part]
    if not isinstance(ids, list) or not all(map(is_id, ids)):
        raise DataError(
            f'{file}: must be {{"images": [{{"cocoid": 9, "split": "{part}"}}]}} or '
            f'{{"{part}": [9]}}, with numbers as ids'
        )
    return ids


def _id_at_end(file: Path, line: str) -> int:
    """The id at the end of a line, such as that of COCO_val2014_000000000042.jpg."""
    found = re.search(r"([0-9]+)(?:\.[a-z]+)?$", line.strip(), re.IGNORECASE)
    if found is None:
        raise DataError(f"{file}: the line '{line.strip()}' does not end with the id of an image")
    return int(found[1])
