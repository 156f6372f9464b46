"""The oracle: knows what every question of the grammar means and what is true in every scene."""

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
    """What the oracle says of a question about an image.

    understood: whether the grammar can produce it. premise: whether what it takes for granted is
    there; None where it is not understood. answer: the right one, None without a premise.
    acceptable: all right answers with their synonyms.
    """

    understood: bool
    premise: bool | None = None
    answer: str | None = None
    acceptable: frozenset[str] = frozenset()


_NOT_UNDERSTOOD = Judgement(False)


class Oracle:
    """Answers questions about the scenes it knows, by image id."""

    def __init__(self, scenes: Mapping[int, Scene]) -> None:
        self.scenes = dict(scenes)

    @classmethod
    def load(cls, root: Path, split: str) -> Self:
        """The oracle of one split of a generated root.

        Raises UserError where the root has no scenes_SPLIT.json, and DataError where that
        holds no scenes.
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
            raise DataError(f"{file} holds no scenes ({error!r}); make it anew") from error

    def judge(self, image_id: int, question: str) -> Judgement:
        """Judges a question about an image. Raises KeyError for an image it does not know."""
        scene = self.scenes.get(int(image_id))
        if scene is None:
            raise KeyError(f"the oracle does not know image {image_id}; load the split it is in")
        program = parse(question)
        if program is None:
            return _NOT_UNDERSTOOD
        outcome = evaluate(program, scene)
        if not outcome.premise:
            return Judgement(True, False)
        return Judgement(True, True, outcome.answer, acceptable(outcome.answers))

    def judge_many(self, image_ids: Iterable[int], questions: Iterable[str]) -> list[Judgement]:
        """Judges question i about image i."""
        return [
            self.judge(image_id, question)
            for image_id, question in zip(image_ids, questions, strict=True)
        ]


def oracle_of(dataset: VQADataset, stage_or_name: str) -> Oracle | None:
    """The oracle of one split of a data root; None for data of the real world.

    Any root with scenes_SPLIT.json has one: generated scenes, or what was made from them.
    """
    dataset.prepare()
    name = dataset.name_of(stage_or_name)
    if not os.path.lexists(dataset.root / f"scenes_{name}.json"):
        return None
    return Oracle.load(dataset.root, name)
