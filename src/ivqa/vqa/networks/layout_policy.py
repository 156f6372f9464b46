"""The layout policy of N2NMN: from a question to a layout and the text of each module.

h_i = LSTM(w_i) of the words; h'_t of a decoder LSTM, which starts from the last states of the
encoder and reads the previous token:
u_ti = v^T tanh(W_a h'_t + K h_i),  alpha_t = softmax(u_t),  c_t = sum_i alpha_ti h_i
p(l_t | l_<t, q) = softmax(W_y [h'_t; c_t]),  x_txt^t = sum_i alpha_ti w_i     (Hu et al. 2017)
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_packed_sequence

from ivqa.text.vocabulary import PAD, Tokens, packed
from ivqa.vqa.network import recurrent_layers
from ivqa.vqa.networks.layouts import LayoutGrammar


@dataclass(frozen=True)
class Plan:
    """Layouts of B questions, and what the modules read.

    Args:
        layout: Tokens of T steps, (B, T) int64.
        text: x_txt of each step, (B, T, d_w).
        log_prob: log p(l | q), (B,).
        entropy: Entropy of p, summed over the steps, (B,).
        summary: The encoder's last states, (B, layers d_h), for the question prior.
    """

    layout: Tensor
    text: Tensor
    log_prob: Tensor
    entropy: Tensor
    summary: Tensor


class LayoutPolicy(nn.Module):
    """An attentional encoder-decoder from the question to a layout.

    Decoding allows valid layouts only; the likelihood of an expert's layout is not renormalised
    over the valid ones.

    Args:
        num_words: Size of the vocabulary, special tokens included.
        grammar: The layouts that can be decoded.
        embedding_size: d_w, size of words and tokens.
        hidden_size: d_h, size of the LSTM states.
        dropout: On the states of each layer that another layer reads, as published. With one layer,
            on the encoder's states.
        num_layers: Layers of both LSTMs.
        word_keys: Whether attention over the words also sees their embeddings; the paper's sees
            the encoder's states alone. From the states, it learns the place of the noun in the
            sentence separately for each kind of question, and never learns it for kinds such as
            _Exist, whose modules learn nothing without the noun.
    """

    def __init__(
        self,
        *,
        num_words: int,
        grammar: LayoutGrammar,
        embedding_size: int,
        hidden_size: int,
        dropout: float,
        num_layers: int = 2,
        word_keys: bool = False,
    ) -> None:
        super().__init__()
        self.grammar = grammar
        self.words = nn.Embedding(num_words, embedding_size, padding_idx=PAD)
        self.encoder = recurrent_layers(nn.LSTM, embedding_size, hidden_size, num_layers, dropout)
        self.keys = nn.Linear(hidden_size, hidden_size)
        self.word_keys: nn.Linear | None = None
        if word_keys:
            self.word_keys = nn.Linear(embedding_size, hidden_size, bias=False)
        self.tokens = nn.Embedding(len(grammar) + 1, embedding_size)  # the last row is <go>
        self.decoder = nn.ModuleList(
            nn.LSTMCell(hidden_size if layer else embedding_size, hidden_size)
            for layer in range(num_layers)
        )
        self.query = nn.Linear(hidden_size, hidden_size)
        self.score = nn.Linear(hidden_size, 1, bias=False)
        self.output = nn.Linear(2 * hidden_size, len(grammar))
        self.dropout = nn.Dropout(dropout)
        for name, bias in self.named_parameters():  # forget bias 1, as TensorFlow
            if "bias_ih" in name:
                nn.init.ones_(bias.data[hidden_size : 2 * hidden_size])

    def forward(
        self, question: Tokens, steps: int, expert: Tensor | None = None, sample: bool = False
    ) -> Plan:
        """Decodes layouts: greedily, by sampling, or along an expert's layouts.

        Args:
            question: B questions.
            steps: T.
            expert: Tokens of the experts' layouts, (B, T) int64, to follow.
            sample: Whether tokens are sampled; ignored with an expert.
        """
        words, states, keys, mask, state = self._encoded(question)
        summary = torch.stack([hidden for hidden, _ in state], dim=1).flatten(1)
        size = len(words)
        token = torch.full((size,), len(self.grammar), device=words.device)
        maps = torch.zeros(size, dtype=torch.int64, device=words.device)
        answered = torch.zeros(size, dtype=torch.bool, device=words.device)
        log_prob, entropy = words.new_zeros(size), words.new_zeros(size)
        layout, texts = [], []
        for step in range(steps):
            state = self._decoded(self.tokens(token), state)
            last = state[-1][0]  # h'_t, (B, d_h)
            scores = self.score((self.query(last)[:, None] + keys).tanh())[:, :, 0]
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            weights = scores.softmax(dim=1)  # alpha_t, (B, number of words)
            context = torch.einsum("bt,btd->bd", weights, states)  # c_t
            logits = self.output(torch.cat([last, context], dim=1)).float()
            if expert is None:
                may = self.grammar.allowed(maps, answered, steps - step)
                logits = logits.masked_fill(~may, torch.finfo(logits.dtype).min)
            log_probs = logits.log_softmax(dim=1)
            if expert is not None:
                token = expert[:, step]
            elif sample:
                token = torch.multinomial(log_probs.detach().exp(), 1)[:, 0]
            else:
                token = log_probs.argmax(dim=1)
            log_prob = log_prob + log_probs.gather(1, token[:, None])[:, 0]
            entropy = entropy - (log_probs.exp() * log_probs.clamp_min(-30)).sum(dim=1)
            maps, answered = self.grammar.advance(maps, answered, token)
            layout.append(token)
            texts.append(torch.einsum("bt,btd->bd", weights, words))  # x_txt^t
        return Plan(torch.stack(layout, 1), torch.stack(texts, 1), log_prob, entropy, summary)

    def _encoded(
        self, question: Tokens
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
        """Reads B questions of N words.

        Returns words w (B, N, d_w), states h (B, N, d_h), keys K h (B, N, d_h), the mask of
        attention (B, N) bool, and the last hidden and cell states (B, d_h) of each layer.
        """
        words = self.words(question.ids)
        packed_states, (hidden, cell) = self.encoder(packed(words, question.lengths))
        states, _ = pad_packed_sequence(
            packed_states, batch_first=True, total_length=words.shape[1]
        )
        if len(self.decoder) == 1:
            states = self.dropout(states)
        keys = self.keys(states)
        if self.word_keys is not None:
            keys = keys + self.word_keys(words)
        mask = question.mask | (question.lengths == 0)[:, None]  # uniform for empty questions
        return words, states, keys, mask, list(zip(hidden, cell, strict=True))

    def _decoded(
        self, given: Tensor, state: list[tuple[Tensor, Tensor]]
    ) -> list[tuple[Tensor, Tensor]]:
        """Hidden and cell states (B, d_h) of each layer after reading `given` (B, d_w)."""
        following: list[tuple[Tensor, Tensor]] = []
        for number, (cell, before) in enumerate(zip(self.decoder, state, strict=True)):
            read = self.dropout(following[-1][0]) if number else given
            following.append(cell(read, before))
        return following
