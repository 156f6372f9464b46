"""Builds prompts from questions or answers about pictures, for generative models."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor

from ivqa.errors import UserError, reason_of
from ivqa.vlm.prompts import Prompts, Views

# Inputs of a model that describe each token: its kind, or which tiles it sees (Llama 3.2 Vision).
_TYPES = ("token_type_ids", "mm_token_type_ids")
_OF_TOKENS = (*_TYPES, "cross_attention_mask")
_OF_ENCODER = ("qformer_input_ids", "qformer_attention_mask")  # of InstructBLIP's image encoder
_REMEDY = "write the image token, such as <image>, once into model.prompt"
_TEXT_INPUTS = ("input_ids", "attention_mask", "labels", *_OF_TOKENS)


class Example(NamedTuple):
    """An answered question about a picture, which prompts show before their own."""

    picture: Image.Image
    asked: str
    answer: str


class PromptReader:
    """Builds prompts and encodes their pictures.

    Args:
        model: A model of transformers.
        processor: Its processor.
        prompt: The prompt, with {question} in it, or another `field`.
        chat: Whether to use the chat template; None: if there is one.
        field: Name of what differs between prompts: "question", or "answer" of a generator.
        system: The system prompt of the chat template; None for none.
        examples: Answered examples before each prompt. Their pictures are encoded anew for each
            prompt.
        thinks: Whether a chat template that knows `enable_thinking` lets the model think.

    Raises:
        UserError: The prompt has no such field, there is no chat template to use or none for the
            system prompt, or it fails.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        *,
        prompt: str,
        chat: bool | None,
        field: str = "question",
        system: str | None = None,
        examples: Sequence[Example] = (),
        thinks: bool = False,
    ) -> None:
        if f"{{{field}}}" not in prompt:
            raise UserError(f"model.prompt must have {{{field}}} in it, not '{prompt}'")
        self.field = field
        has_template = getattr(processor, "chat_template", None) is not None
        if chat and not has_template:
            raise UserError("this processor has no chat template; set model.chat=null")
        self.model = model
        self.processor = processor
        self.prompt = prompt
        self.chat = has_template if chat is None else chat
        if system is not None and not self.chat:
            raise UserError("model.system needs a chat template; write it into model.prompt")
        self.system, self.examples, self.thinks = system, examples, thinks
        self.image_token: int | None = getattr(model.config, "image_token_id", None)
        if processor.tokenizer.pad_token is None:
            processor.tokenizer.pad_token = processor.tokenizer.eos_token
        if hasattr(processor, "qformer_tokenizer"):
            # The encoder counts positions from the left, padding included.
            processor.qformer_tokenizer.padding_side = "right"
        self.text("What is in the picture")  # a template that fails does so before long work

    def read(
        self, pictures: list[Image.Image], index: Tensor, questions: list[str]
    ) -> Iterator[Prompts]:
        """Builds the prompts of B questions, one batch for each prompt length.

        Each picture is opened once, and encoded once for all questions about it, unless the
        encoder reads the question too. The processor resizes a picture for each question, because
        it counts the picture's tokens when it builds a prompt. `index` (B,) int64 is the picture of
        each question.

        Raises:
            UserError: The prompt has no image token, the processor refuses it, or the model needs
                an input for each token that is not built here.
        """
        texts = [self.text(question) for question in questions]
        shown = [example.picture for example in self.examples]

        def processed(rows: Tensor) -> Mapping[str, Any]:
            return self.processor(
                text=[texts[row] for row in rows.tolist()],
                images=[[*shown, pictures[at]] for at in index[rows].tolist()],
                padding=True,
                return_tensors="pt",
                **self._special_tokens(texts[0]),
            )

        def raw_inputs(rows: Tensor) -> dict[str, Tensor]:
            return self._without_text(processed(rows.cpu()))

        try:
            everything = processed(torch.arange(len(texts)))
        except ValueError as error:
            raise self._refusal(error, processed, texts, pictures, index) from error
        tokens, mask = everything["input_ids"], everything["attention_mask"].bool()
        if self.image_token is not None and not (tokens == self.image_token).any(dim=1).all():
            raise UserError(f"the prompt has no place for the image; {_REMEDY}")
        self._check_inputs(everything)
        view = torch.arange(len(texts)) if self._encoder_reads_question else index
        encodes = self._takes_encoded and not shown  # a view is one picture
        views = self._views(raw_inputs, tokens, view) if encodes else None
        of_tokens = {name: everything[name] for name in _OF_TOKENS if name in everything}
        types = [name for name in _TYPES if name in of_tokens]
        written_types = {name: self._written_type(of_tokens[name], tokens) for name in types}
        lengths = mask.sum(dim=1)
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero()[:, 0]
            yield Prompts(
                rows,
                self._unpadded(tokens, mask, rows),
                {name: self._unpadded(value, mask, rows) for name, value in of_tokens.items()},
                written_types,
                view[rows],
                views,
                raw_inputs,
            )

    def _refusal(
        self,
        error: ValueError,
        processed: Callable[[Tensor], Any],
        texts: list[str],
        pictures: list[Image.Image],
        index: Tensor,
    ) -> UserError:
        """Describes the first prompt that the processor refuses by itself."""
        refused = 0
        for row in range(len(texts)):
            try:
                processed(torch.tensor([row]))
            except ValueError:
                refused = row
                break
        width, height = pictures[int(index[refused])].size
        remedy = (
            "remove or pad such pictures, or correct a chat template without image token"
            if self.chat
            else _REMEDY
        )
        return UserError(
            f"the processor refuses the prompt '{texts[refused][:80]}' with a picture of "
            f"{width} x {height} pixels: {error}; {remedy}"
        )

    def _check_inputs(self, inputs: Mapping[str, Any]) -> None:
        # An input with a row for each token would have to grow with each written token.
        shape = inputs["input_ids"].shape
        for name, value in inputs.items():
            known = name in (*_TEXT_INPUTS, *_OF_ENCODER) or not isinstance(value, Tensor)
            if not known and value.shape[:2] == shape:
                raise UserError(
                    f"a {type(self.model).__name__} reads {name} of each token, which "
                    "cannot be written here; choose a family of docs/vqa_models.md"
                )

    def _special_tokens(self, text: str) -> dict[str, bool]:
        """Keeps a tokeniser from writing [BOS] a second time where the chat template has it."""
        first = self.processor.tokenizer.bos_token
        written = self.chat and first is not None and text.startswith(first)
        return {"add_special_tokens": False} if written else {}

    def _written_type(self, types: Tensor, tokens: Tensor) -> int:
        """The kind of written tokens, given the kinds of the prompts' tokens, (B, T) both.

        Where images have a kind of their own (Gemma 3, Qwen), written tokens are text, 0. Else the
        whole prompt is 0, and what follows is 1 (PaliGemma).
        """
        if self.image_token is None:
            return 0
        return 0 if types[tokens == self.image_token].any() else 1

    def _without_text(self, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        """The inputs of the model that do not belong to tokens, on its device."""
        kinds = {True: self.model.dtype, False: None}
        return {
            name: value.to(self.model.device, kinds[value.is_floating_point()])
            for name, value in inputs.items()
            if isinstance(value, Tensor) and name not in _TEXT_INPUTS
        }

    def _unpadded(self, values: Tensor, mask: Tensor, rows: Tensor) -> Tensor:
        """Values (n, T, ...) of prompts `rows` of equal length T, on the device of the model."""
        kept = values[rows][mask[rows]].view(len(rows), -1, *values.shape[2:])
        return kept.to(self.model.device)

    def text(self, question: str) -> str:
        """Returns the whole prompt of a question, with the image token.

        Raises:
            UserError: The chat template fails, or leaves the question out.
        """
        if not self.chat:
            before = [f"{self._asked(one.asked)} {one.answer}\n" for one in self.examples]
            return "".join(before) + self._asked(question)
        messages = [] if self.system is None else [_message("system", self.system)]
        for one in self.examples:
            messages += [_message("user", self._asked(one.asked), image=True)]
            messages += [_message("assistant", one.answer)]
        messages.append(_message("user", self._asked(question), image=True))
        # Models that can think, such as Qwen3.5, answer at once unless they are to think.
        knows = "enable_thinking" in str(self.processor.chat_template)
        try:
            text = self.processor.apply_chat_template(
                messages,
                add_generation_prompt=True,
                tokenize=False,
                **({"enable_thinking": self.thinks} if knows else {}),
            )
        except Exception as error:  # a template raises what it likes
            reason = reason_of(error)
            raise self._bad_template(f"fails with '{reason}'") from error
        for part, whose in ((question, "user"), (self.system or "", "system")):
            if part.strip() not in text:
                raise self._bad_template(f"leaves out the text of the {whose}")
        return text

    def _asked(self, question: str) -> str:
        return self.prompt.replace(f"{{{self.field}}}", question)

    def _bad_template(self, fault: str) -> UserError:
        model = self.model.config.name_or_path or type(self.model).__name__
        return UserError(
            f"the chat template of {model} {fault}; correct its chat_template.jinja, or set "
            "model.chat=false and write the whole prompt with the image token into model.prompt"
        )

    @property
    def _takes_encoded(self) -> bool:
        takes = "mm_encoder_outputs" in signature(self.model.forward).parameters
        return takes and hasattr(self.model.base_model, "get_image_features")

    @property
    def _encoder_reads_question(self) -> bool:
        """Whether the features of a picture depend on the question, as those of InstructBLIP."""
        encode = getattr(self.model.base_model, "get_image_features", None)
        return encode is not None and "qformer_input_ids" in signature(encode).parameters

    def _views(
        self, raw_inputs: Callable[[Tensor], dict[str, Tensor]], tokens: Tensor, view: Tensor
    ) -> Views | None:
        """Encodes each view once; `view` (B,) is the view of each of the prompts `tokens` (B, T).

        None if the encoded output does not show which entries belong to which.
        """
        number = int(view.max()) + 1
        # Pixels of each view, from its first question.
        first = torch.stack([(view == at).nonzero()[0, 0] for at in range(number)])
        inputs = raw_inputs(first)
        encode = self.model.base_model.get_image_features
        taken = {name: inputs[name] for name in signature(encode).parameters if name in inputs}
        encoded = encode(**taken, return_dict=True)
        sizes: list[int] | None = [1] * number
        if len(encoded.pooler_output) != number:  # tiles of all views, one after the other
            sizes = self._tiles(encoded.pooler_output, tokens[first])
        if sizes is None:
            return None
        seen = {k: v for k, v in inputs.items() if _describes_views(k, v, number)}
        return Views(encoded, sizes, seen)

    def _tiles(self, features: Any, tokens: Tensor) -> list[int] | None:
        """How many tiles each view has, by the places (V, T) that its prompt has for the image.

        The N tiles are (t, d) each, where t may differ (LFM2-VL) or not (InternVL). None if tiles
        do not end where views end.
        """
        if self.image_token is None:
            return None
        views = (tokens == self.image_token).sum(dim=1).cumsum(dim=0)
        ends = torch.tensor([len(tile) for tile in features]).cumsum(dim=0)
        last = torch.searchsorted(ends, views)
        if last[-1] != len(ends) - 1 or not torch.equal(ends[last], views):
            return None
        return (last + 1).diff(prepend=torch.zeros(1, dtype=torch.int64)).tolist()


def _message(role: str, text: str, *, image: bool = False) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"role": role, "content": [{"type": "image"}, *content] if image else content}


def _describes_views(name: str, value: Tensor, number: int) -> bool:
    """Whether an input holds one row for each view, and is not its pixels."""
    return not name.startswith("pixel_values") and value.shape[:1] == (number,)
