"""HieCoAtt: hierarchical question-image co-attention, alternating (Lu et al., NeurIPS 2016).

The question has three levels: words Q_w, phrases Q_p (the maximum over n-gram convolutions) and the
sentence Q_s (an LSTM over phrases). At each level, question Q and image V attend to each other:

attend(X | g): H = tanh(W X + W' g),  a = softmax(w^T H),  x^ = sum_i a_i x_i
s = attend(Q),  v^ = attend(V | s),  q^ = attend(Q | v^)

The answer is predicted from the sums q^ + v^, from words to sentence:

h_w = tanh(W_w (q^_w + v^_w)),  h_p = tanh(W_p [q^_p + v^_p; h_w]),
h_s = tanh(W_s [q^_s + v^_s; h_p]),  logits = W_h h_s
"""

import math
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import PAD, Tokens
from ivqa.vqa.network import OneFeatureNetwork, SharedDropout, recurrent_layers


class Attention(nn.Module):
    """attend(X | g) at each of N levels, whose layers are stacked in one matrix.

    All levels are computed at once, which takes a third less time than one after another. Dropout
    on H has one mask for all columns of X, which is a mask of w. The columns of X and g have size
    d, those of H have size d_a = `attention_size`; `guided` says whether there is a g.
    """

    def __init__(
        self, *, levels: int, size: int, attention_size: int, guided: bool, dropout: float
    ) -> None:
        super().__init__()
        self.num_levels = levels
        self.values = nn.Linear(size, levels * attention_size)  # W
        self.guide = nn.Linear(size, levels * attention_size) if guided else None  # W'
        self.score = nn.Linear(attention_size, levels, bias=False)  # w; softmax cancels a bias
        self.dropout = nn.Dropout(dropout)

    def by_level(self, layer: nn.Linear, values: Tensor) -> Tensor:
        """Applies the layer of each level to values of that level."""
        weight = layer.weight.unflatten(0, (self.num_levels, -1))  # (N, d_a, d)
        bias = layer.bias.unflatten(0, (self.num_levels, 1, -1))  # (N, 1, d_a)
        return torch.baddbmm(bias, values, weight.mT)

    def readout(self, num: int) -> Tensor:
        """Returns w with the dropout masks of `num` questions, (N, num, d_a)."""
        weights: Tensor = self.dropout(self.score.weight[:, None].expand(-1, num, -1))
        return weights


class QuestionAttention(Attention):
    """Attention over a question, X = Q, which has other columns at each level."""

    def weights(self, values: Tensor, mask: Tensor, guide: Tensor | None) -> Tensor:
        """Computes the attention a, float32 (N, B, T); 0 at the padding.

        Args:
            values: Q, (N, B, T, d).
            mask: (B, T) bool, True where there is a word.
            guide: g, (N, B, d); None without a guide.
        """
        _, num, words, _ = values.shape
        hidden = self.by_level(self.values, values.flatten(1, 2)).unflatten(1, (num, words))
        if self.guide is not None and guide is not None:
            hidden = hidden + self.by_level(self.guide, guide)[:, :, None]
        hidden = hidden.tanh()  # H, (N, B, T, d_a)
        scores = torch.einsum("nbta,nba->nbt", hidden, self.readout(num).to(hidden.dtype)).float()
        return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=2)

    def forward(self, values: Tensor, mask: Tensor, guide: Tensor | None = None) -> Tensor:
        """Computes the attended question q^, (N, B, d), of the arguments of `weights`."""
        weights = self.weights(values, mask, guide).to(values.dtype)
        return torch.einsum("nbt,nbtd->nbd", weights, values)


class ImageAttention(Attention):
    """Attention over an image, X = V, which is the same at all levels; see `Attention`."""

    def __init__(self, *, levels: int, size: int, attention_size: int, dropout: float) -> None:
        super().__init__(
            levels=levels, size=size, attention_size=attention_size, guided=True, dropout=dropout
        )
        assert self.guide is not None
        # V and g interact only through tanh. With PyTorch's initial weights tanh is nearly linear:
        # g then adds the same to all positions, which softmax cancels.
        nn.init.normal_(self.values.weight, std=2.5 / math.sqrt(size))
        nn.init.normal_(self.guide.weight, std=10 / math.sqrt(size))

    def weights(self, values: Tensor, guide: Tensor) -> Tensor:
        """Computes the attention a, float32 (B, N, L), of V (B, L, d) and g (N, B, d)."""
        assert self.guide is not None
        guided = self.by_level(self.guide, guide).transpose(0, 1)  # W' g, (B, N, d_a)
        hidden = self.values(values).unflatten(2, guided.shape[1:])  # W V, (B, L, N, d_a)
        hidden = (hidden + guided[:, None]).tanh()  # H
        readout = self.readout(len(values)).to(hidden.dtype)  # w, (N, B, d_a)
        return torch.einsum("blna,nba->bnl", hidden, readout).float().softmax(dim=2)

    def forward(self, values: Tensor, guide: Tensor) -> Tensor:
        """Computes the attended image v^, (N, B, d), of V (B, L, d) and g (N, B, d)."""
        weights = self.weights(values, guide).to(values.dtype)
        return torch.bmm(weights, values).transpose(0, 1)


