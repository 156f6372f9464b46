"""Plausible distractors: a question with one of its key words replaced [iVQA 3.3, PS]."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Protocol

from textblob.en import tag

from ivqa.scenes.grammar import parse
from ivqa.scenes.words import ATTRIBUTE_OF, canonical, plural
from ivqa.scenes.world import SHAPES, VALUES
from ivqa.text.tokens import detokenise, tokenise

# Noun, verb, adjective and adverb, in the tags of the Penn Treebank.
_KEY_TAGS = ("NN", "VB", "JJ", "RB")
# Words that carry a question's form; another word in their place breaks the grammar.
_FUNCTION_WORDS = frozenset(
    "is are was were be been being am do does did has have had can could will would should what "  # noqa: SIM905
    "which who whose where when why how many much there any not left right front".split()
)
_OPPOSITE = {"left": "right", "right": "left", "above": "below", "below": "above"}


class WordReplacement(Protocol):
    """Replaces one key word of a question by another one of the same part of speech."""

    def variants(self, question: str, rng: random.Random) -> Iterator[str]:
        """Yields questions in random order, as VQA writes them, each with one word replaced."""


class GrammarReplacement:
    """Replacement within the grammar of the scenes: every variant is a question of the grammar."""

    def variants(self, question: str, rng: random.Random) -> Iterator[str]:
        """Yields other questions in random order; see `WordReplacement`."""
        words = tokenise(question)
        choices = [
            (at, other) for at, word in enumerate(words) for other in _others_in_grammar(word)
        ]
        rng.shuffle(choices)
        meaning = parse(question)
        for at, other in choices:
            text = detokenise(_agreeing([*words[:at], other, *words[at + 1 :]], at))
            found = parse(text)
            if found is not None and found != meaning:
                yield text


class TaggedReplacement:
    """Replacement by part of speech, with the tagger of TextBlob, whose lexicon comes with it.

    A word is replaced by another one that has the same tag in the questions of the data.

    Args:
        questions: The questions of the data; their words are the candidates.
        most: The most frequent words of a tag that are candidates.
    """

    def __init__(self, questions: Sequence[str], most: int = 500) -> None:
        counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for question in sorted(set(questions)):
            for word, kind in _tagged(question):
                if kind.startswith(_KEY_TAGS) and word not in _FUNCTION_WORDS:
                    counts[kind][word] += 1
        self._words = {
            kind: sorted(own, key=lambda word: (-own[word], word))[:most]
            for kind, own in counts.items()
        }

    def variants(self, question: str, rng: random.Random) -> Iterator[str]:
        """Yields other questions in random order; see `WordReplacement`."""
        tagged = _tagged(question)
        words = [word for word, _ in tagged]
        places = [
            at for at, (word, kind) in enumerate(tagged)
            if kind in self._words and word not in _FUNCTION_WORDS
        ]  # fmt: skip
        known = {at: rng.sample(self._words[tagged[at][1]], len(self._words[tagged[at][1]]))
                 for at in places}  # fmt: skip
        for turn in range(max(map(len, known.values()), default=0)):
            for at in rng.sample(places, len(places)):
                if turn < len(known[at]) and known[at][turn] != words[at]:
                    changed = [*words[:at], known[at][turn], *words[at + 1 :]]
                    yield detokenise(_agreeing(changed, at))


def _tagged(question: str) -> list[tuple[str, str]]:
    """The words of a question with their tags."""
    found: list[tuple[str, str]] = tag(" ".join(tokenise(question)), tokenize=False)
    return found


def _agreeing(words: list[str], at: int) -> list[str]:
    """The words with the right article before the new one."""
    if at and words[at - 1] in ("a", "an"):
        words[at - 1] = "an" if words[at][0] in "aeiou" else "a"
    return words


@cache
def _others_in_grammar(word: str) -> tuple[str, ...]:
    """Other values of the attribute that a word names, in the same number."""
    if word in _OPPOSITE:
        return (_OPPOSITE[word],)
    base = canonical(word)
    if len(base) != 1 or base[0] not in ATTRIBUTE_OF:
        return ()
    others: list[Any] = [value for value in VALUES[ATTRIBUTE_OF[base[0]]] if value != base[0]]
    if base[0] in SHAPES and word == plural(base[0]):
        return tuple(map(plural, others))
    return tuple(others) if word == base[0] else ()
