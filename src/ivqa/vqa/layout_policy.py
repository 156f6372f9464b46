"""The layout policy of N2NMN: from a question to a layout and the text of each module.

h_i = LSTM(w_i) of the words; a decoder LSTM starts from its last states and reads the token before:
u_ti = v^T tanh(W_a h'_t + K h_i),  alpha_t = softmax(u_t),  c_t = sum_i alpha_ti h_i
p(l_t | l_<t, q) = softmax(W_y [h'_t; c_t]),  x_txt^t = sum_i alpha_ti w_i     (Hu et al. 2017)
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ivqa.text.vocabulary import PAD, Tokens
from ivqa.vqa.layouts import LayoutGrammar


@dataclass(frozen=True)
class Plan:
    """Layouts (B, T), the text of each step (B, T, d_w), log p(l | q) (B,), its entropy (B,)."""

    layout: Tensor
    text: Tensor
    log_prob: Tensor
    entropy: Tensor
    summary: Tensor  # (B, layers * d_h), the encoder's last states, for the question prior


class LayoutPolicy(nn.Module):
    """An attentional encoder-decoder from the question to a layout.

    Decoding keeps to valid layouts; the likelihood of an expert's layout is not renormalised.
    word_keys: attention over the words also sees their embeddings, not the encoder's states alone
    as in the paper. From the states it learns where in a sentence the noun comes, for each kind of
    question anew; a kind whose modules learn nothing without the noun, such as _Exist, never does.
    num_layers: of both LSTMs. dropout: on the states of every layer that a further layer reads, as
    published; of the one layer that there may be instead, on the encoder's states.
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
        self.encoder = nn.LSTM(
            embedding_size,
            hidden_size,
            num_layers,
            batch_first=True,
            dropout=dropout if num_layers > 1 else 0.0,
        )
        self.keys = nn.Linear(hidden_size, hidden_size)
        self.word_keys: nn.Linear | None = None
        if word_keys:
            self.word_keys = nn.Linear(embedding_size, hidden_size, bias=False)
        self.tokens = nn.Embedding(len(grammar) + 1, embedding_size)  # the last one: <go>
        self.decoder = nn.ModuleList(
            nn.LSTMCell(hidden_size if layer else embedding_size, hidden_size)
            for layer in range(num_layers)
        )
        self.query = nn.Linear(hidden_size, hidden_size)
        self.score = nn.Linear(hidden_size, 1, bias=False)
        self.output = nn.Linear(2 * hidden_size, len(grammar))
        self.dropout = nn.Dropout(dropout)
        for name, bias in self.named_parameters():  # TensorFlow's cells begin with forget bias 1
            if "bias_ih" in name:
                nn.init.ones_(bias.data[hidden_size : 2 * hidden_size])

    def forward(
        self, question: Tokens, steps: int, expert: Tensor | None = None, sample: bool = False
    ) -> Plan:
        """A plan of `steps` tokens: the expert's layout (B, steps), a sample, or the best ones."""
        words = self.words(question.ids)  # (B, T, d_w)
        packed = pack_padded_sequence(
            words, question.lengths.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False
        )
        packed_states, (hidden, cell) = self.encoder(packed)
        states, _ = pad_packed_sequence(
            packed_states, batch_first=True, total_length=words.shape[1]
        )  # (B, T, d_h)
        if len(self.decoder) == 1:
            states = self.dropout(states)
        keys, mask = self.keys(states), question.mask
        if self.word_keys is not None:
            keys = keys + self.word_keys(words)
        mask = mask | (question.lengths == 0)[:, None]  # an empty question attends evenly
        state = list(zip(hidden, cell, strict=True))  # of each layer
        size = len(words)
        token = torch.full((size,), len(self.grammar), device=words.device)
        maps = torch.zeros(size, dtype=torch.int64, device=words.device)
        answered = torch.zeros(size, dtype=torch.bool, device=words.device)
        log_prob, entropy = words.new_zeros(size), words.new_zeros(size)
        layout, texts = [], []
        for step in range(steps):
            state = self._decoded(self.tokens(token), state)
            last = state[-1][0]  # (B, d_h)
            scores = self.score((self.query(last)[:, None] + keys).tanh())[:, :, 0]
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            weights = scores.softmax(dim=1)  # (B, T)
            context = torch.einsum("bt,btd->bd", weights, states)
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
            texts.append(torch.einsum("bt,btd->bd", weights, words))
        summary = hidden.transpose(0, 1).flatten(1)
        return Plan(torch.stack(layout, 1), torch.stack(texts, 1), log_prob, entropy, summary)

    def _decoded(
        self, given: Tensor, state: list[tuple[Tensor, Tensor]]
    ) -> list[tuple[Tensor, Tensor]]:
        """Hidden and cell states (B, d_h) of each layer, after a step that reads (B, d_w)."""
        following: list[tuple[Tensor, Tensor]] = []
        for number, (cell, before) in enumerate(zip(self.decoder, state, strict=True)):
            read = self.dropout(following[-1][0]) if number else given
            following.append(cell(read, before))
        return following
