"""Baseline SAT: show, attend and tell with the answer in the initial state (iVQA, section 4).

Xu et al., "Show, Attend and Tell", ICML 2015. h_0 and c_0 come from the mean of the grid and the
encoded answer; each word attends to the grid by an additive score, and its input is the embedding
of the previous word and what was attended to:

    e_tl = v tanh(W_g g_l + W_h h_{t-1}),  alpha_t = softmax(e_t)
    x_t = w_{t-1} + W_x sum_l alpha_tl g_l
    h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1});  p(w_t | w_<t; I, a) = softmax(W h_t)

The paper concatenates w_{t-1} and what was attended to. The sum is the same if W_x may have any
rank, because the LSTM multiplies both by one matrix.

Xu et al. also add lambda * sum_l (1 - sum_t alpha_tl)^2 to the loss of a question (their equation
14), so that its words look at all cells about equally often.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.generators.networks.answer_encoder import AnswerEncoder
from ivqa.generators.networks.attention import Grids
from ivqa.generators.networks.decoder import State, Step
from ivqa.generators.networks.network import Conditions, GeneratorOutput, QuestionGenerator
from ivqa.ranges import Count, NonNegative
from ivqa.text.vocabulary import Tokens


class AttendAndTellGenerator(QuestionGenerator):
    """p(q | I, a) by an LSTM that attends to the image grid before each word.

    Args:
        num_answer_words: Size of the answer vocabulary with its special tokens.
        feature_sizes: Last dimension of each image feature; "grid" is read.
        answer_size: Dimensions of the encoded answer; 512 in the paper.
        attention_size: Dimensions of W_g g and W_h h.
        initial_cell: Whether c_0 comes from the image and the answer too, as in the published code.
            Otherwise c_0 = 0: in the iVQA paper the joint embedding is the initial state alone.
        doubly_stochastic: lambda, in nats; 0 leaves the term out.
        **decoder: Arguments of `QuestionGenerator`; `feed_condition` is ignored.

    Raises:
        UserError: There is no feature "grid".
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        num_answer_words: int,
        feature_sizes: Mapping[str, int],
        answer_size: Count = 512,
        attention_size: Count = 128,
        initial_cell: bool = True,
        doubly_stochastic: NonNegative = 0.0,
        **decoder: Any,
    ) -> None:
        super().__init__(**{**decoder, "feed_condition": False})
        if "grid" not in feature_sizes:
            raise UserError(
                "this generator attends to the grid of the image; add grid to model.image_features"
            )
        grid_size, hidden = feature_sizes["grid"], self.decoder.hidden_size
        self.answer_encoder = AnswerEncoder(
            num_words=num_answer_words,
            embedding_size=self.decoder.embedding_size,
            size=answer_size,
            dropout=self.decoder.dropout.probability,
        )
        self.initial_cell, self.doubly_stochastic = initial_cell, doubly_stochastic
        self.initial = nn.Linear(grid_size + answer_size, (2 if initial_cell else 1) * hidden)
        self.of_cell = nn.Linear(grid_size, attention_size)
        self.of_state = nn.Linear(hidden, attention_size, bias=False)
        self.score = nn.Linear(attention_size, 1, bias=False)
        self.seen = nn.Linear(grid_size, self.decoder.embedding_size, bias=False)

    @override
    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        """Computes [h_0; c_0] = tanh(W [mean g; a]) of P pairs, and keeps the grids."""
        grid = images.feature("grid")
        mean = grid.mean(dim=1)[images.index]
        start = self.initial(torch.cat([mean, self.answer_encoder(answer)], dim=1)).tanh()
        if not self.initial_cell:
            start = torch.cat([start, torch.zeros_like(start)], dim=1)
        return Conditions(start, grids=Grids(grid, images.index))

    @override
    def forward(self, batch: VQABatch) -> GeneratorOutput:
        conditions = self.conditions(batch.images, batch.answer)
        outputs, weights = self._read(batch.question, conditions)
        penalty = None
        if self.doubly_stochastic:
            steps = torch.arange(weights.shape[1], device=weights.device)
            read = steps <= batch.question.lengths[:, None]  # <eos> is predicted too, (B, T + 1)
            looked = (weights * read[..., None]).sum(dim=1)  # sum_t alpha_tl, (B, L)
            penalty = self.doubly_stochastic * (1 - looked).square().sum(dim=1)
        return GeneratorOutput(
            log_likelihood=self.decoder.scores(outputs, batch.question).sum(dim=1),
            num_tokens=batch.question.lengths + 1,
            penalty=penalty,
        )

    @override
    def token_log_probs(
        self,
        question: Tokens,
        z: Tensor | None,
        conditions: Conditions,
        temperature: float | None = None,
    ) -> Tensor:
        outputs, _ = self._read(question, conditions)
        return self.decoder.scores(outputs, question, temperature)

    @override
    def decoding(self, conditions: Conditions, z: Tensor | None) -> tuple[Step, State]:
        cells, keys, images = self._attended(conditions)

        def step(state: State, tokens: Tensor) -> tuple[Tensor, State]:
            hidden, cell, image = state
            embedded = self.decoder.embedding(tokens)
            hidden, cell, _ = self._advance(embedded, hidden, cell, cells[image], keys[image])
            return self.decoder.next_log_probs(hidden), (hidden, cell, image)

        hidden, cell = conditions.decoder.chunk(2, dim=1)
        return step, (hidden, cell, images)

    def _read(self, question: Tokens, conditions: Conditions) -> tuple[Tensor, Tensor]:
        """h_1, ..., h_(T+1), (B, T + 1, d_h), and the attention alpha of each, (B, T + 1, L)."""
        hidden, cell = conditions.decoder.chunk(2, dim=1)
        cells, keys, image = self._attended(conditions)
        cells, keys = cells[image], keys[image]
        outputs, weights = [], []
        for embedded in self.decoder.inputs(question).unbind(dim=1):
            hidden, cell, looked = self._advance(embedded, hidden, cell, cells, keys)
            outputs.append(hidden)
            weights.append(looked)
        return torch.stack(outputs, dim=1), torch.stack(weights, dim=1)

    def _attended(self, conditions: Conditions) -> tuple[Tensor, Tensor, Tensor]:
        """The cells g (M, L, d), W_g g (M, L, attention_size), and the image of each row, (N,)."""
        assert conditions.grids is not None  # set by conditions() above
        cells = conditions.grids.cells
        return cells, self.of_cell(cells), conditions.grids.image

    def _advance(
        self, embedded: Tensor, hidden: Tensor, cell: Tensor, cells: Tensor, keys: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """h_t and c_t from the embedding of word t - 1, (N, d_e), and alpha_t, (N, L)."""
        scores = self.score((keys + self.of_state(hidden)[:, None]).tanh())  # (N, L, 1)
        weights = scores.softmax(dim=1)
        # A matrix product, because the products of all cells are as large as the cells.
        seen = (weights.mT @ cells)[:, 0]  # (N, d)
        weight_input, weight_hidden, bias_input, bias_hidden = self.decoder.lstm.all_weights[0]
        gates = F.linear(embedded + self.seen(seen), weight_input, bias_input)
        gates = gates + F.linear(hidden, weight_hidden, bias_hidden)
        # PyTorch's order of the gates: i, f, g, o.
        enter, keep, new, leave = gates.chunk(4, dim=1)
        cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
        return leave.sigmoid() * cell.tanh(), cell, weights[..., 0]
