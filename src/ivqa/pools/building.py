"""Draws question pools by the rules of the paper [iVQA 3.3].

A pool has 24 questions for an image and an answer:

- GT, 1 to 3: the questions of the image with this answer.
- CT, so that GT + CT = 6: questions with other answers, of the image or of the most similar images.
- PP, 6: the most frequent training questions of the same answer type.
- PS, 6: a GT question with one key word replaced.
- RN, 6: random questions about other images with the same answer.

A distractor that is also correct is left out: by the oracle where there is one, else if the answer
is the main one to the same question about the image, or if three annotators gave it. Where a kind
has too few questions, RN fills the pool, then CT.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from ivqa.data import VQASplit
from ivqa.data.oracles import Oracle
from ivqa.pools.replacement import WordReplacement
from ivqa.ranges import Count, Seed
from ivqa.text.normalisation import normalise_answer
from ivqa.text.tokens import tokenise

KINDS = ("gt", "ct", "pp", "ps", "rn")
"""Ground truth, contrastive, popular, plausible and answer-related questions."""

_MOST_TRUE = 3
_ACCEPTING = 3  # annotators who make an answer right: its official accuracy is 1
_CHUNK = 1024  # images compared at once


@dataclass(frozen=True, kw_only=True)
class PoolSettings:
    """How pools are drawn.

    Args:
        num_pairs: Pairs with a pool, drawn at random; None takes all distinct pairs.
        size: Questions of a pool.
        each: Questions of a kind; of CT together with GT.
        neighbours: Most similar images from which CT questions come.
        seed: Seed of the draw.
    """

    version: ClassVar[int] = 1

    num_pairs: Count | None = 5000
    size: Count = 24
    each: Count = 6
    neighbours: Count = 20
    seed: Seed = 0


@dataclass(frozen=True)
class Pools:
    """The pools of P pairs, as N rows of candidates, pool by pool.

    Args:
        image_ids: (P,) int64.
        answers: The P answers.
        pair: (N,) int64, the pair of each candidate.
        kinds: (N,) int64, index into `KINDS`.
    """

    image_ids: NDArray[np.int64]
    answers: Sequence[str]
    pair: NDArray[np.int64]
    questions: Sequence[str]
    kinds: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.answers)


@dataclass(frozen=True)
class Sources:
    """The data that pools are drawn from.

    Args:
        split: The split of the pairs.
        train: The training split: popular questions, and more answer-related ones.
        features: One vector for each image of `split` in the order of `image_ids`, (M, d).
        image_ids: (M,) int64.
        oracle: The oracle of the split; None without one.
    """

    split: VQASplit
    train: VQASplit
    features: NDArray[np.float32]
    image_ids: NDArray[np.int64]
    oracle: Oracle | None
    replacement: WordReplacement


def build_pools(sources: Sources, settings: PoolSettings, console: Console) -> Pools:
    """Draws the pools of a split, in its order."""
    pairs = _pairs(sources.split, settings)
    drawer = _Drawer(sources, settings, [image for image, _ in pairs])
    found: list[list[tuple[str, int]]] = []
    for number, (image, answer) in enumerate(
        track(pairs, description="drawing question pools", console=console, transient=True)
    ):
        found.append(drawer.pool(image, answer, random.Random(f"{settings.seed} {number}")))
    sizes = [len(pool) for pool in found]
    return Pools(
        image_ids=np.array([image for image, _ in pairs], dtype=np.int64),
        answers=[answer for _, answer in pairs],
        pair=np.repeat(np.arange(len(pairs)), sizes),
        questions=[question for pool in found for question, _ in pool],
        kinds=np.array([kind for pool in found for _, kind in pool], dtype=np.int64),
    )


def _pairs(split: VQASplit, settings: PoolSettings) -> list[tuple[int, str]]:
    """The distinct (image, answer) pairs, or a draw of them in the order of the split."""
    pairs = list(dict.fromkeys(zip(split.image_ids.tolist(), split.main_answers, strict=True)))
    if settings.num_pairs is None or settings.num_pairs >= len(pairs):
        return pairs
    rng = np.random.default_rng(settings.seed)
    return [pairs[row] for row in np.sort(rng.permutation(len(pairs))[: settings.num_pairs])]


class _Drawer:
    """Draws one pool after another from indices over the questions."""

    def __init__(self, sources: Sources, settings: PoolSettings, images: Sequence[int]) -> None:
        self.sources, self.settings = sources, settings
        split, train = sources.split, sources.train
        # The questions about each image, with the main answer and all right answers.
        self.of_image: dict[int, list[tuple[str, str, frozenset[str]]]] = defaultdict(list)
        self.of_answer: dict[str, list[tuple[int | None, str]]] = defaultdict(list)
        columns = (split.image_ids.tolist(), split.questions, split.main_answers, split.answers)
        for image, question, answer, given in zip(*columns, strict=True):
            self.of_image[image].append((question, answer, accepted(answer, given)))
            self.of_answer[answer].append((image, question))
        for question, answer in zip(train.questions, train.main_answers, strict=True):
            self.of_answer[answer].append((None, question))  # of an image outside the split
        popular: dict[str, Counter[str]] = defaultdict(Counter)
        for question, kind in zip(train.questions, train.answer_types, strict=True):
            popular[kind][question] += 1
        self.popular = {
            kind: [text for text, _ in sorted(own.items(), key=lambda one: (-one[1], one[0]))]
            for kind, own in popular.items()
        }
        self.type_of = dict(zip(split.main_answers, split.answer_types, strict=True))
        self.neighbours = _neighbours(
            sources.features, sources.image_ids, sorted(set(images)), settings.neighbours
        )

    def pool(self, image: int, answer: str, rng: random.Random) -> list[tuple[str, int]]:
        """The candidates of a pair with their kinds."""
        size, each = self.settings.size, self.settings.each
        own = list(dict.fromkeys(q for q, main, _ in self.of_image[image] if main == answer))
        true = rng.sample(own, min(len(own), _MOST_TRUE))
        pool = [(question, 0) for question in true]
        # A further correct question of the image is no distractor.
        taken = {_key(question) for question in own}
        is_wrong = self._is_wrong(image, answer)
        contrast = self._contrastive(image, answer, rng)
        related = self._related(image, answer, rng)
        wanted: list[tuple[int, Iterator[str], int]] = [
            (1, contrast, each - len(true)),
            (2, iter(self.popular.get(self.type_of[answer], ())), each),
            (3, self._plausible(true, rng), each),
            (4, related, size - each * 3),
        ]
        for kind, source, number in wanted:
            pool += [(q, kind) for q in islice(_new(source, taken, is_wrong), number)]
        for kind, source in ((4, related), (1, contrast)):
            pool += [(q, kind) for q in islice(_new(source, taken, is_wrong), size - len(pool))]
        return pool

    def _is_wrong(self, image: int, answer: str) -> Callable[[str], bool]:
        oracle = self.sources.oracle
        if oracle is not None:
            wanted = normalise_answer(answer)

            def wrong(question: str) -> bool:
                judged = oracle.judge(image, question)
                return wanted not in map(normalise_answer, judged.acceptable)

            return wrong
        wanted = normalise_answer(answer)
        right = {_key(question) for question, _, given in self.of_image[image] if wanted in given}
        return lambda question: _key(question) not in right

    def _contrastive(self, image: int, answer: str, rng: random.Random) -> Iterator[str]:
        """Questions with other answers, of the image itself and then of ever less similar ones."""
        for near in (image, *self.neighbours[image]):
            others = [q for q, main, _ in self.of_image[near] if main != answer]
            yield from rng.sample(others, len(others))

    def _plausible(self, true: Sequence[str], rng: random.Random) -> Iterator[str]:
        """Variants of the true questions in turn."""
        sources = [self.sources.replacement.variants(question, rng) for question in true]
        while sources:
            for source in list(sources):
                variant = next(source, None)
                if variant is None:
                    sources.remove(source)
                else:
                    yield variant

    def _related(self, image: int, answer: str, rng: random.Random) -> Iterator[str]:
        """Random questions about other images with the same answer."""
        candidates = self.of_answer[answer]
        # Drawn one by one: the list of a frequent answer is long, and a few are needed.
        for _ in range(20 * self.settings.size):
            other, question = rng.choice(candidates)
            if other != image:
                yield question


def _new(source: Iterable[str], taken: set[str], is_wrong: Callable[[str], bool]) -> Iterator[str]:
    """The wrong questions of a source that are not in the pool yet; they are added to `taken`."""
    for question in source:
        key = _key(question)
        if key not in taken and is_wrong(question):
            taken.add(key)
            yield question


def _key(question: str) -> str:
    return " ".join(tokenise(question))


def _neighbours(
    features: NDArray[np.float32], ids: NDArray[np.int64], images: Sequence[int], number: int
) -> dict[int, list[int]]:
    """The images of highest cosine similarity to each of `images`, without itself."""
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    row_of = {image: row for row, image in enumerate(ids.tolist())}
    rows = np.array([row_of[image] for image in images], dtype=np.int64)
    found: dict[int, list[int]] = {}
    for start in range(0, len(rows), _CHUNK):
        some = rows[start : start + _CHUNK]
        similarity = unit[some] @ unit.T
        similarity[np.arange(len(some)), some] = -np.inf
        most = min(number, len(ids) - 1)
        near = np.sort(np.argpartition(-similarity, most - 1, axis=1)[:, :most], axis=1)
        # Sorted by place first, so that equally similar images stay in the order of the split.
        order = np.argsort(-np.take_along_axis(similarity, near, axis=1), axis=1, kind="stable")
        for row, nearest in zip(some, np.take_along_axis(near, order, axis=1), strict=True):
            found[int(ids[row])] = ids[nearest].tolist()
    return found


def accepted(main: str, given: Sequence[str]) -> frozenset[str]:
    """The normalised main answer, and those that at least three annotators gave.

    >>> sorted(accepted("orange", ["orange"] * 6 + ["Red."] * 3 + ["blue"]))
    ['orange', 'red']
    """
    counts = Counter(map(normalise_answer, given))
    often = (answer for answer, count in counts.items() if count >= _ACCEPTING)
    return frozenset([normalise_answer(main), *often])
