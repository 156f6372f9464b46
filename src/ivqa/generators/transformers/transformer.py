"""p(q | I, a) by a vision-language model of transformers that writes, such as Qwen-VL or LLaVA.

The model reads the image and a prompt that names the answer, and writes the question:

    log p(q | I, a) = sum_t log p(w_t | I, prompt(a), w_<t) + log p(end | I, prompt(a), w)

The w_t are the model's own tokens, not the words of the training questions. So the model starts
with what it knows of language, it can write and score words that training never showed, and
likelihood, sampling and policy gradient are exact: the log-probability of a sample is that of the
very tokens that were drawn. A vocabulary of words would need a new output layer, which a few
thousand questions cannot train well. `log_likelihood` takes a question as text and scores the
tokeniser's own spelling of it; a sample that spells the same text by other tokens has another
probability.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from transformers import AutoModelForImageTextToText
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.generators.decoding.strategies import trim_tokens
from ivqa.generators.networks.decoder import State, Step
from ivqa.generators.networks.network import Conditions, GeneratorNetwork, GeneratorOutput
from ivqa.generators.transformers.lora import (
    LowRankSettings,
    add_adapters,
    checksum,
    leave_out_frozen,
    low_rank,
    require_peft,
)
from ivqa.generators.transformers.subwords import SubwordScores, SubwordVocabulary
from ivqa.ranges import Count, Weights
from ivqa.text.tokens import detokenise
from ivqa.text.vocabulary import BOS, Tokens, Vocabulary
from ivqa.vlm.continuation import Continued, Writer, end_tokens
from ivqa.vlm.loading import Dtype, load_pretrained
from ivqa.vlm.prompt_reader import PromptReader
from ivqa.vlm.prompts import Prompts


class TransformerGenerator(GeneratorNetwork):
    """A transformers model as a question generator, without a latent variable.

    With LoRA only the adapters are trained, a checkpoint holds nothing else, and a copy of the
    network (the policy of `ivqa_rl`) shares all other weights with it.

    Args:
        question_words: The vocabulary of the questions in batches.
        answer_words: The vocabulary of the answers in batches.
        path: A folder written by save_pretrained, or a hub id.
        revision: See `load_pretrained`.
        prompt: The prompt, with {answer} in it. It is put into the processor's chat template where
            there is one; otherwise it holds the image token too.
        question_prefix: Text before each question; " " for tokenisers whose words begin with
            their space.
        lora: Arguments of `LowRank`; None trains all weights.
        dtype: Type of the weights, see `load_pretrained`; adapters are always float32.
        rows_at_once: Questions that are written or scored together. A training step reads its
            whole batch, because it keeps what the gradient needs.

    Attributes:
        questions: The vocabulary of the questions that the network writes and scores.
        answers: The vocabulary of the answers that `conditions` takes.

    Raises:
        UserError: The model cannot be loaded, lora does not fit it or lacks peft, or the prompt has
            no {answer}.
    """

    version: ClassVar[int] = 1

    rows_at_once: int
    _base: Tensor  # checksum of the frozen weights, int64; 0 without LoRA

    def __init__(
        self,
        *,
        question_words: Vocabulary,
        answer_words: Vocabulary,
        path: Weights,
        revision: str | None = None,
        prompt: str = "Answer: {answer}. Ask the question.",
        question_prefix: str = "",
        lora: LowRankSettings | None = None,
        dtype: Dtype = "float32",
        rows_at_once: Count = 64,
    ) -> None:
        super().__init__()
        self.check_arguments({"lora": lora, "prompt": prompt})
        # Lightning moves the module to its device.
        model, processor = load_pretrained(
            path, AutoModelForImageTextToText, revision=revision, device="cpu", dtype=dtype
        )
        self.question_words, self.answer_words = question_words, answer_words
        self.rows_at_once = rows_at_once
        self.register_buffer("_base", torch.zeros((), dtype=torch.int64))
        if lora is not None:
            self._base += checksum(model)
            add_adapters(model, low_rank(lora))
        self.model: Any = model.train()
        self.processor = processor
        self.reader = PromptReader(model, processor, prompt=prompt, chat=None, field="answer")
        self.writer = Writer(model)
        ends = end_tokens(model, processor, "a question")
        self.questions, self.answers = self._vocabularies(question_prefix, ends)
        self.num_words = len(self.questions)
        self.scores = SubwordScores(self.questions, ends)
        if lora is not None:
            leave_out_frozen(self, "_base")

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks what needs no model; every command calls this before it starts.

        Raises:
            UserError: lora is set and peft is absent, or the prompt has no {answer}.
        """
        if arguments["lora"] is not None:
            require_peft()
        if "{answer}" not in arguments["prompt"]:
            raise UserError(f"the prompt must have {{answer}} in it, not '{arguments['prompt']}'")

    @override
    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        if images.source is None:
            raise UserError("this model reads pixels, but the batch has none; give an image folder")
        nothing = torch.zeros(len(answer), 0, device=answer.ids.device)
        return Conditions(nothing, images=images, answer=answer)

    @override
    def forward(self, batch: VQABatch) -> GeneratorOutput:
        """Computes the terms of the objective."""
        if not self.question_words.words:
            raise UserError("model=prompted is not trained: start from model=ivqa_transformer")
        own = replace(
            batch,
            question=self.questions.translate(batch.question, self.question_words),
            answer=self.answers.translate(batch.answer, self.answer_words),
        )
        return replace(super().forward(own), num_tokens=batch.question.lengths + 1)

    @override
    def token_log_probs(
        self,
        question: Tokens,
        z: Tensor | None,
        conditions: Conditions,
        temperature: float | None = None,
    ) -> Tensor:
        """Scores questions about one image and answer together: their prompt is read once."""
        assert conditions.images is not None  # set by conditions() above
        assert conditions.answer is not None
        question = question.to(conditions.decoder.device)
        num, width = question.ids.shape
        scores = torch.zeros(num, width + 1, device=question.ids.device)
        # Rows of one image follow each other, and among them rows of one answer.
        answers = conditions.answer.ids.unique(dim=0, return_inverse=True)[1]
        order = (conditions.images.index * (num + 1) + answers).argsort(stable=True)
        size = num if torch.is_grad_enabled() else self.rows_at_once
        for rows in order.split(max(size, 1)):
            some = trim_tokens(question.select(rows))
            for prompts, prompt, own in self._read(conditions.select(rows)):
                asked = some.select(own)
                logits = self.writer.read(prompts)(prompt, self.questions.of_model(asked.ids))
                scores[rows[own], : logits.shape[1]] = self.scores.of(logits, asked, temperature)
        return scores

    @override
    def decoding(self, conditions: Conditions, z: Tensor | None) -> tuple[Step, State]:
        """Prepares decoding. A state is the rows, (N,), and their tokens, (N, t).

        Keys and values of the prompts are kept; the few tokens after them are read again at each
        step, because a state must hold tensors with a row for each question, and what models keep
        has many forms.
        """
        device = conditions.decoder.device
        num = len(conditions)
        group = torch.zeros(num, dtype=torch.int64, device=device)
        place = torch.zeros(num, dtype=torch.int64, device=device)  # among the prompts of the group
        groups: list[Continued] = []
        for prompts, prompt, own in self._read(conditions):
            group[own], place[own] = len(groups), prompt
            groups.append(self.writer.read(prompts))

        def step(state: State, tokens: Tensor) -> tuple[Tensor, State]:
            rows, words = state
            if int(tokens[0]) != BOS:  # all questions are equally long
                words = torch.cat([words, tokens[:, None]], dim=1)
            written = self.questions.of_model(words)
            log_probs = torch.empty(len(rows), self.num_words, device=device)
            for number, after in enumerate(groups):
                own = (group[rows] == number).nonzero()[:, 0]
                if len(own):
                    logits = after(place[rows[own]], written[own], last=True)
                    log_probs[own] = self.scores(logits[:, -1]).log_softmax(dim=1)
            return log_probs, (rows, words)

        rows = torch.arange(num, device=device)
        return step, (rows, torch.zeros(num, 0, dtype=torch.int64, device=device))

    def _vocabularies(
        self, prefix: str, ends: list[int]
    ) -> tuple[SubwordVocabulary, SubwordVocabulary]:
        """The vocabularies of questions and answers."""
        tokenizer = self.processor.tokenizer
        text = getattr(self.model.config, "text_config", self.model.config)
        output = self.model.get_output_embeddings()
        size = text.vocab_size if output is None else output.weight.shape[0]
        image = self.reader.image_token
        marks = ends if image is None else [*ends, image]
        common: dict[str, Any] = {"size": int(size), "marks": [m for m in marks if m < size]}
        return (
            SubwordVocabulary(tokenizer, write=detokenise, prefix=prefix, **common),
            SubwordVocabulary(tokenizer, write=" ".join, **common),
        )

    def _read(self, given: Conditions) -> Iterator[tuple[Prompts, Tensor, Tensor]]:
        """Reads each distinct pair of image and answer once.

        Yields prompts of equal length, and the rows of `given` that they belong to: the prompt of
        each row among them, and the row, (n,) int64 both.
        """
        images, answer = given.images, given.answer
        assert images is not None  # set by conditions() above
        assert images.source is not None
        assert answer is not None
        pairs = list(zip(images.index.tolist(), self.answers.decode(answer), strict=True))
        if not pairs:
            return
        distinct = {pair: at for at, pair in enumerate(dict.fromkeys(pairs))}
        seen = {image: at for at, image in enumerate(dict.fromkeys(i for i, _ in distinct))}
        ids = images.ids.tolist()
        pictures = [images.source.open(ids[image]) for image in seen]
        index = torch.tensor([seen[image] for image, _ in distinct])
        of_row = torch.tensor([distinct[pair] for pair in pairs])
        for prompts in self.reader.read(pictures, index, [answer for _, answer in distinct]):
            place = torch.full((len(distinct),), -1)
            place[prompts.rows] = torch.arange(len(prompts))
            own = (place[of_row] >= 0).nonzero()[:, 0]
            device = given.decoder.device
            yield prompts, place[of_row[own]].to(device), own.to(device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # What never changes is shared: a model is large.
        frozen = [value for value in self.parameters() if not value.requires_grad]
        shared = [*frozen, self.processor, self.questions, self.answers]
        memo |= {id(value): value for value in shared}
        other = self.__class__.__new__(self.__class__)
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other
