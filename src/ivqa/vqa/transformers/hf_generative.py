"""Adapter of transformers models that write their answers: Qwen-VL, SmolVLM, LLaVA, Gemma, ..."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Annotated, Any, ClassVar

import torch
from PIL import Image
from torch import Tensor
from transformers import AutoModelForImageTextToText

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.ranges import NO_EFFECT, CountOrZero
from ivqa.text.thoughts import THOUGHTS, Tags, without_thoughts
from ivqa.vlm.continuation import Writer, decode_greedily, end_tokens
from ivqa.vlm.prompt_reader import Example, PromptReader
from ivqa.vlm.prompts import Prompts
from ivqa.vqa.likelihood import answer_batches, answer_log_likelihood
from ivqa.vqa.transformers.hf_answerer import HFWriter


class HFGenerative(HFWriter):
    """Scores an answer by the log-likelihood of its tokens and the end token after the prompt.

    Images are encoded once for all questions of a batch if the model accepts encoded images. Image
    and question are read once for all answers. Only prompts of equal length are read together:
    how padding, positions and masks interact differs between models.

    Args:
        prompt: The prompt, with {question} in it.
        chat: Whether the prompt is put into the processor's chat template; None: if it has one.
        answer_prefix: Text before each answer to be scored; " " for tokenisers whose words begin
            with their space.
        answer_forms: How an answer may be written, with {answer} or {Answer} (the first letter in
            upper case) in each. The probabilities of all forms are added.
        cache: Whether keys and values of the prompt are kept for all answers; see `Writer`.
        thoughts: Tags around thoughts, which are no part of a written answer: one that ends within
            them is ""; None takes the usual tags, see `THOUGHTS`.
        thought_tokens: Tokens that a written answer may have for thoughts, beside `max_new_tokens`.
            Above 0, a chat template that knows `enable_thinking` lets the model think where it
            writes; where answers are scored, it never thinks.
        system: The system prompt; None for none.
        choice_prompt: The prompt of multiple-choice questions, with {question} in it, which then
            lists the choices by letters; see `multiple_choice.read_choice`. None: choices are
            scored instead.
        examples: Answered questions before each question, see `PromptReader`.
        writing: See `HFWriter`.

    Raises:
        UserError: The prompt has no {question}, a form has no answer in it, there is no chat
            template to use, or the model has no end token.
    """

    version: ClassVar[int] = 1

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
        cache: Annotated[bool, NO_EFFECT] = True,
        thoughts: Tags | None = None,
        thought_tokens: CountOrZero = 0,
        system: str | None = None,
        choice_prompt: str | None = None,
        examples: Sequence[Example] = (),
        **writing: Any,
    ) -> None:
        super().__init__(model, processor, **writing)
        read = partial(PromptReader, model, processor, chat=chat, system=system, examples=examples)
        self.reader = read(prompt=prompt)
        thinks = thought_tokens > 0
        self._writing_reader = read(prompt=prompt, thinks=True) if thinks else self.reader
        self.choice_prompt = choice_prompt
        self._choice_reader: PromptReader | None = None
        if choice_prompt is not None:
            self._choice_reader = read(prompt=choice_prompt, thinks=thinks)
        self.thought_tokens = thought_tokens
        self.answer_prefix = answer_prefix
        self.thoughts = THOUGHTS if thoughts is None else thoughts
        self.answer_forms = _checked_forms(answer_forms)
        self.writer = Writer(model, cache=cache)
        self.ends = end_tokens(model, processor, "an answer")
        decode_greedily(model, self.ends)

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
            scores[prompts.rows, :number] = self._of_prompts(prompts, answers.tokens)
        return scores[:, answers.places.to(scores.device)].logsumexp(dim=2)

    def _of_prompts(self, prompts: Prompts, answers: list[list[int]]) -> Tensor:
        """Scores (n, |A|) of all answers to n prompts."""
        device = self.model.device
        scores = torch.empty(len(prompts), len(answers), device=device)
        logits_after = self.writer.read(prompts)
        size = max(1, self.answer_batch_size // len(prompts))
        for positions, tokens, lengths in answer_batches(answers, size, self.ends[0]):
            written = tokens.repeat(len(prompts), 1).to(device)  # prompt by prompt
            prompt = torch.arange(len(prompts), device=device).repeat_interleave(len(positions))
            lengths = lengths.repeat(len(prompts)).to(device)
            logits = logits_after(prompt, written)
            found = answer_log_likelihood(logits, written, lengths, self.ends)
            scores[:, positions] = found.view(len(prompts), -1)
        return scores

    def written_choices(self, images: ImageBatch, questions: list[str]) -> list[str]:
        """Writes answers to B questions that list choices, by `choice_prompt`."""
        return self._texts(images, questions, partial(self._written, reader=self._choice_reader))

    def _written(
        self,
        pictures: list[Image.Image],
        index: Tensor,
        questions: list[str],
        reader: PromptReader | None = None,
    ) -> list[str]:
        texts = [""] * len(questions)
        for prompts in (reader or self._writing_reader).read(pictures, index, questions):
            tokens = self.model.generate(
                **prompts.inputs(raw="pixel_values" in signature(self.model.generate).parameters),
                max_new_tokens=self.max_new_tokens + self.thought_tokens,
                do_sample=False,
                num_beams=1,
            )
            length = prompts.tokens.shape[1]
            if tokens.shape[1] >= length and torch.equal(tokens[:, :length], prompts.tokens):
                tokens = tokens[:, length:]
            decoded = self.processor.tokenizer.batch_decode(tokens, skip_special_tokens=True)
            for row, text in zip(prompts.rows.tolist(), decoded, strict=True):
                texts[row] = without_thoughts(text, self.thoughts) or ""
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
