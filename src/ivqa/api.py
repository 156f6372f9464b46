"""Models in Python: `load` asks about a picture, `load_vqa` answers, `diagnose` examines any model.

Example:
    >>> import ivqa
    >>> model = ivqa.load("ivqa_vae")  # doctest: +SKIP
    >>> for asked in model.ask("photo.jpg", "yes", n=5):  # doctest: +SKIP
    ...     print(f"{asked.probability:.3f}  {asked.question}")
    >>> ivqa.load_vqa("mlb").answer("photo.jpg", ["Is it raining?"])  # doctest: +SKIP
    ['yes']
    >>> found = ivqa.diagnose(lambda picture, question: "yes", "photos")  # doctest: +SKIP
    >>> found.beliefs.query("suspect")[["image_id", "question", "answer"]]  # doctest: +SKIP
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image
from torch import Tensor

from ivqa.config.model_sources import source_of
from ivqa.data.batches.batch import ImageBatch
from ivqa.data.given_pictures import (
    NumberedPictures,
    Picture,
    numbered_pictures,
    read_picture,
)
from ivqa.diagnosis.search.asking import (
    AskedQuestion,
    GivenAnswer,
    check_answer,
    checked_answer,
    likely_questions,
)
from ivqa.errors import UserError
from ivqa.runs.context import RunContext
from ivqa.runs.picture_model import (
    PictureModel,
    answers_questions,
    asks_questions,
    check_gives_probabilities,
    check_reads_images,
    obtain_picture_model,
    training_answers,
    unlike_training,
)
from ivqa.runs.preparation import open_for_pictures
from ivqa.runs.saved_config import configured
from ivqa.tasks.pictures.asking import Known, ask_in_plain_english, known_by, picture_asker
from ivqa.tasks.pictures.diagnosis import PictureDiagnosis, described
from ivqa.terminal import terminal
from ivqa.text.answers import AnswerVocabulary

AnyModel = Callable[[Image.Image, str], str | tuple[str, float]]
"""A model as a function: an RGB picture and a question to an answer, or to an answer and its
probability."""


class LoadedGenerator:
    """A trained question generator; `ivqa.load` returns it."""

    def __init__(self, model: PictureModel) -> None:
        self.model = model

    def ask(
        self,
        image: Picture,
        answer: str,
        n: int = 10,
        *,
        num_latents: int = 100,
        likelihood_samples: int = 512,
        seed: int = 1,
    ) -> list[AskedQuestion]:
        """Finds the most probable questions about a picture that have this answer.

        Args:
            image: A path, a PIL image, or a uint8 array (height, width, 3).
            answer: The answer.
            n: Number of questions, >= 1.
            num_latents: Number of z that are decoded; see `likely_questions`.
            likelihood_samples: Number of z that estimate a probability.
            seed: Of the random numbers; 1 as on the command line.

        Returns:
            At most n questions with p(q | I, a), by falling probability.

        Raises:
            UserError: The picture cannot be read, or the generator does not know a word of the
                answer.
        """
        counts = {"n": n, "num_latents": num_latents, "likelihood_samples": likelihood_samples}
        for name, value in counts.items():
            if value < 1:
                raise UserError(f"{name}={value} must be at least 1")
        questioner = self.model.questioner
        check_answer(answer, questioner.answer_words, lambda: training_answers(self.model.context))
        batch = self.model.read(read_picture(image))
        return likely_questions(
            questioner,
            batch,
            answer,
            n=n,
            num_latents=num_latents,
            likelihood_samples=likelihood_samples,
            seed=seed,
        )


class LoadedAnswerer:
    """A VQA model; `ivqa.load_vqa` returns it."""

    def __init__(self, model: PictureModel) -> None:
        self.model = model

    @property
    def answers(self) -> list[str] | None:
        """The closed set of answers; None for a model that writes its answers."""
        known: AnswerVocabulary | None = self.model.module.answers
        return None if known is None else list(known.answers)

    def answer(self, image: Picture, questions: Sequence[str]) -> list[str]:
        """Answers N questions about one picture (a path, a PIL image, or a uint8 array).

        Raises:
            UserError: The picture cannot be read.
        """
        texts = _texts(questions)
        return self.model.module.answer(self._batch(image, len(texts)), texts) if texts else []

    def log_scores(
        self, image: Picture, questions: Sequence[str], answers: Sequence[str] | None = None
    ) -> Tensor:
        """Computes log phi(a | I, q) of questions about one picture.

        Args:
            image: A path, a PIL image, or a uint8 array (height, width, 3).
            questions: N >= 1 questions.
            answers: The answers to score; None for the closed set `answers`.

        Returns:
            Scores, (N, number of answers), float32, on the CPU.

        Raises:
            UserError: The picture cannot be read, or an answer cannot be scored.
        """
        texts, chosen = _texts(questions), None if answers is None else list(answers)
        batch = self._batch(image, len(texts))
        scores: Tensor = self.model.module.log_scores(batch, texts, chosen)
        return scores.cpu()

    def _batch(self, image: Picture, number: int) -> ImageBatch:
        return self.model.read(read_picture(image)).repeat_interleave(number)


@dataclass(frozen=True)
class Diagnosis:
    """What a model believes about pictures; `ivqa.diagnose` returns it."""

    found: PictureDiagnosis

    @property
    def beliefs(self) -> pd.DataFrame:
        """One row for each question: the columns of beliefs.jsonl, and `picture`.

        That is the file; for an image or an array, its number among the pictures, from 1.
        """
        rows = []
        for belief in self.found.beliefs:
            picture = self.found.pictures.path(belief.image_id)
            shown = str(picture) if isinstance(picture, Path) else belief.image_id
            rows.append({**vars(belief), "picture": shown})
        return pd.DataFrame(rows)

    @property
    def metrics(self) -> dict[str, float]:
        """The figures by name, such as beliefs/errors_at_least."""
        return dict(self.found.metrics)

    def save(self, folder: str | Path) -> Path:
        """Writes report.html and the other files of `diagnose.py images=FOLDER`.

        Args:
            folder: Where; it is made if it is absent.

        Returns:
            The page.
        """
        self.found.write(Path(folder))
        return Path(folder) / "report.html"


def diagnose(
    model: AnyModel | LoadedAnswerer,
    images: Picture | Iterable[Picture],
    max_questions: int = 1000,
    *,
    name: str = "the model",
    seed: int = 1,
) -> Diagnosis:
    """Finds what a model wrongly believes about pictures, without annotations and training.

    It asks questions in plain English, and finds answers that cannot all be true
    (`ivqa.contradicting`), as `diagnose.py images=FOLDER` does.

    Args:
        model: A function from an RGB picture and a question to an answer, or to an answer and its
            probability in [0, 1]; or what `load_vqa` returns. Without probabilities, phi is 1.
        images: A path, a folder or a pattern such as "photos/*.jpg"; or paths, PIL images or uint8
            arrays (height, width, 3).
        max_questions: Questions that the model answers, at most.
        name: The name of the model on the page.
        seed: Of the random numbers.

    Raises:
        UserError: A picture cannot be read, or the model returns no answer.

    Example:
        >>> picture = Image.new("RGB", (64, 64))
        >>> found = diagnose(lambda picture, question: "yes", [picture], max_questions=20)
        >>> len(found.beliefs), found.metrics["search/questions"]
        (20, 20.0)
    """
    if max_questions < 1:
        raise UserError(f"max_questions={max_questions} must be at least 1")
    pictures = numbered_pictures(images)
    known, note = Known(words=None, answers=None), ""
    if isinstance(model, LoadedAnswerer):
        ask, known = picture_asker(model.model, pictures), known_by(model.model.module)
        note = unlike_training(model.model, pictures, list(pictures.pictures))
    else:
        ask = _asker(model, pictures)
    beliefs = ask_in_plain_english(
        ask,
        list(pictures.pictures),
        max_questions,
        **known,
        seed=seed,
        console=terminal(stderr=True),
    )
    return Diagnosis(described(name, beliefs, pictures, None, note))


def load(source: str | Path, *, train: bool = True, **overrides: Any) -> LoadedGenerator:
    """Loads a question generator.

    The configuration is composed by Hydra from the config.yaml of the run. The data of the run
    must still be there: features and vocabularies belong to them. The model is trained first if
    the source has no checkpoint and the artifact store has none.

    Args:
        source: A run directory of train.py, evaluate.py or diagnose.py; a checkpoint; or the name
            of a generator in conf/model, such as "ivqa_vae", for which the released weights are
            used where they fit.
        train: Whether a model that is not trained is trained; else it is an error.
        **overrides: Values by key, as on the command line: artifacts="store", or
            **{"data.root": "folder"}.

    Raises:
        UserError: The source holds no question generator that reads images, or a value is invalid.
    """
    with configured(source, overrides) as cfg:
        if not asks_questions(cfg.model):
            hint = "; load it with ivqa.load_vqa" if answers_questions(cfg.model) else ""
            raise UserError(f"{source}: model={cfg.model.name} generates no questions{hint}")
        check_gives_probabilities(cfg.model)
        context = open_for_pictures(cfg, [*source_of(cfg.model).splits], lambda one: [one])
        check_reads_images(context)
        return LoadedGenerator(obtain_picture_model(context, train=train))


def load_vqa(source: str | Path, *, train: bool = True, **overrides: Any) -> LoadedAnswerer:
    """Loads a VQA model.

    Args:
        source: A run directory, a checkpoint, or the name of a VQA model in conf/model, such as
            "mlb"; a run of diagnose.py gives the model that was diagnosed.
        train: As for `load`.
        **overrides: Values by key, as for `load`: **{"model.path": "folder"} for a model of
            transformers.

    Raises:
        UserError: The source holds no VQA model, or a value is invalid.
    """
    with configured(source, overrides) as cfg:
        model, ckpt = cfg.model, str(cfg.ckpt)
        if not answers_questions(model) and cfg.get("vqa"):
            model = cfg.vqa
            parts = cfg.model.get("part_ckpt") or {}
            ckpt = str(parts.get("answerer", cfg.get("vqa_ckpt", "auto")))
        if not answers_questions(model):
            hint = "; load it with ivqa.load" if asks_questions(model) else ""
            raise UserError(f"{source}: model={model.name} answers no questions{hint}")

        def asked(context: RunContext) -> RunContext:
            return context if model is cfg.model else context.for_model(model, ckpt)

        splits = [*source_of(model).splits]
        context = open_for_pictures(cfg, splits, lambda one: [asked(one)])
        return LoadedAnswerer(obtain_picture_model(asked(context), train=train))


def _texts(questions: Sequence[str]) -> list[str]:
    if isinstance(questions, str):
        raise UserError(f"questions must be a list of texts; write [{questions!r}]")
    return list(questions)


def _asker(model: AnyModel, pictures: NumberedPictures) -> Any:
    """Asks a function, question by question."""

    def ask(pairs: Sequence[tuple[int, str]]) -> list[GivenAnswer]:
        opened = {image_id: pictures.open(image_id) for image_id in {one for one, _ in pairs}}
        return [checked_answer(model(opened[one], question), question) for one, question in pairs]

    return ask
