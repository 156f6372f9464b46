"""Says in a few words what a wrong answer about a scene gets wrong, such as "miscounts stars"."""

from ivqa.scenes.grammar import parse
from ivqa.scenes.programs import Noun, Program, Things, denoted, evaluate
from ivqa.scenes.words import plural
from ivqa.scenes.world import Scene

Description = tuple[str, str]
"""What is wrong, to continue "the model ...", and about what, perhaps ""."""

_SIDES = {"left": "left and right", "above": "above and below"}
_COMPARED = {"more": "numbers", "equal": "numbers", "larger": "sizes"}


def describe_mistake(question: str, answer: str, scene: Scene) -> Description | None:
    """Describes what a wrong answer to a question about a scene gets wrong.

    `answer` is any answer where the question has a false premise. Returns None where the question
    is not understood.

    Example:
        >>> describe_mistake("Do you see a star?", "yes", Scene("beach", "day", "clear", ()))
        ('sees things that are not there', 'stars')
    """
    program = parse(question)
    if program is None:
        return None
    if program.subject is None:
        return _about_the_scene(program, answer, scene)
    if not evaluate(program, scene).premise:
        return _about_nothing(program, scene)
    if program.kind == "exist":
        return _seen(program.subject, answer, scene)
    if program.kind == "count":
        return _counted(program.subject, answer, scene)
    attribute = str(program.attribute)
    if program.kind in ("query", "check"):
        value = answer if program.kind == "query" else str(program.value)
        name = plural(value) if attribute == "shape" else value
        if program.kind == "check" and answer != "yes":
            return f"does not recognise the {attribute} of things", name
        return f"gives things a {attribute} that they do not have", name
    if program.kind == "relate":
        return "confuses places", _SIDES[str(program.relation)]
    return "compares things wrongly", _COMPARED.get(program.kind, plural(attribute))


def _about_the_scene(program: Program, answer: str, scene: Scene) -> Description:
    attribute = str(program.attribute)
    truth = str(getattr(scene, attribute))
    value = answer if program.kind == "scene_query" else str(program.value)
    if program.kind == "scene_check" and answer != "yes":
        return f"does not recognise the {attribute} of the scene", truth
    return f"mistakes the {attribute} of the scene", f"{truth} for {value}"


def _about_nothing(program: Program, scene: Scene) -> Description:
    """Questions whose premise is false: they are about a thing that is not in the scene."""
    for things in (program.subject, program.other):
        for noun in () if things is None else (things.noun, things.anchor):
            if noun is not None and not any(map(noun.matches, scene.things)):
                return "answers questions about things that are not there", _words(noun)
    return "answers questions about places where nothing is", ""


def _seen(things: Things, answer: str, scene: Scene) -> Description:
    if answer != "yes":
        return "overlooks things", _words(things.noun)
    if denoted(Things(things.noun), scene):
        return "sees things in places where they are not", _words(things.noun)
    return "sees things that are not there", _words(things.noun)


def _counted(things: Things, answer: str, scene: Scene) -> Description:
    number = len(denoted(things, scene) or ())
    if not answer.isdigit():
        return "answers “how many” without a number", answer
    return f"counts too {'many' if int(answer) > number else 'few'} things", _words(things.noun)


def _words(noun: Noun) -> str:
    """A noun phrase in brief: its shape, or else its most visible attribute; "" for any thing."""
    if noun.shape is not None:
        return plural(noun.shape)
    other = noun.color or noun.pattern or noun.size
    return f"{other} things" if other else ""
