"""The word-by-word question decoder that every generator shares."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.errors import UserError
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK, Tokens

State = tuple[Tensor, ...]
"""Recurrent state of N partial questions: tensors whose first axis is N."""

Step = Callable[[State, Tensor], tuple[Tensor, State]]
"""(state, tokens (N,)) -> (log-probabilities of the next token (N, V), state)."""

# A table of every word's input gates costs as much as V words; questions have about 8.
_WORDS_A_QUESTION = 8


class QuestionDecoder(nn.Module):
    """p(q | h_0) = prod_t softmax(W h_t)[w_t], h_t = LSTM(h_{t-1}, embedding of w_{t-1}), c_0 = 0.

    <bos> is the first input and <eos> the last target; <pad> and <bos> have probability zero.

    num_words: V, specials included. hidden_size: d_h. word_dropout: share of the input words
    hidden as <unk> in training, which forces the decoder to listen to h_0 (Bowman et al. 2016).
    dropout: on the input and the output of the LSTM in training (the published code: 0.5).
    feed_condition: whether W_c h_0 is added to every input embedding as well. The paper has only
    h_0, and learns about the image far more slowly with it: at the first noun it is a memory.
    """

    _never: Tensor  # (V,) -inf where a word has probability zero, 0 elsewhere
    _unknown: Tensor  # (1,) the index of <unk>

    def __init__(
        self,
        *,
        num_words: int,
        embedding_size: int = 512,
        hidden_size: int = 512,
        word_dropout: float = 0.0,
        dropout: float = 0.0,
        feed_condition: bool = False,
    ) -> None:
        super().__init__()
        self.num_words = num_words
        self.hidden_size = hidden_size
        self.word_dropout = word_dropout
        self.embedding = word_embedding(num_words, embedding_size)
        self.lstm = remembering_lstm(embedding_size, hidden_size)
        self.output = nn.Linear(hidden_size, num_words)
        self.dropout = LockedDropout(dropout)
        self.feed: nn.Linear | None = None
        if feed_condition:
            self.feed = nn.Linear(hidden_size, embedding_size, bias=False)
        never = torch.zeros(num_words)
        never[[PAD, BOS]] = float("-inf")
        self.register_buffer("_never", never, persistent=False)
        self.register_buffer("_unknown", torch.tensor([UNK]), persistent=False)

    def forward(self, hidden: Tensor, question: Tokens, temperature: float | None = None) -> Tensor:
        """Teacher forcing: log p(w_t | w_<t, h_0) of every word and of <eos>.

        Args:
            hidden: h_0, (B, d_h).
            question: (B, T).
            temperature: None scores p itself. A number scores the distribution that
                `Sampling(temperature)` draws from: p^(1 / temperature), without <unk>.

        Returns:
            (B, T + 1), 0 behind <eos>.
        """
        inputs = F.pad(question.ids, (1, 0), value=BOS)  # (B, T + 1)
        targets = F.pad(question.ids, (0, 1), value=PAD)
        targets = targets.scatter(1, question.lengths[:, None], EOS)
        if self.training and self.word_dropout > 0:
            hide = torch.rand(inputs.shape, device=inputs.device) < self.word_dropout
            inputs = inputs.masked_fill(hide & (inputs != BOS), UNK)
        embedded = self.dropout(self.embedding(inputs))  # (B, T + 1, d_e)
        if self.feed is not None:
            embedded = embedded + self.feed(hidden)[:, None]
        initial = hidden.unsqueeze(0)  # (1, B, d_h)
        outputs, _ = self.lstm(embedded, (initial, torch.zeros_like(initial)))  # (B, T + 1, d_h)
        logits = self._logits(self.dropout(outputs))  # (B, T + 1, V)
        if temperature is not None:
            logits = (logits / temperature).index_fill(2, self._unknown, float("-inf"))
        losses = F.cross_entropy(
            logits.flatten(0, 1),
            targets.flatten(),
            ignore_index=PAD,
            reduction="none",
        )
        return -losses.view_as(targets)

    def start(self, hidden: Tensor) -> State:
        """The state (h_0, c_0 = 0) before <bos> is read; hidden: (N, d_h).

        With feed_condition its third part is what h_0 adds to the gates at every word.
        """
        state = hidden, torch.zeros_like(hidden)
        if self.feed is None:
            return state
        return *state, F.linear(self.feed(hidden), self.lstm.all_weights[0][0])  # (N, 4 d_h)

    def stepper(self, rows: int) -> Step:
        """One step of the recurrence for decoding about `rows` questions, without any dropout.

        The equations are those of `forward`; the products of the weights with the V embeddings
        are made once where that is less work than making them at every step.
        """
        weight_input, weight_hidden, bias_input, bias_hidden = self.lstm.all_weights[0]
        bias = bias_input + bias_hidden
        table: Tensor | None = None
        if rows * _WORDS_A_QUESTION >= self.num_words:
            table = F.linear(self.embedding.weight, weight_input, bias)  # (V, 4 d_h)

        def step(state: State, tokens: Tensor) -> tuple[Tensor, State]:
            hidden, cell, *fed = state
            if table is None:
                inputs = F.linear(self.embedding(tokens), weight_input, bias)
            else:
                inputs = table.index_select(0, tokens)
            if fed:
                inputs = inputs + fed[0]
            gates = torch.addmm(inputs, hidden, weight_hidden.t())  # (N, 4 d_h)
            enter, keep, new, leave = gates.chunk(4, dim=1)
            cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
            hidden = leave.sigmoid() * cell.tanh()
            return self._logits(hidden).log_softmax(dim=1), (hidden, cell, *fed)

        return step

    def _logits(self, hidden: Tensor) -> Tensor:
        # In float32 whatever the autocast precision: likelihoods are sums of many small terms.
        return F.linear(hidden, self.output.weight, self.output.bias + self._never).float()


class LockedDropout(nn.Module):
    """Dropout of (B, T, d) with one mask for all T words of a question (Gal & Ghahramani 2016).

    It draws T times fewer random numbers than nn.Dropout, a fifth of a training step on a CPU.
    Raises UserError where `probability` is not in [0, 1).
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        if not 0 <= probability < 1:
            raise UserError(f"dropout must be in [0, 1), not {probability}")
        self.probability = probability

    def forward(self, values: Tensor) -> Tensor:
        """`values` (B, T, d), unchanged in evaluation."""
        if not self.training or self.probability == 0:
            return values
        size, _, width = values.shape
        mask = torch.rand(size, 1, width, device=values.device) >= self.probability
        return values * (mask / (1 - self.probability)).to(values.dtype)


def remembering_lstm(input_size: int, hidden_size: int) -> nn.LSTM:
    """A batch-first LSTM whose forget gate starts with a bias of 1, as in the published code.

    TensorFlow's cell adds it, PyTorch's does not: with 0 the memory halves at every word, and
    what h_0 says of the image is gone before the first noun.
    """
    lstm = nn.LSTM(input_size, hidden_size, batch_first=True)
    with torch.no_grad():
        for name, value in (("bias_ih_l0", 1.0), ("bias_hh_l0", 0.0)):
            getattr(lstm, name)[hidden_size : 2 * hidden_size] = value  # gates: i, f, g, o
    return lstm


def word_embedding(num_words: int, size: int) -> nn.Embedding:
    """A word embedding drawn from U(-0.08, 0.08), as in the published code; <pad> is zero."""
    embedding = nn.Embedding(num_words, size, padding_idx=PAD)
    nn.init.uniform_(embedding.weight, -0.08, 0.08)
    with torch.no_grad():
        embedding.weight[PAD].zero_()
    return embedding
