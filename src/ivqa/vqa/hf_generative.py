"""Adapter of transformers models that write their answers: Qwen-VL, SmolVLM, LLaVA, Gemma, ..."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, cast

import torch
from PIL import Image
from torch import Tensor
from transformers import AutoModelForImageTextToText, DynamicCache
from transformers.modeling_outputs import BaseModelOutput

from ivqa.errors import UserError
from ivqa.vqa.hf_answerer import HFWriter
from ivqa.vqa.hf_prompt_reader import PromptReader
from ivqa.vqa.hf_prompts import Prompts
from ivqa.vqa.likelihood import answer_batches, answer_log_likelihood


class HFGenerative(HFWriter):
    """Scores an answer by the log-likelihood of its tokens and the end token after the prompt.

    Images are encoded once for all questions of a batch if the model accepts encoded images. Image
    and question are read once for all answers. Only prompts of equal length are read together:
    how padding, positions and masks interact differs between models.

    Args:
        model: A model of transformers that writes text about images.
        processor: Its processor.
        prompt: The prompt, with {question} in it.
        chat: Whether the prompt is put into the processor's chat template; None: if it has one.
        answer_prefix: Text before each answer to be scored; " " for tokenisers whose words begin
            with their space.
        answer_forms: How an answer may be written, with {answer} or {Answer} (the first letter in
            upper case) in each. The probabilities of all forms are added.
        cache: Whether keys and values of the prompt are kept for all answers. False reads the
            prompt again for each answer, for models whose cache cannot be kept. Encoder-decoders
            keep the states of their encoder instead, if they take them as input.
        writing: answers, batch_size, answer_batch_size and max_new_tokens, see `HFWriter`.

    Raises:
        UserError: The prompt has no {question}, a form has no answer in it, there is no chat
            template to use, or the model has no end token.
    """

    architecture = AutoModelForImageTextToText

    def __init__(
        self,
        model: Any,
        processor: Any,
        *,
        prompt: str = "{question}",
        chat: bool | None = None,
        answer_prefix: str = "",
        answer_forms: Sequence[str] = ("{answer}",),
        cache: bool = True,
        **writing: Any,
    ) -> None:
        super().__init__(model, processor, **writing)
        self.reader = PromptReader(model, processor, prompt=prompt, chat=chat)
        self.answer_prefix = answer_prefix
        self.answer_forms = _checked_forms(answer_forms)
        text = getattr(model.config, "text_config", model.config)
        self.encodes = bool(model.config.is_encoder_decoder or text.is_encoder_decoder)
        self._takes = signature(model.forward).parameters
        # A model that requires pixels in each call cannot read an answer alone.
        self.cache = cache and not self.encodes and not self._required
        self.ends = _end_tokens(model, processor)

    def _prepared(self, answers: Sequence[str]) -> "_Forms":
        texts = [_written_as(self.answer_forms, answer) for answer in answers]
        distinct = list(dict.fromkeys(text for forms in texts for text in forms))
        if not distinct:
            return _Forms([], torch.zeros(0, 1, dtype=torch.int64))
        tokens = self.processor.tokenizer(
            [self.answer_prefix + text for text in distinct], add_special_tokens=False
        )["input_ids"]
        for text, ids in zip(distinct, tokens, strict=True):
            if self.reader.image_token in ids:
                raise UserError(f"answer '{text}' holds the token that stands for the image")
        # Forms of equal tokens are one event, whose probability counts once.
        at = {ids: place for place, ids in enumerate(dict.fromkeys(map(tuple, tokens)))}
        place = {text: at[tuple(ids)] for text, ids in zip(distinct, tokens, strict=True)}
        places = [list(dict.fromkeys(place[text] for text in forms)) for forms in texts]
        width = max(len(own) for own in places)
        padded = [own + [len(at)] * (width - len(own)) for own in places]
        return _Forms([list(ids) for ids in at], torch.tensor(padded))

    def _log_scores(
        self, pictures: list[Image.Image], index: Tensor, questions: list[str], answers: "_Forms"
    ) -> Tensor:
        number = len(answers.tokens)
        # The last column is the probability 0 of a form that an answer does not have.
        scores = torch.full((len(questions), number + 1), -torch.inf, device=self.model.device)
        for prompts in self.reader.read(pictures, index, questions):
            read = self._cached if self.cache else self._uncached
            scores[prompts.rows, :number] = read(prompts, answers.tokens)
        return scores[:, answers.places.to(scores.device)].logsumexp(dim=2)

    def _cached(self, prompts: Prompts, answers: list[list[int]]) -> Tensor:
        """Scores (n, |A|); the prompts are read once."""
        known = DynamicCache(config=self.model.config)
        last = self._read(prompts.inputs(), past_key_values=known, use_cache=True, logits=1)
        scores = last.new_empty(len(prompts), len(answers), dtype=torch.float32)
        size = max(1, self.answer_batch_size // len(prompts))
        for positions, tokens, lengths in answer_batches(answers, size, self.ends[0]):
            number = len(positions)
            written = tokens.repeat(len(prompts), 1).to(last.device)  # prompt by prompt
            prompt = torch.arange(len(prompts), device=last.device).repeat_interleave(number)
            logits = last[prompt]
            if tokens.shape[1]:
                further = copy.deepcopy(known)
                # Layers of linear attention cannot be repeated, but reordered.
                further.reorder_cache(cast(torch.LongTensor, prompt))
                inputs = prompts.further_inputs(written, prompt)
                decoded = self._read(inputs, past_key_values=further, use_cache=True)
                logits = torch.cat([logits, decoded], dim=1)
            scores[:, positions] = self._likelihood(logits, written, lengths, len(prompts))
        return scores

    def _uncached(self, prompts: Prompts, answers: list[list[int]]) -> Tensor:
        """Scores (n, |A|); the prompts are read for each answer."""
        device = self.model.device
        scores = torch.empty(len(prompts), len(answers), device=device)
        size = max(1, self.answer_batch_size // len(prompts))
        states = self._encoder_states(prompts) if self.encodes else None
        for positions, tokens, lengths in answer_batches(answers, size, self.ends[0]):
            written = tokens.repeat(len(prompts), 1).to(device)
            pairs = prompts.repeat_interleave(len(positions))
            if self.encodes:
                start = torch.tensor(self._decoder_start, device=device)
                decoded = torch.cat([start.expand(len(written), -1), written], dim=1)
                inputs = pairs.inputs() if states is None else _repeated(states, len(positions))
                logits = self._read(inputs, decoder_input_ids=decoded)[:, len(start) - 1 :]
            else:
                logits = self._read(pairs.inputs(written), logits=tokens.shape[1] + 1)
            scores[:, positions] = self._likelihood(logits, written, lengths, len(prompts))
        return scores

    def _encoder_states(self, prompts: Prompts) -> Tensor | None:
        """Output of the text encoder, (n, T, d); None if the model does not take it as input."""
        if "encoder_outputs" not in self._takes:
            return None
        start = torch.tensor([self._decoder_start], device=self.model.device)
        read = self.model(**prompts.inputs(), decoder_input_ids=start.expand(len(prompts), -1))
        return read.encoder_last_hidden_state

    def _likelihood(self, logits: Tensor, written: Tensor, lengths: Tensor, prompts: int) -> Tensor:
        lengths = lengths.repeat(prompts).to(logits.device)
        return answer_log_likelihood(logits, written, lengths, self.ends).view(prompts, -1)

    def _read(self, inputs: dict[str, Any], *, logits: int = 0, **further: Any) -> Tensor:
        """Logits (n, T, V) of the last `logits` positions; 0: of all positions."""
        absent = {name: None for name in self._required if name not in inputs}
        if logits and "logits_to_keep" in self._takes:
            further["logits_to_keep"] = logits
        return self.model(**absent, **inputs, **further).logits[:, -logits:]

    @property
    def _required(self) -> list[str]:
        """Arguments of the model without a default, such as pixels where pictures are encoded."""
        named = [self._takes[name] for name in self._takes if name != "input_ids"]
        kind = Parameter.POSITIONAL_OR_KEYWORD
        return [one.name for one in named if one.kind is kind and one.default is Parameter.empty]

    @property
    def _decoder_start(self) -> list[int]:
        """Tokens before an answer: the start token, and the one that the model is forced to write.

        Florence-2 forces [BOS], as BART does; no probability is lost to it.
        """
        text = getattr(self.model.config, "text_config", self.model.config)
        forced = self.model.generation_config.forced_bos_token_id
        start = int(text.decoder_start_token_id)
        return [start] if forced is None else [start, int(forced)]

    def _written(
        self, pictures: list[Image.Image], index: Tensor, questions: list[str]
    ) -> list[str]:
        texts = [""] * len(questions)
        for prompts in self.reader.read(pictures, index, questions):
            tokens = self.model.generate(
                **prompts.inputs(raw="pixel_values" in signature(self.model.generate).parameters),
                max_new_tokens=self.max_new_tokens,
                do_sample=False,
                num_beams=1,
            )
            length = prompts.tokens.shape[1]
            if tokens.shape[1] >= length and torch.equal(tokens[:, :length], prompts.tokens):
                tokens = tokens[:, length:]
            decoded = self.processor.tokenizer.batch_decode(tokens, skip_special_tokens=True)
            for row, text in zip(prompts.rows.tolist(), decoded, strict=True):
                texts[row] = text.strip()
        return texts


@dataclass(frozen=True)
class _Forms:
    """F token sequences, and the places (A, f) of the forms of A answers; F: none."""

    tokens: list[list[int]]
    places: Tensor


def _checked_forms(forms: Sequence[str]) -> list[str]:
    for form in forms:
        if "{answer}" not in form and "{Answer}" not in form:
            raise UserError(
                f"model.module.answer_forms: '{form}' must have {{answer}} or {{Answer}} in it"
            )
    if not forms:
        raise UserError("model.module.answer_forms is empty; set [{answer}]")
    return list(forms)


def _written_as(forms: Sequence[str], answer: str) -> list[str]:
    capital = answer[:1].upper() + answer[1:]
    return [form.replace("{answer}", answer).replace("{Answer}", capital) for form in forms]


def _repeated(states: Tensor, repeats: int) -> dict[str, Any]:
    """Inputs of a decoder whose prompts, (n, T, d), are encoded and each repeated."""
    repeated = states.repeat_interleave(repeats, dim=0)
    mask = torch.ones(repeated.shape[:2], dtype=torch.int64, device=repeated.device)
    return {"encoder_outputs": BaseModelOutput(repeated), "attention_mask": mask}


def _end_tokens(model: Any, processor: Any) -> list[int]:
    """The tokens at which the model stops writing.

    Raises:
        UserError: There are none.
    """
    configured = model.generation_config.eos_token_id
    ends = configured if configured is not None else processor.tokenizer.eos_token_id
    if ends is None:
        raise UserError(
            "this model has no end token, without which an answer has no probability; set "
            "eos_token_id in its generation_config.json"
        )
    return [int(end) for end in ends] if isinstance(ends, list | tuple) else [int(ends)]
