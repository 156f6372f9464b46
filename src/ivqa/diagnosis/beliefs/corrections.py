"""Beliefs as training questions with right answers, and the questions they compete with."""

import random
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Literal, Protocol, runtime_checkable

from ivqa.data import VQASplit
from ivqa.data.batches.columns import Entry
from ivqa.data.oracles import Oracle
from ivqa.diagnosis.beliefs.beliefs import Belief
from ivqa.diagnosis.search.proxy import annotated_answers
from ivqa.text.answers import AnswerVocabulary

NO_SUCH_THING = "no such thing"
"""The answer to a question about something that is not in the image."""

Irrelevant = Literal["no_such_thing", "uniform", "leave_out"]

RightAnswers = Callable[[int, str], Sequence[str] | None]
"""Takes an image id and a question; returns the annotators' answers, None where it has none."""


@runtime_checkable
class AsksQuestions(Protocol):
    """An oracle that can draw questions about its images, such as that of the scenes."""

    def ask(self, image_ids: Sequence[int], seed: int) -> list[Entry]:
        """Draws one question about each image (ids may repeat), numbered from 1."""


@runtime_checkable
class LaysOut(Protocol):
    """An oracle that knows the expert layout of a question, such as that of the scenes."""

    def layout(self, question: str) -> list[str] | None:
        """The expert layout of a question; None where it is not understood."""


def right_answers(oracle: Oracle | None, split: VQASplit) -> RightAnswers:
    """Gives the right answers to questions about the images of a split.

    Args:
        oracle: The oracle of the split. Without one, annotators who answered a question of the
            same words decide, see `annotated_answers`.

    Returns:
        The right answers of an image and a question; none for a false premise.
    """
    if oracle is None:
        return annotated_answers(split)

    def judged(image_id: int, question: str) -> Sequence[str] | None:
        answer = oracle.judge(image_id, question).answer
        return None if answer is None else [answer]

    return judged


def corrected_questions(
    beliefs: Sequence[Belief],
    right: RightAnswers,
    *,
    irrelevant: Irrelevant,
    known: AnswerVocabulary,
    oracle: Oracle | None = None,
    seed: int = 0,
) -> list[Entry]:
    """Turns wrong beliefs into questions with right answers.

    An adversarial belief gets its right answer. An irrelevant one has none; `irrelevant` says what
    is taught instead. With "no_such_thing" it is an answer of its own. With "uniform" an answer is
    drawn at random from those of the model: its cross entropy is, in expectation, that with the
    uniform distribution. With "leave_out" nothing is taught.

    Args:
        beliefs: Beliefs with types; only wrong ones are used.
        right: The right answers.
        irrelevant: What to answer to an irrelevant question.
        known: The answers of the model.
        oracle: Gives the expert layouts; None without one.
        seed: Seed of the draw.

    Returns:
        One question for each image and text, numbered from 1.
    """
    rng = random.Random(seed)
    entries: dict[tuple[int, str], Entry] = {}
    for belief in beliefs:
        answers: Sequence[str] | None = None
        if belief.type == "adversarial":
            answers = right(belief.image_id, belief.question)
        elif belief.type == "irrelevant" and irrelevant == "no_such_thing":
            answers = [NO_SUCH_THING]
        elif belief.type == "irrelevant" and irrelevant == "uniform":
            answers = [rng.choice(known.answers)]
        key = belief.image_id, belief.question
        if answers and key not in entries:
            entries[key] = _entry(len(entries) + 1, *key, answers, oracle)
    return list(entries.values())


