"""Beliefs as records, their types, and statistics of a belief set [iVQA 6]."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import ConfigDict, TypeAdapter

from ivqa.data.validation import DataError, read_lines
from ivqa.logic import contradicting
from ivqa.metrics.bootstrap import cluster_sums, interval, with_ends
from ivqa.ranges import Count, Share
from ivqa.scenes import Oracle
from ivqa.store.files import write_text

BeliefType = Literal["rephrase", "complementary", "adversarial", "irrelevant"]
TYPES: tuple[BeliefType, ...] = ("rephrase", "complementary", "adversarial", "irrelevant")
WRONG: tuple[BeliefType, ...] = ("adversarial", "irrelevant")
TypedBy = Literal["oracle", "human", "judge", "proxy"]


@dataclass(frozen=True)
class Belief:
    """A question q to which the VQA model answers a: argmax phi(. | I, q) = a.

    One line of beliefs.jsonl.

    Args:
        image_id: Image I.
        answer: Answer a.
        question: Question q.
        phi: phi(a | I, q) in [0, 1].
        log_likelihood: log p(q | z, I, a) of the generator, in nats.
        legality: p(legal | q) in [0, 1].
        source: Name of the generator that found the question.
        type: Type of the belief, None where it is unknown.
        type_by: Where the type comes from, None where it is unknown.
        judge_wrong: Probability, by the judges, that the belief is wrong; None without judges, and
            then not in the file.
        judge_answer: The judges' own answer to the question of an adversarial belief; None where
            judges typed it otherwise or not at all, and then not in the file.
        suspect: Whether the other answers about the image make it probably wrong; None where that
            was not examined, and then neither field is in the file.
        contradicts: Lines of beliefs.jsonl, from 1: the beliefs about the image that cannot be
            true together with it.
        denied_by: Question, answer and phi of the follow-up that speaks most against a suspect;
            None where there is none, and then not in the file.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    image_id: int
    answer: str
    question: str
    phi: float
    log_likelihood: float
    legality: float
    source: str
    type: BeliefType | None = None
    type_by: TypedBy | None = None
    judge_wrong: Share | None = None
    judge_answer: str | None = None
    suspect: bool | None = None
    contradicts: Sequence[Count] = ()
    denied_by: tuple[str, str, float] | None = None

    def __post_init__(self) -> None:
        # JSON has no tuples, and beliefs are keys of mappings.
        object.__setattr__(self, "contradicts", tuple(self.contradicts))
        if self.denied_by is not None:
            object.__setattr__(self, "denied_by", tuple(self.denied_by))

    def record(self) -> dict[str, Any]:
        """The fields by name."""
        record = dict(vars(self))  # as asdict, which takes ten times as long
        for name in ("judge_wrong", "judge_answer", "denied_by"):
            if record[name] is None:
                del record[name]
        if self.suspect is None:
            del record["suspect"], record["contradicts"]
        return record

    def line(self) -> str:
        """Formats the record as one line of JSON, with the line end."""
        return json.dumps(self.record(), ensure_ascii=False) + "\n"


def read_beliefs(path: Path) -> list[Belief]:
    """Reads a beliefs.jsonl.

    Raises:
        DataError: The file does not exist, or a line is not a belief; the message names the line.
    """
    if not os.path.lexists(path):
        raise DataError(f"there is no {path}; python diagnose.py vqa=mlb writes one")
    remedy = "run diagnose.py again"
    return list(read_lines(path, TypeAdapter(Belief), remedy, kind="a belief"))


def write_beliefs(path: Path, beliefs: Iterable[Belief]) -> None:
    """Writes beliefs.jsonl, one belief a line."""
    write_text(path, "".join(belief.line() for belief in beliefs))


def type_of(*, relevant: bool, same_fact: bool, correct: bool) -> BeliefType:
    """Derives the type of a belief from three judgements about it [iVQA 6].

    Args:
        relevant: Everything that the question presupposes is in the image.
        same_fact: The question states the same visual fact as a question of the data set.
        correct: The belief's answer is right.

    Returns:
        "irrelevant", "adversarial" (relevant, wrong), "rephrase" (right, same fact) or
        "complementary" (right, another fact).

    Example:
        >>> type_of(relevant=True, same_fact=False, correct=True)
        'complementary'
    """
    if not relevant:
        return "irrelevant"
    if not correct:
        return "adversarial"
    return "rephrase" if same_fact else "complementary"


