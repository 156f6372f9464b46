"""Answers about one image that cannot all be true."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from ivqa.logic.phrases import Key, wider
from ivqa.logic.statements import UNBOUNDED, Count, Statement, state
from ivqa.logic.words import ATTRIBUTE_OF, SHAPES


@dataclass(frozen=True)
class Contradiction:
    """Answers about one image of which at least one is wrong.

    Args:
        members: Positions of the answers in the list that was searched, ascending; two or more.
            Without any one of them the rest can be true together, as far as the rules know.
        rule: Name of the rule that they break.
        certain: Whether the rule holds for every image.
    """

    members: tuple[int, ...]
    rule: str
    certain: bool


def contradictions(beliefs: Sequence[tuple[str, str]]) -> list[Contradiction]:
    """Finds the answers about one image that cannot all be true.

    Args:
        beliefs: N (question, answer) pairs about one image.

    Returns:
        The contradictions, ordered by their members; two answers have at most one.

    Example:
        >>> contradictions([("How many cars are there?", "1"), ("Is there a car?", "no")])
        [Contradiction(members=(0, 1), rule='equivalence', certain=True)]
    """
    search = _Search([state(question, answer) for question, answer in beliefs])
    search.bounds()
    search.scene()
    search.orders()
    search.same_question()
    search.sums()
    return [search.found[members] for members in sorted(search.found)]


def contradicting(beliefs: Sequence[tuple[str, str]]) -> list[bool]:
    """Finds the answers about one image that contradict another one for certain.

    Returns a flag for each (question, answer) pair.

    Example:
        >>> contradicting([("Is there a star?", "yes"), ("Is there no star?", "yes")])
        [True, True]
    """
    wrong = {one for found in contradictions(beliefs) if found.certain for one in found.members}
    return [row in wrong for row in range(len(beliefs))]


class _Search:
    """The statements about one image, indexed by what they are about."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self.statements = statements
        self.found: dict[tuple[int, ...], Contradiction] = {}
        self.lower: dict[Key, list[tuple[int, Count]]] = defaultdict(list)
        self.upper: dict[Key, list[tuple[int, Count]]] = defaultdict(list)
        for row, statement in enumerate(statements):
            for count in statement.counts:
                if count.least > 0:
                    self.lower[count.key].append((row, count))
                if count.most < UNBOUNDED:
                    self.upper[count.key].append((row, count))

    def add(self, rows: Sequence[int], rule: str, certain: bool) -> None:
        """Keeps a contradiction; a certain one instead of one that is not."""
        members = tuple(sorted(set(rows)))
        if len(members) < 2 or (not certain and members in self.found):
            return
        pairs = [self.found.get(pair) for pair in combinations(members, 2)]
        if len(members) > 2 and any(one and one.certain >= certain for one in pairs):
            return
        if members not in self.found or not self.found[members].certain:
            self.found[members] = Contradiction(members, rule, certain)

    def bounds(self) -> None:
        """|part| >= least and |whole| <= most exclude each other if least > most."""
        for part, lows in self.lower.items():
            for whole, certain in wider(part):
                for other, high in self.upper.get(whole, ()):
                    for row, low in lows:
                        if low.least > high.most:
                            sure = certain and low.certain and high.certain
                            self.add((row, other), _rule(low, high), sure)

    def sums(self) -> None:
        """Parts that exclude each other have together at most as many things as the whole.

        The parts are those with a property and those without it, which exclude each other for
        certain, those of different shapes, and those of different values of another attribute,
        which do not: a car may be red and blue.
        """
        parts: dict[tuple[Key, str, bool], dict[str, tuple[int, int]]] = defaultdict(dict)
        for (head, modifiers), lows in self.lower.items():
            row, low = max(lows, key=lambda one: one[1].least)
            groups = []
            for word in modifiers:
                whole = (head, modifiers - {word})
                if word in ATTRIBUTE_OF:
                    groups.append((whole, ATTRIBUTE_OF[word], False, word))
                positive = word.removeprefix("not ")
                groups.append((whole, f"not {positive}", True, word))
            if head in SHAPES:
                groups.append((("thing", modifiers), "shape", True, head))
            for whole, group, certain, value in groups:
                if whole in self.upper and low.certain:
                    parts[whole, group, certain][value] = (low.least, row)
        for (whole, _, certain), values in parts.items():
            for row, high in self.upper[whole]:
                total, members = 0, [row]
                for least, part in sorted(values.values(), reverse=True):
                    total += least
                    members.append(part)
                    if total > high.most:
                        if least <= high.most and len(members) > 2:
                            self.add(members, "bounds", certain and high.certain)
                        break

    def scene(self) -> None:
        """A scene has a value or not, and one value of each attribute."""
        claims = [(row, one.scene) for row, one in enumerate(self.statements) if one.scene]
        for (row, one), (other, two) in combinations(claims, 2):
            name, value, holds, certain = one
            if name != two[0]:
                continue
            certain = certain and two[3]
            if value == two[1] and holds != two[2]:
                self.add((row, other), "scene", certain)
            elif value != two[1] and holds and two[2]:
                # Day and night, indoors and outdoors; but a city may be at a beach.
                opposite = {value, two[1]} in ({"day", "night"}, {"indoors", "outdoors"})
                self.add((row, other), "scene", certain and opposite)

    def orders(self) -> None:
        """Comparisons of two numbers against each other and against the numbers."""
        compared: dict[tuple[Key, Key], list[tuple[int, frozenset[int]]]] = defaultdict(list)
        for row, statement in enumerate(self.statements):
            if statement.order is None:
                continue
            first, second, signs = statement.order
            if repr(sorted(first[1])) + first[0] > repr(sorted(second[1])) + second[0]:
                first, second, signs = second, first, frozenset(-one for one in signs)
            compared[first, second].append((row, signs))
        for (first, second), claims in compared.items():
            for (row, signs), (other, also) in combinations(claims, 2):
                if not signs & also:
                    self.add((row, other), "comparison", True)
            for row, signs in claims:
                if 1 not in signs:  # |first| <= |second|, or less where 0 is excluded
                    self._exceeds(row, first, second, 0 if 0 in signs else -1)
                if -1 not in signs:
                    self._exceeds(row, second, first, 0 if 0 in signs else -1)

    def _exceeds(self, row: int, smaller: Key, greater: Key, most: int) -> None:
        """Contradictions of |smaller| <= |greater| + most with bounds on both numbers."""
        for other, low in self.lower.get(smaller, ()):
            for last, high in self.upper.get(greater, ()):
                if low.least > high.most + most and low.certain:
                    self.add((row, other, last), "comparison", True)

    def same_question(self) -> None:
        """One question, in any of its wordings, has one answer.

        With "the car" or "he" in it, the answers may be about two of them.
        """
        answers: dict[str, list[tuple[int, Statement]]] = defaultdict(list)
        for row, statement in enumerate(self.statements):
            if statement.reading.text and not statement.denied:
                answers[statement.reading.text].append((row, statement))
        for given in answers.values():
            for (row, one), (other, two) in combinations(given, 2):
                if one.value == two.value:
                    continue
                if one.truth is not None and two.truth is not None:
                    if one.truth != two.truth:
                        self.add((row, other), "polarity", one.reading.fixed)
                elif one.truth is two.truth is None:
                    self.add((row, other), "answer", False)


def _rule(low: Count, high: Count) -> str:
    if low.rule == "presupposition":
        return low.rule
    if high.most > 0:
        return "bounds"
    stated = low.rule in ("existence", "count")
    return "equivalence" if stated and low.key == high.key else "necessary"
