"""BLIP's question answering behind the `Answerer` protocol [Li et al. 2022]."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor
from transformers import BlipForQuestionAnswering

from ivqa.errors import UserError
from ivqa.ranges import Count
from ivqa.vlm.continuation import decode_greedily
from ivqa.vqa.likelihood import answer_batches, answer_log_likelihood
from ivqa.vqa.transformers.hf_answerer import HFWriter, longer_than


class HFBlip(HFWriter):
    """BLIP, which encodes an image and a question once and decodes all answers from the result.

    log phi(a | I, q) is the log-likelihood of the answer's tokens and [SEP] after the decoder's
    start token, in float32. Only questions of equal length are encoded together, because the
    decoder attends to padding, whatever its mask (transformers 5). The arguments are those of
    `HFWriter`.
    """

    version: ClassVar[int] = 1

    architecture = BlipForQuestionAnswering

    def __init__(
        self,
        model: BlipForQuestionAnswering,
        processor: Any,
        *,
        batch_size: Count = 32,
        answer_batch_size: Count = 1024,
        **writing: Any,
    ) -> None:
        super().__init__(
            model, processor, batch_size=batch_size, answer_batch_size=answer_batch_size, **writing
        )
        decode_greedily(self.model, [self.model.config.text_config.sep_token_id])

    @property
    def max_question_tokens(self) -> int:
        """The largest number of tokens of a question, special ones included."""
        return int(self.model.config.text_config.max_position_embeddings)

    def is_cut(self, questions: Sequence[str]) -> list[bool]:
        """Checks for each question whether the model reads only its beginning."""
        return longer_than(self.max_question_tokens, questions, self.processor.tokenizer)

    def _prepared(self, answers: Sequence[str]) -> list[list[int]]:
        if not answers:
            return []
        tokens = self.processor.tokenizer(list(answers), add_special_tokens=False)["input_ids"]
        limit = self.max_question_tokens - 1
        for answer, ids in zip(answers, tokens, strict=True):
            if len(ids) > limit:
                raise UserError(f"answer '{answer[:40]}...' has more than {limit} tokens")
        return tokens

    def _log_scores(
        self,
        pictures: list[Image.Image],
        index: Tensor,
        questions: list[str],
        answers: list[list[int]],
    ) -> Tensor:
        scores = torch.empty(len(questions), len(answers), device=self.model.device)
        for rows, states in self._read(pictures, index, questions):
            scores[rows] = self._decoded(states, answers)
        return scores

    def _decoded(self, states: Tensor, answers: list[list[int]]) -> Tensor:
        """Scores (n, |A|) of the answers, given the encoded questions (n, T, d)."""
        end = self.model.config.text_config.sep_token_id
        scores = torch.empty(len(states), len(answers), device=states.device)
        size = max(1, self.answer_batch_size // len(states))
        for positions, tokens, lengths in answer_batches(answers, size, end):
            number = len(positions)
            start = torch.full((number, 1), self.model.decoder_start_token_id)
            # All pairs of a question and an answer, ordered by question.
            written = torch.cat([start, tokens], dim=1).repeat(len(states), 1).to(states.device)
            logits = self.model.text_decoder(
                input_ids=written,
                encoder_hidden_states=states.repeat_interleave(number, dim=0),
                use_cache=False,
            ).logits
            lengths = lengths.repeat(len(states)).to(states.device)
            found = answer_log_likelihood(logits, written[:, 1:], lengths, [end])
            scores[:, positions] = found.view(len(states), number)
        return scores

    def _written(
        self, pictures: list[Image.Image], index: Tensor, questions: list[str]
    ) -> list[str]:
        texts = [""] * len(questions)
        for rows, states in self._read(pictures, index, questions):
            start = torch.full(
                (len(states), 1), self.model.decoder_start_token_id, device=states.device
            )
            tokens = self.model.text_decoder.generate(
                input_ids=start,
                attention_mask=torch.ones_like(start),
                encoder_hidden_states=states,
                max_new_tokens=min(self.max_new_tokens, self.max_question_tokens - 1),
                do_sample=False,
                num_beams=1,
            )
            decoded = self.processor.tokenizer.batch_decode(tokens, skip_special_tokens=True)
            for row, text in zip(rows.tolist(), decoded, strict=True):
                texts[row] = text.strip()
        return texts

    def _read(
        self, pictures: list[Image.Image], index: Tensor, questions: list[str]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Encodes questions with their images, one batch for each number of tokens T.

        Yields rows (n,) of the questions in the batch, and their encodings (n, T, d).
        """
        device = self.model.device
        pixels = self.processor.image_processor(images=pictures, return_tensors="pt")
        seen = self.model.vision_model(pixels["pixel_values"].to(device, self.model.dtype))
        words = self.processor.tokenizer(
            questions, truncation=True, max_length=self.max_question_tokens
        )["input_ids"]
        lengths = torch.tensor([len(ids) for ids in words])
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero()[:, 0]
            read = self.model.text_encoder(
                input_ids=torch.tensor([words[row] for row in rows.tolist()], device=device),
                encoder_hidden_states=seen.last_hidden_state[index[rows].to(device)],
            )
            yield rows, read.last_hidden_state
