"""Claim: decoding is faster than transformers' generate on an LSTM of the same size and weights.

Both sides decode the same questions' worth of work: the same decoder weights (taken from one
QuestionDecoder), the same start states, at most 20 words, float32, one process. The peer is a
transformers PreTrainedModel around torch.nn.LSTM whose state rides in `past_key_values`, which is
what a transformers user would write for an LSTM.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import CausalLMOutputWithPast

from benchmarks.timing import paired
from ivqa.generators.decoding.beam import Beam
from ivqa.generators.decoding.strategies import Greedy, Sampling, Strategy
from ivqa.generators.networks.decoder import QuestionDecoder
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK

MAX_WORDS = 20
SIZES = ((256, 500), (512, 8000))  # of the network, and words


class LSTMState:
    """(h, c) of N rows, in the role of a transformers cache."""

    is_compileable = False

    def __init__(self, hidden: Tensor) -> None:
        self.value = (hidden[None], torch.zeros_like(hidden)[None])

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Follows the beams."""
        self.value = tuple(part.index_select(1, beam_idx) for part in self.value)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """None of the words is kept."""
        return 0


class LSTMForQuestions(PreTrainedModel, GenerationMixin):
    """The peer: QuestionDecoder's weights behind transformers' generate."""

    config_class = PretrainedConfig
    main_input_name = "input_ids"
    _supports_cache_class = False

    def __init__(self, decoder: QuestionDecoder) -> None:
        super().__init__(
            PretrainedConfig(
                vocab_size=decoder.num_words,
                num_hidden_layers=1,
                bos_token_id=BOS,
                eos_token_id=EOS,
                pad_token_id=PAD,
            )
        )
        self.embedding, self.lstm, self.output = decoder.embedding, decoder.lstm, decoder.output
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        pass  # the weights are given

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False

    def prepare_inputs_for_generation(self, input_ids: Tensor, **kwargs: Any) -> dict[str, Any]:
        """The last word and the state."""
        return {"input_ids": input_ids[:, -1:], "past_key_values": kwargs["past_key_values"]}

    def forward(
        self, input_ids: Tensor, past_key_values: LSTMState, **kwargs: Any
    ) -> CausalLMOutputWithPast:
        """Logits of the next word."""
        outputs, past_key_values.value = self.lstm(self.embedding(input_ids), past_key_values.value)
        return CausalLMOutputWithPast(logits=self.output(outputs), past_key_values=past_key_values)


def run() -> list[dict[str, Any]]:
    """Rows of RESULTS.md: questions per second of both, and the ratio."""
    torch.manual_seed(0)
    rows = []
    for size, words in SIZES:
        decoder = QuestionDecoder(num_words=words, embedding_size=size, hidden_size=size).eval()
        # Logits of a trained decoder are spread out; so that questions differ, so must these be.
        decoder.output.weight.data *= 10
        peer = LSTMForQuestions(decoder).eval()
        hidden = torch.randn(1024, size)
        for name, strategy, options in (
            ("greedy", Greedy(), {"do_sample": False}),
            ("sampling", Sampling(), {"do_sample": True, "top_k": 0}),
            ("beam 5", Beam(size=5), {"num_beams": 5, "length_penalty": 0.0}),
        ):
            length = _calibrate(decoder, strategy, hidden)
            ours, theirs = paired(
                partial(_ours, decoder, strategy, hidden), partial(_theirs, peer, options, hidden)
            )
            rows.append(
                {
                    "decoding": f"{name}, LSTM {size}, {words} words",
                    "words a question": round(length, 1),
                    "ivqa, questions/s": round(len(hidden) / ours),
                    "transformers, questions/s": round(len(hidden) / theirs),
                    "ratio": round(theirs / ours, 1),
                }
            )
    return rows


@torch.no_grad()
def _ours(decoder: QuestionDecoder, strategy: Strategy, hidden: Tensor) -> None:
    strategy(decoder.stepper(len(hidden)), decoder.start(hidden), MAX_WORDS)


@torch.no_grad()
def _theirs(peer: LSTMForQuestions, options: dict[str, Any], hidden: Tensor) -> None:
    beams = options.get("num_beams", 1)
    peer.generate(
        torch.full((len(hidden), 1), BOS),
        past_key_values=LSTMState(hidden.repeat_interleave(beams, 0)),
        max_new_tokens=MAX_WORDS + 1,
        suppress_tokens=[UNK, PAD, BOS],
        **options,
    )


def _calibrate(decoder: QuestionDecoder, strategy: Strategy, hidden: Tensor) -> float:
    """Sets the bias of <eos> until questions have about 7 words, as in VQA; returns their mean."""
    low, high, mean = -20.0, 60.0, 0.0
    with torch.no_grad():
        for _ in range(16):
            decoder.output.bias[EOS] = (low + high) / 2
            found = strategy(decoder.stepper(256), decoder.start(hidden[:256]), MAX_WORDS)
            mean = float(found.tokens.lengths.float().mean())
            low, high = ((low + high) / 2, high) if mean > 7 else (low, (low + high) / 2)
    return mean
