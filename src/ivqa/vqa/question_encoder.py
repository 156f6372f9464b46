"""Question encoders: what the networks of the zoo read a question with."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from ivqa.encoders.skip_thoughts import SkipThoughtsPath, load_skip_thoughts
from ivqa.errors import UserError
from ivqa.files import FileError
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK, Tokens
from ivqa.vqa.network import SharedDropout
from ivqa.weights import check_finite

_CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class QuestionEncoder(nn.Module):
    """Questions (B, T) to vectors (B, size). Built with num_words, the size of the vocabulary.

    The shapes of its weights follow from its arguments alone, so that a checkpoint restores it.
    """

    size: int

    def initialise(self, words: Sequence[str]) -> None:
        """Called once before training, with the vocabulary's words behind the four specials.

        Encoders that start from weights of their own read them here.
        """

    @abstractmethod
    def forward(self, question: Tokens) -> Tensor:
        """Encodings (B, size); 0 for an empty question."""


class RecurrentEncoder(QuestionEncoder):
    """q = h_T of an LSTM or GRU over the words of the question; an empty question is 0.

    num_words: vocabulary size, specials included. size: d_q. num_layers: the states of the last
    one are used. dropout: on the embeddings, one mask for all words of a question, and between
    layers.
    """

    def __init__(
        self,
        *,
        num_words: int,
        embedding_size: Count = 620,
        size: Count = 2400,
        cell: Literal["lstm", "gru"] = "gru",
        num_layers: Count = 1,
        dropout: ShareBelowOne = 0.25,
    ) -> None:
        super().__init__()
        if cell not in _CELLS:
            raise UserError(f"cell must be one of {', '.join(_CELLS)}, not {cell}")
        self.size = size
        self.embedding = nn.Embedding(num_words, embedding_size, padding_idx=PAD)
        self.dropout = SharedDropout(dropout)
        self.recurrence = _CELLS[cell](
            embedding_size,
            size,
            num_layers,
            batch_first=True,
            dropout=dropout if num_layers > 1 else 0.0,
        )

    def forward(self, question: Tokens) -> Tensor:
        """Encodings (B, d_q) of questions (B, T)."""
        embedded = self.dropout(self.embedding(question.ids))  # (B, T, d_e)
        if torch.is_grad_enabled():  # back through packed steps takes longer than the padding
            states, _ = self.recurrence(embedded)  # (B, T, d_q)
            last = (question.lengths - 1).clamp_min(0)
            found = states[torch.arange(len(last), device=last.device), last]
        else:
            lengths = question.lengths.clamp_min(1).cpu()
            _, found = self.recurrence(
                pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
            )
            found = (found[0] if isinstance(found, tuple) else found)[-1]  # h of the last layer
        return found * (question.lengths > 0)[:, None]


class SkipThoughtsQuestionEncoder(RecurrentEncoder):
    """A GRU that starts as uni-skip [Kim et al. 2017, Ben-younes et al. 2017].

    path: the folder of the published files, or a checkpoint of model=skip_thoughts; needed to
    start training, not to load a trained model. A word that is not in its dictionary starts as
    UNK. embedding_size, size: those of the files. frozen: whether it stays as it was.
    """

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

    @torch.no_grad()
    def initialise(self, words: Sequence[str]) -> None:
        """Copies the files' word vectors and GRU. Raises UserError where they do not fit."""
        trained = load_skip_thoughts(self.path, ["uni"])
        gru = trained.grus["uni"]
        found = (gru.input_size, gru.hidden_size)
        if found != (own := (self.recurrence.input_size, self.recurrence.hidden_size)):
            raise UserError(
                f"uni-skip at {self.path} has embedding_size={found[0]} and size={found[1]}, but "
                f"the question encoder {own[0]} and {own[1]}; give question_encoder those of "
                "the files"
            )
        self.recurrence.load_state_dict(gru.state_dict())
        vectors = trained.vectors("uni", ["UNK", *words])
        self.embedding.weight[UNK:].copy_(vectors)


class TransformersQuestionEncoder(QuestionEncoder):
    """The mean of the last hidden states of any transformers model, fine-tuned or frozen.

    path: a local folder or a hub id. Its tokeniser's pieces of each word are looked up in a table,
    kept with the weights; a question reads as the tokeniser reads it in lower case, "?" at the
    end. A trained model is loaded with path's configuration, not with its weights.
    max_pieces: of a word; max_length: of a question; what is longer is cut.
    """

    pieces: Tensor
    counts: Tensor

    def __init__(
        self,
        *,
        num_words: int,
        path: str,
        frozen: bool = True,
        max_pieces: Count = 8,
        max_length: Count = 64,
    ) -> None:
        from transformers import AutoConfig, AutoModel

        super().__init__()
        try:
            config = AutoConfig.from_pretrained(path)
        except Exception as error:  # whatever the files lead to
            reason = " ".join(str(error).split())[:300]
            raise FileError(
                f"cannot load a question encoder from '{path}': {reason}; download it where there "
                "is a network and pass question_encoder.path=FOLDER"
            ) from error
        self.path, self.max_length, self.frozen = path, max_length, frozen
        self.model = AutoModel.from_config(config).requires_grad_(not frozen)
        self.size = int(config.hidden_size)
        self.padding = int(getattr(config, "pad_token_id", None) or 0)
        # Row BOS holds what the tokeniser puts in front of a text, row EOS what comes behind.
        self.register_buffer("pieces", torch.full((num_words, max_pieces), self.padding))
        self.register_buffer("counts", torch.zeros(num_words, dtype=torch.int64))

    def train(self, mode: bool = True) -> "TransformersQuestionEncoder":
        """As for any module, but that a frozen model never drops anything."""
        super().train(mode)
        self.model.train(mode and not self.frozen)
        return self

    @torch.no_grad()
    def initialise(self, words: Sequence[str]) -> None:
        """Reads the model's weights, and the pieces of every word."""
        from transformers import AutoModel, AutoTokenizer

        try:
            state = AutoModel.from_pretrained(self.path).state_dict()
            tokenizer = AutoTokenizer.from_pretrained(self.path)
        except Exception as error:  # whatever the files lead to
            reason = " ".join(str(error).split())[:300]
            raise FileError(
                f"cannot load a question encoder from '{self.path}': {reason}; write model and "
                "tokeniser there with save_pretrained"
            ) from error
        check_finite(state, self.path)
        self.model.load_state_dict(state)
        # A space in front: tokenisers that tell the start of a word from its inside need it.
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
        """Pieces (B, S) of the questions (B, T), right-padded, and their mask, True: a piece."""
        words = F.pad(F.pad(question.ids, (1, 0), value=BOS), (0, 1), value=PAD)  # (B, T + 2)
        words = words.scatter(1, question.lengths[:, None] + 1, EOS)
        places = torch.arange(self.pieces.shape[1], device=words.device)
        known = (places < self.counts[words][:, :, None]).flatten(1)  # (B, (T + 2) max_pieces)
        longest = min(int(known.sum(dim=1).max()), self.max_length)
        # A stable sort moves the pieces to the front in their order.
        order = known.int().argsort(dim=1, descending=True, stable=True)[:, :longest]
        return self.pieces[words].flatten(1).gather(1, order), known.gather(1, order)

    def forward(self, question: Tokens) -> Tensor:
        """Encodings (B, size) of questions (B, T)."""
        pieces, mask = self.sequences(question)
        hidden = self.model(input_ids=pieces, attention_mask=mask.long()).last_hidden_state
        mean = (hidden * mask[:, :, None]).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp_min(1)
        return mean * (question.lengths > 0)[:, None]
