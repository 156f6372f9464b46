"""Logits of given continuations of prompts, by a generative model of transformers."""

import copy
from collections.abc import Sequence
from functools import partial
from inspect import Parameter, signature
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from transformers import DynamicCache, GenerationConfig
from transformers.modeling_outputs import BaseModelOutput

from ivqa.errors import UserError
from ivqa.vlm.prompts import Prompts

# What is kept of a generation_config.json: settings that do not change the most probable text.
# Models that force a first token, such as Florence-2, were trained with it.
_NEUTRAL = (
    "bos_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "pad_token_id",
    "use_cache",
)


class Continued(Protocol):
    """Prompts that were read, to be continued."""

    def __call__(self, prompt: Tensor, written: Tensor, *, last: bool = False) -> Tensor:
        """Computes the logits of what follows prompts.

        Args:
            prompt: The prompt of each continuation, (m,) int64.
            written: The continuations, (m, T) int64.
            last: Whether only the logits after all T tokens are wanted.

        Returns:
            (m, T + 1, V), where position t predicts token t; with `last` (m, 1, V).
        """


class Writer:
    """Predicts the tokens after prompts.

    Args:
        model: A model of transformers.
        cache: Whether keys and values of a prompt are kept for all its continuations. False reads
            the prompt again for each of them, for models whose cache cannot be kept.
            Encoder-decoders keep the states of their encoder instead, if they take them as input.

    Attributes:
        encodes: Whether the model is an encoder-decoder.
        cache: Whether keys and values are kept; not by encoder-decoders.
    """

    def __init__(self, model: Any, *, cache: bool = True) -> None:
        self.model = model
        text = getattr(model.config, "text_config", model.config)
        self.encodes = bool(model.config.is_encoder_decoder or text.is_encoder_decoder)
        takes = signature(model.forward).parameters
        self._takes = frozenset(takes)
        kind = Parameter.POSITIONAL_OR_KEYWORD
        # Arguments without a default, such as pixels where pictures are encoded.
        self._required = [
            name
            for name, one in takes.items()
            if name != "input_ids" and one.kind is kind and one.default is Parameter.empty
        ]
        # A model that requires pixels in each call cannot read a continuation alone.
        self.cache = cache and not self.encodes and not self._required

    def read(self, prompts: Prompts) -> Continued:
        """Reads n prompts once for all their continuations, as far as the model allows it.

        With gradients each continuation is read with its prompt: a cache with gradients cannot be
        copied.
        """
        if self.encodes:
            states = None if torch.is_grad_enabled() else self._encoder_states(prompts)
            return partial(self._decoded, prompts, states)
        if not self.cache or torch.is_grad_enabled():
            return partial(self._whole, prompts)
        known = DynamicCache(config=self.model.config)
        first = self._logits(prompts.inputs(), past_key_values=known, use_cache=True, kept=1)
        # Qwen-VL and others keep positions of the last prompts in the model itself.
        shifts = getattr(self.model.base_model, "rope_deltas", None)
        return partial(self._cached, prompts, (known, shifts), first)

    def _cached(
        self,
        prompts: Prompts,
        kept: tuple[Any, Tensor | None],
        first: Tensor,
        prompt: Tensor,
        written: Tensor,
        *,
        last: bool = False,
    ) -> Tensor:
        logits = first[prompt]
        if not written.shape[1]:
            return logits
        known, shifts = kept
        if shifts is not None:
            self.model.base_model.rope_deltas = shifts[prompt.to(shifts.device)]
        further = copy.deepcopy(known)
        # Layers of linear attention cannot be repeated, but reordered.
        further.reorder_cache(cast(torch.LongTensor, prompt))
        inputs = prompts.further_inputs(written, prompt)
        decoded = self._logits(
            inputs, past_key_values=further, use_cache=True, kept=1 if last else 0
        )
        return decoded if last else torch.cat([logits, decoded], dim=1)

    def _whole(
        self, prompts: Prompts, prompt: Tensor, written: Tensor, *, last: bool = False
    ) -> Tensor:
        kept = 1 if last else written.shape[1] + 1
        return self._logits(prompts.select(prompt).inputs(written), kept=kept)

    def _decoded(
        self,
        prompts: Prompts,
        states: Tensor | None,
        prompt: Tensor,
        written: Tensor,
        *,
        last: bool = False,
    ) -> Tensor:
        start = torch.tensor(self._decoder_start, device=written.device)
        decoded = torch.cat([start.expand(len(written), -1), written], dim=1)
        inputs = prompts.select(prompt).inputs() if states is None else _encoded(states[prompt])
        logits = self._logits(inputs, decoder_input_ids=decoded)
        return logits[:, -1:] if last else logits[:, len(start) - 1 :]

    def _encoder_states(self, prompts: Prompts) -> Tensor | None:
        """Output of the text encoder, (n, T, d); None if the model does not take it as input."""
        if "encoder_outputs" not in self._takes:
            return None
        start = torch.tensor([self._decoder_start], device=self.model.device)
        read = self.model(**prompts.inputs(), decoder_input_ids=start.expand(len(prompts), -1))
        return read.encoder_last_hidden_state

    def _logits(self, inputs: dict[str, Any], *, kept: int = 0, **further: Any) -> Tensor:
        """Logits (m, T, V) of the last `kept` positions; 0: of all positions."""
        absent = {name: None for name in self._required if name not in inputs}
        if kept and "logits_to_keep" in self._takes:
            further["logits_to_keep"] = kept
        return self.model(**absent, **inputs, **further).logits[:, -kept:]

    @property
    def _decoder_start(self) -> list[int]:
        """Tokens before a text: the start token, and the one that the model is forced to write.

        Florence-2 forces [BOS], as BART does; no probability is lost to it.
        """
        text = getattr(self.model.config, "text_config", self.model.config)
        forced = self.model.generation_config.forced_bos_token_id
        start = int(text.decoder_start_token_id)
        return [start] if forced is None else [start, int(forced)]


