"""File names of a data root: which paths belong to a split."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ivqa.data.json_files import CONTAINERS

# The question files of each data=, to name the one that fits a folder.
QUESTION_FILES = {
    "vqa_json": "questions_{split}",
    "vqa_v2": "v2_OpenEnded_mscoco_{split}_questions",
    "vqa_v1": "OpenEnded_mscoco_{split}_questions",
    "okvqa": "OpenEnded_mscoco_{split}_questions",
    "aokvqa": "aokvqa_v1p0_{split}",
    "visual7w": "dataset_v7w_telling",
    "clevr": "questions/CLEVR_{split}_questions",
    "gqa": "questions/{split}_questions",
    "vizwiz": "Annotations/{split}",
}

_ENDING = re.compile(r"\.[A-Za-z]\w*$")  # not the ".0" of "questions_v1.0"


@dataclass(frozen=True, kw_only=True)
class FilePatterns:
    """Paths of the files of a split under the root, with `{split}` for its name.

    Only the questions must exist. A pattern with an ending, such as `quiz_{split}.csv`, names one
    file; without, .json, .json.gz and .zip are tried.

    Args:
        question_file: Pattern of the questions file.
        annotation_file: Pattern of the annotations file.
        caption_file: Pattern of the captions file, or None.
        layout_file: Pattern of the file of expert layouts, or None.
        image_pattern: One pattern of the image files or several, with `{split}`,
            `{image_id:012d}` and `*`. The first pattern whose folder exists is used; without one,
            or with None, the data is text-only.
        image_splits: The `{split}` of `image_pattern` for splits without images of their own:
            the questions of test-dev2015 are about images of test2015.
    """

    question_file: str = "questions_{split}"
    annotation_file: str = "annotations_{split}"
    caption_file: str | None = "captions_{split}"
    layout_file: str | None = "layouts_{split}"
    image_pattern: str | Sequence[str] | None = "images/{split}/*{image_id:012d}.*"
    image_splits: Mapping[str, str] = field(default_factory=dict)

    def candidates(self, split: str) -> dict[str, list[str]]:
        """Returns the paths that may hold the JSON files of a split, in the order of preference.

        They are under the root, by kind: "questions", "annotations", "captions" and "layouts".

        Example:
            >>> FilePatterns(caption_file="captions.json").candidates("val")["captions"]
            ['captions.json']
        """
        patterns = {
            "questions": self.question_file,
            "annotations": self.annotation_file,
            "captions": self.caption_file,
            "layouts": self.layout_file,
        }
        return {
            kind: _with_endings(pattern, split) if pattern else []
            for kind, pattern in patterns.items()
        }

    def splits_in(self, root: Path) -> list[str]:
        """Returns the names of the splits whose questions file exists under `root`."""
        path = Path(self.question_file)
        expression = re.compile(
            re.escape(path.name).replace(re.escape("{split}"), "(?P<split>.+?)")
            + r"(?:\.json|\.json\.gz|\.zip)?"
        )
        folder = root / path.parent
        found = folder.iterdir() if folder.is_dir() else ()
        matches = [match for entry in found if (match := expression.fullmatch(entry.name))]
        return sorted({match.groupdict().get("split", "all") for match in matches})

    def images_of(self, split: str) -> list[str]:
        """Returns the image patterns of a split, in the order in which they are tried."""
        patterns = self.image_pattern
        listed_patterns = [patterns] if isinstance(patterns, str) else list(patterns or ())
        name = self.image_splits.get(split, split)
        return [pattern.replace("{split}", name) for pattern in listed_patterns]


def layouts_in(root: Path) -> dict[str, list[str]]:
    """The names of the splits under a root, by the data= that reads them."""
    found = {
        name: FilePatterns(question_file=pattern).splits_in(root)
        for name, pattern in QUESTION_FILES.items()
    }
    if found["clevr"]:  # its files match the pattern of GQA too
        found["gqa"] = []
    return {name: splits for name, splits in found.items() if splits}


def _with_endings(pattern: str, split: str) -> list[str]:
    path = pattern.replace("{split}", split)
    # The ending of the pattern, not of the path: splits have names like "val.balanced".
    named = _ENDING.search(pattern) or path.endswith(CONTAINERS)
    return [path] if named else [path + ending for ending in CONTAINERS]
