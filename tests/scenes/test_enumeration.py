"""The list of simple questions is complete, and each question means what it is listed under."""

from itertools import product

from ivqa.scenes import SceneOracle
from ivqa.scenes.grammar import parse
from ivqa.scenes.oracle import simple_questions
from ivqa.scenes.programs import Program
from ivqa.scenes.world import COLORS, PATTERNS, PLACES, SHAPES, SIZES, TIMES, WEATHERS


def test_every_question_is_read_as_its_own_meaning() -> None:
    assert [text for fact, text in simple_questions().items() if parse(text) != fact] == []
    assert SceneOracle({}).simple_questions() == simple_questions()


def test_the_numbers_of_questions_by_kind() -> None:
    sizes = [len(SHAPES), len(COLORS), len(SIZES), len(PATTERNS)]
    named = list(product(*(range(size + 1) for size in sizes)))  # 0: the attribute is not named
    nouns = len(named)
    free = sum(words.count(0) for words in named)
    values = sum(
        size for words in named for word, size in zip(words, sizes, strict=True) if word == 0
    )
    kinds = [fact.kind for fact in simple_questions() if isinstance(fact, Program)]
    expected = {
        "exist": nouns,
        "count": nouns,
        "query": free,
        "check": values,
        "scene_query": 3,
        "scene_check": len(PLACES) + len(TIMES) + len(WEATHERS),
    }
    assert {kind: kinds.count(kind) for kind in expected} == expected
    assert len(kinds) == sum(expected.values())
