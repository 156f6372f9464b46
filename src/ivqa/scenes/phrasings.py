"""The phrasings of the grammar: every way to ask what a program means.

A phrasing is a text with slots:

- `{S:form}` is the subject, a noun phrase that may have a relation ("the star left of a heart");
- `{N:form}` and `{M:form}` are the first and the second noun phrase without relations;
- `{V}` is a value of an attribute, `{R}` a relation.

The form of a noun phrase is `a` (with the indefinite article), `the` or `s` (plural).
`ivqa.scenes.grammar` reads the phrasings in both directions.
"""

from dataclasses import dataclass

from ivqa.scenes.programs import Noun, Program
from ivqa.scenes.words import canonical

# A "+" at the end of a phrasing stands for one of these endings.
_PICTURE = ("", " in the picture", " in the image", " in the photo", " in this picture")

# Phrasings by kind and attribute of the program; None stands for any attribute.
_PHRASINGS: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("exist", None): (
        "is there {S:a}+",
        "are there any {S:s}+",
        "do you see {S:a}+",
        "can you see {S:a}+",
        "can you find {S:a}+",
        "does the picture show {S:a}",
        "does the image have {S:a}",
    ),
    ("count", None): (
        "how many {S:s} are there+",
        "how many {S:s} do you see+",
        "how many {S:s} can you see+",
        "how many {S:s} are in the picture",
        "how many {S:s} are shown+",
        "what number of {S:s} are there+",
        "what is the number of {S:s}+",
    ),
    ("query", "color"): (
        "what color is {S:the}",
        "what is the color of {S:the}",
        "which color is {S:the}",
        "which color does {S:the} have",
        "what color does {S:the} have",
        "{S:the} is what color",
    ),
    ("query", "shape"): (
        "what shape is {S:the}",
        "what is the shape of {S:the}",
        "which shape does {S:the} have",
        "what kind of shape is {S:the}",
        "{S:the} has what shape",
    ),
    ("query", "pattern"): (
        "what pattern does {S:the} have",
        "what pattern is on {S:the}",
        "what is the pattern of {S:the}",
        "what is the pattern on {S:the}",
        "which pattern does {S:the} have",
    ),
    ("query", "size"): (
        "what size is {S:the}",
        "what is the size of {S:the}",
        "how large is {S:the}",
        "how big is {S:the}",
        "which size does {S:the} have",
    ),
    ("check", None): ("is {S:the} {V}",),
    ("check", "color"): (
        "is {S:the} {V} in color",
        "is the color of {S:the} {V}",
        "does {S:the} look {V}",
    ),
    ("check", "shape"): ("is the shape of {S:the} a {V}", "does {S:the} look like a {V}"),
    ("check", "pattern"): ("does {S:the} look {V}", "is the pattern of {S:the} {V}"),
    ("check", "size"): (
        "does {S:the} look {V}",
        "is {S:the} {V} in size",
        "is the size of {S:the} {V}",
    ),
    ("relate", None): (
        "is {N:the} {R} {M:the}",
        "is the position of {N:the} {R} {M:the}",
        "does {N:the} appear {R} {M:the}",
    ),
    ("more", None): (
        "are there more {N:s} than {M:s}+",
        "do you see more {N:s} than {M:s}+",
        "does the picture show more {N:s} than {M:s}",
        "are {N:s} more numerous than {M:s}",
    ),
    ("fewer", None): (
        "are there fewer {N:s} than {M:s}+",
        "do you see fewer {N:s} than {M:s}+",
        "does the picture show fewer {N:s} than {M:s}",
    ),
    ("equal", None): (
        "are there as many {N:s} as {M:s}+",
        "is the number of {N:s} the same as the number of {M:s}",
        "do you see as many {N:s} as {M:s}+",
        "does the picture show as many {N:s} as {M:s}",
    ),
    **{
        ("same", name): (
            f"are {{N:the}} and {{M:the}} the same {name}",
            f"is {{N:the}} the same {name} as {{M:the}}",
            f"do {{N:the}} and {{M:the}} have the same {name}",
            f"does {{N:the}} have the same {name} as {{M:the}}",
        )
        for name in ("color", "shape", "size", "pattern")
    },
    ("larger", None): (
        "is {N:the} larger than {M:the}",
        "is {N:the} bigger than {M:the}",
        "does {N:the} look larger than {M:the}",
        "is the size of {N:the} larger than that of {M:the}",
    ),
    ("smaller", None): (
        "is {N:the} smaller than {M:the}",
        "does {N:the} look smaller than {M:the}",
        "is the size of {N:the} smaller than that of {M:the}",
    ),
    ("scene_query", "place"): (
        "where is this",
        "where was this picture taken",
        "where was this photo taken",
        "what place is this",
        "what kind of place is this",
        "what place does the picture show",
    ),
    ("scene_query", "time"): (
        "what time of day is it",
        "when was this picture taken",
        "what time of day was this photo taken",
        "what time of day does the picture show",
    ),
    ("scene_query", "weather"): (
        "what is the weather like",
        "how is the weather",
        "what kind of weather is it",
        "what weather does the picture show",
        "what is the weather",
    ),
    ("scene_check", "place"): (
        "is this {V}",
        "was this picture taken {V}",
        "are we {V}",
        "does this look like it is {V}",
    ),
    ("scene_check", "time"): (
        "is this {V}",
        "was this picture taken {V}",
        "is it a picture taken {V}",
        "does this happen {V}",
    ),
    ("scene_check", "weather"): (
        "is it {V}+",
        "is the weather {V}",
        "does the weather look {V}",
    ),
}
# Phrasings of programs whose subject is Things(N, R, M), with its relation written out.
_FOLDED: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("exist", None): ("is there {N:a} that is {R} {M:the}", "do you see {N:a} that is {R} {M:the}"),
    ("count", None): ("how many {N:s} are {R} {M:the}", "how many {N:s} lie {R} {M:the}"),
    ("query", "shape"): (
        "what is {R} {M:the}",
        "what do you see {R} {M:the}",
        "what lies {R} {M:the}",
    ),
}


