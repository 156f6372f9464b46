"""Prompts of equal length with encoded images, for generative models of transformers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Prompts:
    """n prompts of T tokens, without padding.

    Args:
        rows: The question of each prompt in its batch, (n,) int64.
        tokens: (n, T) int64.
        of_tokens: Other inputs that describe each token, (n, T, ...) each, by input name.
        written_types: Kind of a token that the model writes, by input name.
        index: The view of each prompt, (n,) int64.
        views: The encoded images; None if the model needs pixels in each call.
        raw_inputs: Takes rows and returns the model's inputs with pixels.
    """

    rows: Tensor
    tokens: Tensor
    of_tokens: Mapping[str, Tensor]
    written_types: Mapping[str, int]
    index: Tensor
    views: "Views | None"
    raw_inputs: Callable[[Tensor], Mapping[str, Tensor]]

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, rows: Tensor) -> "Prompts":
        """Selects the prompts `rows` (m,) int64, on the device of the model; they may repeat."""
        here = rows.to(self.rows.device)
        return replace(
            self,
            rows=self.rows[here],
            tokens=self.tokens[rows],
            of_tokens={name: value[rows] for name, value in self.of_tokens.items()},
            index=self.index[here],
        )

    def inputs(self, written: Tensor | None = None, *, raw: bool = False) -> dict[str, Any]:
        """Returns the inputs of the model's `forward` by name.

        Args:
            written: Tokens after the prompts, (n, T') int64.
            raw: Whether to pass pixels even if the pictures are encoded.
        """
        tokens, of_tokens = self.tokens, dict(self.of_tokens)
        if written is not None:
            tokens = torch.cat([tokens, written], dim=1)
            of_tokens = {
                name: torch.cat([value, self._continued(name, written.shape[1])], dim=1)
                for name, value in of_tokens.items()
            }
        given = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **of_tokens}
        if self.views is None or raw:
            return {**given, **self.raw_inputs(self.rows)}
        return {**given, **self.views.inputs(self.index.to(tokens.device))}

    def further_inputs(self, written: Tensor, prompt: Tensor) -> dict[str, Tensor]:
        """Returns the inputs of `forward` for tokens after prompts whose keys are kept.

        `written` are the tokens (m, T') int64, `prompt` the prompt of each row, (m,) int64. Kinds
        of tokens matter only where images are.
        """
        masks = [name for name in self.of_tokens if name not in self.written_types]
        seen = {name: self._continued(name, written.shape[1])[prompt] for name in masks}
        return {"input_ids": written, **seen}

    def _continued(self, name: str, number: int) -> Tensor:
        """Values (n, number, ...) of an input for written tokens."""
        last = self.of_tokens[name][:, -1:]
        if name in self.written_types:
            last = torch.full_like(last, self.written_types[name])
        return last.expand(-1, number, *last.shape[2:])


@dataclass(frozen=True)
class Views:
    """Encoded images: one view for each picture, or for each question if the encoder reads it.

    Args:
        encoded: The output of the model's image encoder for all V views.
        sizes: Entries of the encoded output that belong to each view, such as its tiles.
        seen: Other inputs with one row for each view.
    """

    encoded: Any
    sizes: list[int]
    seen: Mapping[str, Tensor]

    def inputs(self, index: Tensor) -> dict[str, Any]:
        """Returns the inputs of the model's `forward` that replace pixels, by name.

        `index` (n,) int64 is the view of each prompt, on the device of the model.
        """
        ends = list(accumulate(self.sizes))
        entries = [
            entry for at in index.tolist() for entry in range(ends[at] - self.sizes[at], ends[at])
        ]

        def of(value: Any) -> Any:
            return value[entries] if isinstance(value, Tensor) else [value[at] for at in entries]

        layers = getattr(self.encoded, "deepstack_features", None)  # of Qwen3-VL
        more = {} if layers is None else {"deepstack_features": [of(layer) for layer in layers]}
        chosen = type(self.encoded)(pooler_output=of(self.encoded.pooler_output), **more)
        seen = {name: value[index] for name, value in self.seen.items()}
        return {**seen, "mm_encoder_outputs": {"image": chosen}}
