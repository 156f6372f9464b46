"""Follow-ups of a diagnosis: what the VQA model says about what its beliefs need."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.progress import track

from ivqa.consistency import AnsweredQuestion, affordable, implied_by
from ivqa.data import VQADataModule
from ivqa.diagnosis import AskedLog, Belief, GivenAnswer, given_answers, write_beliefs
from ivqa.logic import unclear
from ivqa.provenance import note_questions
from ivqa.terminal import terminal
from ivqa.text.failed_answers import failure
from ivqa.vqa import Answerer

_AT_ONCE = 500  # questions that are answered together; a kill loses at most so many


def follow_up_answers(
    beliefs: Sequence[Belief],
    answerer: Answerer,
    datamodule: VQADataModule,
    split: str,
    max_questions: int,
    run_dir: Path,
    origin: Mapping[str, Any],
) -> list[Belief]:
    """Asks what follows from beliefs, and whether the things are there that they need.

    Args:
        beliefs: The beliefs of a search, in the order of beliefs.jsonl.
        answerer: The VQA model that has them.
        datamodule: The data.
        split: Name of the split of the images.
        max_questions: The most questions to ask about an image.
        run_dir: The run directory: its follow_ups.jsonl gets the answers, and parts/asked.jsonl
            keeps them at once, so that a killed run asks nothing twice.
        origin: What determines the answers.

    Returns:
        The answers, as beliefs of the source "follow_up", without failed ones and those that say
        nothing.
    """
    own = [
        AnsweredQuestion(belief.image_id, belief.question, belief.answer, belief.phi, line)
        for line, belief in enumerate(beliefs, start=1)
    ]
    questions = affordable(implied_by(own).wanted, own, max_questions)

    def ask(pairs: Sequence[tuple[int, str]]) -> list[GivenAnswer]:
        images = datamodule.images_of(split, [image for image, _ in pairs])
        return given_answers(answerer, images, [question for _, question in pairs])

    log = AskedLog(run_dir / "parts" / "asked.jsonl", ask, origin)
    found: list[Belief] = []
    starts = range(0, len(questions), _AT_ONCE)
    for start in track(starts, "asking follow-ups", console=terminal(), transient=True):
        part = questions[start : start + _AT_ONCE]
        for (image_id, question), given in zip(part, log(part), strict=True):
            if failure(given.answer) is None and not unclear(question, given.answer):
                phi = round(given.probability, 6)
                found.append(
                    Belief(image_id, given.answer, question, phi, 0.0, 1.0, source="follow_up")
                )
    note_questions(log.asked)
    write_beliefs(run_dir / "follow_ups.jsonl", found)
    return found
