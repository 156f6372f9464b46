"""Noise by another order of the words, controlled by the Hamming distance.

[ROB] proposes word shuffling with this distance as future work.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ivqa.ranges import Count, Seed
from ivqa.text.tokens import detokenise, tokenise


@dataclass(frozen=True)
class WordShuffling:
    """Reorders the words of a question; the level sets the Hamming distance to the question.

    The Hamming distance is the number of positions whose word differs. At level L it is
    min(L + 1, n) for a question of n words, if some order of the words has that distance, else the
    largest smaller distance that some order has. No order has distance 1. A question whose words
    are all equal stays unchanged.
    """

    version: ClassVar[int] = 1

    levels: Count = 7
    seed: Seed = 0

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Reorders the words of each question at each level; see `Noise`.

        The order depends only on the seed, the level, the position of the question, and its words.
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
        # No order has distance 1, so level 1 has distance 2.
        distance = _reachable_distance(words, level + 1)
        if distance == 0:
            return question
        rng = np.random.default_rng([self.seed, level, row])
        return detokenise(shuffled_at_distance(words, distance, rng))


def _reachable_distance(words: Sequence[str], wanted: int) -> int:
    """The largest Hamming distance up to `wanted` that an order of the words has; 0 or at least 2.

    An order of distance d permutes the words of d positions so that each position gets a different
    word. That is possible if and only if no word fills more than half of these positions.

    >>> _reachable_distance(["is", "the", "cat", "the", "dog"], 5)
    5
    >>> _reachable_distance(["the", "the", "the", "cat"], 4)
    2
    """
    counts = Counter(words).values()
    for distance in range(min(wanted, len(words)), 1, -1):
        # Each word can fill at most half of the positions.
        if sum(min(count, distance // 2) for count in counts) >= distance:
            return distance
    return 0


def shuffled_at_distance(
    words: Sequence[str], distance: int, rng: np.random.Generator
) -> list[str]:
    """A random order of the words that differs at exactly `distance` positions, if reachable."""
    # Choose the places whose words move: `distance` of them, at most half with the same word.
    chosen: dict[str, list[int]] = {word: [] for word in words}
    left = distance
    for place in rng.permutation(len(words)).tolist():
        if left and len(chosen[words[place]]) < distance // 2:
            chosen[words[place]].append(place)
            left -= 1
    groups = [chosen[word] for word in rng.permutation(list(chosen)).tolist()]
    places = [place for group in groups for place in group]
    # Equal words are adjacent in `places`, in groups of at most `largest`. A rotation by at least
    # that number, in either direction, puts a different word into each place.
    largest = max(len(group) for group in groups)
    turn = int(rng.integers(largest, distance - largest + 1))
    shuffled = list(words)
    for place, source in zip(places, np.roll(places, turn).tolist(), strict=True):
        shuffled[place] = words[source]
    return shuffled
