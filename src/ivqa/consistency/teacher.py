"""A VQA model as its own teacher: what the most probable world of its answers corrects."""

import random
from collections.abc import Sequence
from dataclasses import replace

from ivqa.consistency.augmentation import certain_implications
from ivqa.consistency.callback import ConsistencyCallback
from ivqa.consistency.implied import agrees, answer_form, answers_of, question_key
from ivqa.consistency.records import ImageConsistency
from ivqa.data import VQADataModule
from ivqa.data.batches.columns import Entry
from ivqa.diagnosis import Belief, RightAnswers
from ivqa.logic import family, presuppositions
from ivqa.logic.readings import read
from ivqa.vqa import Answerer

Answers = dict[tuple[int, str], str]
"""Answers by image and question, the latter in its normal wording."""


def typed_by_consistency(
    beliefs: Sequence[Belief],
    callback: ConsistencyCallback,
    answerer: Answerer,
    datamodule: VQADataModule,
    stage: str,
) -> tuple[list[Belief], RightAnswers]:
    """Types beliefs by the most probable world of a model's answers, without labels.

    That world has all answers that are not suspected, and what follows from these for certain.

    Args:
        beliefs: Beliefs of the model; types that they have are not read.
        callback: Asks the model what follows from them.
        answerer: The VQA model.
        datamodule: The data.
        stage: Stage or name of the split.

    Returns:
        - The beliefs in the same order: "complementary" if not suspected; "irrelevant" if the world
          denies something that the question presupposes; "adversarial" if the world has another
          answer; else without a type.
        - The answers of the world to the questions of adversarial beliefs.
    """
    records = callback.compared(answers_of(beliefs), answerer, datamodule, stage)
    suspects = {
        question_key(image.image_id, one.question)
        for image in records.images
        for one in image.answers
        if one.suspect
    }
    world = _world(records.images)
    typed, right = [], Answers()
    for belief in beliefs:
        image_id, question = belief.image_id, belief.question
        if question_key(image_id, question) not in suspects:
            typed.append(replace(belief, type="complementary"))
            continue
        premises = [world.get(_key(image_id, one)) for one in presuppositions(question)]
        answer = world.get(_key(image_id, question))
        if answer is None and _is_polar(belief) and all(one == "yes" for one in premises):
            answer = "no" if answer_form(belief.answer) == "yes" else "yes"
        if "no" in premises:
            typed.append(replace(belief, type="irrelevant"))
        elif answer is not None and not agrees(belief.answer, answer):
            typed.append(replace(belief, type="adversarial"))
            right[image_id, question] = answer
        else:
            typed.append(replace(belief, type=None))

    def answers(image_id: int, question: str) -> Sequence[str] | None:
        found = right.get((image_id, question))
        return None if found is None else [found]

    return typed, answers


def implied_beliefs(entries: Sequence[Entry], beliefs: Sequence[Belief], seed: int) -> list[Belief]:
    """Draws a question that follows from each taught belief, with the implied answer.

    Args:
        entries: What is taught.
        beliefs: The typed beliefs; nothing follows from the questions of irrelevant ones.
        seed: Seed of the draw.

    Returns:
        One right belief for each entry from whose answer something follows for certain.
    """
    irrelevant = {(one.image_id, one.question) for one in beliefs if one.type == "irrelevant"}
    rng, found = random.Random(seed), []
    for entry in entries:
        if (entry.image_id, entry.question) in irrelevant:
            continue
        if following := certain_implications(entry.question, (entry.answers or [""])[0]):
            one = rng.choice(following)
            found.append(
                Belief(
                    entry.image_id, one.answer, one.question, 1, 0, 1, "implied", "complementary"
                )
            )
    return found


def _world(images: Sequence[ImageConsistency]) -> Answers:
    """The answers that are not suspected, the most probable first, then what follows from them."""
    given, implied = Answers(), Answers()
    for image in images:
        kept = [one for one in image.answers if not one.suspect]
        for one in sorted(kept, key=lambda one: -one.probability_right):
            given.setdefault(_key(image.image_id, one.question), answer_form(one.answer))
            for other in certain_implications(one.question, one.answer):
                implied.setdefault(_key(image.image_id, other.question), other.answer)
    return implied | given


def _key(image_id: int, question: str) -> tuple[int, str]:
    return image_id, read(question).text or question


def _is_polar(belief: Belief) -> bool:
    return answer_form(belief.answer) in ("yes", "no") and family(belief.question) != "opaque"