class AlternatingCoAttention(nn.Module):
    """The three steps at N levels; steps and levels share no weights.

    Args:
        sizes: levels, size, attention_size and dropout, see `Attention`.
    """

    def __init__(self, **sizes: Any) -> None:
        super().__init__()
        question = partial(QuestionAttention, **sizes)
        self.summary = question(guided=False)
        self.image = ImageAttention(**sizes)
        self.question = question(guided=True)

    def forward(self, question: Tensor, mask: Tensor, image: Tensor) -> Tensor:
        """Computes q^ + v^ of each level, (N, B, d).

        Args:
            question: Q, (N, B, T, d).
            mask: (B, T) bool, True where there is a word.
            image: V, (B, L, d).
        """
        s = self.summary(question, mask)
        v = self.image(image, guide=s)  # v^
        q = self.question(question, mask, guide=v)  # q^
        return q + v


class HieCoAtt(OneFeatureNetwork):
    """Alternating co-attention at three levels; default sizes are those of the released code.

    Deviations from the released code: one dropout mask for all positions or words, no bias where
    softmax cancels it, and larger initial weights in the attention over images and in the hidden
    layers. PyTorch's LSTM has two bias vectors.

    Args:
        size: d, size of words, phrases and LSTM states.
        attention_size: d_a, size of W X + W' g; None: d.
        sentence_size: Size of h_s.
        num_layers: Layers of the LSTM over phrases; the paper's text has one.
        dropout: On every layer.
        inputs: See `OneFeatureNetwork`.
    """

    version: ClassVar[int] = 1

    name = "hiecoatt"
    reads_grid = True

    def __init__(
        self,
        *,
        size: Count = 512,
        attention_size: Count | None = None,
        sentence_size: Count = 1024,
        num_layers: Count = 2,
        dropout: ShareBelowOne = 0.5,
        **inputs: Any,
    ) -> None:
        super().__init__(**inputs)
        self.image = nn.Linear(self.feature_size, size)
        self.embedding = nn.Embedding(self.num_words, size, padding_idx=PAD)
        self.n_grams = nn.ModuleList(nn.Linear(width * size, size) for width in (1, 2, 3))
        self.lstm = recurrent_layers(nn.LSTM, size, size, num_layers, dropout)
        self.levels = AlternatingCoAttention(
            levels=3, size=size, attention_size=attention_size or size, dropout=dropout
        )
        self.word = nn.Linear(size, size)  # W_w
        self.phrase = nn.Linear(2 * size, size)  # W_p
        self.sentence = nn.Linear(2 * size, sentence_size)  # W_s
        self.output = nn.Linear(sentence_size, self.num_answers)  # W_h
        self.dropout, self.dropout_places = nn.Dropout(dropout), SharedDropout(dropout)
        # Question and image interact in these layers, so tanh must not be nearly linear.
        for layer in (self.word, self.phrase, self.sentence):
            nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain("tanh"))

    def hierarchy(self, question: Tokens) -> Tensor:
        """Computes the levels Q_w, Q_p and Q_s of B questions, (3, B, T, d); 0 at the padding."""
        mask = question.mask[:, :, None]
        words = self.dropout_places(self.embedding(question.ids).tanh()) * mask  # Q_w, (B, T, d)
        # Neighbours of each word; 0 beyond the ends of the question.
        left, right = F.pad(words, (0, 0, 1, -1)), F.pad(words, (0, 0, -1, 1))
        # An n-gram convolution is a linear layer of concatenated words; this way it takes two
        # thirds of the time.
        windows = (words, torch.cat([left, words], dim=2), torch.cat([left, words, right], dim=2))
        grams = torch.stack([layer(x) for layer, x in zip(self.n_grams, windows, strict=True)])
        phrases = self.dropout_places(grams.amax(dim=0).tanh()) * mask  # Q_p, (B, T, d)
        states, _ = self.lstm(phrases)  # Q_s; an LSTM that reads forward never sees the padding
        return torch.stack([words, phrases, self.dropout_places(states) * mask])

    def places(self, images: ImageBatch) -> Tensor:
        """Computes V, the image of each question, (B, L, d)."""
        grid = self.grid_of(images)  # (M, L, d_v)
        image = self.dropout_places(self.image(grid).tanh())  # (M, L, d)
        return image.index_select(0, images.index)

    @override
    def attention_maps(self, images: ImageBatch, question: Tokens) -> Tensor:
        summary = self.levels.summary(self.hierarchy(question), question.mask)  # s, (3, B, d)
        return self.levels.image.weights(self.places(images), summary)

    @override
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        image = self.places(images)  # V, (B, L, d)
        levels = self.levels(self.hierarchy(question), question.mask, image)  # q^ + v^, (3, B, d)
        word, phrase, sentence = self.dropout(levels)
        hidden = self.word(word).tanh()  # h_w
        hidden = self.phrase(torch.cat([phrase, hidden], dim=1)).tanh()  # h_p
        hidden = self.sentence(torch.cat([sentence, hidden], dim=1)).tanh()  # h_s
        return self.output(self.dropout(hidden))
