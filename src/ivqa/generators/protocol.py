"""What every question generator offers, whatever is inside it: strings in, questions out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ivqa.data.batch import ImageBatch
from ivqa.generators.decoding import Strategy, concatenate_tokens
from ivqa.text.vocabulary import Tokens


@dataclass(frozen=True)
class Questions:
    """N generated questions.

    tokens: (N, T) words in the generator's vocabulary. text: as VQA writes them.
    log_likelihood: (N,) float32, log p(q | z, I, a) summed over words and <eos>.
    pair: (N,) int64, which of the given (image, answer) pairs each one belongs to.
    z: (N, d_z) latent values, None where the generator has none.
    """

    tokens: Tokens
    text: list[str]
    log_likelihood: Tensor
    pair: Tensor
    z: Tensor | None = None

    def select(self, rows: Tensor) -> "Questions":
        """The questions `rows` (N',), in that order."""
        return Questions(
            tokens=self.tokens.select(rows),
            text=[self.text[row] for row in rows.tolist()],
            log_likelihood=self.log_likelihood[rows],
            pair=self.pair[rows],
            z=None if self.z is None else self.z[rows],
        )

    @classmethod
    def concatenate(cls, parts: Sequence["Questions"]) -> "Questions":
        """The questions of all parts; the pairs of each part are counted on from the last one's.

        Raises ValueError without any part.
        """
        if not parts:
            raise ValueError("there are no questions to concatenate; pass at least one batch")
        pairs, first = [], 0
        for part in parts:
            pairs.append(part.pair + first)
            first += int(part.pair.max()) + 1 if len(part) else 0
        latents = [part.z for part in parts if part.z is not None]
        return cls(
            tokens=concatenate_tokens([part.tokens for part in parts]),
            text=[text for part in parts for text in part.text],
            log_likelihood=torch.cat([part.log_likelihood for part in parts]),
            pair=torch.cat(pairs),
            z=torch.cat(latents) if len(latents) == len(parts) else None,
        )

    def __len__(self) -> int:
        return len(self.text)


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
        """`num_samples` questions for each of the B pairs, pair by pair: N = B * num_samples."""

    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Scores log p(q | I, a) of B given questions, (B,) float32, words and <eos> summed."""
