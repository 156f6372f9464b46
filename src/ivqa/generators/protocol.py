"""The interface of every question generator: strings in, questions out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor

from ivqa.data import VQADataModule
from ivqa.data.batches.batch import ImageBatch
from ivqa.generators.decoding.strategies import Strategy, concatenate_tokens
from ivqa.text.vocabulary import Tokens

if TYPE_CHECKING:
    from ivqa.generators.likelihood import Likelihood


@dataclass(frozen=True)
class Questions:
    """N generated questions.

    Args:
        tokens: (N, T) words in the generator's vocabulary.
        text: The N questions as VQA writes them.
        log_likelihood: (N,) float32, log p(q | z, I, a), summed over words and <eos>, in nats.
        pair: (N,) int64, index of the (image, answer) pair of each question.
        z: (N, d_z) latent values; None without a latent variable.
    """

    tokens: Tokens
    text: list[str]
    log_likelihood: Tensor
    pair: Tensor
    z: Tensor | None = None

    def select(self, rows: Tensor) -> "Questions":
        """Selects the questions `rows` (N',) int64, in that order."""
        return Questions(
            tokens=self.tokens.select(rows),
            text=[self.text[row] for row in rows.tolist()],
            log_likelihood=self.log_likelihood[rows],
            pair=self.pair[rows],
            z=None if self.z is None else self.z[rows],
        )

    @classmethod
    def concatenate(cls, parts: Sequence["Questions"]) -> "Questions":
        """Concatenates at least one batch of questions, each of which numbers its pairs from 0.

        The pairs of each batch are numbered after those of the batch before.

        Raises:
            ValueError: `parts` is empty.
        """
        if not parts:
            raise ValueError("there are no questions to concatenate; pass at least one batch")
        pairs, first = [], 0  # first: number of the first pair of the next batch
        for part in parts:
            pairs.append(part.pair + first)
            first += int(part.pair.max()) + 1 if len(part) else 0
        latents = [part.z for part in parts if part.z is not None]
        return cls(
            tokens=concatenate_tokens([part.tokens for part in parts]),
            text=[text for part in parts for text in part.text],
            log_likelihood=torch.cat([part.log_likelihood for part in parts]),
            pair=torch.cat(pairs),
            # Latent values are kept only if every batch has them.
            z=torch.cat(latents) if len(latents) == len(parts) else None,
        )

    def distinct(self) -> tuple[Tensor, Tensor]:
        """Groups identical questions of a pair.

        Returns:
            The first row of each of U groups, (U,) int64, ascending; and the group of each
            question, (N,) int64. Both are on the CPU.
        """
        numbers: dict[tuple[int, str], int] = {}
        keys = zip(self.pair.tolist(), self.text, strict=True)
        codes = [numbers.setdefault(key, len(numbers)) for key in keys]
        group = torch.tensor(codes, dtype=torch.int64)
        first = torch.full((len(numbers),), len(group))
        return first.scatter_reduce(0, group, torch.arange(len(group)), "amin"), group

    def __len__(self) -> int:
        return len(self.text)


@runtime_checkable
class RemembersTraining(Protocol):
    """A generator that stores training questions instead of being trained."""

    def remember(self, datamodule: VQADataModule) -> None:
        """Stores what it needs of the training split."""


@runtime_checkable
class EstimatesLikelihood(Protocol):
    """A generator that estimates log p(q | I, a) from as many z as it is told."""

    def likelihood(
        self,
        images: ImageBatch,
        answers: list[str],
        questions: list[str],
        samples: int | None = None,
    ) -> "Likelihood":
        """Scores questions as `Questioner.log_likelihood` does, with the standard error.

        `samples` is the number of values of z; None is the generator's own number.
        """


class Questioner(Protocol):
    """An iVQA generator p(q | z, I, a)."""

    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        """Generates N = B * num_samples questions for B pairs; those of one pair follow each other.

        Args:
            images: Image features of B pairs.
            answers: The B answers.
            num_samples: Questions for each pair, >= 1.
            strategy: How words are chosen; None is the generator's own strategy.
            generator: Source of the random numbers; None is torch's global one.
        """

    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Scores one given question for each of B pairs.

        Returns:
            log p(q | I, a), (B,) float32, summed over words and <eos>, in nats.
        """
