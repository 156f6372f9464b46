"""Types of beliefs from the annotations that people made in annotate.html [iVQA 6]."""

import math
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ivqa.data.json_files import open_json
from ivqa.data.validation import DataError, shown
from ivqa.diagnosis.beliefs.beliefs import Belief, type_of
from ivqa.text.normalisation import normalise_answer

_Key = tuple[int, str, str]  # image, answer and question of a belief
_Vote = tuple[bool, bool, bool]  # relevant, same fact, correct
_QUESTIONS = ("relevant", "same_fact", "correct")


def apply_annotations(beliefs: Sequence[Belief], path: Path) -> list[Belief]:
    """Assigns the types that people gave in annotate.html.

    Args:
        beliefs: The belief set that was annotated.
        path: Path of a JSON list of {"image_id", "answer", "question", "relevant", "same_fact",
            "correct", "score"}. Where several people annotated a belief, the majority decides each
            of the three questions; a tie means no. A record that does not answer all three
            questions, such as one with a score only, is ignored with a warning. For
            "right_answer" see `corrected_answers`, for "weight" `label_weights`.

    Returns:
        The beliefs in the same order. Those without an annotation have no type. If the file
        annotates no belief at all, all types are unchanged.

    Raises:
        DataError: A record lacks a field or names a belief that is not in this set, or some
            records answer a part of the three questions and none answers all of them.
    """
    records = _records(path)
    votes = _votes(records, path, {(one.image_id, one.answer, one.question) for one in beliefs})
    if not votes:
        return list(beliefs)
    typed = []
    for belief in beliefs:
        given = votes.get((belief.image_id, belief.answer, belief.question))
        if given is None:
            typed.append(replace(belief, type=None, type_by=None))
            continue
        # A strict majority for each of the three questions.
        relevant, same, correct = (2 * sum(one) > len(given) for one in zip(*given, strict=True))
        kind = type_of(relevant=relevant, same_fact=same, correct=correct)
        typed.append(replace(belief, type=kind, type_by="human"))
    return typed


def check_annotations(path: Path, image_ids: Collection[int]) -> None:
    """Checks a file for `apply_annotations` before the beliefs are known.

    Args:
        image_ids: The images of the split whose beliefs are searched.

    Raises:
        DataError: A record lacks a field, a value has another type, or an image is not of the
            split.
    """
    with warnings.catch_warnings(action="ignore"):  # `apply_annotations` gives them
        votes = _votes(_records(path), path, None)
    corrected_answers([], path)
    label_weights([], path)
    if strange := [key for key in votes if key[0] not in image_ids]:
        raise DataError(
            f"annotations={path}: image {strange[0][0]} is not in the split of this run; give the "
            "file that the run's own annotate.html exported"
        )


def label_weights(beliefs: Sequence[Belief], path: Path) -> NDArray[np.float64]:
    """Reads the weights of annotated beliefs, which `annotate.html` did not draw uniformly.

    Args:
        beliefs: N beliefs.
        path: The file that `apply_annotations` read. "weight" of a record is the inverse of the
            probability with which its belief was drawn, up to a factor.

    Returns:
        (N,): the weights; 1 for beliefs without an annotation, and for all beliefs if no record has
        a weight, as in files of uniformly drawn beliefs.

    Raises:
        DataError: A weight is no positive number; a belief has two; or only some records have one:
            their beliefs were drawn by different rules, which give no sample together.
    """
    found: dict[_Key, float | None] = {}
    for number, record in enumerate(_records(path), start=1):
        where = f"{path}, record {number}"
        if _missing_answer(record, where) is not None:
            continue
        key, _ = _judgement(record, where)
        weight = record.get("weight")
        if weight is not None and (
            type(weight) not in (int, float) or not (math.isfinite(weight) and weight > 0)
        ):
            raise DataError(f"{where}: 'weight' must be a positive number, not {shown(weight)}")
        first = next(iter(found.values()), weight)
        if found.setdefault(key, weight) != weight or (first is None) != (weight is None):
            raise DataError(
                f"{where}: 'weight' does not fit the records before it; join only files that the "
                "annotate.html of one run exported"
            )
    keys = [(one.image_id, one.answer, one.question) for one in beliefs]
    return np.array([found.get(key) or 1.0 for key in keys], dtype=np.float64)


