"""Noise on questions, of a controllable level; a source is one class here and one file in
conf/noise.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ivqa.arrays import load_arrays
from ivqa.files import digest, written
from ivqa.identity import identity_of
from ivqa.integrity import is_whole, manifest_of, seal
from ivqa.ranges import Count, Seed
from ivqa.ranking import QuestionRanker, Ranking
from ivqa.text.duplicates import duplicates_of, unique_questions
from ivqa.text.tokens import detokenise, tokenise

# That are stored.
_ARRAYS = [one.name for one in fields(Ranking) if one.name not in ("rounds", "tolerance")]


class Noise(Protocol):
    """Disturbs questions. Level 1 is the least noise, `levels` the most; 0 is none."""

    @property
    def levels(self) -> int:
        """The highest level."""

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """The N questions at each level 1..levels; training: questions that may be used for it."""


@runtime_checkable
class Certified(Protocol):
    """Noise that can say how exactly it was computed."""

    def figures(self, questions: Sequence[str], training: Sequence[str]) -> dict[str, float]:
        """Figures about the noise that `disturbed` gives for the same arguments, by name."""


@runtime_checkable
class Checkable(Protocol):
    """Noise that can say early whether it has something for every question."""

    def check(self, questions: Sequence[str], training: Sequence[str]) -> None:
        """Raises UserError where `disturbed` would, for the same arguments; takes no time."""


@runtime_checkable
class DisturbsImages(Protocol):
    """Noise that changes the image too, or nothing else."""

    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        """The RGB image at a level 1..levels, of the same size; the same one every time."""


@dataclass(frozen=True)
class BasicQuestionNoise:
    """A question followed by basic questions: the further down the ranking, the more noise [ROB 4].

    ranker: of the unique questions of the pool. levels: partitions. a_level: basic questions of a
    partition. cache: a folder for rankings, by content; None keeps them in memory only.
    exclude_duplicates: whether a question's own duplicates in the pool are left out.
    """

    ranker: QuestionRanker
    levels: Count = 7
    a_level: Count = 3
    cache: str | None = None
    exclude_duplicates: bool = True
    _rankings: dict[str, Ranking] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Plain concatenation of each question and its partition."""
        ranked, _ = self.ranked(questions, training)
        return partitions(questions, ranked, self.levels, self.a_level)

    def ranked(
        self, questions: Sequence[str], training: Sequence[str]
    ) -> tuple[list[list[str]], NDArray[np.float32]]:
        """Basic questions of N main questions, best first, and their scores (N, k)."""
        pool, distinct = unique_questions(training), list(dict.fromkeys(questions))
        ranking = self._ranking(distinct, pool)
        texts = [[pool[at] for at in row] for row in ranking.indices.tolist()]
        rows = {question: row for row, question in enumerate(distinct)}
        places = [rows[question] for question in questions]
        return [texts[place] for place in places], ranking.scores[places]

    def figures(self, questions: Sequence[str], training: Sequence[str]) -> dict[str, float]:
        """The certificate of the rankings.

        gap: the largest relative duality gap over the whole pool; left out by rankers that solve
        nothing. uncertified: the number of distinct questions whose gap is over the tolerance;
        left out with the gap. short_rankings: share of the distinct questions with fewer scores
        over 0 than basic questions are used; there the ranking goes on by correlation with the
        residual.
        """
        ranking = self._ranking(list(dict.fromkeys(questions)), unique_questions(training))
        short = float((ranking.support < self.levels * self.a_level).mean())
        if not ranking.gap.any():
            return {"short_rankings": short}
        uncertified = float(ranking.uncertified)
        return {
            "gap": float(ranking.gap.max()),
            "uncertified": uncertified,
            "short_rankings": short,
        }

    def _ranking(self, questions: list[str], pool: list[str]) -> Ranking:
        number = self.levels * self.a_level
        exclude = (
            duplicates_of(questions, pool) if self.exclude_duplicates else [[]] * len(questions)
        )
        settings = [identity_of(self.ranker), number, self.exclude_duplicates]
        name = digest([*settings, questions, pool])
        if name not in self._rankings:
            file = None if self.cache is None else Path(self.cache) / f"{name}.npz"
            found = None if file is None else _read(file)
            if found is None:
                found = self.ranker.rank(questions, pool, number, exclude)
                if file is not None:
                    _write(file, found)
            else:
                found.report_uncertified("warn")  # as when they were ranked
            self._rankings[name] = found
        return self._rankings[name]


