"""The oracle: parses any question of the grammar and evaluates it on a scene.

With it, generated questions and beliefs are judged exactly, which no data set of photographs
allows.
"""

import os
import random
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Self

from typing_extensions import override

from ivqa.data.batches.columns import Entry
from ivqa.data.dataset import VQADataset
from ivqa.data.json_files import open_json
from ivqa.data.oracles import NOT_UNDERSTOOD, Judgement, Oracle
from ivqa.data.validation import DataError
from ivqa.errors import UserError
from ivqa.scenes.annotators import annotate
from ivqa.scenes.grammar import fill, parse, realise
from ivqa.scenes.mistakes import describe_mistake
from ivqa.scenes.phrasings import fitting
from ivqa.scenes.programs import Noun, Program, Things, acceptable, evaluate, layout, make
from ivqa.scenes.questions import sample_program
from ivqa.scenes.world import SCENE_ATTRIBUTES, THING_ATTRIBUTES, VALUES, Scene
from ivqa.text.tokens import detokenise


class SceneOracle(Oracle):
    """Judges questions about the scenes of image ids.

    Example:
        >>> from ivqa.scenes.world import Thing
        >>> star = Thing("star", "red", "large", "plain", x=0.5, y=0.5)
        >>> oracle = SceneOracle({7: Scene("beach", "day", "clear", (star,))})
        >>> oracle.judge(7, "What color is the star?").answer
        'red'
        >>> oracle.judge(7, "What color is the heart?").premise
        False
    """

    def __init__(self, scenes: Mapping[int, Scene]) -> None:
        self.scenes = dict(scenes)
        # Different questions of one meaning, and the stages of a diagnosis, ask the same again.
        self._judged = lru_cache(maxsize=1 << 17)(self._judge)

    @classmethod
    def load(cls, root: Path, split: str) -> Self:
        """Loads the oracle of one split of a generated root, from its scenes_SPLIT.json.

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

    @override
    def judge(self, image_id: int, question: str) -> Judgement:
        if int(image_id) not in self.scenes:
            raise KeyError(f"the oracle does not know image {image_id}; load the split it is in")
        program = parse(question)
        return NOT_UNDERSTOOD if program is None else self._judged(int(image_id), program)

    def _judge(self, image_id: int, program: Program) -> Judgement:
        """Judges the meaning of a question about an image that the oracle knows."""
        # A phrase that fits several things is no false premise: the answers of all are acceptable.
        outcome = evaluate(program, self.scenes[image_id])
        return replace(outcome, acceptable=acceptable(outcome.acceptable))

    @override
    def fact(self, question: str) -> Hashable | None:
        return parse(question)

    def layout(self, question: str) -> list[str] | None:
        """The expert layout of a question, see `layout`; None without a program."""
        program = parse(question)
        return None if program is None else layout(program)

    def ask(self, image_ids: Sequence[int], seed: int) -> list[Entry]:
        """Draws one more question about each image, as those of the data set were drawn.

        `image_ids` may have repeats. The questions have ten answers each and are numbered from 1.
        """
        entries = []
        for number, image_id in enumerate(image_ids, start=1):
            rng = random.Random(f"{seed}/{number}/{image_id}")
            program = sample_program(rng, self.scenes[int(image_id)])
            question = realise(program, rng)
            answer = str(evaluate(program, self.scenes[int(image_id)]).answer)
            given = [str(one["answer"]) for one in annotate(rng, answer, program.answer_type)]
            entries.append(
                Entry(str(number), number, int(image_id), question, given, layout=layout(program))
            )
        return entries

    def simple_questions(self) -> Mapping[Hashable, str]:
        """One question for each simple meaning, see the function."""
        return simple_questions()

    def objects(self) -> dict[int, set[str]]:
        """The shapes in each scene, by image id."""
        return {
            image: {thing.shape for thing in scene.things} for image, scene in self.scenes.items()
        }

    def mistake(self, image_id: int, question: str, answer: str) -> tuple[str, str] | None:
        """What a wrong answer gets wrong, see `describe_mistake`."""
        return describe_mistake(question, answer, self.scenes[int(image_id)])


def oracle_of(dataset: VQADataset, stage_or_name: str) -> Oracle | None:
    """The oracle of one split of a data set, if it has one.

    Returns:
        The oracle of the data set itself, such as CLEVR's and GQA's. Else that of the scenes, where
        the root has scenes_SPLIT.json, as generated scenes and data derived from them have; else
        None.

    Raises:
        DataError: The root or the stage does not exist, or the oracle's files are damaged.
    """
    dataset.prepare()
    own = dataset.oracle(stage_or_name)
    if own is not None:
        return own
    name = dataset.name_of(stage_or_name)
    if not os.path.lexists(dataset.root / f"scenes_{name}.json"):
        return None
    return SceneOracle.load(dataset.root, name)


@cache
def simple_questions() -> dict[Hashable, str]:
    """Lists every meaning that one noun phrase without relation, or the scene alone, can have.

    These are "exist", "count", "query" and "check" about every noun phrase, and all questions about
    place, time and weather. An attribute that the noun phrase names is neither asked for nor
    checked. Questions with relations or with two noun phrases are left out: there are many
    millions.

    Returns:
        One question for each meaning, always in the same phrasing.

    Example:
        >>> len(simple_questions())
        7306
    """
    rng = random.Random(0)
    return {
        program: detokenise(fill(fitting(program)[0], program, rng).split())
        for program in _simple_programs()
    }


def _simple_programs() -> Iterator[Program]:
    named = ((None, *VALUES[attribute]) for attribute in THING_ATTRIBUTES)
    for values in product(*named):
        words = dict(zip(THING_ATTRIBUTES, values, strict=True))
        things = Things(Noun(**words))
        yield make("exist", subject=things)
        yield make("count", subject=things)
        for attribute in THING_ATTRIBUTES:
            if words[attribute] is None:
                yield make("query", subject=things, attribute=attribute)
                for value in VALUES[attribute]:
                    yield make("check", subject=things, attribute=attribute, value=value)
    for attribute in SCENE_ATTRIBUTES:
        yield make("scene_query", attribute=attribute)
        for value in VALUES[attribute]:
            yield make("scene_check", attribute=attribute, value=value)
