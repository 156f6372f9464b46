"""HieCoAtt: hierarchical question-image co-attention, alternating (Lu et al., NeurIPS 2016).

Three levels of the question, words Q_w, phrases Q_p (the largest of n-gram convolutions) and
sentence Q_s (an LSTM over phrases), each attend and are attended to with weights of their own:
s = attend(Q), v^ = attend(V | s), q^ = attend(Q | v^); the answer is read from their sums.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.data.batch import ImageBatch
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import PAD, Tokens
from ivqa.vqa.network import (
    SharedDropout,
    VQANetwork,
    checked_grid,
    products_with_few,
    single_feature,
    tanh,
)


class Attention(nn.Module):
    """Weights softmax(w tanh(W X + W' g)) over X, and the sum of X under them, at each of K levels.

    tanh(h) = 2 sigmoid(2h) - 1, and softmax does not see what is the same for all of X; a CPU
    takes half the time for sigmoid in bfloat16. Dropout has one mask for all of X: for images, one
    for each place costs a quarter of training. All levels are computed at once, which takes a third
    less than one after another. The layers of the levels lie below each other in one matrix.
    """

    def __init__(
        self, *, levels: int, size: int, attention_size: int, guided: bool, dropout: float
    ) -> None:
        super().__init__()
        self.num_levels = levels
        self.values = nn.Linear(size, levels * attention_size)
        self.guide = nn.Linear(size, levels * attention_size) if guided else None
        self.score = nn.Linear(attention_size, levels, bias=False)  # softmax would not see a bias
        self.dropout = nn.Dropout(dropout)

    def by_level(self, layer: nn.Linear, values: Tensor) -> Tensor:
        """Twice what the layers of K levels make of values of their own, (K, N, d)."""
        weight = 2 * layer.weight.unflatten(0, (self.num_levels, -1))
        bias = 2 * layer.bias.unflatten(0, (self.num_levels, 1, -1))
        return torch.baddbmm(bias, values, weight.mT)

    def scores(self, num: int) -> Tensor:
        """The K vectors w for `num` questions, (K, num, d); a mask for all of X is one of w."""
        weights: Tensor = self.dropout(2 * self.score.weight[:, None].expand(-1, num, -1))
        return weights


class QuestionAttention(Attention):
    """X is a question, of other values at each level."""

    def weights(self, values: Tensor, mask: Tensor, guide: Tensor | None) -> Tensor:
        """Weights (K, B, T) over values (K, B, T, d); mask (B, T), True where a word stands."""
        num_levels, num, words, _ = values.shape
        hidden = self.by_level(self.values, values.flatten(1, 2)).unflatten(1, (num, words))
        if self.guide is not None and guide is not None:
            hidden = hidden + self.by_level(self.guide, guide)[:, :, None]
        scores = products_with_few(
            self.scores(num).flatten(0, 1)[:, None], hidden.sigmoid().flatten(0, 1)
        )
        scores = scores.view(num_levels, num, words).float()
        return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=2)

    def forward(self, values: Tensor, mask: Tensor, guide: Tensor | None = None) -> Tensor:
        """The attended vectors (K, B, d); guide (K, B, d)."""
        weights = self.weights(values, mask, guide).to(values.dtype)
        attended = torch.bmm(weights.flatten(0, 1)[:, None], values.flatten(0, 1))
        return attended.view(*values.shape[:2], -1)


class ImageAttention(Attention):
    """X is an image, the same at all levels."""

    def __init__(self, *, levels: int, size: int, attention_size: int, dropout: float) -> None:
        super().__init__(
            levels=levels, size=size, attention_size=attention_size, guided=True, dropout=dropout
        )
        assert self.guide is not None
        # Places and guide meet in tanh alone. From torch's usual start it is nearly linear: what
        # the guide adds is then the same for all places, and softmax does not see it.
        nn.init.normal_(self.values.weight, std=2.5 / math.sqrt(size))
        nn.init.normal_(self.guide.weight, std=10 / math.sqrt(size))

    def weights(self, values: Tensor, guide: Tensor) -> Tensor:
        """Weights (B, K, L) over values (B, L, d), guide (K, B, d)."""
        assert self.guide is not None
        hidden = F.linear(values, 2 * self.values.weight)  # (B, L, K d)
        guided = self.by_level(self.guide, guide).transpose(0, 1).flatten(1)
        guided = guided + 2 * self.values.bias
        hidden = hidden + guided[:, None].to(hidden.dtype)
        # The w of a level is for its own part of `hidden`: rows (K d) that are 0 elsewhere.
        own = torch.eye(len(guide), dtype=values.dtype, device=values.device)[:, :, None]
        scores = self.scores(len(values)).transpose(0, 1)[:, None] * own  # (B, K, K, d)
        scores = products_with_few(scores.flatten(2), hidden.sigmoid())
        return scores.float().softmax(dim=2)

    def forward(self, values: Tensor, guide: Tensor) -> Tensor:
        """The attended vectors (K, B, d)."""
        weights = self.weights(values, guide).to(values.dtype)
        return torch.bmm(weights, values).transpose(0, 1)


class AlternatingCoAttention(nn.Module):
    """The three steps of K levels; nothing is shared between steps or levels."""

    def __init__(self, **sizes: Any) -> None:
        super().__init__()
        question = partial(QuestionAttention, **sizes)
        self.summary = question(guided=False)
        self.image = ImageAttention(**sizes)
        self.question = question(guided=True)

    def forward(self, question: Tensor, mask: Tensor, image: Tensor) -> Tensor:
        """The sums q^ + v^, (K, B, d), for a question (K, B, T, d) and an image (B, L, d)."""
        seen = self.image(image, guide=self.summary(question, mask))
        return self.question(question, mask, seen) + seen


class HieCoAtt(VQANetwork):
    """Alternating co-attention at three levels; sizes of the released code.

    Other than the released code: one dropout mask for all places or words, no bias where softmax
    would not see it, and larger weights at the start of the attention over images and of the
    hidden layers. PyTorch's LSTM has two vectors of biases.

    Args:
        num_words: Size of the vocabulary, specials included.
        num_answers: K.
        feature_sizes: The name of one spatial feature, and its channels.
        size: Of words, phrases and states.
        attention_size: Of W X + W' g; None: size.
        sentence_size: Of the last hidden layer.
        num_layers: Of the LSTM over phrases; the paper's text has one.
        dropout: Everywhere.
    """

    def __init__(
        self,
        *,
        num_words: int,
        num_answers: int,
        feature_sizes: Mapping[str, int],
        size: Count = 512,
        attention_size: Count | None = None,
        sentence_size: Count = 1024,
        num_layers: Count = 2,
        dropout: ShareBelowOne = 0.5,
    ) -> None:
        super().__init__()
        self.feature, self.feature_size = single_feature(feature_sizes, "hiecoatt")
        self.image = nn.Linear(self.feature_size, size)
        self.embedding = nn.Embedding(num_words, size, padding_idx=PAD)
        self.n_grams = nn.ModuleList(nn.Linear(width * size, size) for width in (1, 2, 3))
        self.lstm = nn.LSTM(
            size,
            size,
            num_layers,
            batch_first=True,
            dropout=dropout if num_layers > 1 else 0.0,
        )
        self.levels = AlternatingCoAttention(
            levels=3, size=size, attention_size=attention_size or size, dropout=dropout
        )
        self.word = nn.Linear(size, size)
        self.phrase = nn.Linear(2 * size, size)
        self.sentence = nn.Linear(2 * size, sentence_size)
        self.output = nn.Linear(sentence_size, num_answers)
        self.dropout, self.dropout_places = nn.Dropout(dropout), SharedDropout(dropout)
        # What is asked and what is seen are compared here: tanh must not be nearly linear.
        for layer in (self.word, self.phrase, self.sentence):
            nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain("tanh"))

    def hierarchy(self, question: Tokens) -> Tensor:
        """Words, phrases and states of the question, (3, B, T, d); 0 at the padding."""
        mask = question.mask[:, :, None]
        words = self.dropout_places(self.embedding(question.ids).tanh()) * mask  # (B, T, d)
        left, right = F.pad(words, (0, 0, 1, -1)), F.pad(words, (0, 0, -1, 1))
        # As products, which a CPU computes in two thirds of the time of convolutions.
        near = (words, torch.cat([left, words], dim=2), torch.cat([left, words, right], dim=2))
        grams = torch.stack([layer(x) for layer, x in zip(self.n_grams, near, strict=True)])
        phrases = self.dropout_places(grams.amax(dim=0).tanh()) * mask
        states, _ = self.lstm(phrases)  # forward only: the padding behind is never seen
        return torch.stack([words, phrases, self.dropout_places(states) * mask])

    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        """Answer logits (B, K)."""
        grid = checked_grid(images, self.feature, self.feature_size)
        image = self.dropout_places(tanh(self.image(grid)))
        image = image.index_select(0, images.index)  # (B, L, d)
        levels = self.levels(self.hierarchy(question), question.mask, image)  # (3, B, d)
        word, phrase, sentence = self.dropout(levels)
        hidden = self.word(word).tanh()
        hidden = self.phrase(torch.cat([phrase, hidden], dim=1)).tanh()
        hidden = self.sentence(torch.cat([sentence, hidden], dim=1)).tanh()
        return self.output(self.dropout(hidden))
