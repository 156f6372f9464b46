"""Prompts of equal length with their images, for models of transformers that write."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from ivqa.errors import UserError

# Inputs of a model that say of each token what it is.
_TOKEN_TYPES = ("token_type_ids", "mm_token_type_ids")
_REMEDY = "write the image token, such as <image>, once into model.prompt"
_NO_INPUTS = ("input_ids", "attention_mask", "labels", *_TOKEN_TYPES)


@dataclass(frozen=True)
class Prompts:
    """n prompts of T tokens, not padded.

    rows: (n,) int64, the question of each in its batch. tokens: (n, T) int64. types: (n, T) by
    name. index: (n,) int64, each prompt's picture. encoded: the pictures as the model's encoder
    gives them, None where the model must see them anew. seen: the pictures' other inputs, those
    with one row a picture. raw_inputs: what the model takes without encoded pictures.
    """

    rows: Tensor
    tokens: Tensor
    types: Mapping[str, Tensor]
    index: Tensor
    encoded: Any
    seen: Mapping[str, Tensor]
    raw_inputs: Callable[[Tensor], Mapping[str, Tensor]]

    def __len__(self) -> int:
        return len(self.rows)

    def repeat_interleave(self, repeats: int) -> "Prompts":
        """Every prompt `repeats` times in a row."""
        return replace(
            self,
            rows=self.rows.repeat_interleave(repeats),
            tokens=self.tokens.repeat_interleave(repeats, dim=0),
            types={
                name: value.repeat_interleave(repeats, dim=0) for name, value in self.types.items()
            },
            index=self.index.repeat_interleave(repeats),
        )

    def inputs(self, written: Tensor | None = None, *, raw: bool = False) -> dict[str, Any]:
        """What the model's `forward` takes, with tokens (n, T') written after the prompts.

        raw: with pixels although the pictures are encoded. Raises UserError where the model marks
        written tokens in a way of its own.
        """
        tokens, types = self.tokens, dict(self.types)
        if written is not None:
            if "token_type_ids" in types:  # what they mean differs: PaliGemma's 1 is Gemma 3's 0
                raise UserError(
                    "this model tells prompt and answer apart by token_type_ids; set "
                    "model.module.cache=true"
                )
            tokens = torch.cat([tokens, written], dim=1)
            types = {
                name: torch.cat([value, torch.zeros_like(written)], dim=1)
                for name, value in types.items()
            }
        given = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **types}
        if self.encoded is None or raw:
            return {**given, **self.raw_inputs(self.rows)}
        index = self.index.to(tokens.device)
        seen = {name: value[index] for name, value in self.seen.items()}
        return {**given, **seen, "mm_encoder_outputs": {"image": _chosen(self.encoded, index)}}


class PromptReader:
    """Writes prompts, and has their pictures encoded.

    prompt, chat: as in `HFGenerative`. Raises UserError for a prompt without {question}.
    """

    def __init__(self, model: Any, processor: Any, *, prompt: str, chat: bool | None) -> None:
        if "{question}" not in prompt:
            raise UserError(f"model.prompt must have {{question}} in it, not '{prompt}'")
        has_template = getattr(processor, "chat_template", None) is not None
        if chat and not has_template:
            raise UserError("this processor has no chat template; set model.chat=null")
        self.model = model
        self.processor = processor
        self.prompt = prompt
        self.chat = has_template if chat is None else chat
        self.image_token: int | None = getattr(model.config, "image_token_id", None)
        if processor.tokenizer.pad_token is None:
            processor.tokenizer.pad_token = processor.tokenizer.eos_token

    def read(
        self, pictures: list[Image.Image], index: Tensor, questions: list[str]
    ) -> Iterator[Prompts]:
        """The questions about pictures[index] as prompts, one batch a prompt length.

        A processor counts an image's tokens while it writes the prompt, so it resizes the image
        for every question; it is opened and encoded once.
        """
        texts = [self.text(question) for question in questions]
        device = self.model.device

        def processed(rows: Tensor) -> Mapping[str, Any]:
            return self.processor(
                text=[texts[row] for row in rows.tolist()],
                images=[[pictures[at]] for at in index[rows].tolist()],
                padding=True,
                return_tensors="pt",
            )

        def raw_inputs(rows: Tensor) -> dict[str, Tensor]:
            found = processed(rows.cpu())
            kinds = {True: self.model.dtype, False: None}
            return {
                name: value.to(device, kinds[value.is_floating_point()])
                for name, value in found.items()
                if isinstance(value, Tensor) and name not in _NO_INPUTS
            }

        try:
            everything = processed(torch.arange(len(texts)))
        except ValueError as error:
            raise UserError(f"the processor refuses the prompt: {error}; {_REMEDY}") from error
        tokens, mask = everything["input_ids"], everything["attention_mask"].bool()
        if self.image_token is not None and not (tokens == self.image_token).any(dim=1).all():
            raise UserError(f"the prompt has no place for the image; {_REMEDY}")
        first = torch.stack([(index == at).nonzero()[0, 0] for at in range(len(pictures))])
        views = {} if not self._takes_encoded else raw_inputs(first)
        encoded = self._encoded(views, len(pictures))
        seen = {
            name: value
            for name, value in views.items()
            if not name.startswith("pixel_values") and len(value) == len(pictures)
        }
        types = {name: everything[name] for name in _TOKEN_TYPES if name in everything}
        lengths = mask.sum(dim=1)
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero()[:, 0]

            def of(value: Tensor, rows: Tensor = rows) -> Tensor:
                return value[rows][mask[rows]].view(len(rows), -1).to(device)

            yield Prompts(
                rows,
                of(tokens),
                {name: of(value) for name, value in types.items()},
                index[rows],
                encoded,
                seen,
                raw_inputs,
            )

    def text(self, question: str) -> str:
        """The whole prompt of a question, the image's place in it included."""
        asked = self.prompt.replace("{question}", question)
        if not self.chat:
            return asked
        content = [{"type": "image"}, {"type": "text", "text": asked}]
        return self.processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )

    @property
    def _takes_encoded(self) -> bool:
        takes = "mm_encoder_outputs" in signature(self.model.forward).parameters
        return takes and hasattr(self.model.base_model, "get_image_features")

    def _encoded(self, views: Mapping[str, Tensor], number: int) -> Any:
        """What the model's encoder makes of the pictures; None where it is not one by one."""
        if not views:
            return None
        encode = self.model.base_model.get_image_features
        taken = {name: views[name] for name in signature(encode).parameters if name in views}
        encoded = encode(**taken, return_dict=True)
        return encoded if len(encoded.pooler_output) == number else None


def _chosen(encoded: Any, index: Tensor) -> Any:
    """The encoded pictures `index`; a list or a tensor with one entry a picture, layer by layer."""

    def of(value: Any) -> Any:
        return value[index] if isinstance(value, Tensor) else [value[at] for at in index.tolist()]

    layers = getattr(encoded, "deepstack_features", None)
    more = {} if layers is None else {"deepstack_features": [of(layer) for layer in layers]}
    return type(encoded)(pooler_output=of(encoded.pooler_output), **more)
