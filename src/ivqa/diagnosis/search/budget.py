"""Search by budget: each next question is the one whose answer most likely contradicts another.

Thompson sampling over families of questions, what the model has said about their noun phrases, and
modifiers (Thompson, 1933; Russo et al., "A tutorial on Thompson sampling", 2018). No generator is
trained, and no truth is needed: the reward is a contradiction that `ivqa.logic` is certain of.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ivqa.diagnosis.search.asking import GivenAnswer
from ivqa.diagnosis.search.companions import COMPANIONS
from ivqa.diagnosis.search.phrases import noun_phrase, things_in
from ivqa.diagnosis.search.plain_english import (
    ATTRIBUTES,
    NAMES_THINGS,
    SCENE,
    SCENE_VALUES,
    SEE,
    SHAPE_OF_ANYTHING,
    Arm,
    Meaning,
    arms_of,
    asked_attributes,
    attributes_of,
    knows_drawings,
    modifiers_of,
    named_attributes,
    stated_value,
)
from ivqa.logic import contradictions, implications, unclear
from ivqa.text.failed_answers import failure
from ivqa.text.normalisation import normalise_answer
from ivqa.text.tokens import tokenise

_T = TypeVar("_T")
AskAll = Callable[[Sequence[tuple[int, str]]], Sequence[GivenAnswer]]
"""Answers N questions, each about the picture at a position."""

BATCH = 64  # questions asked together
_ENOUGH = 20  # contradictions of an arm after which the next one counts half
_WEIGHT = 2.0  # questions that the prior of an arm counts as
_TRIES = 8  # noun phrases that are drawn for an arm before the next one gets its turn
# A model that answers so many yes/no questions, nearly all by neither, is asked no more of them.
_POLAR_TRIED, _MUTE = 20, 0.9
_NEITHER = "perhaps"


@dataclass(frozen=True)
class Asked:
    """An answered question about the picture at a position; `by_chance`: of an arm so drawn."""

    picture: int
    meaning: Meaning
    given: GivenAnswer
    by_chance: bool


@dataclass
class _View:
    """What is known about one picture: the model's own words, and nothing else."""

    texts: list[str] = field(default_factory=list)
    answers: list[GivenAnswer] = field(default_factory=list)
    arms: list[int] = field(default_factory=list)
    convicted: set[int] = field(default_factory=set)  # rows in the contradictions that were paid
    seen: dict[str, None] = field(default_factory=dict)
    denied: dict[str, int] = field(default_factory=dict)  # row of the denial by noun phrase

    def see(self, nouns: Sequence[str]) -> None:
        self.seen |= dict.fromkeys(noun for noun in nouns if noun not in self.denied)

    def beliefs(self) -> list[tuple[str, str]]:
        return [(text, one.answer) for text, one in zip(self.texts, self.answers, strict=True)]


