"""Beliefs as records, their types, and the figures that describe a belief set."""

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ivqa.data.json_files import open_json
from ivqa.data.validation import DataError, shown
from ivqa.diagnosis.contradictions import contradicting
from ivqa.files import parse_json, read_text
from ivqa.scenes import Oracle, parse

BeliefType = Literal["rephrase", "complementary", "adversarial", "irrelevant"]
TYPES: tuple[BeliefType, ...] = ("rephrase", "complementary", "adversarial", "irrelevant")


@dataclass(frozen=True)
class Belief:
    """A question q with argmax phi(. | I, q) = a; one line of beliefs.jsonl.

    phi: phi(a | I, q). log_likelihood: log p(q | z, I, a) in nats. legality: p(legal).
    source: the generator that found it. type_by: who said so: oracle, human or proxy.
    """

    image_id: int
    answer: str
    question: str
    phi: float
    log_likelihood: float
    legality: float
    source: str
    type: BeliefType | None = None
    type_by: Literal["oracle", "human", "proxy"] | None = None

    def line(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False) + "\n"


def read_beliefs(path: Path) -> list[Belief]:
    """The beliefs of a file. Raises DataError naming the line that is none."""
    if not os.path.lexists(path):
        raise DataError(f"there is no {path}; python diagnose.py vqa=mlb writes one")
    # Not splitlines(): questions may hold other characters that it takes for ends of lines.
    lines = read_text(path).removesuffix("\n").split("\n")
    if lines == [""]:
        return []
    return [_belief(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def _belief(line: str, where: str) -> Belief:
    record = parse_json(line.encode(), where, finite=True)
    kinds = {"image_id": int, "answer": str, "question": str, "source": str}
    numbers = ("phi", "log_likelihood", "legality")
    if not isinstance(record, dict) or record.keys() - {field.name for field in fields(Belief)}:
        raise DataError(f"{where}: is no belief ({shown(record)}); run diagnose.py again")
    wrong = [name for name, kind in kinds.items() if type(record.get(name)) is not kind]
    wrong += [name for name in numbers if type(record.get(name)) not in (int, float)]
    wrong += [] if record.get("type") in (*TYPES, None) else ["type"]
    wrong += [] if record.get("type_by") in ("oracle", "human", "proxy", None) else ["type_by"]
    if wrong:
        found = shown(record[wrong[0]]) if wrong[0] in record else "missing"
        raise DataError(f"{where}: is no belief: '{wrong[0]}' is {found}; run diagnose.py again")
    return Belief(**record)


def type_of(*, relevant: bool, same_fact: bool, correct: bool) -> BeliefType:
    """The type from the three answers about a candidate [iVQA 6].

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
    """The beliefs with exact types; one that the oracle does not understand has none.

    references: the data set's own questions for each (image, answer). The same visual fact means
    the same program: "is there a star" and "do you see any stars".
    """
    facts = {key: {parse(text) for text in texts} for key, texts in references.items()}
    typed = []
    for belief in beliefs:
        judged = oracle.judge(belief.image_id, belief.question)
        if not judged.understood:
            typed.append(replace(belief, type=None, type_by=None))
            continue
        same = parse(belief.question) in facts.get((belief.image_id, belief.answer), ())
        kind = type_of(
            relevant=bool(judged.premise),
            same_fact=same,
            correct=belief.answer in judged.acceptable,
        )
        typed.append(replace(belief, type=kind, type_by="oracle"))
    return typed


def share_of_contradictions(beliefs: Iterable[Belief]) -> float:
    """The share of beliefs that cannot hold together with another one about the same image."""
    by_image: dict[int, list[tuple[str, str]]] = {}
    for belief in beliefs:
        by_image.setdefault(belief.image_id, []).append((belief.question, belief.answer))
    clashes = [clash for told in by_image.values() for clash in contradicting(told)]
    return sum(clashes) / max(len(clashes), 1)


def shares_of_types(
    beliefs: Sequence[Belief], resamples: int = 1000, seed: int = 0
) -> dict[str, float]:
    """beliefs/<type>, beliefs/correct and beliefs/incorrect, as shares of the typed beliefs.

    Correct are rephrase and complementary beliefs. <name>_low and _high: the 95 percent interval
    of a bootstrap over images, since beliefs about one image stand and fall together.
    Empty where no belief has a type.
    """
    typed = [belief for belief in beliefs if belief.type is not None]
    if not typed:
        return {}
    images = {image_id: row for row, image_id in enumerate({b.image_id: None for b in typed})}
    counts = np.zeros((len(images), len(TYPES)))
    for belief in typed:
        counts[images[belief.image_id], TYPES.index(belief.type)] += 1
    rng = np.random.default_rng(seed)
    even = np.full(len(images), 1 / len(images))
    drawn = rng.multinomial(len(images), even, size=resamples) @ counts
    drawn = drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1)
    correct = [TYPES.index("rephrase"), TYPES.index("complementary")]
    shares: dict[str, float] = {}

    def note(name: str, value: float, resampled: NDArray[np.float64]) -> None:
        low, high = np.quantile(resampled, [0.025, 0.975])
        shares[f"beliefs/{name}"] = value
        shares[f"beliefs/{name}_low"], shares[f"beliefs/{name}_high"] = float(low), float(high)

    totals = counts.sum(axis=0) / len(typed)
    for at, kind in enumerate(TYPES):
        note(kind, float(totals[at]), drawn[:, at])
    note("correct", float(totals[correct].sum()), drawn[:, correct].sum(axis=1))
    shares["beliefs/incorrect"] = 1 - shares["beliefs/correct"]
    return shares


def apply_annotations(beliefs: Sequence[Belief], path: Path) -> list[Belief]:
    """The beliefs with the types that people gave them, exported from annotate.html.

    Args:
        beliefs: The belief set that was judged.
        path: A JSON list of {"image_id", "answer", "question", "relevant", "same_fact", "correct",
            "score"}. Several people may have judged a belief: the majority of each answer counts,
            a tie means no. A record that does not answer the three questions, such as one with a
            score only, is ignored with a warning.

    Returns:
        The beliefs in the same order. Those that nobody judged have no type. Where the file judges
        no belief at all, the types stay as they were.

    Raises:
        DataError: A record lacks a field, judges no belief of this set, or no record answers the
            three questions although some begin to.
    """
    try:
        records = open_json(path)
    except DataError as error:
        raise DataError(f"annotations={path}: cannot be read ({error})") from None
    if not isinstance(records, list):
        raise DataError(f"annotations={path}: must hold a list of records, not {shown(records)}")
    votes = _votes(records, path, {(one.image_id, one.answer, one.question) for one in beliefs})
    if not votes:
        return list(beliefs)
    typed = []
    for belief in beliefs:
        given = votes.get((belief.image_id, belief.answer, belief.question))
        if given is None:
            typed.append(replace(belief, type=None, type_by=None))
            continue
        relevant, same, correct = (2 * sum(one) > len(given) for one in zip(*given, strict=True))
        kind = type_of(relevant=relevant, same_fact=same, correct=correct)
        typed.append(replace(belief, type=kind, type_by="human"))
    return typed


_Key = tuple[int, str, str]  # image, answer and question of a belief
_Vote = tuple[bool, bool, bool]  # relevant, same fact, correct
_THREE = ("relevant", "same_fact", "correct")


def _votes(records: Sequence[object], path: Path, known: set[_Key]) -> dict[_Key, list[_Vote]]:
    """The complete judgements of each belief; warns of the records that are none."""
    votes: dict[_Key, list[_Vote]] = {}
    ignored: list[str] = []  # what the incomplete records lack; nothing for a score alone
    for number, record in enumerate(records, start=1):
        where = f"{path}, record {number}"
        lacking = _lacking(record, where)
        if lacking is not None:
            ignored.append(lacking)
            continue
        key, (relevant, same, correct) = _judgement(record, where)
        if key not in known:
            raise DataError(f"{where}: '{key[2]}' is no belief of this run")
        # What is not in the image is neither the same fact nor answered correctly.
        votes.setdefault(key, []).append((relevant, relevant and same, relevant and correct))
    if not votes and any(ignored):
        raise DataError(f"{next(filter(None, ignored))}, and no other record has all answers")
    if ignored:
        warnings.warn(
            f"annotations={path}: {len(ignored)} of {len(records)} records do not answer the three "
            f"questions ({ignored.count('')} have a score only) and are ignored",
            stacklevel=3,
        )
    return votes


def _lacking(record: object, where: str) -> str | None:
    """What a record lacks to be a judgement: "" for a score alone, None for a complete one."""
    if not isinstance(record, dict):
        raise DataError(f"{where}: must be an object, not {shown(record)}")
    given = [name for name in _THREE if name in record]
    if not given and "score" in record:
        return ""
    if not given or given == list(_THREE) or record.get("relevant") is False:
        return None
    return f"{where}: lacks '{next(name for name in _THREE if name not in record)}'"


def _judgement(record: Any, where: str) -> tuple[_Key, _Vote]:
    """The belief that a person judged, and the three answers about it."""
    if record.get("relevant") is False:
        record = {"same_fact": False, "correct": False, **record}
    kinds = {"image_id": int, "answer": str, "question": str} | dict.fromkeys(_THREE, bool)
    for name, kind in kinds.items():
        if name not in record:
            raise DataError(f"{where}: lacks '{name}'")
        if type(record[name]) is not kind:
            raise DataError(f"{where}: '{name}' must be {kind.__name__}, not {shown(record[name])}")
    image_id, answer, question, *judged = (record[name] for name in kinds)
    return (image_id, answer, question), tuple(judged)