def corrected_answers(beliefs: Sequence[Belief], path: Path) -> dict[Belief, list[str]]:
    """Reads the right answers that people entered for wrong beliefs in annotate.html.

    Args:
        beliefs: The belief set that was annotated, with the types of `apply_annotations`.
        path: The file that `apply_annotations` read. "right_answer" of a record is the answer that
            the annotator gives instead of the model's.

    Returns:
        For each adversarial belief that somebody corrected, the normalised answers, one for each
        annotator who gave one.

    Raises:
        DataError: A right answer is not text.
    """
    wrong = {
        (one.image_id, one.answer, one.question): one
        for one in beliefs
        if one.type == "adversarial"
    }
    corrected: dict[Belief, list[str]] = {}
    for number, record in enumerate(_records(path), start=1):
        given = record.get("right_answer")
        if given is None:
            continue
        if not isinstance(given, str):
            raise DataError(
                f"{path}, record {number}: 'right_answer' must be str, not {shown(given)}"
            )
        answer = normalise_answer(given)
        key = record.get("image_id"), record.get("answer"), record.get("question")
        if answer and key in wrong:
            corrected.setdefault(wrong[key], []).append(answer)
    return corrected


def _records(path: Path) -> list[Any]:
    """The records of an exported file."""
    try:
        records = open_json(path)
    except DataError as error:
        raise DataError(f"annotations={path}: cannot be read ({error})") from None
    if not isinstance(records, list):
        raise DataError(f"annotations={path}: must hold a list of records, not {shown(records)}")
    return records


def _votes(
    records: Sequence[object], path: Path, known: set[_Key] | None
) -> dict[_Key, list[_Vote]]:
    """The complete annotations of each belief; warns of incomplete records. None: all are known."""
    votes: dict[_Key, list[_Vote]] = {}
    ignored: list[str] = []  # the missing field of each incomplete record; "" for a score alone
    for number, record in enumerate(records, start=1):
        where = f"{path}, record {number}"
        missing = _missing_answer(record, where)
        if missing is not None:
            ignored.append(missing)
            continue
        key, (relevant, same, correct) = _judgement(record, where)
        if known is not None and key not in known:
            raise DataError(f"{where}: '{key[2]}' is not a belief of this run")
        # An irrelevant belief is neither the same fact nor correct.
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


def _missing_answer(record: object, where: str) -> str | None:
    """A message naming an unanswered question; "" for a score alone, None if complete."""
    if not isinstance(record, dict):
        raise DataError(f"{where}: must be an object, not {shown(record)}")
    given = [name for name in _QUESTIONS if name in record]
    if not given and "score" in record:
        return ""
    if not given or given == list(_QUESTIONS) or record.get("relevant") is False:
        return None
    return f"{where}: lacks '{next(name for name in _QUESTIONS if name not in record)}'"


def _judgement(record: Any, where: str) -> tuple[_Key, _Vote]:
    """The annotated belief, and the answers to the three questions about it."""
    # About an irrelevant question, people need not answer the other two.
    if record.get("relevant") is False:
        record = {"same_fact": False, "correct": False, **record}
    kinds = {"image_id": int, "answer": str, "question": str} | dict.fromkeys(_QUESTIONS, bool)
    for name, kind in kinds.items():
        if name not in record:
            raise DataError(f"{where}: lacks '{name}'")
        # Not isinstance: True is an int, but not an image id.
        if type(record[name]) is not kind:
            raise DataError(f"{where}: '{name}' must be {kind.__name__}, not {shown(record[name])}")
    image_id, answer, question, *judged = (record[name] for name in kinds)
    return (image_id, answer, question), tuple(judged)