def typed_by_oracle(
    beliefs: Sequence[Belief],
    oracle: Oracle,
    references: Mapping[tuple[int, str], Sequence[str]],
) -> list[Belief]:
    """Assigns exact types to beliefs about images with an oracle.

    Two questions state the same visual fact if they have the same program, as "is there a star" and
    "do you see any stars" do.

    Args:
        oracle: Judges questions about the images.
        references: The data set's own questions of each (image, answer).

    Returns:
        The beliefs in the same order. One that the oracle does not understand has no type.
    """
    # fact() gives None for what the oracle does not understand, which no understood belief equals.
    facts = {key: {oracle.fact(text) for text in texts} for key, texts in references.items()}
    typed = []
    for belief in beliefs:
        judged = oracle.judge(belief.image_id, belief.question)
        if not judged.understood:
            typed.append(replace(belief, type=None, type_by=None))
            continue
        same = oracle.fact(belief.question) in facts.get((belief.image_id, belief.answer), ())
        kind = type_of(
            relevant=bool(judged.premise),
            same_fact=same,
            correct=belief.answer in judged.acceptable,
        )
        typed.append(replace(belief, type=kind, type_by="oracle"))
    return typed


def share_of_contradictions(beliefs: Iterable[Belief]) -> float:
    """Share of beliefs that certainly contradict another belief about the same image, in [0, 1].

    0 without beliefs. See `contradicting`.
    """
    by_image: dict[int, list[tuple[str, str]]] = {}
    for belief in beliefs:
        by_image.setdefault(belief.image_id, []).append((belief.question, belief.answer))
    clashes = [clash for own in by_image.values() for clash in contradicting(own)]
    return sum(clashes) / max(len(clashes), 1)


def shares_of_types(
    beliefs: Sequence[Belief], weights: ArrayLike | None = None, resamples: int = 1000
) -> dict[str, float]:
    """Shares of the belief types, with bootstrap intervals.

    The bootstrap draws images, because beliefs about one image depend on each other.

    Args:
        beliefs: N beliefs; those without a type are left out.
        weights: Weight of each belief (N,), > 0, where some were more likely to be typed than
            others (`label_weights`); None: all are equal.
        resamples: Number of bootstrap samples.

    Returns:
        "beliefs/<type>" for each type, "beliefs/correct" (rephrase and complementary) and
        "beliefs/incorrect", as shares of the typed beliefs in [0, 1]. "<name>_low" and
        "<name>_high" bound the 95 percent interval. Empty where no belief has a type.
    """
    given = np.ones(len(beliefs)) if weights is None else np.asarray(weights, np.float64)
    typed = [(b, b.type, w) for b, w in zip(beliefs, given, strict=True) if b.type is not None]
    if not typed:
        return {}
    weighted = np.array([w * np.eye(len(TYPES))[TYPES.index(kind)] for _, kind, w in typed])
    counts = cluster_sums(weighted, [b.image_id for b, *_ in typed])  # (images, types)
    drawn = resampled_shares(counts, resamples)  # (resamples, types)
    correct = [TYPES.index("rephrase"), TYPES.index("complementary")]
    shares: dict[str, float] = {}

    def add(name: str, value: float, resampled: NDArray[np.float64]) -> None:
        shares.update(with_ends(f"beliefs/{name}", value, *interval(resampled)))

    totals = counts.sum(axis=0) / counts.sum()
    for at, kind in enumerate(TYPES):
        add(kind, float(totals[at]), drawn[:, at])
    add("correct", float(totals[correct].sum()), drawn[:, correct].sum(axis=1))
    shares["beliefs/incorrect"] = 1 - shares["beliefs/correct"]
    return shares


def resampled_shares(counts: NDArray[np.float64], resamples: int = 1000) -> NDArray[np.float64]:
    """Draws images with replacement and computes the shares of kinds of beliefs (bootstrap).

    Args:
        counts: Number of beliefs of each image and kind, or the sum of their weights, (images,
            kinds); at least one image.
        resamples: Number of bootstrap samples.

    Returns:
        The share of each kind in each sample, (resamples, kinds), in [0, 1]; 0 where a sample has
        no beliefs.
    """
    # Drawing images with replacement gives multinomial numbers of draws.
    rng = np.random.default_rng(0)
    uniform = np.full(len(counts), 1 / len(counts))
    # How often each image is drawn, times its counts.
    drawn = rng.multinomial(len(counts), uniform, size=resamples) @ counts
    sums = drawn.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = drawn / np.where(sums > 0, sums, 1)
    return shares
