"""What the adapters of transformers models have in common: batches of questions about pixels."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from PIL import Image
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.files import FileError, read_json, read_text
from ivqa.ranges import Count, ExistingFile
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa.hf_loading import Device, Dtype, load_pretrained


class HFAnswerer(nn.Module, ABC):
    """An `Answerer` around a model and its processor; a subclass says how it scores.

    answers: the closed set A; None where the model answers in its own words. batch_size:
    questions at once. Questions are asked image by image, and pixels are read once an image.
    """

    def __init__(
        self, model: Any, processor: Any, answers: AnswerVocabulary | None, *, batch_size: Count
    ) -> None:
        super().__init__()
        self.model = model.eval()
        self.processor = processor
        self.answers = answers
        self.batch_size = batch_size

    @torch.no_grad()
    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        """Scores log phi(a | I, q), (B, |A|) float32, of all answers, or of those given (B, n).

        Raises UserError where the batch has no pixels, images and questions differ in number,
        an answer cannot be scored, or none is given and there is no closed set.
        """
        if answers is None:
            if self.answers is None:
                raise UserError(
                    "this model answers in its own words: say which answers to score, or close "
                    "its answers with model.num_answers or model.candidates"
                )
            answers = self.answers.answers
        wanted = self._prepared(answers)
        order, parts = self._by_image(
            images,
            questions,
            lambda pictures, index, texts: self._log_scores(pictures, index, texts, wanted),
        )
        return torch.cat(parts)[order] if parts else torch.zeros(0, len(answers))

    @torch.no_grad()
    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        """The most probable answer to each of B questions; greedily written without a closed set.

        Raises UserError as `log_scores` does.
        """
        if self.answers is not None:
            best = self.log_scores(images, questions).argmax(dim=1)
            return [self.answers.answers[index] for index in best.tolist()]
        order, parts = self._by_image(images, questions, self._written)
        texts = [text for part in parts for text in part]
        return [texts[at] for at in order.tolist()]

    @abstractmethod
    def _prepared(self, answers: Sequence[str]) -> Any:
        """The answers as `_log_scores` takes them; raises ValueError for one it cannot score."""

    @abstractmethod
    def _log_scores(
        self, pictures: list[Image.Image], index: Tensor, questions: list[str], answers: Any
    ) -> Tensor:
        """Scores (B, n) float32 of prepared answers; index: (B,) int64, each question's picture."""

    def _written(
        self, pictures: list[Image.Image], index: Tensor, questions: list[str]
    ) -> list[str]:
        """The answers that the model writes, where it does."""
        raise NotImplementedError

    def _by_image(
        self, images: ImageBatch, questions: list[str], ask: Callable[..., Any]
    ) -> tuple[Tensor, list[Any]]:
        """What `ask` gives for the questions in batches, image by image.

        Returns also where each question, in the caller's order, is among all of them (B,).
        """
        if len(images) != len(questions):
            raise ValueError(
                f"{len(questions)} questions for {len(images)} images; give one question an image"
            )
        if images.source is None:
            raise UserError("this model reads pixels, but the batch has none; give an image folder")
        index = images.index.cpu()
        by_image = index.argsort(stable=True)
        parts = []
        for rows in by_image.split(self.batch_size) if questions else ():
            distinct, which = index[rows].unique(return_inverse=True)
            ids = images.ids.cpu()[distinct].tolist()
            pictures = [images.source.open(image_id) for image_id in ids]
            parts.append(ask(pictures, which, [questions[row] for row in rows.tolist()]))
        return by_image.argsort(), parts


class HFWriter(HFAnswerer, ABC):
    """One that writes its answers, or chooses from a closed set that it is given."""

    architecture: ClassVar[Any]
    """The class of transformers that loads the model."""

    @classmethod
    def load(
        cls,
        path: str,
        *,
        answers: AnswerVocabulary | None = None,
        candidates: ExistingFile | None = None,
        device: Device = "auto",
        dtype: Dtype = "float32",
        **arguments: Any,
    ) -> Self:
        """From a local folder or a hub id; arguments: of the constructor.

        candidates: a file with the closed set of answers, which counts instead of `answers`.
        Raises UserError as `load_pretrained` and `read_candidates` do.
        """
        answers = answers if candidates is None else read_candidates(candidates)
        loaded = load_pretrained(path, cls.architecture, device=device, dtype=dtype)
        return cls(*loaded, answers=answers, **arguments)


def longer_than(limit: int, questions: Sequence[str], tokenizer: Any) -> list[bool]:
    """Which of N questions have more than `limit` tokens, special ones included."""
    if not questions:
        return []
    return [len(ids) > limit for ids in tokenizer(list(questions), verbose=False)["input_ids"]]


def read_candidates(path: str | Path) -> AnswerVocabulary:
    """A closed set of answers from a file: a JSON list of texts, or one answer a line.

    Raises UserError naming the file where it is missing, holds no texts, or repeats one.
    """
    file = Path(path)
    try:
        found = read_json(file) if file.suffix == ".json" else read_text(file).splitlines()
    except FileError as error:
        raise FileError(f"candidates: {error}") from None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise UserError(f"candidates: {file} must hold a list of texts")
    answers = [item.strip() for item in found if item.strip()]
    if not answers:
        raise UserError(f"candidates: {file} holds no answer")
    try:
        return AnswerVocabulary(answers)
    except ValueError as error:
        raise FileError(f"candidates: {file}: {error}") from None