def partitions(
    questions: Sequence[str], ranked: Sequence[Sequence[str]], levels: int, a_level: int
) -> list[list[str]]:
    """The questions at levels 1..levels: each followed by `a_level` of its ranked questions.

    >>> partitions(["Is it red?"], [["Is it?", "Red?", "Why?", "Who?"]], 2, 2)
    [['Is it red? Is it? Red?'], ['Is it red? Why? Who?']]
    """
    return [
        [
            " ".join([question, *texts[start : start + a_level]])
            for question, texts in zip(questions, ranked, strict=True)
        ]
        for start in range(0, levels * a_level, a_level)
    ]


@dataclass(frozen=True)
class WordShuffling:
    """Words change places; the level sets the Hamming distance to the clean question.

    The distance is the number of places whose word differs from the clean question's. At level L it
    is exactly min(L + 1, n) for a question of n words wherever an order of its words has that
    distance, else the nearest distance below that some order has. No order has distance 1; a
    question whose words are all the same has distance 0 only and stays as it is.
    """

    levels: Count = 7
    seed: Seed = 0

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Each question's words in another order, at each level.

        Args:
            questions: N questions.
            training: Not used.

        Returns:
            The N disturbed questions at each level 1..levels. The order depends on the seed, the
            level and the question's row, and on nothing else.
        """
        words = [tokenise(question) for question in questions]
        return [
            [
                self._shuffled(question, own, level, row)
                for row, (question, own) in enumerate(zip(questions, words, strict=True))
            ]
            for level in range(1, self.levels + 1)
        ]

    def _shuffled(self, question: str, words: list[str], level: int, row: int) -> str:
        distance = reachable_distance(words, level + 1)
        if distance == 0:
            return question
        rng = np.random.default_rng([self.seed, level, row])
        return detokenise(shuffled_at_distance(words, distance, rng))


def reachable_distance(words: Sequence[str], wanted: int) -> int:
    """The largest Hamming distance up to `wanted` that an order of the words has.

    An order of distance d moves the words of d places among these places, so that each gets another
    word. That is possible exactly where no word fills more than half of the places.

    >>> reachable_distance(["is", "the", "cat", "the", "dog"], 5)
    5
    >>> reachable_distance(["the", "the", "the", "cat"], 4)
    2
    """
    counts = Counter(words).values()
    for distance in range(min(wanted, len(words)), 1, -1):
        if sum(min(count, distance // 2) for count in counts) >= distance:
            return distance
    return 0


def shuffled_at_distance(
    words: Sequence[str], distance: int, rng: np.random.Generator
) -> list[str]:
    """The words in a random order that differs from the given one at exactly `distance` places.

    Args:
        words: Of one question; they may repeat.
        distance: A distance that `reachable_distance` returns.
        rng: Source of the random choices.

    Returns:
        The same words in another order.
    """
    chosen: dict[str, list[int]] = {word: [] for word in words}
    left = distance
    for place in rng.permutation(len(words)).tolist():
        if left and len(chosen[words[place]]) < distance // 2:
            chosen[words[place]].append(place)
            left -= 1
    groups = [chosen[word] for word in rng.permutation(list(chosen)).tolist()]
    places = [place for group in groups for place in group]
    # Equal words stand side by side in `places`, at most `longest` of them. A rotation by at least
    # that many, in either direction, puts a different word into each place.
    longest = max(len(group) for group in groups)
    turn = int(rng.integers(longest, distance - longest + 1))
    shuffled = list(words)
    for place, source in zip(places, np.roll(places, turn).tolist(), strict=True):
        shuffled[place] = words[source]
    return shuffled


def _read(file: Path) -> Ranking | None:
    """The ranking that was stored; None where there is none, or it is not as it was written."""
    if not is_whole(file):
        return None
    found = load_arrays(file, _ARRAYS, remedy="delete it to rank the questions again")
    return Ranking(found["indices"], found["scores"], found["gap"], found["support"], rounds=0)


def _write(file: Path, ranking: Ranking) -> None:
    with written(file) as draft, draft.open("wb") as stream:
        np.savez(stream, **{name: getattr(ranking, name) for name in _ARRAYS})
    seal(manifest_of(file), [file])
