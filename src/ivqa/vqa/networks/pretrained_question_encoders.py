"""Question encoders that start from pretrained weights: skip-thoughts, transformers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from ivqa.encoders.skip_thoughts import SkipThoughtsPath, load_skip_thoughts
from ivqa.errors import UserError, reason_of
from ivqa.hub import check_revision, note_commit
from ivqa.ranges import Count, ShareBelowOne, Weights
from ivqa.store.files import FileError
from ivqa.store.weights import check_finite
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK, Tokens
from ivqa.vqa.networks.question_encoder import QuestionEncoder, RecurrentEncoder


class SkipThoughtsQuestionEncoder(RecurrentEncoder):
    """A GRU that starts from uni-skip [Kim et al. 2017, Ben-younes et al. 2017].

    A word that the files do not have starts with their vector of UNK.

    Args:
        path: The folder of the published files, or a checkpoint of model=skip_thoughts. It is read
            when training starts, and not needed to load a trained model.
        embedding_size: d_e of the files.
        size: d_q of the files.
        frozen: Whether the weights are not trained.
        dropout: On the embeddings, with one mask for all words of a question.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        num_words: int,
        path: SkipThoughtsPath,
        embedding_size: Count = 620,
        size: Count = 2400,
        frozen: bool = False,
        dropout: ShareBelowOne = 0.25,
    ) -> None:
        super().__init__(
            num_words=num_words, embedding_size=embedding_size, size=size, dropout=dropout
        )
        self.path = path
        self.requires_grad_(not frozen)

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks before a command starts that existing files have the sizes of the encoder.

        Raises:
            UserError: They have other sizes.
        """
        path, sizes = arguments["path"], (arguments["embedding_size"], arguments["size"])
        if Path(path).exists():  # a trained model does not need its files
            _check_sizes(path, load_skip_thoughts(path, ["uni"]).grus["uni"], sizes)

    @torch.no_grad()
    @override
    def initialise(self, words: Sequence[str]) -> None:
        """Copies word vectors and GRU from the files.

        Raises:
            UserError: The files have other sizes.
        """
        trained = load_skip_thoughts(self.path, ["uni"])
        gru = trained.grus["uni"]
        _check_sizes(self.path, gru, (self.recurrence.input_size, self.recurrence.hidden_size))
        self.recurrence.load_state_dict(gru.state_dict())
        vectors = trained.vectors("uni", ["UNK", *words])
        self.embedding.weight[UNK:].copy_(vectors)


class TransformersQuestionEncoder(QuestionEncoder):
    """The mean of the last hidden states of any transformers model, fine-tuned or frozen.

    A table, stored with the weights, has the tokeniser's pieces of each word. A question becomes
    the pieces that the tokeniser makes of it in lower case with "?" at the end. To load a trained
    encoder, only the configuration at `path` is needed, not its weights.

    Args:
        path: A local folder or a hub id.
        revision: The branch, tag or commit of a hub id; None for "main".
        frozen: Whether the transformers model is not trained.
        max_pieces: Pieces of a word; further ones are cut.
        max_length: Pieces of a question; further ones are cut.

    Raises:
        FileError: The configuration cannot be loaded.
    """

    version: ClassVar[int] = 1

    pieces: Tensor  # (num_words, max_pieces) int64
    counts: Tensor  # pieces of each word, (num_words,) int64

    def __init__(
        self,
        *,
        num_words: int,
        path: Weights,
        revision: str | None = None,
        frozen: bool = True,
        max_pieces: Count = 8,
        max_length: Count = 64,
    ) -> None:
        from transformers import AutoConfig, AutoModel

        super().__init__()
        check_revision(path, revision)
        try:
            config = AutoConfig.from_pretrained(path, revision=revision or "main")
            commit = note_commit(path, revision)
        except Exception as error:  # transformers raises many kinds
            reason = reason_of(error)
            raise FileError(
                f"cannot load a question encoder from '{path}': {reason}; download it where there "
                "is a network and pass question_encoder.path=FOLDER"
            ) from error
        self.path, self.max_length, self.frozen = path, max_length, frozen
        self.revision = "main" if Path(path).is_dir() else commit or revision or "main"
        self.model = AutoModel.from_config(config).requires_grad_(not frozen)
        self.size = int(config.hidden_size)
        self.padding = int(getattr(config, "pad_token_id", None) or 0)
        # Row BOS has the pieces that the tokeniser puts before a text, row EOS those after it.
        self.register_buffer("pieces", torch.full((num_words, max_pieces), self.padding))
        self.register_buffer("counts", torch.zeros(num_words, dtype=torch.int64))

    def train(self, mode: bool = True) -> "TransformersQuestionEncoder":
        """Sets the mode; a frozen model stays in evaluation mode, without dropout."""
        super().train(mode)
        self.model.train(mode and not self.frozen)
        return self

    @torch.no_grad()
    @override
    def initialise(self, words: Sequence[str]) -> None:
        """Loads the weights, and looks up the pieces of each word.

        Raises:
            FileError: Model or tokeniser cannot be loaded.
        """
        from transformers import AutoModel, AutoTokenizer

        try:
            loaded = AutoModel.from_pretrained(self.path, revision=self.revision)
            state = loaded.state_dict()
            tokenizer = AutoTokenizer.from_pretrained(self.path, revision=self.revision)
        except Exception as error:  # transformers raises many kinds
            reason = reason_of(error)
            raise FileError(
                f"cannot load a question encoder from '{self.path}': {reason}; write model and "
                "tokeniser there with save_pretrained"
            ) from error
        check_finite(state, self.path)
        self.model.load_state_dict(state)
        # With a space in front, because some tokenisers mark the start of a word by it.
        texts = [" ?", *[f" {word}" for word in words]]
        mark, *found = tokenizer(texts, add_special_tokens=False)["input_ids"]
        whole = tokenizer(" ?")["input_ids"]
        start = next(at for at in range(len(whole)) if whole[at : at + len(mark)] == mark)
        unknown = [] if tokenizer.unk_token_id is None else [tokenizer.unk_token_id]
        rows = [[], whole[:start], whole[start:], unknown, *found]  # PAD, BOS, EOS, UNK, words
        for row, pieces in enumerate(rows):
            kept = torch.tensor(pieces[: self.pieces.shape[1]], dtype=torch.int64)
            self.pieces[row, : len(kept)] = kept
            self.counts[row] = len(kept)

    def sequences(self, question: Tokens) -> tuple[Tensor, Tensor]:
        """Looks up the pieces of B questions of at most T words.

        Returns:
            Pieces, (B, S) int64, padded at the end, and a mask, (B, S) bool, True at pieces.
        """
        words = F.pad(F.pad(question.ids, (1, 0), value=BOS), (0, 1), value=PAD)  # (B, T + 2)
        words = words.scatter(1, question.lengths[:, None] + 1, EOS)
        places = torch.arange(self.pieces.shape[1], device=words.device)
        known = (places < self.counts[words][:, :, None]).flatten(1)  # (B, (T + 2) max_pieces)
        longest = min(int(known.sum(dim=1).max()), self.max_length)
        # A stable sort moves the pieces to the front and keeps their order.
        order = known.int().argsort(dim=1, descending=True, stable=True)[:, :longest]
        return self.pieces[words].flatten(1).gather(1, order), known.gather(1, order)

    @override
    def forward(self, question: Tokens) -> Tensor:
        pieces, mask = self.sequences(question)
        hidden = self.model(input_ids=pieces, attention_mask=mask.long()).last_hidden_state
        mean = (hidden * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp_min(1)
        return mean * (question.lengths > 0)[:, None]


def _check_sizes(path: str | Path, gru: nn.GRU, sizes: tuple[int, int]) -> None:
    """Raises UserError unless the GRU of the files has the encoder's (embedding_size, size)."""
    found = (gru.input_size, gru.hidden_size)
    if found != sizes:
        raise UserError(
            f"uni-skip at {path} has embedding_size={found[0]} and size={found[1]}, but the "
            f"question encoder {sizes[0]} and {sizes[1]}; give question_encoder those of the files"
        )
