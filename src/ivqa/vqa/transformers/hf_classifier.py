"""VQA classifiers of transformers, such as ViLT, behind the `Answerer` protocol."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

from PIL import Image
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoModelForVisualQuestionAnswering

from ivqa.errors import UserError
from ivqa.ranges import Count, Weights
from ivqa.text.answers import AnswerVocabulary
from ivqa.vlm.loading import Device, Dtype, load_pretrained
from ivqa.vqa.transformers.hf_answerer import HFAnswerer, longer_than


class HFClassifier(HFAnswerer):
    """A classifier over the answers of config.id2label.

    Pixels are processed once for each image of a batch.

    Args:
        score: phi: "softmax" is a distribution over the answers; "sigmoid" is the probability of
            each answer by itself, for which ViLT was trained.

    Raises:
        UserError: `score` is unknown, or the model has no classifier.
    """

    version: ClassVar[int] = 1

    answers: AnswerVocabulary

    def __init__(
        self,
        model: Any,
        processor: Any,
        *,
        score: Literal["softmax", "sigmoid"] = "softmax",
        batch_size: Count = 32,
    ) -> None:
        if score not in ("softmax", "sigmoid"):
            raise UserError(f"score must be softmax or sigmoid, not {score}")
        if not hasattr(model, "classifier"):
            raise UserError(
                f"a {type(model).__name__} writes its answers, and hf_classifier is for "
                "classifiers such as ViLT; choose hf_blip or hf_generative"
            )
        labels = model.config.id2label
        answers = AnswerVocabulary([str(labels[index]) for index in range(len(labels))])
        super().__init__(model, processor, answers, batch_size=batch_size)
        self.score = score

    @classmethod
    def load(
        cls,
        path: Weights,
        *,
        revision: str | None = None,
        device: Device = "auto",
        dtype: Dtype = "float32",
        **arguments: Any,
    ) -> Self:
        """Loads a classifier and its processor, see `load_pretrained`.

        `arguments` are further arguments of the constructor.

        Raises:
            UserError: The model cannot be loaded, or is not a classifier.
        """
        kind = AutoModelForVisualQuestionAnswering
        loaded = load_pretrained(path, kind, revision=revision, device=device, dtype=dtype)
        return cls(*loaded, **arguments)

    @property
    def max_question_tokens(self) -> int:
        """The largest number of tokens of a question, special ones included."""
        return int(self.model.config.max_position_embeddings)

    def is_cut(self, questions: Sequence[str]) -> list[bool]:
        """Checks for each question whether the model reads only its beginning."""
        return longer_than(self.max_question_tokens, questions, self.processor.tokenizer)

    def _prepared(self, answers: Sequence[str]) -> Tensor:
        chosen = self.answers.encode(answers)
        if (chosen < 0).any():
            unknown = answers[int((chosen < 0).nonzero()[0])]
            raise UserError(
                f"answer '{unknown}' is not among the {len(self.answers)} answers of this model"
            )
        return chosen

    def _log_scores(
        self, pictures: list[Image.Image], index: Tensor, questions: list[str], answers: Tensor
    ) -> Tensor:
        device = self.model.device
        seen = self.processor.image_processor(images=pictures, return_tensors="pt")
        pixels = {name: value[index.to(value.device)].to(device) for name, value in seen.items()}
        words = self.processor.tokenizer(
            questions,
            padding=True,
            padding_side="right",  # positions are counted from the left
            truncation=True,
            max_length=self.max_question_tokens,
            return_tensors="pt",
        )
        logits = self.model(**words.to(device), **pixels).logits.float()
        scores = F.logsigmoid(logits) if self.score == "sigmoid" else logits.log_softmax(dim=1)
        return scores[:, answers.to(device)]
