"""The interface of every question generator: strings in, questions out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from torch import Tensor

from ivqa.data import VQADataModule
from ivqa.data.batches.batch import ImageBatch
from ivqa.generators.decoding.strategies import Strategy, concatenate_tokens
from ivqa.text.vocabulary import DecodedTexts, Tokens

if TYPE_CHECKING:
    from ivqa.generators.likelihood import Likelihood


@dataclass(frozen=True)
class Questions:
    """N generated questions.

    Args:
        tokens: (N, T) words in the generator's vocabulary.
        text: The N questions as VQA writes them; `DecodedTexts` where nobody has read them yet.
        log_likelihood: (N,) float32, log p(q | z, I, a), summed over words and <eos>, in nats.
        pair: (N,) int64, index of the (image, answer) pair of each question.
        z: (N, d_z) latent values; None without a latent variable.
    """

    tokens: Tokens
    text: Sequence[str]
    log_likelihood: Tensor
    pair: Tensor
    z: Tensor | None = None

    def select(self, rows: Tensor) -> "Questions":
        """Selects the questions `rows` (N',) int64, in that order."""
        tokens = self.tokens.select(rows)
        return Questions(
            tokens=tokens,
            text=self.texts(rows, tokens),
            log_likelihood=self.log_likelihood[rows],
            pair=self.pair[rows],
            z=None if self.z is None else self.z[rows],
        )

    def texts(self, rows: Tensor, tokens: Tokens | None = None) -> Sequence[str]:
        """The texts of the questions `rows` (N',) int64; `tokens` are theirs, where known."""
        if isinstance(self.text, DecodedTexts):
            chosen = self.tokens.select(rows) if tokens is None else tokens
            return DecodedTexts(self.text.vocabulary, chosen)
        return [self.text[row] for row in rows.tolist()]

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
        tokens = concatenate_tokens([part.tokens for part in parts])
        decoded = [part.text for part in parts if isinstance(part.text, DecodedTexts)]
        unread = len(decoded) == len(parts) and len({one.vocabulary for one in decoded}) == 1
        return cls(
            tokens=tokens,
            text=DecodedTexts(decoded[0].vocabulary, tokens)
            if unread
            else [text for part in parts for text in part.text],
            log_likelihood=torch.cat([part.log_likelihood for part in parts]),
            pair=torch.cat(pairs),
            # Latent values are kept only if every batch has them.
            z=torch.cat(latents) if len(latents) == len(parts) else None,
        )

    def distinct(self, *, of_pair: bool = True) -> tuple[Tensor, Tensor]:
        """Groups identical questions: those of a pair, or else those of all pairs.

        Returns:
            The first row of each of U groups, (U,) int64, ascending; and the group of each
            question, (N,) int64. Both are on the CPU.
        """
        if isinstance(self.text, DecodedTexts):
            columns = self.tokens.ids  # (N, T): different words write different texts
        else:
            numbers: dict[str, int] = {}
            codes = [numbers.setdefault(text, len(numbers)) for text in self.text]
            columns = torch.tensor(codes, dtype=torch.int64, device=self.pair.device)[:, None]
        if of_pair:
            columns = torch.cat([self.pair[:, None], columns], dim=1)
        return equal_rows(columns)

    def __len__(self) -> int:
        return len(self.text)


def equal_rows(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Groups the equal rows of a matrix (N, C) int64, on its device; see `Questions.distinct`.

    Rows are sorted by a random number of 64 bits that each has, and are compared afterwards, so
    that the groups are exact.

    Example:
        >>> [part.tolist() for part in equal_rows(torch.tensor([[7, 1], [3, 3], [7, 1]]))]
        [[0, 1], [0, 1, 0]]
    """
    if not len(columns):
        return torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    generator = torch.Generator().manual_seed(0)
    while True:
        factors = torch.randint(-(2**62), 2**62, (columns.shape[1],), generator=generator)
        code, order = (columns * factors.to(columns.device)).sum(dim=1).sort(stable=True)
        starts = torch.cat([code.new_ones(1, dtype=torch.bool), code[1:] != code[:-1]])
        first = order[starts]  # (U,): the sort is stable
        group = torch.empty_like(order)
        group[order] = starts.cumsum(0) - 1
        if torch.equal(columns[first[group]], columns):  # else two different rows have one number
            break
    by_row = first.argsort()
    number = torch.empty_like(by_row)
    number[by_row] = torch.arange(len(by_row), device=by_row.device)
    return first[by_row].cpu(), number[group].cpu()


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
