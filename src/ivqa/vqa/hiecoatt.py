"""HieCoAtt: hierarchical question-image co-attention, alternating (Lu et al., NeurIPS 2016).

Three levels of the question, words Q_w, phrases Q_p (the largest of n-gram convolutions) and
sentence Q_s (an LSTM over phrases), each attend and are attended to with weights of their own:
s = attend(Q), v^ = attend(V | s), q^ = attend(Q | v^); the answer is read from their sums.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.data.batch import ImageBatch
from ivqa.text.vocabulary import PAD, Tokens
from ivqa.vqa.network import (
    SharedDropout,
    VQANetwork,
    checked_grid,
    single_feature,
    tanh,
)


class Attention(nn.Module):
    """Weights softmax(w tanh(W X + W' g)) over X, and the sum of X under them.

    tanh(h) = 2 sigmoid(2h) - 1, and softmax does not see what is the same for all of X; a CPU
    takes half the time for sigmoid in bfloat16. Dropout has one mask for all of X: for images, one
    for each place costs a quarter of training.
    """

    def __init__(self, *, size: int, guided: bool, dropout: float) -> None:
        super().__init__()
        self.values = nn.Linear(size, size)
        self.guide = nn.Linear(size, size) if guided else None
        self.score = nn.Linear(size, 1, bias=False)  # softmax would not see a bias
        self.dropout = nn.Dropout(dropout)

    def weights(self, values: Tensor, mask: Tensor | None, guide: Tensor | None) -> Tensor:
        """Weights (B, N) over values (B, N, d); mask (B, N), True where a value stands."""
        hidden = F.linear(values, 2 * self.values.weight, 2 * self.values.bias)
        if self.guide is not None and guide is not None:
            hidden = hidden + 2 * self.guide(guide)[:, None]
        # One mask for all of X is a mask of w.
        score = self.dropout(2 * self.score.weight.expand(len(values), -1))  # (B, d)
        scores = torch.bmm(hidden.sigmoid(), score[:, :, None]).squeeze(-1).float()
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=1)

    def forward(
        self, values: Tensor, mask: Tensor | None = None, guide: Tensor | None = None
    ) -> Tensor:
        """The attended vector (B, d)."""
        weights = self.weights(values, mask, guide).to(values.dtype)
        return torch.einsum("bn,bnd->bd", weights, values)


class AlternatingCoAttention(nn.Module):
    """The three steps of one level; nothing is shared between them."""

    def __init__(self, *, size: int, dropout: float) -> None:
        super().__init__()
        self.summary = Attention(size=size, guided=False, dropout=dropout)
        self.image = Attention(size=size, guided=True, dropout=dropout)
        self.question = Attention(size=size, guided=True, dropout=dropout)

    def forward(self, question: Tensor, mask: Tensor, image: Tensor) -> Tensor:
        """The sum q^ + v^, (B, d), for a question (B, T, d) and an image (B, L, d)."""
        seen = self.image(image, guide=self.summary(question, mask))
        return self.question(question, mask, seen) + seen


class HieCoAtt(VQANetwork):
    """Alternating co-attention at three levels; sizes of the released code.

    size: of words, phrases, states and attention (512). sentence_size: of the last hidden layer
    (1024). num_layers: of the LSTM over phrases.
    """

    def __init__(
        self,
        *,
        num_words: int,
        num_answers: int,
        feature_sizes: Mapping[str, int],
        size: int = 512,
        sentence_size: int = 1024,
        num_layers: int = 2,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.feature, self.feature_size = single_feature(feature_sizes, "hiecoatt")
        self.image = nn.Linear(self.feature_size, size)
        self.embedding = nn.Embedding(num_words, size, padding_idx=PAD)
        self.n_grams = nn.ModuleList(nn.Conv1d(size, size, width) for width in (1, 2, 3))
        self.lstm = nn.LSTM(
            size,
            size,
            num_layers,
            batch_first=True,
            dropout=dropout if num_layers > 1 else 0.0,
        )
        self.levels = nn.ModuleList(
            AlternatingCoAttention(size=size, dropout=dropout) for _ in range(3)
        )
        self.word = nn.Linear(size, size)
        self.phrase = nn.Linear(2 * size, size)
        self.sentence = nn.Linear(2 * size, sentence_size)
        self.output = nn.Linear(sentence_size, num_answers)
        self.dropout, self.dropout_places = nn.Dropout(dropout), SharedDropout(dropout)
        # What is asked and what is seen are compared here: tanh must not be nearly linear.
        for layer in (self.word, self.phrase, self.sentence):
            nn.init.xavier_uniform_(layer.weight, gain=nn.init.calculate_gain("tanh"))

    def hierarchy(self, question: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """Words, phrases and states of the question, (B, T, d) each; 0 at the padding."""
        mask = question.mask[:, :, None]
        words = self.dropout_places(self.embedding(question.ids).tanh()) * mask  # (B, T, d)
        channels = words.transpose(1, 2)  # (B, d, T)
        # Widths 1, 2, 3 padded by 0, 1 and 1: a word with none, its left, and both neighbours.
        padded = (channels, F.pad(channels, (1, 0)), F.pad(channels, (1, 1)))
        grams = torch.stack([conv(x) for conv, x in zip(self.n_grams, padded, strict=True)])
        phrases = self.dropout_places(grams.amax(dim=0).tanh().transpose(1, 2)) * mask
        states, _ = self.lstm(phrases)  # forward only: the padding behind is never seen
        return words, phrases, self.dropout_places(states) * mask

    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        """Answer logits (B, K)."""
        grid = checked_grid(images, self.feature, self.feature_size)
        image = self.dropout_places(tanh(self.image(grid)))
        image = image.index_select(0, images.index)  # (B, L, d)
        word, phrase, sentence = (
            self.dropout(level(states, question.mask, image))
            for level, states in zip(self.levels, self.hierarchy(question), strict=True)
        )
        hidden = self.word(word).tanh()
        hidden = self.phrase(torch.cat([phrase, hidden], dim=1)).tanh()
        hidden = self.sentence(torch.cat([sentence, hidden], dim=1)).tanh()
        return self.output(self.dropout(hidden))