def confirmed_questions(
    beliefs: Sequence[Belief],
    right: RightAnswers,
    corrected: Sequence[Entry],
    *,
    most: float | None = None,
    oracle: Oracle | None = None,
    seed: int = 0,
) -> list[Entry]:
    """Turns right beliefs into questions: a model keeps what it rightly believes.

    Args:
        beliefs: Beliefs with types; only right ones are used.
        right: The right answers.
        corrected: The result of `corrected_questions` for these beliefs.
        most: The largest number of questions, as a multiple of that of `corrected`; of more right
            beliefs, some are drawn at random. None for all.
        oracle: Gives the expert layouts; None without one.
        seed: Seed of the draw.

    Returns:
        One question for each image and text, none of `corrected`, numbered from 1.
    """
    kinds = ("rephrase", "complementary")
    found = {(one.image_id, one.question): one for one in beliefs if one.type in kinds}
    for entry in corrected:
        found.pop((entry.image_id, entry.question), None)
    kept = list(found.values())
    if most is not None:
        # Exact: the float 0.29 * 100 is below 29.
        wanted = int(Fraction(str(most)) * len(corrected))
        kept = random.Random(seed).sample(kept, wanted) if len(kept) > wanted else kept
    return [
        _entry(
            at,
            one.image_id,
            one.question,
            right(one.image_id, one.question) or [one.answer],
            oracle,
        )
        for at, one in enumerate(kept, start=1)
    ]


def ordinary_questions(
    image_ids: Sequence[int], split: VQASplit, oracle: Oracle | None, seed: int
) -> list[Entry]:
    """Draws as many ordinary questions about the same images.

    Args:
        image_ids: The image of each question.
        split: The training split.
        oracle: An oracle that `AsksQuestions` draws new questions. Without one, the questions of
            the split are repeated.
        seed: Seed of the draw.

    Returns:
        One question for each image id, numbered from 1.
    """
    if isinstance(oracle, AsksQuestions):
        return oracle.ask(image_ids, seed)
    return [
        _entry(number, image_id, split.questions[row], split.answers[row], oracle)
        for number, (image_id, row) in enumerate(_rows(image_ids, split, seed), start=1)
    ]


def ordinary_share(
    entries: Sequence[Entry], share: float, split: VQASplit, oracle: Oracle | None, seed: int
) -> list[Entry]:
    """Draws ordinary questions about the images of other questions.

    Args:
        entries: The other questions.
        share: Ordinary questions for each of them.
        split: The training split.
        oracle: See `ordinary_questions`.
        seed: Seed of the draw.

    Returns:
        The questions, numbered from 1.
    """
    rng = random.Random(seed)
    number = int(Fraction(str(share)) * len(entries))
    images = rng.choices([entry.image_id for entry in entries], k=number)
    return ordinary_questions(images, split, oracle, rng.getrandbits(32))


def noisy_questions(
    image_ids: Sequence[int],
    split: VQASplit,
    noisy: Callable[[list[str]], Sequence[Sequence[str]]],
    seed: int,
) -> list[Entry]:
    """Draws as many questions of the split about the same images, and disturbs them.

    Args:
        image_ids: The image of each question.
        split: The training split.
        noisy: Takes N questions; returns them at each level of noise. All levels are equally
            probable.
        seed: Seed of the draw.

    Returns:
        One question for each image id, numbered from 1, with the answers of the clean one.
    """
    rows = [row for _, row in _rows(image_ids, split, seed)]
    levels = noisy([split.questions[row] for row in rows])
    rng = random.Random(f"{seed}/level")
    layouts = split.layouts or {}
    return [
        Entry(
            name=str(number + 1),
            question_id=number + 1,
            image_id=image_ids[number],
            question=rng.choice(levels)[number],
            answers=split.answers[row],
            layout=layouts.get(int(split.question_ids[row])),
        )
        for number, row in enumerate(rows)
    ]


def _entry(
    number: int, image_id: int, question: str, answers: Sequence[str], oracle: Oracle | None
) -> Entry:
    """The record of a question, with its expert layout where the oracle knows it."""
    layout = oracle.layout(question) if isinstance(oracle, LaysOut) else None
    return Entry(str(number), number, image_id, question, answers, layout=layout)


def _rows(image_ids: Sequence[int], split: VQASplit, seed: int) -> list[tuple[int, int]]:
    """For each image id, the image id and a random row of the split about that image."""
    own: dict[Hashable, list[int]] = {}
    for row, image_id in enumerate(split.image_ids.tolist()):
        own.setdefault(image_id, []).append(row)
    rng = random.Random(seed)
    return [(image_id, rng.choice(own[image_id])) for image_id in image_ids]