class BudgetSearch:
    """Asks a fixed number of questions about pictures.

    The pictures are asked in turn. The first question about each is what is in it; then an arm is
    drawn by Thompson sampling: each arm draws the rate of its contradictions from its posterior,
    divided by how many it has found, so that one kind of mistake does not take the whole budget.

    Args:
        pictures: Number of pictures.
        ask: The model.
        words: The words that the model knows; None for a model that reads any text.
        answers: The closed set of its answers; None for a model that writes them.
        seed: Of the random numbers; equal answers give equal questions.
        explore: Share of the questions in [0, 1] whose arm is drawn uniformly: estimates from them
            alone do not depend on what the search looks for. 1: no search.
    """

    version: ClassVar[int] = 6

    def __init__(
        self,
        pictures: int,
        ask: AskAll,
        *,
        words: frozenset[str] | None = None,
        answers: Sequence[str] | None = None,
        seed: int = 1,
        explore: float = 0.0,
    ) -> None:
        self.ask = ask
        self.words = words
        self.explore = explore
        self._rng = np.random.default_rng(seed)
        self._views = [_View() for _ in range(pictures)]
        self._things: Counter[str] = Counter()
        self._values: dict[str, Counter[str]] = defaultdict(Counter)
        self._arms = arms_of(asked_attributes(answers))
        self._gains = np.zeros(len(self._arms))  # sum of the rewards of each arm
        self._counts = np.zeros(len(self._arms))
        self._polar = np.zeros(2)  # yes/no questions so far, and those answered by neither
        # The number of the family, and that of origin and adjective, of each arm.
        families = [arm.family for arm in self._arms]
        self._groups = [
            np.unique(families, return_inverse=True)[1],
            np.unique([f"{a.origin} {a.modified}" for a in self._arms], return_inverse=True)[1],
        ]
        self._draws = knows_drawings(answers)
        self._first = (SHAPE_OF_ANYTHING, *SEE) if self._draws else SEE

    def run(self, questions: int) -> Iterator[list[Asked]]:
        """Yields answered questions batch by batch: that many, or fewer where nothing is left."""
        left = questions
        size = min(BATCH, max(8, 2 * len(self._views)))
        while left > 0 and (chosen := self._batch(min(size, left))):
            given = self.ask([(picture, meaning.question) for picture, meaning, *_ in chosen])
            asked = []
            for (picture, meaning, arm, by_chance), one in zip(chosen, given, strict=True):
                self._learn(picture, meaning, one)
                self._views[picture].arms.append(arm)
                self._counts[arm] += 1
                asked.append(Asked(picture, meaning, one, by_chance))
            self._reward(dict.fromkeys(picture for picture, *_ in chosen))
            left -= len(chosen)
            yield asked

    def _batch(self, size: int) -> list[tuple[int, Meaning, int, bool]]:
        """The next questions, about the pictures that were asked least.

        Each is a picture, a meaning, an arm, and whether the arm was drawn by chance.
        """
        chosen: list[tuple[int, Meaning, int, bool]] = []
        waiting = [{*view.texts} for view in self._views]  # with the questions of this batch
        exhausted: set[int] = set()
        while len(chosen) < size and len(exhausted) < len(self._views):
            open_ones = [at for at in range(len(self._views)) if at not in exhausted]
            least = min(len(waiting[at]) for at in open_ones)
            turn = [at for at in open_ones if len(waiting[at]) == least]
            self._rng.shuffle(turn)
            for picture in turn[: size - len(chosen)]:
                found = self._next(picture, waiting[picture])
                if found is None:
                    exhausted.add(picture)
                    continue
                waiting[picture].add(found[0].question)
                chosen.append((picture, *found))
        return chosen

    def _next(self, picture: int, asked: set[str]) -> tuple[Meaning, int, bool] | None:
        """The next question about a picture, see `_batch`; None where nothing is left."""
        by_chance = bool(asked) and self._rng.random() < self.explore
        if not asked:
            order = [row for row, arm in enumerate(self._arms) if arm.family == "see"]
        elif by_chance:
            order = self._rng.permutation(len(self._arms)).tolist()
        else:
            order = self._order().tolist()
        for row in order:
            if (meaning := self._drawn(row, picture, asked)) is not None:
                return meaning, row, by_chance
        return None

    def _order(self) -> NDArray[np.int64]:
        """The arms by falling value of one draw."""
        mean = self._prior()
        hits, misses = self._gains, np.maximum(self._counts - self._gains, 0)
        rates = self._rng.beta(hits + _WEIGHT * mean, misses + _WEIGHT * (1 - mean))
        order: NDArray[np.int64] = np.argsort(-rates / (1 + self._gains / _ENOUGH))
        return order

    def _prior(self) -> NDArray[np.float64]:
        """The expected reward of each arm by what it shares with others: its family, its noun."""
        whole = (self._gains.sum() + 1) / (self._counts.sum() + 4)
        mean = np.full(len(self._arms), whole)
        for groups in self._groups:
            sums = np.bincount(groups, self._gains) + _WEIGHT * whole
            mean *= (sums / (np.bincount(groups, self._counts) + _WEIGHT))[groups] / whole
        return np.clip(mean, 0.01, 0.99)

    def _drawn(self, row: int, picture: int, asked: set[str]) -> Meaning | None:
        """A question of an arm that was not asked about the picture; None if none was found."""
        polar, vain = self._polar
        mute = polar >= _POLAR_TRIED and vain > _MUTE * polar
        for meaning in self._proposals(self._arms[row], self._views[picture]):
            text = meaning.question
            known = self.words is None or all(word in self.words for word in tokenise(text))
            if known and text not in asked and not (mute and unclear(text, _NEITHER)):
                return meaning
        return None

    def _proposals(self, arm: Arm, view: _View) -> Iterator[Meaning]:
        if arm.family == "see":
            yield from (Meaning("see", value=text) for text in self._first)
        elif arm.family == "scene":
            yield from (Meaning("scene", value=name) for name in self._shuffled(SCENE))
        elif arm.family == "scene_check":
            pairs = [(kind, one) for kind, values in SCENE_VALUES.items() for one in values]
            for kind, value in self._shuffled(pairs):
                yield Meaning("scene_check", value=value, kind=kind)
        elif arm.family == "implied":
            for text, answer in self._shuffled(view.beliefs())[:_TRIES]:
                for one in implications(text, answer):
                    if one.certain and one.rule == arm.origin:
                        yield Meaning("implied", value=one.question)
        else:
            for noun in self._shuffled(self._nouns(arm, view))[:_TRIES]:
                yield from self._about(arm, noun)

    def _about(self, arm: Arm, noun: str) -> Iterator[Meaning]:
        """Questions of an arm about one noun."""
        adjectives: tuple[str, ...] = ()
        named = named_attributes(noun)
        if arm.modified and not named:
            kinds = [name for name in modifiers_of(noun) if self._values[name]]
            if not kinds:
                return
            named = {str(self._rng.choice(kinds))}
            adjectives = tuple(map(self._value, named))
        phrase = noun_phrase(noun, adjectives)
        counted = not phrase.mass and not phrase.plural
        if arm.family in ATTRIBUTES:
            if arm.family not in named and arm.family in attributes_of(noun):
                yield Meaning(arm.family, phrase, modified=arm.modified)
        elif arm.family == "count":
            if counted:
                yield Meaning("count", phrase, modified=arm.modified)
        elif arm.family == "more":
            others = [noun_phrase(one) for one in self._things if one != noun]
            others = [one for one in others if not one.mass and not one.plural]
            if counted and others:
                other = others[self._rng.integers(len(others))]
                yield Meaning("more", phrase, other.written("s"))
        elif arm.family == "check":
            kinds = [name for name, values in self._values.items() if values]
            fitting = [name for name in kinds if name in attributes_of(noun) and name not in named]
            value = self._value(str(self._rng.choice(fitting))) if fitting else noun
            if noun not in value:  # nobody asks whether a bed is made of bed
                yield Meaning("check", phrase, value)
        else:
            yield Meaning("exists", phrase, modified=arm.modified)

    def _nouns(self, arm: Arm, view: _View) -> list[str]:
        if arm.family == "shape" and self._draws:  # a thing is called by its shape
            return ["object"] if arm.modified and arm.origin == "seen" else []
        if arm.origin == "seen":
            return [noun for noun in view.seen if noun not in view.denied]
        if arm.origin == "denied":  # one contradiction of a denial proves all that it can
            left = [noun for noun, row in view.denied.items() if row not in view.convicted]
            return [noun for noun in left if bool(named_attributes(noun)) == arm.modified]
        known = view.seen.keys() | view.denied.keys()
        if arm.origin == "companion":
            near = [other for noun in view.seen for other in COMPANIONS.get(noun, ())]
            return [noun for noun in dict.fromkeys(near) if noun not in known]
        return [noun for noun in self._things if noun not in known]

    def _value(self, attribute: str) -> str:
        """A value that the model has given somewhere."""
        return str(self._rng.choice(list(self._values[attribute])))

    def _shuffled(self, items: Iterable[_T]) -> list[_T]:
        listed = list(items)
        return [listed[at] for at in self._rng.permutation(len(listed)).tolist()]

    def _learn(self, picture: int, meaning: Meaning, given: GivenAnswer) -> None:
        """Notes what an answer says about the picture, and which words the model uses."""
        view, phrase, answer = self._views[picture], meaning.phrase, given.answer
        if failure(answer) is not None:
            given = replace(given, answer="")  # it says nothing, and is not asked for again
        view.texts.append(meaning.question)
        view.answers.append(given)
        if not given.answer:
            return
        self._polar += [unclear(meaning.question, text) for text in (_NEITHER, answer)]
        if unclear(meaning.question, answer):
            return
        if meaning.family == "see" or meaning.family in NAMES_THINGS:
            named = things_in(answer)
            view.see(named)
            self._things.update(named)
        elif phrase is not None and meaning.family in ("exists", "count"):
            noun = " ".join(phrase.words)
            if normalise_answer(answer) in ("no", "0"):
                view.denied.setdefault(noun, len(view.answers) - 1)
            elif not meaning.modified:
                view.seen.setdefault(noun)
        elif value := stated_value(meaning.family, answer):
            self._values[meaning.family][value] += 1

    def _reward(self, pictures: Iterable[int]) -> None:
        """Pays the arms whose questions raise the least number of answers that must be wrong.

        Contradictions without a common answer each prove an error of their own. Every question of
        one is paid the confidence of the least sure answer in it.
        """
        for picture in pictures:
            view = self._views[picture]
            found = [one for one in contradictions(view.beliefs()) if one.certain]
            doubts = [[view.answers[row].probability for row in one.members] for one in found]
            sure = {one.members: min(doubt) for one, doubt in zip(found, doubts, strict=True)}
            for members in sorted(sure, key=lambda members: -sure[members]):
                if view.convicted.isdisjoint(members):
                    view.convicted.update(members)
                    for row in members:
                        self._gains[view.arms[row]] += sure[members]
