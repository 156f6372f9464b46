"""Yes/no polls about the objects in images: POPE (Li et al., EMNLP 2023).

For each image, some questions are about objects in it and as many about objects that are not.
The absent objects are drawn at random, or are the most frequent objects of the data (popular), or
the most frequent companions of the present ones that are asked about (adversarial).
"""

import json
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np

from ivqa.data import VQASplit
from ivqa.data.batches.columns import Entry
from ivqa.data.extended import questions_of, write_questions
from ivqa.data.json_files import open_json
from ivqa.data.validation import DataError, shown
from ivqa.store.files import copy_file, write_text

Strategy = Literal["random", "popular", "adversarial"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


@runtime_checkable
class ListsObjects(Protocol):
    """An oracle that knows all objects in its images, such as those of scenes, CLEVR and GQA."""

    def objects(self) -> Mapping[int, Set[str]]:
        """Returns the names of the objects in each image, by image id."""


@dataclass(frozen=True)
class Poll:
    """One question, about an object that is in the image or not."""

    image_id: int
    object: str
    present: bool

    @property
    def question(self) -> str:
        """The question in POPE's words."""
        article = "an" if self.object[0].lower() in "aeiou" else "a"
        return f"Is there {article} {self.object} in the image?"


def draw_polls(
    objects: Mapping[int, Set[str]],
    strategy: Strategy,
    *,
    num_images: int | None = 500,
    num_objects: int = 3,
    seed: int = 0,
) -> list[Poll]:
    """Draws the polls of one strategy.

    Images with fewer than `num_objects` objects, or with fewer absent ones, are left out. The same
    seed draws the same images and the same present objects for every strategy.

    Args:
        objects: The names of the objects in each image.
        strategy: How absent objects are chosen.
        num_images: Images to draw; None draws all.
        num_objects: Present objects of an image, and as many absent ones.
        seed: Seed of the draw.

    Returns:
        The polls, image by image; present and absent objects alternate. Popular objects come by
        falling number of images. Adversarial is, after each present object, the absent one that is
        in the most images with it, or a random one where it has no absent companion left. Among
        equal numbers the first name counts.
    """
    names = sorted(set().union(*objects.values()))
    column = {name: at for at, name in enumerate(names)}
    present = np.zeros((len(objects), len(names)), dtype=bool)
    ids = sorted(objects)
    for row, image in enumerate(ids):
        present[row, [column[name] for name in objects[image]]] = True
    enough = (present.sum(axis=1) >= num_objects) & ((~present).sum(axis=1) >= num_objects)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.flatnonzero(enough))[:num_images]
    # Number of images with both objects; the diagonal counts the images of each object.
    together = present.T.astype(np.int64) @ present
    polls = []
    for row in np.sort(rows):
        # Of the image alone, so that the strategies and other images do not change it.
        own = np.random.default_rng([seed, ids[row]])
        here, absent = np.flatnonzero(present[row]), np.flatnonzero(~present[row])
        asked = own.permutation(here)[:num_objects]
        ranks = own.permutation(len(absent))
        left = np.ones(len(absent), dtype=bool)
        for first in asked:
            companions = together[first, absent]
            scores = {
                "random": ranks,
                "popular": together[absent, absent],
                "adversarial": np.where(companions > 0, companions, ranks - len(absent)),
            }[strategy]
            # The first of equal scores is the first by name.
            best = np.flatnonzero(left)[scores[left].argmax()]
            left[best] = False
            polls.append(Poll(ids[row], names[first], True))
            polls.append(Poll(ids[row], names[absent[best]], False))
    return polls


def write_polls(root: Path, name: str, polls: Sequence[Poll], split: VQASplit) -> None:
    """Writes polls as a split of a data root in the official VQA layout, and as POPE's own file.

    questions_NAME.json, annotations_NAME.json, pope_NAME.json (a JSON object in each line, as POPE
    publishes them) and images/NAME/ are written; `split` has the images.
    """
    images = split.require_images()
    numbered = list(enumerate(polls, start=1))
    entries = (
        Entry(str(at), at, poll.image_id, poll.question, [_answer(poll)], "is there", "yes/no")
        for at, poll in numbered
    )
    write_questions(root, questions_of(entries, name))
    lines = [
        {
            "question_id": number,
            "image": images.path(poll.image_id).name,
            "text": poll.question,
            "label": _answer(poll),
        }
        for number, poll in numbered
    ]
    write_text(root / f"pope_{name}.json", "".join(json.dumps(line) + "\n" for line in lines))
    folder = root / "images" / name
    folder.mkdir(parents=True, exist_ok=True)
    for image_id in sorted({poll.image_id for poll in polls}):
        source = images.path(image_id)
        copy_file(source, folder / source.name)


def read_instances(path: Path) -> dict[int, set[str]]:
    """Reads the names of the objects in each image from COCO's instances_*.json.

    Raises:
        DataError: The file cannot be read or has another layout.
    """
    content = open_json(path)
    objects: dict[int, set[str]] = {}
    try:
        names: dict[Hashable, str] = {one["id"]: one["name"] for one in content["categories"]}
        for one in content["annotations"]:
            objects.setdefault(int(one["image_id"]), set()).add(names[one["category_id"]])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} is not like COCO's instances_val2014.json: 'annotations' need image_id and "
            f"category_id, 'categories' id and name ({shown(error)})"
        ) from None
    return objects


def _answer(poll: Poll) -> str:
    return "yes" if poll.present else "no"