def end_tokens(model: Any, processor: Any, what: str) -> list[int]:
    """Returns the tokens at which a model stops writing, each once: their probabilities are added.

    `what` says what the model writes, for the message: "an answer".

    Raises:
        UserError: There are none, or one is not in the vocabulary.
    """
    configured = model.generation_config.eos_token_id
    given = processor.tokenizer.eos_token_id if configured in (None, []) else configured
    listed = given if isinstance(given, list | tuple) else [] if given is None else [given]
    ends = list(dict.fromkeys(int(end) for end in listed))
    if not ends:
        raise UserError(
            f"this model has no end token, without which {what} has no probability; set "
            "eos_token_id in its generation_config.json"
        )
    size = getattr(model.config, "text_config", model.config).vocab_size
    for end in ends:
        if not 0 <= end < size:
            raise UserError(
                f"end token {end} is not one of this model's {size} tokens; correct eos_token_id "
                "in its generation_config.json"
            )
    return ends


def decode_greedily(model: Any, ends: Sequence[int]) -> None:
    """Lets `generate` write the most probable token at each step, up to one of the tokens `ends`.

    A generation_config.json may set penalties, sampling, beams or forbidden tokens, with which a
    written answer is not the one that the model's own probabilities prefer. The language models
    inside the model are set, too.
    """
    for part in model.modules():
        config = getattr(part, "generation_config", None)
        if config is not None:
            kept = {name: getattr(config, name, None) for name in _NEUTRAL}
            if kept["pad_token_id"] is None:
                kept["pad_token_id"] = ends[0]
            part.generation_config = GenerationConfig(**kept, eos_token_id=list(ends))


def _encoded(states: Tensor) -> dict[str, Any]:
    """Inputs of a decoder whose prompts are encoded, (m, T, d)."""
    mask = torch.ones(states.shape[:2], dtype=torch.int64, device=states.device)
    return {"encoder_outputs": BaseModelOutput(states), "attention_mask": mask}
