"""The question encoder of MCB: stacked LSTMs over trained and fixed word vectors."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.encoders.word_vectors import check_words, read_word_vectors, size_of_word_vectors
from ivqa.errors import UserError
from ivqa.ranges import Count, CountOrZero, ExistingFile, Positive, ShareBelowOne
from ivqa.text.vocabulary import PAD, UNK, Tokens
from ivqa.vqa.networks.question_encoder import QuestionEncoder


class StackedLSTMEncoder(QuestionEncoder):
    """q = [drop(h^1_T); drop(h^2_T)] of two LSTM layers over [tanh(E w_t); g(w_t)].

    g(w) are fixed word vectors, GloVe's in the paper; 0 for a word that the file lacks. The second
    layer reads drop(h^1_t). The last states of both layers are concatenated [Fukui et al. 2016].
    PyTorch's LSTM has two bias vectors, the published one has one.

    Args:
        embedding_size: Size of the trained vectors tanh(E w).
        vector_size: Size of the fixed vectors g(w); 0 leaves them out.
        hidden_size: d_h, size of the states of one layer.
        num_layers: Layers; q has size num_layers * d_h.
        dropout: On the states of each layer.
        initializer_range: r; weights start in U(-r, r), biases at 0.
        path: Text file of the vectors g. It is read when training starts; a checkpoint has the
            vectors.
    """

    version: ClassVar[int] = 1

    vectors: Tensor  # g, (num_words, vector_size)

    def __init__(
        self,
        *,
        num_words: int,
        embedding_size: Count = 300,
        vector_size: CountOrZero = 300,
        hidden_size: Count = 1024,
        num_layers: Count = 2,
        dropout: ShareBelowOne = 0.3,
        initializer_range: Positive = 0.08,
        path: ExistingFile | None = None,
    ) -> None:
        super().__init__()
        self.path, self.size = path, num_layers * hidden_size
        self.embedding = nn.Embedding(num_words, embedding_size, padding_idx=PAD)
        inputs = [embedding_size + vector_size, *[hidden_size] * num_layers]
        self.layers = nn.ModuleList(
            nn.LSTM(read, written, batch_first=True) for read, written in pairwise(inputs)
        )
        self.dropout = nn.Dropout(dropout)
        # A buffer, so that a checkpoint restores the vectors without their file.
        self.register_buffer("vectors", torch.zeros(num_words, vector_size))
        for name, parameter in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.uniform_(parameter, -initializer_range, initializer_range)
        with torch.no_grad():
            self.embedding.weight[PAD].zero_()

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks before a command starts that there is a file of fixed vectors.

        Raises:
            UserError: vector_size is not 0, and there is no path, or its vectors have another size.
        """
        size, path = arguments["vector_size"], arguments["path"]
        if not size:
            return
        if path is None:
            raise UserError(
                f"a question encoder with vector_size={size} reads word vectors from a file; give "
                "question_encoder.path=FILE, such as glove.6B.300d.txt, or "
                "question_encoder.vector_size=0"
            )
        if (found := size_of_word_vectors(path)) != size:
            raise UserError(
                f"{path} has vectors of {found} values, but question_encoder.vector_size={size}; "
                "give the size of the file"
            )

    @staticmethod
    def check_corpus(arguments: Mapping[str, Any], texts: Sequence[str]) -> None:
        """Checks before long work that the file has vectors for words of the questions."""
        if arguments["vector_size"]:
            check_words(arguments["path"], texts)

    @torch.no_grad()
    @override
    def initialise(self, words: Sequence[str]) -> None:
        """Reads the fixed vectors of the vocabulary's words.

        Raises:
            UserError: There is no file, or its vectors have another size.
        """
        size = self.vectors.shape[1]
        self.check_arguments({"vector_size": size, "path": self.path})
        if self.path is None or not size:
            return
        found = read_word_vectors(self.path, words)
        for row, word in enumerate(words, start=UNK + 1):
            if word in found:
                self.vectors[row] = torch.from_numpy(found[word])

    @override
    def forward(self, question: Tokens) -> Tensor:
        trained = self.embedding(question.ids).tanh()  # tanh(E w), (B, T, d_e)
        fixed = self.vectors[question.ids].to(trained.dtype)  # g(w), (B, T, d_g)
        states = torch.cat([trained, fixed], dim=2)
        rows = torch.arange(len(question), device=states.device)
        final = (question.lengths - 1).clamp_min(0)
        last = []
        for layer in self.layers:
            states, _ = layer(states)  # an LSTM that reads forward never sees the padding
            states = self.dropout(states)  # (B, T, d_h)
            last.append(states[rows, final])
        return torch.cat(last, dim=1) * (question.lengths > 0)[:, None]
