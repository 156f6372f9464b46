"""What the answers of a model say of the propositions that they rest on."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from ivqa.logic.existence import Propositions
from ivqa.logic.phrases import Key, wider
from ivqa.logic.statements import Statement, state
from ivqa.logic.words import ATTRIBUTE_OF, SHAPES

Confident = tuple[str, str, float]
"""Question, answer, and its probability."""
Named = tuple[int, str, Key]
"""A picture; "thing" or an attribute of the scene; what is there, or ("", {value})."""

# Kinds of reports: answers to "Is there a red star?"; and to "What color is the star?" and "What
# shape is the red thing?", the least and the most favourable. The latter are the more independent
# ones: a model that says yes too readily seldom names the absent thing by itself.
_ASKED, _LEAST_NAMED, _MOST_NAMED = range(3)


@dataclass(frozen=True)
class Rest:
    """What an answer rests on: it is right if all of `needs` is true and none of `denies` is.

    Both are numbers of propositions. `otherwise` is the probability that it is right if so; 1 where
    nothing else is stated.
    """

    needs: tuple[int, ...]
    denies: tuple[int, ...]
    otherwise: float

    def right(self, probability: NDArray[np.float64]) -> float:
        """The probability that the answer is right, from those of the propositions."""
        needed = min((probability[one] for one in self.needs), default=1.0)
        denied = max((probability[one] for one in self.denies), default=0.0)
        return float(max(needed - denied, 0.0) * self.otherwise)


def reports(
    pictures: Sequence[Sequence[Confident]],
    witnesses: Sequence[Sequence[Sequence[Confident]]] = (),
) -> tuple[Propositions, list[list[Rest]]]:
    """Collects what the answers about all pictures say.

    Args:
        pictures: The answers of the model about each picture.
        witnesses: Those of other models about the same pictures.

    Returns:
        The propositions with the reports of the model and of each witness, three kinds of each, and
        for each picture what its answers rest on.
    """
    own, rests = _Collected.of(pictures)
    found = own.propositions()
    columns = [found.reports]
    for witness in witnesses:
        other, _ = _Collected.of(witness)
        said = other.propositions().reports
        values = np.full((len(own.numbers), said.shape[1]), np.nan)
        for name in own.numbers.keys() & other.numbers.keys():
            values[own.numbers[name]] = said[other.numbers[name]]
        columns.append(values)
    return replace(found, reports=np.concatenate(columns, axis=1)), rests


@dataclass
class _Collected:
    """Propositions and reports, as they are found."""

    numbers: dict[Named, int] = field(default_factory=dict)
    found: dict[tuple[int, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    # Values that are named as an attribute of a phrase, with the log-odds.
    named: dict[tuple[Named, str], list[tuple[Key, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @classmethod
    def of(cls, pictures: Sequence[Sequence[Confident]]) -> tuple["_Collected", list[list[Rest]]]:
        """What the answers about all pictures say, and what they rest on."""
        found = cls()
        rests = [
            [found.add(number, *answer) for answer in picture]
            for number, picture in enumerate(pictures)
        ]
        return found, rests

    def add(self, picture: int, question: str, answer: str, probability: float) -> Rest:
        """Adds what one answer reports; returns what it rests on."""
        statement = state(question, answer)
        odds = float(logit(np.clip(probability, 0.02, 0.98)))
        if statement.scene is not None:
            return self._scene(picture, statement, odds)
        needs: list[int] = []
        denies: list[int] = []
        settled = statement.reading.form == "exist"
        for count in statement.counts:
            head, modifiers = count.key
            negated = [one for one in modifiers if one.startswith("not ")]
            if negated:
                positive = modifiers - set(negated) | {one[4:] for one in negated}
                denies.append(self._number((picture, "thing", (head, positive))))
                settled = True
                continue
            one = self._number((picture, "thing", count.key))
            (needs if count.least else denies).append(one)
            if count.rule == "existence":
                self.found[one, _ASKED].append(odds if count.least else -odds)
            elif count.rule == "value":
                settled = statement.truth is not None
                if not settled:
                    base = (picture, "thing", statement.counts[0].key)
                    self.named[base, statement.reading.attribute].append((count.key, odds))
            elif count.rule == "count" and not count.least:
                settled = True
        if not statement.counts:
            settled = False
        return Rest(tuple(needs), tuple(denies), 1.0 if settled else probability)

    def _scene(self, picture: int, statement: Statement, odds: float) -> Rest:
        assert statement.scene is not None
        attribute, value, holds, _ = statement.scene
        key = ("", frozenset((value,)))
        one = self._number((picture, attribute, key))
        if statement.truth is None:
            self.named[(picture, attribute, ("", frozenset())), attribute].append((key, odds))
        else:
            self.found[one, _ASKED].append(odds if holds else -odds)
        return Rest((one,), (), 1.0) if holds else Rest((), (one,), 1.0)

    def _number(self, name: Named) -> int:
        return self.numbers.setdefault(name, len(self.numbers))

    def propositions(self) -> Propositions:
        """Everything found, as arrays."""
        edges, kinds = [], []
        for (picture, attribute, key), number in self.numbers.items():
            kinds.append(_kind(attribute, key))
            self._name(number, picture, attribute, key)
            if attribute == "thing":
                above = [
                    one for one in _wider(key) if (picture, attribute, one) in self.numbers
                ]  # the nearest alone
                edges += [
                    (number, self.numbers[picture, attribute, one])
                    for one in above
                    if not any(one in _wider(other) for other in above)
                ]
        values = np.full((len(kinds), 3), np.nan)
        for place, given in self.found.items():
            values[place] = np.mean(given)
        pairs = np.array(edges, np.int64).reshape(-1, 2)
        return Propositions(np.array(kinds, np.int64), values, pairs[:, 0], pairs[:, 1])

    def _name(self, number: int, picture: int, attribute: str, key: Key) -> None:
        """Adds reports of the answers that could have named this proposition."""
        named = []
        bases = _bases(attribute, key)
        for base, asked in bases:
            answers = self.named.get(((picture, attribute, base), asked), ())
            signed = [(4 + odds) * (1 if value == key else -1) for value, odds in answers]
            if signed:
                named.append(float(np.mean(signed)))
        # One answer alone is often why there is this proposition.
        if len(named) >= min(2, len(bases)) > 0:
            self.found[number, _LEAST_NAMED].append(min(named))
            self.found[number, _MOST_NAMED].append(max(named))


def _bases(attribute: str, key: Key) -> list[tuple[Key, str]]:
    """Phrases and attributes, for which a question names a proposition: the star, its colour."""
    head, modifiers = key
    if attribute != "thing":
        return [(("", frozenset()), attribute)]
    bases = [
        ((head, modifiers - {word}), ATTRIBUTE_OF[word])
        for word in sorted(modifiers)
        if word in ATTRIBUTE_OF
    ]
    if head in SHAPES and modifiers:
        bases.append((("thing", modifiers), "shape"))
    return bases


def _kind(attribute: str, key: Key) -> int:
    """How narrow a phrase is; propositions of one kind have one prior."""
    head, modifiers = key
    if attribute != "thing":
        return 5
    if any(" " in word for word in modifiers):
        return 4
    return min((head != "thing") + len(modifiers), 3)


@lru_cache(maxsize=1 << 16)
def _wider(key: Key) -> frozenset[Key]:
    """Other phrases that are true of something wherever this one is."""
    return frozenset(one for one, certain in wider(key) if certain and one != key)
