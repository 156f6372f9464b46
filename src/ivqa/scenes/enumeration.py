"""Lists all simple questions of the grammar, so that a search can be compared with everything."""

import random
from collections.abc import Hashable, Iterator
from functools import cache
from itertools import product

from ivqa.scenes.grammar import fill
from ivqa.scenes.phrasings import fitting
from ivqa.scenes.programs import Noun, Program, Things, make
from ivqa.scenes.world import SCENE_ATTRIBUTES, THING_ATTRIBUTES, VALUES
from ivqa.text.tokens import detokenise


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
