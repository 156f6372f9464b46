"""The language of CLEVR's questions, learned exactly from questions with programs.

CLEVR's questions come from templates: texts and programs with the same slots for noun phrases and
relations. A template is found by taking the phrases out of a question; which phrase belongs to
which function is found from questions whose phrases all differ.
"""

import re
from collections.abc import Iterator, Sequence

from ivqa.data.formats.clevr_programs import FUNCTIONS, Step
from ivqa.text.tokens import tokenise

# The words of CLEVR for each value (synonyms.json of its generator).
SYNONYMS: dict[str, tuple[str, ...]] = {
    "cube": ("block",),
    "sphere": ("ball",),
    "large": ("big",),
    "small": ("tiny",),
    "metal": ("metallic", "shiny"),
    "rubber": ("matte",),
}
_VALUE_OF = {word: value for value, words in SYNONYMS.items() for word in words}
_SLOT = re.compile(
    r"\b(?:(?P<size>large|big|small|tiny) )?"
    r"(?:(?P<color>gray|red|blue|green|brown|purple|cyan|yellow) )?"
    r"(?:(?P<material>rubber|matte|metallic|metal|shiny) )?"
    r"(?P<shape>cube|block|sphere|ball|cylinder|thing|object)(?P<plural>s?)\b"
    r"|\b(?:(?:(?:to|on) the )?(?P<side>left|right)(?: side)? of|(?P<behind>behind)"
    r"|(?P<front>in front of))\b"
)
_FRONT = "front"

# A noun phrase as in `Step.phrase`, or the name of a relation.
Slot = tuple[tuple[str, str], ...] | str


class ClevrLanguage:
    """Parses questions of the templates that it has learned.

    Example:
        >>> language = ClevrLanguage()
        >>> cubes = Step("count", (Step("scene", phrase=(("color", "red"), ("shape", "cube"))),))
        >>> language.learn("How many red cubes are there?", cubes)
        >>> language.parse("How many tiny matte balls are there?").inputs[0].phrase
        (('material', 'rubber'), ('shape', 'sphere'), ('size', 'small'))
        >>> language.parse("What color is the ball?") is None
        True
    """

    def __init__(self) -> None:
        # The program with empty slots, and the position in the text of the phrase of each slot
        # (-1: none); None for a text that has several meanings.
        self._templates: dict[str, tuple[Step, tuple[int, ...]] | None] = {}

    def __len__(self) -> int:
        return sum(known is not None for known in self._templates.values())

    def learn(self, question: str, program: Step) -> None:
        """Learns the template of a question, where its phrases show which slots they fill."""
        text, said = _taken_apart(question)
        slots = list(_slots(program))
        order = _order(said, slots)
        if order is None:
            return
        found = _filled(program, iter([_empty(slot) for slot in slots])), order
        if self._templates.setdefault(text, found) != found:
            self._templates[text] = None

    def forget(self, question: str) -> None:
        """Marks the template of a question as one that has several meanings."""
        self._templates[_taken_apart(question)[0]] = None

    def parse(self, question: str) -> Step | None:
        """Parses any text; returns its program, or None where no template fits."""
        text, said = _taken_apart(question)
        known = self._templates.get(text)
        if known is None:
            return None
        program, order = known
        empty = map(_empty, _slots(program))
        filled = [blank if at < 0 else said[at] for at, blank in zip(order, empty, strict=True)]
        return _filled(program, iter(filled))


def _taken_apart(question: str) -> tuple[str, list[Slot]]:
    """The text with marks in place of its phrases, and the phrases."""
    said: list[Slot] = []

    def mark(match: re.Match[str]) -> str:
        if match["shape"] is None:
            said.append(match["side"] or match["behind"] or _FRONT)
            return "<relation>"
        words = {name: match[name] for name in ("color", "material", "shape", "size")}
        if words["shape"] in ("thing", "object"):
            words["shape"] = None
        said.append(
            tuple((name, _VALUE_OF.get(word, word)) for name, word in words.items() if word)
        )
        return "<things>" if match["plural"] else "<thing>"

    return _SLOT.sub(mark, " ".join(tokenise(question))), said


def _slots(program: Step) -> Iterator[Slot]:
    """The phrases and relations of a program."""
    for source in program.inputs:
        yield from _slots(source)
    if program.function == "relate":
        yield program.relation
    if FUNCTIONS[program.function][1] == "things":
        yield program.phrase


def _filled(program: Step, slots: Iterator[Slot]) -> Step:
    """A program with other phrases and relations, in the order of `_slots`."""
    program = program._replace(inputs=tuple(_filled(step, slots) for step in program.inputs))
    if program.function == "relate":
        program = program._replace(relation=str(next(slots)))
    if FUNCTIONS[program.function][1] == "things":
        phrase = next(slots)
        assert isinstance(phrase, tuple)
        program = program._replace(phrase=phrase)
    return program


def _order(said: Sequence[Slot], slots: Sequence[Slot]) -> tuple[int, ...] | None:
    """The position in the text of each slot's phrase (-1: none); None if it is not certain."""
    positions = {phrase: at for at, phrase in enumerate(said)}
    order = [positions.get(slot, -1) for slot in slots]
    filled = [at for at in order if at >= 0]
    rest = [slot for slot, at in zip(slots, order, strict=True) if at < 0]
    # Each phrase fills one slot, which equal phrases do not; slots without a phrase, as after
    # "union", are empty.
    return None if sorted(filled) != list(range(len(said))) or any(rest) else tuple(order)


def _empty(slot: Slot) -> Slot:
    return "" if isinstance(slot, str) else ()
