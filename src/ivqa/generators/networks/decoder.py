"""The word-by-word question decoder that every generator shares."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.device import lstm_states
from ivqa.errors import UserError
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK, Tokens

State = tuple[Tensor, ...]
"""Recurrent state of N partial questions: tensors whose first axis is N."""

Step = Callable[[State, Tensor], tuple[Tensor, State]]
"""(state, tokens (N,)) -> (log-probabilities of the next token (N, V), state)."""

Look = Callable[[Tensor, Tensor], Tensor]
"""(hidden states (N, T, d_h), their rows (N,)) -> input of the output layer, (N, T, d_h)."""

# A table of the input gates of all V words costs V matrix-vector products. Decoding a question
# without the table costs about 8, one for each word.
_WORDS_A_QUESTION = 8


class QuestionDecoder(nn.Module):
    """p(q | h_0) = prod_t softmax(W h_t)[w_t], h_t = LSTM(h_{t-1}, embedding of w_{t-1}), c_0 = 0.

    <bos> is the first input and <eos> the last target; <pad> and <bos> have probability zero.

    Args:
        num_words: V, size of the question vocabulary with its special tokens.
        embedding_size: d_e, dimensions of a word embedding.
        hidden_size: d_h, dimensions of the LSTM.
        word_dropout: Share of the input words, in [0, 1), that are replaced by <unk> in training,
            so that the decoder has to use h_0 (Bowman et al. 2016).
        dropout: Dropout of the input and the output of the LSTM in training, in [0, 1); the
            published code has 0.5.
        feed_condition: Adds W_c h_0 to every input embedding. The paper does not; its decoder
            learns about the image far more slowly, because h_0 is several LSTM steps away when
            the first noun is predicted.

    Raises:
        UserError: `dropout` is not in [0, 1).
    """

    _never: Tensor  # (V,) -inf for words of probability zero, 0 for the others

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
        self.embedding_size = embedding_size
        self.hidden_size = hidden_size
        self.word_dropout = word_dropout
        self.embedding = word_embedding(num_words, embedding_size)
        self.lstm = lstm_with_forget_bias(embedding_size, hidden_size)
        self.output = nn.Linear(hidden_size, num_words)
        self.dropout = LockedDropout(dropout)
        self.feed: nn.Linear | None = None
        if feed_condition:
            self.feed = nn.Linear(hidden_size, embedding_size, bias=False)
        never = torch.zeros(num_words)
        never[[PAD, BOS]] = float("-inf")
        self.register_buffer("_never", never, persistent=False)

    def forward(
        self,
        hidden: Tensor,
        question: Tokens,
        temperature: float | None = None,
        look: Look | None = None,
    ) -> Tensor:
        """Computes log p(w_t | w_<t, h_0) of every word and of <eos> by teacher forcing.

        Args:
            hidden: h_0, (B, d_h).
            question: (B, T) words of the questions.
            temperature: None scores p itself. A number > 0 scores the distribution that
                `Sampling(temperature)` draws from: p^(1 / temperature), without <unk>.
            look: Lets the words look at their images, see `QuestionGenerator.look`.

        Returns:
            (B, T + 1) float32, in nats; 0 after <eos>.
        """
        embedded = self.inputs(question)  # (B, T + 1, d_e)
        if self.feed is not None:
            embedded = embedded + self.feed(hidden)[:, None]
        initial = hidden.unsqueeze(0)  # (1, B, d_h)
        outputs, _ = self.lstm(embedded, (initial, torch.zeros_like(initial)))  # (B, T + 1, d_h)
        if look is not None:
            outputs = look(outputs, torch.arange(len(outputs), device=outputs.device))
        return self.scores(outputs, question, temperature)

    def inputs(self, question: Tokens) -> Tensor:
        """Embeds <bos> and T words, (B, T + 1, d_e), with dropout and word dropout in training."""
        inputs = F.pad(question.ids, (1, 0), value=BOS)  # (B, T + 1)
        if self.training and self.word_dropout > 0:
            hide = torch.rand(inputs.shape, device=inputs.device) < self.word_dropout
            inputs = inputs.masked_fill(hide & (inputs != BOS), UNK)
        return self.dropout(self.embedding(inputs))

    def scores(self, outputs: Tensor, question: Tokens, temperature: float | None = None) -> Tensor:
        """Scores the words and <eos> by what the output layer reads before each of them.

        `outputs` are (B, T + 1, d_h); the arguments and the result are those of `forward`.
        """
        return word_log_probs(self._logits(self.dropout(outputs)), question, temperature)

    def next_log_probs(self, output: Tensor) -> Tensor:
        """Log-probabilities (N, V), float32, of the next word after outputs (N, d_h)."""
        return self._logits(output).log_softmax(dim=1)

    def start(self, hidden: Tensor, looks: bool = False) -> State:
        """Returns the state of h_0 (N, d_h) before <bos> is read.

        It is (h_0, c_0 = 0); with feed_condition also the contribution of h_0 to the input gates of
        every word, (N, 4 d_h); with `looks`, where words look at images, also the rows 0 to N - 1.
        """
        state: State = (hidden, torch.zeros_like(hidden))
        if self.feed is not None:
            fed = F.linear(self.feed(hidden), self.lstm.all_weights[0][0])  # (N, 4 d_h)
            state = (*state, fed)
        return (*state, torch.arange(len(hidden), device=hidden.device)) if looks else state

    def stepper(self, rows: int, look: Look | None = None) -> Step:
        """Builds the function that decodes one word, without dropout.

        The equations are those of `forward`. The products of the input weights with all V
        embeddings are computed once if that is less work than computing them at every step, for
        approximately `rows` questions. `look` lets the words look at their images.
        """
        weight_input, weight_hidden, bias_input, bias_hidden = self.lstm.all_weights[0]
        bias = bias_input + bias_hidden
        table: Tensor | None = None
        if rows * _WORDS_A_QUESTION >= self.num_words:
            table = F.linear(self.embedding.weight, weight_input, bias)  # (V, 4 d_h)

        def step(state: State, tokens: Tensor) -> tuple[Tensor, State]:
            hidden, cell, *more = state  # (N, d_h) each; more: (N, 4 d_h), rows (N,)
            if table is None:
                gates = F.linear(self.embedding(tokens), weight_input, bias)  # (N, 4 d_h)
            else:
                gates = table.index_select(0, tokens)
            # In place: a copy of the gates takes a fifth of the step. Autocast leaves such
            # operations alone, so that they need one number format.
            if self.feed is not None:
                gates += more[0]
            gates.addmm_(hidden.to(gates.dtype), weight_hidden.t().to(gates.dtype))
            hidden, cell = lstm_states(gates, cell)
            output = hidden if look is None else look(hidden[:, None], more[-1])[:, 0]
            return self.next_log_probs(output), (hidden, cell, *more)

        return step

    def _logits(self, hidden: Tensor) -> Tensor:
        # float32 under any autocast precision: a likelihood is a sum of many small terms.
        return F.linear(hidden, self.output.weight, self.output.bias + self._never).float()


def word_log_probs(logits: Tensor, question: Tokens, temperature: float | None) -> Tensor:
    """Scores the T words and <eos> of questions, (B, T + 1) float32 in nats; 0 after <eos>.

    Position t of the logits (B, T + 1, V) predicts word t; the temperature is that of
    `QuestionDecoder.forward`.
    """
    # The words, then <eos>, then <pad>, which the loss ignores.
    targets = F.pad(question.ids, (0, 1), value=PAD)
    targets = targets.scatter(1, question.lengths[:, None], EOS)
    if temperature is not None:
        logits = logits / temperature
        logits[:, :, UNK] = float("-inf")
    # -log p(w_t), and 0 where the target is <pad>.
    losses = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="none"
    )
    return -losses.view_as(targets)


class LockedDropout(nn.Module):
    """Dropout of (B, T, d) with one mask for all T words of a question (Gal & Ghahramani 2016).

    It draws T times fewer random numbers than nn.Dropout, which takes a fifth of a training step
    on a CPU.

    Raises:
        UserError: `probability` is not in [0, 1).
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        if not 0 <= probability < 1:
            raise UserError(f"dropout must be in [0, 1), not {probability}")
        self.probability = probability

    def forward(self, values: Tensor) -> Tensor:
        """Applies dropout to values (B, T, d) in training; returns them unchanged in evaluation."""
        if not self.training or self.probability == 0:
            return values
        size, _, width = values.shape
        mask = torch.rand(size, 1, width, device=values.device) >= self.probability
        # Scaled here, so that evaluation needs no factor.
        return values * (mask / (1 - self.probability)).to(values.dtype)


def lstm_with_forget_bias(input_size: int, hidden_size: int) -> nn.LSTM:
    """Builds a batch-first LSTM with an initial forget-gate bias of 1, as in the published code.

    TensorFlow's LSTM cell adds this bias, PyTorch's does not. With a bias of 0 the cell state
    halves at every word, and the image information in h_0 is lost before the first noun.
    """
    lstm = nn.LSTM(input_size, hidden_size, batch_first=True)
    with torch.no_grad():
        # PyTorch adds two biases, so one is set to 1 and the other to 0.
        for name, value in (("bias_ih_l0", 1.0), ("bias_hh_l0", 0.0)):
            getattr(lstm, name)[hidden_size : 2 * hidden_size] = value  # gates: i, f, g, o
    return lstm


def word_embedding(num_words: int, size: int) -> nn.Embedding:
    """Builds a word embedding drawn from U(-0.08, 0.08), as in the published code; <pad> is 0."""
    embedding = nn.Embedding(num_words, size, padding_idx=PAD)
    nn.init.uniform_(embedding.weight, -0.08, 0.08)
    with torch.no_grad():
        embedding.weight[PAD].zero_()
    return embedding
