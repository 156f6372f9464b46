"""The oracle: parses any question of the grammar and evaluates it on a scene.

With it, generated questions and beliefs are judged exactly, which no data set of photographs
allows.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ivqa.data.dataset import VQADataset
from ivqa.data.json_files import open_json
from ivqa.data.validation import DataError
from ivqa.errors import UserError
from ivqa.scenes.grammar import parse
from ivqa.scenes.programs import acceptable, evaluate
from ivqa.scenes.world import Scene


@dataclass(frozen=True)
class Judgement:
    """The judgement of the oracle about a question on an image.

    Args:
        understood: Whether the grammar can produce the question.
        premise: Whether everything exists that the question presupposes; None where the question
            is not understood.
        answer: One right answer; None for a false premise.
        acceptable: All right answers and their synonyms.
    """

    understood: bool
    premise: bool | None = None
    answer: str | None = None
    acceptable: frozenset[str] = frozenset()


_NOT_UNDERSTOOD = Judgement(False)


class Oracle:
    """Judges questions about scenes.

    Args:
        scenes: The scene of each image id.

    Example:
        >>> from ivqa.scenes.world import Thing
        >>> star = Thing("star", "red", "large", "plain", x=0.5, y=0.5)
        >>> oracle = Oracle({7: Scene("beach", "day", "clear", (star,))})
        >>> oracle.judge(7, "What color is the star?").answer
        'red'
        >>> oracle.judge(7, "What color is the heart?").premise
        False
    """

    def __init__(self, scenes: Mapping[int, Scene]) -> None:
        self.scenes = dict(scenes)

    @classmethod
    def load(cls, root: Path, split: str) -> Self:
        """Loads the oracle of one split of a generated root.

        Args:
            root: The data root.
            split: Name of the split.

        Returns:
            The oracle of the scenes in scenes_SPLIT.json.

        Raises:
            UserError: The root has no scenes_SPLIT.json.
            DataError: That file does not hold scenes.
        """
        file = Path(root) / f"scenes_{split}.json"
        if not os.path.lexists(file):
            raise UserError(
                f"{file} does not exist: only generated scenes have an oracle (data=scenes)"
            )
        records = open_json(file)
        try:
            return cls({int(key): Scene.from_json(value) for key, value in records.items()})
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{file} does not hold scenes ({error!r}); delete {file.parent} to generate them "
                "again"
            ) from error

    def judge(self, image_id: int, question: str) -> Judgement:
        """Judges a question about an image.

        Args:
            image_id: The image.
            question: Any text.

        Returns:
            The judgement.

        Raises:
            KeyError: The oracle does not have the scene of this image.
        """
        scene = self.scenes.get(int(image_id))
        if scene is None:
            raise KeyError(f"the oracle does not know image {image_id}; load the split it is in")
        program = parse(question)
        if program is None:
            return _NOT_UNDERSTOOD
        # A phrase that fits several things is no false premise: the answers of all are acceptable.
        outcome = evaluate(program, scene)
        if not outcome.premise:
            return Judgement(True, False)
        return Judgement(True, True, outcome.answer, acceptable(outcome.answers))

    def judge_many(self, image_ids: Iterable[int], questions: Iterable[str]) -> list[Judgement]:
        """Judges N questions, each about its own image.

        Args:
            image_ids: N image ids.
            questions: N questions.

        Returns:
            N judgements.

        Raises:
            KeyError: The oracle does not have the scene of an image.
        """
        return [
            self.judge(image_id, question)
            for image_id, question in zip(image_ids, questions, strict=True)
        ]


def oracle_of(dataset: VQADataset, stage_or_name: str) -> Oracle | None:
    """The oracle of one split of a data set, if it has one.

    Args:
        dataset: Any data set.
        stage_or_name: "train", "val", "test" or the name of a split.

    Returns:
        The oracle where the root has scenes_SPLIT.json, as generated scenes and data derived from
        them have; else None.

    Raises:
        DataError: The root or the stage does not exist, or scenes_SPLIT.json is damaged.
    """
    dataset.prepare()
    name = dataset.name_of(stage_or_name)
    if not os.path.lexists(dataset.root / f"scenes_{name}.json"):
        return None
    return Oracle.load(dataset.root, name)
