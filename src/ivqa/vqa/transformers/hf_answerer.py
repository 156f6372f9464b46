"""The base classes of the adapters of transformers models: batches of questions about pixels."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from PIL import Image
from torch import Tensor, nn

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.ranges import Count, CountOrZero, ExistingFile, Weights
from ivqa.store.files import FileError, read_json, read_text
from ivqa.store.identity import to_plain
from ivqa.text.answers import AnswerVocabulary
from ivqa.vlm.loading import Device, Dtype, load_pretrained
from ivqa.vlm.prompt_reader import Example


class HFAnswerer(nn.Module, ABC):
    """An `Answerer` around a model and its processor; subclasses define how it scores.

    Questions about one image share a batch, and pixels are read once for each image of a batch.

    Args:
        model: A model of transformers.
        processor: Its processor.
        answers: The closed set A; None for a model that writes its answers.
        batch_size: Questions at once.
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
        """Computes log phi(a | I, q); see `Answerer.log_scores`.

        Raises:
            UserError: The batch has no pixels, an answer cannot be scored, or there are neither
                answers nor a closed set.
            ValueError: Images and questions differ in number.
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
        """Returns the most probable answers; without a closed set, writes them by greedy decoding.

        It raises what `log_scores` raises.
        """
        if self.answers is not None:
            best = self.log_scores(images, questions).argmax(dim=1)
            return [self.answers.answers[index] for index in best.tolist()]
        return self._texts(images, questions, self._written)

    def _texts(
        self, images: ImageBatch, questions: list[str], write: Callable[..., list[str]]
    ) -> list[str]:
        order, parts = self._by_image(images, questions, write)
        texts = [text for part in parts for text in part]
        return [texts[at] for at in order.tolist()]

    @abstractmethod
    def _prepared(self, answers: Sequence[str]) -> Any:
        """Converts answers for `_log_scores`; raises UserError for one that it cannot score."""

    @abstractmethod
    def _log_scores(
        self, pictures: list[Image.Image], index: Tensor, questions: list[str], answers: Any
    ) -> Tensor:
        """Scores (B, n) float32 of prepared answers; index (B,) is the picture of each question."""

    def _written(
        self, pictures: list[Image.Image], index: Tensor, questions: list[str]
    ) -> list[str]:
        """Writes B answers; only for models that can."""
        raise NotImplementedError

    def _by_image(
        self, images: ImageBatch, questions: list[str], ask: Callable[..., Any]
    ) -> tuple[Tensor, list[Any]]:
        """Calls `ask` with batches of questions, ordered by image.

        Returns the place of each question in the concatenated results, (B,) int64, and the results.
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
    """A model that writes its answers, or chooses from a given closed set.

    Args:
        model: A model of transformers.
        processor: Its processor.
        answers: The closed set; None: it writes its answers.
        batch_size: Questions at once.
        answer_batch_size: Pairs of a question and an answer at once.
        max_new_tokens: Length of written answers in tokens.
    """

    architecture: ClassVar[Any]
    """The class of transformers that loads the model."""

    def __init__(
        self,
        model: Any,
        processor: Any,
        *,
        answers: AnswerVocabulary | None = None,
        batch_size: Count = 16,
        answer_batch_size: Count = 256,
        max_new_tokens: Count = 16,
    ) -> None:
        super().__init__(model, processor, answers, batch_size=batch_size)
        self.answer_batch_size = answer_batch_size
        self.max_new_tokens = max_new_tokens

    @classmethod
    def load(
        cls,
        path: Weights,
        *,
        answers: AnswerVocabulary | None = None,
        candidates: ExistingFile | None = None,
        revision: str | None = None,
        device: Device = "auto",
        dtype: Dtype = "float32",
        loading: Mapping[str, Any] | None = None,
        num_examples: CountOrZero = 0,
        examples: Sequence[Example] = (),
        **arguments: Any,
    ) -> Self:
        """Loads a model and its processor; the other arguments are those of `load_pretrained`.

        Args:
            path: A local folder or a hub id.
            answers: The closed set; None: it writes its answers.
            candidates: A file with a closed set, which replaces `answers`; see `read_candidates`.
            num_examples: Number of examples in each prompt, for models that are prompted.
            examples: The examples, from the training split; a command draws them.
            arguments: Further arguments of the constructor.

        Raises:
            UserError: The model or the candidates cannot be loaded, or there are fewer examples.
        """
        answers = answers if candidates is None else read_candidates(candidates)
        if len(examples) != num_examples:
            raise UserError(
                f"model.module.num_examples={num_examples}: there are {len(examples)} training "
                "questions with pictures to draw from; lower it"
            )
        if examples:
            arguments["examples"] = examples
        loaded = load_pretrained(
            path,
            cls.architecture,
            revision=revision,
            device=device,
            dtype=dtype,
            loading=to_plain(loading),
        )
        return cls(*loaded, answers=answers, **arguments)


def longer_than(limit: int, questions: Sequence[str], tokenizer: Any) -> list[bool]:
    """Checks for each question whether it has more than `limit` tokens, special ones included."""
    if not questions:
        return []
    return [len(ids) > limit for ids in tokenizer(list(questions), verbose=False)["input_ids"]]


def read_candidates(path: str | Path) -> AnswerVocabulary:
    """Reads a closed set of answers: a JSON list of texts (.json), or one answer a line.

    Answers are stripped, and empty ones left out.

    Raises:
        UserError: The file is missing, has no answers, or repeats one.
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
