"""VQA classifiers of transformers, such as ViLT, behind the `Answerer` protocol."""

from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModelForVisualQuestionAnswering, AutoProcessor

from ivqa.data.batch import ImageBatch
from ivqa.text.answers import AnswerVocabulary


class HFClassifier(nn.Module):
    """Answers with a classifier over config.id2label.

    score: "softmax" ranks the answers against each other and sums to 1; "sigmoid" is the marginal
    that ViLT was trained for. batch_size: questions at once. Pixels are read through the batch's
    `source` and processed once an image, however many questions are asked about it.

    truncated: questions so far that were longer than the model reads.
    Raises ValueError where the model has no vision-and-text classifier's outputs.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        *,
        score: Literal["softmax", "sigmoid"] = "softmax",
        batch_size: int = 32,
    ) -> None:
        super().__init__()
        if score not in ("softmax", "sigmoid"):
            raise ValueError(f"score must be softmax or sigmoid, not {score}")
        labels = model.config.id2label
        self.model = model.eval()
        self.processor = processor
        self.answers = AnswerVocabulary([str(labels[index]) for index in range(len(labels))])
        self.score = score
        self.batch_size = batch_size
        self.truncated = 0

    @classmethod
    def load(cls, path: str, **arguments: Any) -> Self:
        """From a local folder or a hub id; arguments: of the constructor.

        Raises ValueError where neither can be had, or where the model is no classifier.
        """
        try:
            model = AutoModelForVisualQuestionAnswering.from_pretrained(path)
            processor = AutoProcessor.from_pretrained(path)
        except (OSError, ValueError) as error:
            kind = "folder" if Path(path).is_dir() else "hub id (is the network there?)"
            reason = str(error).strip().splitlines()[0]
            raise ValueError(
                f"cannot load a VQA classifier from the {kind} '{path}': {reason}; download it "
                "where there is a network and pass model.path=FOLDER"
            ) from error
        if not hasattr(model, "classifier"):
            raise ValueError(
                f"{path} holds a {type(model).__name__}, which writes its answers; "
                "this adapter is for classifiers such as ViLT"
            )
        return cls(model, processor, **arguments)

    @property
    def max_question_tokens(self) -> int:
        """Tokens of a question that the model reads, special ones included."""
        return int(self.model.config.max_position_embeddings)

    @torch.no_grad()
    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        """Scores log phi(a | I, q), (B, |A|) float32, of all answers, or of those given (B, n).

        Raises ValueError where the batch has no pixels, images and questions differ in number,
        or an answer is not in A.
        """
        if len(images) != len(questions):
            raise ValueError(
                f"{len(questions)} questions for {len(images)} images; give one question an image"
            )
        if images.source is None:
            raise ValueError(
                "this model reads pixels, but the batch has none; give an image folder"
            )
        chosen = None
        if answers is not None:
            chosen = self.answers.encode(answers)
            if (chosen < 0).any():
                unknown = answers[int((chosen < 0).nonzero()[0])]
                raise ValueError(
                    f"answer '{unknown}' is not among the {len(self.answers)} answers of this model"
                )
        parts = [
            self._scores(images, questions, start)
            for start in range(0, len(questions), self.batch_size)
        ]
        scores = torch.cat(parts) if parts else torch.zeros(0, len(self.answers))
        return scores if chosen is None else scores[:, chosen.to(scores.device)]

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        """The most probable answer to each of B questions."""
        best = self.log_scores(images, questions).argmax(dim=1)
        return [self.answers.answers[index] for index in best.tolist()]

    def _scores(self, images: ImageBatch, questions: list[str], start: int) -> Tensor:
        asked = questions[start : start + self.batch_size]
        rows = images.index[start : start + self.batch_size]
        distinct, index = rows.unique(return_inverse=True)
        assert images.source is not None
        pictures = [images.source.open(image_id) for image_id in images.ids[distinct].tolist()]
        seen = self.processor.image_processor(images=pictures, return_tensors="pt")
        words = self._words(asked)
        device = self.model.device
        pixels = {name: value[index.to(value.device)].to(device) for name, value in seen.items()}
        logits = self.model(**words.to(device), **pixels).logits.float()
        return F.logsigmoid(logits) if self.score == "sigmoid" else logits.log_softmax(dim=1)

    def _words(self, questions: list[str]) -> Any:
        tokenizer, most = self.processor.tokenizer, self.max_question_tokens
        lengths = [len(ids) for ids in tokenizer(questions, verbose=False)["input_ids"]]
        self.truncated += sum(length > most for length in lengths)
        return tokenizer(
            questions, padding=True, truncation=True, max_length=most, return_tensors="pt"
        )
