"""The questions that follow from the answers of a model."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, TypeAdapter

from ivqa.data.validation import read_lines
from ivqa.diagnosis import Belief
from ivqa.logic import Implication, follow_ups, implications
from ivqa.store.digests import digest
from ivqa.text.normalisation import clean_space, normalise_answer

# "Yes, it is." and "no there is not", but not "no parking".
_POLAR = re.compile(
    r"(yes|no)(?:\s*[,.;:!].*|\s+(?:there|it|he|she|they|the|i|this|that|we)\b.*)?",
    re.IGNORECASE,
)


Entailments = Mapping[tuple[tuple[int, str], str], Sequence[Implication]]
"""What follows, by image and question (`question_key`) and the answer (`answer_form`)."""


@dataclass(frozen=True)
class AnsweredQuestion:
    """The answer of a model to a question about an image.

    Args:
        answer: The answer as the model gave it.
        confidence: phi(answer | image, question) in [0, 1]; None where unknown.
        question_id: Id of a question of the data set; None for an implied question.
    """

    image_id: int
    question: str
    answer: str
    confidence: float | None = None
    question_id: int | None = None


def answers_of(beliefs: Iterable[Belief]) -> list[AnsweredQuestion]:
    """Beliefs as answers, whose question_id is the line in beliefs.jsonl, from 1."""
    return [
        AnsweredQuestion(one.image_id, one.question, one.answer, one.phi, line)
        for line, one in enumerate(beliefs, start=1)
    ]


@dataclass(frozen=True)
class ImpliedQuestion:
    """A question whose answer follows from an answer of the model to one of the data set."""

    premise: AnsweredQuestion
    implication: Implication

    @property
    def key(self) -> tuple[int, str]:
        """Image and question; equal for questions that differ in case and spaces alone."""
        return question_key(self.premise.image_id, self.implication.question)

    def record(self, given: AnsweredQuestion) -> dict[str, Any]:
        """One line of implications.jsonl; `given` is the answer to the implied question."""
        return {
            "image_id": self.premise.image_id,
            "question_id": self.premise.question_id,
            "question": self.premise.question,
            "answer": self.premise.answer,
            "implied_question": self.implication.question,
            "implied_answer": self.implication.answer,
            "rule": self.implication.rule,
            "certain": self.implication.certain,
            "given_answer": given.answer,
            "confidence": given.confidence,
            "consistent": agrees(given.answer, self.implication.answer),
        }


@dataclass(frozen=True, eq=False)
class Implied:
    """What follows from N answers.

    Args:
        questions: The implied questions, image by image. A question and its answer occur once an
            image, from its first premise; a certain rule comes before others.
        wanted: Image and text of the questions to ask, the most important ones about an image
            first: those implied by certain rules, in equal turns of their premises, then
            `follow_ups`, then other implied ones.
        covered: Whether anything follows, for each of the N answers.
    """

    questions: Sequence[ImpliedQuestion]
    wanted: Sequence[tuple[int, str]]
    covered: Sequence[bool]


def implied_by(
    answers: Sequence[AnsweredQuestion],
    entailments: Entailments | None = None,
    max_questions: int | None = None,
) -> Implied:
    """Derives the questions whose answers follow from answers.

    Args:
        answers: N answers to questions of the data set, about any number of images.
        entailments: What follows beside what the rules know, see `read_entailments`.
        max_questions: The most questions that will be asked about an image: where certain rules
            imply so many, `wanted` has no other ones. None for any number.

    Returns:
        The implied questions, and those to ask.
    """
    found: dict[int, dict[tuple[Any, str], tuple[bool, int, ImpliedQuestion]]] = {}
    covered = []
    premises: dict[int, list[AnsweredQuestion]] = defaultdict(list)
    for premise in answers:
        premises[premise.image_id].append(premise)
        form = answer_form(premise.answer)
        following = implications(premise.question, form)
        if entailments is not None:
            key = question_key(premise.image_id, premise.question), form
            following = [*entailments.get(key, ()), *following]
        covered.append(bool(following))
        of_image = found.setdefault(premise.image_id, {})
        for turn, implication in enumerate(following):
            one = ImpliedQuestion(premise, implication)
            known = of_image.get(name := (one.key, answer_form(implication.answer)))
            if known is None or (known[0] and implication.certain):
                of_image[name] = (not implication.certain, turn, one)
    wanted = []
    for image_id, of_image in found.items():
        ordered = sorted(of_image.values(), key=lambda one: one[:2])
        texts = [one.implication.question for likely, _, one in ordered if not likely]
        own = {question_key(image_id, one.question) for one in premises[image_id]}
        new = {question_key(image_id, text) for text in texts} - own
        if max_questions is None or len(new) < max_questions:
            texts += [text for _, text in followed_up(premises[image_id])]
            texts += [one.implication.question for likely, _, one in ordered if likely]
        wanted += [(image_id, text) for text in texts]
    questions = [one for of_image in found.values() for _, _, one in of_image.values()]
    return Implied(questions, wanted, covered)


def followed_up(answers: Sequence[AnsweredQuestion]) -> list[tuple[int, str]]:
    """Image and text of the questions that show whether answers can be right, see `follow_ups`."""
    return [
        (one.image_id, text)
        for one in answers
        for text in follow_ups(one.question, answer_form(one.answer))
    ]


def affordable(
    wanted: Sequence[tuple[int, str]],
    known: Sequence[AnsweredQuestion],
    max_questions: int,
    budget: int | None = None,
) -> list[tuple[int, str]]:
    """Chooses the questions to ask, each once.

    Args:
        wanted: Image and text of questions, the most important ones about an image first.
        known: The answers so far; their questions are not asked again.
        max_questions: The most questions to ask about an image, beside those of the data set.
        budget: The most questions to ask in all, the same number for each image as far as they
            have them; None for any number.

    Returns:
        Those to ask, in the order of `wanted`.
    """
    keys = {question_key(one.image_id, one.question) for one in known}
    spent = Counter(one.image_id for one in known if one.question_id is None)
    total = spent.total()
    ranks = list[tuple[int, int]]()  # rank among the questions about the image, place
    for place, (image_id, text) in enumerate(wanted):
        key = question_key(image_id, text)
        if key not in keys and spent[image_id] < max_questions:
            ranks.append((spent[image_id], place))
            keys.add(key)
            spent[image_id] += 1
    chosen = sorted(ranks)[: None if budget is None else max(budget - total, 0)]
    return [wanted[place] for place in sorted(place for _, place in chosen)]


class _Line(BaseModel):
    """A line of the file; other fields, as in an implications.jsonl, are not read."""

    image_id: int
    question: str = Field(min_length=1)
    answer: str = Field(min_length=1)
    implied_question: str = Field(min_length=1)
    implied_answer: str = Field(min_length=1)
    rule: str = Field("entailed", pattern=r"^[a-z_]+$")


def read_entailments(file: Path) -> Entailments:
    """Reads a file of implications, one a line, with some fields of implications.jsonl.

    Where a model answers `question` about `image_id` with `answer`, the implied answer follows.
    `rule` ("entailed") names its figure.

    Raises:
        DataError: A line is not an implication.
    """
    found: dict[tuple[tuple[int, str], str], list[Implication]] = defaultdict(list)
    fields = "image_id, question, answer, implied_question and implied_answer"
    for line in read_lines(file, TypeAdapter(_Line), f"a line has the fields {fields}"):
        key = question_key(line.image_id, line.question), answer_form(line.answer)
        found[key].append(
            Implication(line.implied_question, line.implied_answer, line.rule, certain=False)
        )
    return found


def question_key(image_id: int, question: str) -> tuple[int, str]:
    """Image and text of a question, without its case and double spaces.

    >>> question_key(7, "Is  there a Car? ")
    (7, 'is there a car?')
    """
    return image_id, " ".join(question.casefold().split())


def question_number(image_id: int, question: str) -> int:
    """The id of an implied question in files: it depends on image and text alone.

    So answers to the questions of other rules or of another result file cannot be mistaken for
    those that are wanted. An id has 52 bits, which every reader of JSON keeps.
    """
    return int(digest(list(question_key(image_id, question)))[:13], 16)


def answer_form(answer: str) -> str:
    """The form in which answers are compared: that of the VQA evaluation, or "yes" or "no".

    Example:
        >>> [answer_form(text) for text in ("Two", "Yes, it is.", "no there is not", "No parking")]
        ['2', 'yes', 'no', 'no parking']
    """
    polar = _POLAR.fullmatch(clean_space(answer))
    return polar[1].lower() if polar else normalise_answer(answer)


def agrees(answer: str, implied: str) -> bool:
    """Whether an answer is the implied one.

    Example:
        >>> agrees("Yes.", "yes"), agrees("two", "2"), agrees("red", "yes")
        (True, True, False)
    """
    return answer_form(answer) == answer_form(implied)