@dataclass(frozen=True)
class Phrasing:
    """One phrasing of one kind of program.

    Args:
        text: The phrasing with slots, see the module's docstring.
        pattern: What the parser matches: canonical words, and slots without their form ("{S}").
        kind: A kind of program, or "fewer" or "smaller", whose programs are "more" and "larger"
            with subject and other exchanged.
        attribute: The attribute of the programs that it fits; None for any.
        folded: Whether the slots N, R and M together are the subject of the program.
    """

    text: str
    pattern: tuple[str, ...]
    kind: str
    attribute: str | None
    folded: bool

    def fits(self, program: Program) -> bool:
        """Whether kind and attribute are the program's, and a folded phrasing finds a relation."""
        if _NORMAL_KIND.get(self.kind, self.kind) != program.kind:
            return False
        if self.attribute not in (None, program.attribute):
            return False
        # The slot {S} takes every subject; a folded phrasing needs one with a relation.
        if not self.folded:
            return True
        subject = program.subject
        if subject is None or subject.relation is None:
            return False
        # "what is left of the star" has no noun for the subject.
        return "{N" in self.text or subject.noun == Noun()


_NORMAL_KIND = {"fewer": "more", "smaller": "larger"}
_KINDS_OF = {"more": ("more", "fewer"), "larger": ("larger", "smaller")}


def fitting(program: Program) -> list[Phrasing]:
    """The phrasings that can express a program, at least one for every program of `make`."""
    kinds = _KINDS_OF.get(program.kind, (program.kind,))
    return [phrasing for kind in kinds for phrasing in _BY_KIND[kind] if phrasing.fits(program)]


def starting_with(word: str) -> list[Phrasing]:
    """The phrasings that start with a canonical word, then those that start with a slot."""
    return [*_BY_FIRST_WORD.get(word, ()), *_BY_FIRST_WORD.get(_SLOT, ())]


def _all_phrasings() -> list[Phrasing]:
    phrasings = []
    for table, folded in ((_PHRASINGS, False), (_FOLDED, True)):
        for (kind, attribute), texts in table.items():
            for text in texts:
                endings = _PICTURE if text.endswith("+") else ("",)
                for ending in endings:
                    whole = text.rstrip("+") + ending
                    phrasings.append(Phrasing(whole, _pattern(whole), kind, attribute, folded))
    return phrasings


def _pattern(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    for word in text.split():
        # "{S:the}" becomes "{S}", because the parser ignores articles and number.
        parts += [f"{word[:2]}}}"] if word[0] == "{" else canonical(word)
    return tuple(parts)


# Indices of the phrasings: the parser tries only those that may start with the first word.
_SLOT = ""
_BY_KIND: dict[str, list[Phrasing]] = {}
_BY_FIRST_WORD: dict[str, list[Phrasing]] = {}
for _phrasing in _all_phrasings():
    _BY_KIND.setdefault(_phrasing.kind, []).append(_phrasing)
    _first = _phrasing.pattern[0]
    _BY_FIRST_WORD.setdefault(_SLOT if _first[0] == "{" else _first, []).append(_phrasing)
