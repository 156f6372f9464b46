"""Prompts of equal length with their images, for transformers models that write."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from ivqa.errors import UserError

# Inputs of a model that have the kind of each token.
_TOKEN_TYPES = ("token_type_ids", "mm_token_type_ids")
_REMEDY = "write the image token, such as <image>, once into model.prompt"
_TEXT_INPUTS = ("input_ids", "attention_mask", "labels", *_TOKEN_TYPES)


@dataclass(frozen=True)
class Prompts:
    """n prompts of T tokens, without padding.

    Args:
        rows: The question of each prompt in its batch, (n,) int64.
        tokens: (n, T) int64.
        types: Kinds of the tokens, (n, T) each, by input name.
        index: The picture of each prompt, (n,) int64.
        encoded: The output of the model's image encoder for all pictures; None if the model needs
            pixels in each call.
        seen: Other inputs with one row for each picture.
        raw_inputs: Takes rows and returns the model's inputs with pixels.
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
        """Repeats each prompt.

        Args:
            repeats: How often each prompt follows itself.

        Returns:
            n * repeats prompts.
        """
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
        """Returns the inputs of the model's `forward`.

        Args:
            written: Tokens after the prompts, (n, T') int64.
            raw: Whether to pass pixels even if the pictures are encoded.

        Returns:
            The inputs by name.

        Raises:
            UserError: The model marks written tokens in its own way.
        """
        tokens, types = self.tokens, dict(self.types)
        if written is not None:
            if "token_type_ids" in types:  # with different meanings: PaliGemma's 1 is Gemma 3's 0
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
    """Builds prompts and encodes their pictures.

    Args:
        model: A model of transformers.
        processor: Its processor.
        prompt: The prompt, with {question} in it.
        chat: Whether to use the chat template; None: if there is one.

    Raises:
        UserError: The prompt has no {question}, or there is no chat template to use.
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
        """Builds the prompts of B questions.

        Each picture is opened and encoded once. The processor resizes it for each question, because
        it counts the picture's tokens when it builds a prompt.

        Args:
            pictures: All pictures.
            index: The picture of each question, (B,) int64.
            questions: B questions.

        Yields:
            Prompts, one batch for each prompt length.

        Raises:
            UserError: The prompt has no image token, or the processor refuses it.
        """
        texts = [self.text(question) for question in questions]

        def processed(rows: Tensor) -> Mapping[str, Any]:
            return self.processor(
                text=[texts[row] for row in rows.tolist()],
                images=[[pictures[at]] for at in index[rows].tolist()],
                padding=True,
                return_tensors="pt",
            )

        def raw_inputs(rows: Tensor) -> dict[str, Tensor]:
            return self._without_text(processed(rows.cpu()))

        try:
            everything = processed(torch.arange(len(texts)))
        except ValueError as error:
            raise UserError(f"the processor refuses the prompt: {error}; {_REMEDY}") from error
        tokens, mask = everything["input_ids"], everything["attention_mask"].bool()
        if self.image_token is not None and not (tokens == self.image_token).any(dim=1).all():
            raise UserError(f"the prompt has no place for the image; {_REMEDY}")
        # Pixels of each picture, from the first question about it.
        first = torch.stack([(index == at).nonzero()[0, 0] for at in range(len(pictures))])
        views = raw_inputs(first) if self._takes_encoded else {}
        encoded = self._encoded(views, len(pictures))
        seen = {k: v for k, v in views.items() if _describes_pictures(k, v, len(pictures))}
        types = {name: everything[name] for name in _TOKEN_TYPES if name in everything}
        lengths = mask.sum(dim=1)
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero()[:, 0]
            yield Prompts(
                rows,
                self._unpadded(tokens, mask, rows),
                {name: self._unpadded(value, mask, rows) for name, value in types.items()},
                index[rows],
                encoded,
                seen,
                raw_inputs,
            )

    def _without_text(self, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        """The inputs of the model that do not belong to tokens, on its device."""
        kinds = {True: self.model.dtype, False: None}
        return {
            name: value.to(self.model.device, kinds[value.is_floating_point()])
            for name, value in inputs.items()
            if isinstance(value, Tensor) and name not in _TEXT_INPUTS
        }

    def _unpadded(self, values: Tensor, mask: Tensor, rows: Tensor) -> Tensor:
        """Values (n, T) of prompts `rows` of equal length T, on the device of the model."""
        return values[rows][mask[rows]].view(len(rows), -1).to(self.model.device)

    def text(self, question: str) -> str:
        """Returns the whole prompt of a question, with the image token.

        Args:
            question: The question.
        """
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
        """Output of the image encoder; None unless it has one entry for each picture."""
        if not views:
            return None
        encode = self.model.base_model.get_image_features
        taken = {name: views[name] for name in signature(encode).parameters if name in views}
        encoded = encode(**taken, return_dict=True)
        return encoded if len(encoded.pooler_output) == number else None


def _chosen(encoded: Any, index: Tensor) -> Any:
    """Selects encoded pictures; each layer is a list or a tensor with one entry a picture."""

    def of(value: Any) -> Any:
        return value[index] if isinstance(value, Tensor) else [value[at] for at in index.tolist()]

    layers = getattr(encoded, "deepstack_features", None)
    more = {} if layers is None else {"deepstack_features": [of(layer) for layer in layers]}
    return type(encoded)(pooler_output=of(encoded.pooler_output), **more)


def _describes_pictures(name: str, value: Tensor, number: int) -> bool:
    """Whether an input holds one row for each picture, and is not its pixels."""
    return not name.startswith("pixel_values") and len(value) == number
