"""Questions in plain English about pictures: what they need, and how they are asked."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import torch
from omegaconf import DictConfig
from rich.console import Console
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch, PixelSource
from ivqa.data.given_pictures import picture_files, read_picture
from ivqa.diagnosis import Belief, BudgetSearch, GivenAnswer, given_answers, next_hundred
from ivqa.diagnosis.beliefs.mistakes import BY_CHANCE
from ivqa.diagnosis.search.budget import AskAll
from ivqa.errors import LimitReached, UserError
from ivqa.ranges import NonNegative
from ivqa.runs.picture_model import PictureModel, answers_questions
from ivqa.text.failed_answers import failure
from ivqa.vqa import Metered

Limits = Mapping[Literal["questions", "minutes", "cost"], NonNegative | None]
"""What may be used without a question; None: any number."""

_TOKENS = ("prompt", "completion")


@dataclass(frozen=True)
class Forecast:
    """What the questions that are left take, by those that were answered; None where unknown."""

    questions: int
    minutes: float
    tokens: tuple[float, float] | None = None
    cost: float | None = None

    def __str__(self) -> str:
        """As the end of "the others take about ...".

        >>> str(Forecast(936, 12.2, (1_120_000, 9_400), 0.306))
        '12 minutes, 1,120,000 prompt and 9,400 completion tokens, and cost about 0.31'
        """
        parts = ["a minute" if self.minutes < 1.5 else f"{self.minutes:,.0f} minutes"]
        if self.tokens is not None:
            parts.append("{:,.0f} prompt and {:,.0f} completion tokens".format(*self.tokens))
        if self.cost is not None:
            parts.append(f"and cost about {self.cost:,.2f}")
        return ", ".join(parts)

    def above(self, limits: Limits) -> str:
        """The first limit that is passed, such as "minutes=60"; "" if none is."""
        for name, limit in limits.items():
            value = getattr(self, name)
            if None not in (limit, value) and value > limit:
                return f"{name}={limit:g}"
        return ""


class Meter:
    """Measures a model while it is asked; it stands below the log of answers.

    If the VQA model itself, `module`, is `Metered`, its tokens are counted.
    """

    def __init__(self, ask: AskAll, module: Any = None) -> None:
        self._ask = ask
        self._module = module if isinstance(module, Metered) else None
        self._questions, self._seconds = 0, 0.0

    def __call__(self, pairs: Sequence[tuple[int, str]]) -> Sequence[GivenAnswer]:
        """Answers N questions."""
        started = time.perf_counter()
        given = self._ask(pairs)
        self._seconds += time.perf_counter() - started
        self._questions += len(pairs)
        return given

    def forecast(self, questions: int) -> Forecast | None:
        """What further questions take; None before the model has answered any."""
        used = {} if self._module is None else self._module.usage()
        sent, reused = used.get("served/requests", 1.0), used.get("served/reused", 0.0)
        if not self._questions or not sent:
            return None
        # Responses on disk take neither time nor tokens.
        share = questions / self._questions * (sent + reused) / sent
        tokens = tuple(share * used.get(f"served/{name}_tokens", 0.0) for name in _TOKENS)
        cost = used.get("served/cost")
        return Forecast(
            questions,
            share * self._seconds / 60,
            (tokens[0], tokens[1]) if any(tokens) else None,
            None if cost is None else share * cost,
        )


def confirm(forecast: Forecast, limits: Limits, console: Console) -> None:
    """Asks whether to go on, where a forecast passes a limit and the standard input is a terminal.

    Raises:
        UserError: The answer is not yes, or there is no terminal.
    """
    if not (passed := forecast.above(limits)):
        return
    reason = f"the other {forecast.questions:,} questions pass ask_above.{passed}"
    if not sys.stdin.isatty():
        raise UserError(
            f"{reason}; the answers are kept: the same command with its output_dir= and yes=true "
            "goes on after them; or give a smaller max_questions="
        )
    try:
        answer = console.input(f"{reason}; go on? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise UserError("stopped; the answers are kept, and the same command goes on after them")


def ask_in_plain_english(
    ask: AskAll,
    image_ids: Sequence[int],
    max_questions: int,
    *,
    words: frozenset[str] | None = None,
    answers: Sequence[str] | None = None,
    seed: int = 1,
    explore: float = 0.0,
    stop_below: float | None = None,
    meter: Meter | None = None,
    console: Console | None = None,
    go_on: Callable[[Forecast], None] | None = None,
) -> list[Belief]:
    """Asks at most `max_questions` questions about pictures, and says what they take.

    Args:
        ask: Answers questions, each about the picture of an image id.
        words: The words that the model knows; None for a model that reads any text.
        answers: The closed set of its answers; None for a model that writes them.
        explore: Share of the questions that are drawn by chance, see `BudgetSearch`.
        stop_below: Stops where one hundred more questions are expected to prove fewer wrong answers
            than this, see `next_hundred`; None: never.
        meter: Measures the model below `ask`; None if `ask` is the model.
        console: Where the number of questions, the forecast and an early end are announced; None:
            nowhere.
        go_on: Raises an error if the work that is left is too much; called once.

    Returns:
        The questions with their answers, in the order in which they were asked: fewer where a limit
        of requests or money ends the search. Answers may be failed ones, see `failure`.

    Raises:
        UserError: All answers of the first batch are failed ones, or `go_on` raises it.
    """
    if meter is None:
        ask = meter = Meter(ask)

    def tell(text: str) -> None:
        if console is not None:
            console.print(text, soft_wrap=True)

    def by_position(pairs: Sequence[tuple[int, str]]) -> Sequence[GivenAnswer]:
        return ask([(image_ids[at], question) for at, question in pairs])

    tell(f"at most {max_questions:,} questions about {pictures_in_words(len(image_ids))}")
    search = BudgetSearch(
        len(image_ids), by_position, words=words, answers=answers, seed=seed, explore=explore
    )
    beliefs: list[Belief] = []
    batches = search.run(max_questions)
    forecast = None
    while True:
        try:
            batch = next(batches, None)
        except LimitReached as limit:
            if not beliefs:
                raise
            tell(str(limit))
            break
        if batch is None:
            break
        beliefs += [
            Belief(
                image_id=image_ids[one.picture],
                answer=one.given.answer,
                question=one.meaning.question,
                phi=round(one.given.probability, 6),
                log_likelihood=0.0,  # a meaning has one wording
                legality=1.0,
                source=BY_CHANCE if one.by_chance else "plain_english",
            )
            for one in batch
        ]
        if all(failure(one.answer) is not None for one in beliefs):
            raise UserError(
                f"the first {len(beliefs)} answers are all empty or error messages, such as "
                f"{beliefs[0].answer[:80]!r}; see what the model says to one question first"
            )
        left = max_questions - len(beliefs)
        if forecast is None and left and (forecast := meter.forecast(left)) is not None:
            tell(f"{len(beliefs)} are answered; the others take about {forecast}")
            if go_on is not None:
                go_on(forecast)
        if stop_below is not None and left:
            expected = next_hundred(beliefs).get("search/next_100")
            if expected is not None and expected < stop_below:
                tell(
                    f"stopped after {len(beliefs):,} questions: one hundred more are expected to "
                    f"prove {expected:.1f} wrong answers, fewer than stop_below={stop_below:g}"
                )
                break
    return beliefs


def without_failed(beliefs: Sequence[Belief]) -> tuple[list[Belief], str]:
    """The beliefs that are answers, and a sentence about the others; "" if there are none."""
    answered = [one for one in beliefs if failure(one.answer) is None]
    if not (failed := len(beliefs) - len(answered)):
        return answered, ""
    example = next(one.answer for one in beliefs if failure(one.answer) is not None)
    said = f"{failed:,} of {len(beliefs):,} answers are empty or error messages and count nowhere"
    return answered, f"{said}, such as {example[:80]!r}."


def check_answers_questions(model: DictConfig, key: str) -> None:
    """Raises UserError unless a model, the value of `key`, is a VQA model."""
    if not answers_questions(model):
        raise UserError(f"{key}={model.name} answers no questions; choose a VQA model: {key}=mlb")


def drawn_pictures(place: str, number: int | None, seed: int) -> list[Path]:
    """Finds the pictures of images=, draws `number` of them, and reads each once to name bad ones.

    Returns:
        The files, sorted by name.

    Raises:
        UserError: There is no picture, or one cannot be read.
    """
    found = picture_files(place, "images")
    if number is not None and len(found) > number:
        kept = np.sort(np.random.default_rng(seed).permutation(len(found))[:number])
        found = [found[at] for at in kept.tolist()]
    for file in found:
        read_picture(file)
    return found


def pictures_in_words(number: int) -> str:
    """A number of pictures.

    >>> pictures_in_words(1), pictures_in_words(1200)
    ('1 picture', '1,200 pictures')
    """
    return "1 picture" if number == 1 else f"{number:,} pictures"


def picture_asker(model: PictureModel, pictures: PixelSource) -> AskAll:
    """Answers questions about pictures by image id with a VQA model of conf/model.

    Features of a picture are computed once.
    """
    known: dict[int, dict[str, Tensor]] = {}
    features, names = model.context.features, model.context.wanted_features

    def ask(pairs: Sequence[tuple[int, str]]) -> list[GivenAnswer]:
        ids = list(dict.fromkeys(image_id for image_id, _ in pairs))
        for image_id in ids:
            if features is not None and names and image_id not in known:
                known[image_id] = features.extract([pictures.open(image_id)], names)
        columns: dict[str, Any] = {
            name: torch.cat([known[image_id][name] for image_id in ids])
            for name in known.get(ids[0], ())
        }
        place = {image_id: at for at, image_id in enumerate(ids)}
        images = ImageBatch(
            ids=torch.tensor(ids),
            index=torch.tensor([place[image_id] for image_id, _ in pairs]),
            source=pictures,
            **columns,
        )
        return given_answers(model.module, images, [question for _, question in pairs])

    return ask


class Known(TypedDict):
    """What a VQA model can read and say; None: anything."""

    words: frozenset[str] | None
    answers: Sequence[str] | None


def known_by(answerer: Any) -> Known:
    """The words that a VQA model knows, and its closed set of answers."""
    vocabulary = getattr(answerer, "question_vocabulary", None)
    answers = answerer.answers
    return {
        "words": None if vocabulary is None else frozenset(vocabulary.words),
        "answers": None if answers is None else answers.answers,
    }
