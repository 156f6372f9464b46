"""Skip-thought vectors (Kiros et al., NeurIPS 2015): published encoders and those trained by ivqa.

uni is the last state of a GRU over the words (2400 dimensions as published). bi concatenates the
last states of a forward and a backward GRU (1200 each). combine concatenates uni and bi.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import AfterValidator
from torch import Tensor, nn

from ivqa.encoders.encoder import TrainedEncoder, unit_rows
from ivqa.encoders.skip_thoughts_published import gru_of, published_words, read_published
from ivqa.errors import UserError, reason_of
from ivqa.ranges import CONTENT, Cache, Count
from ivqa.store.digests import content_digest
from ivqa.store.files import FileError
from ivqa.store.weights import read_weights, state_dict_of
from ivqa.text.tokens import tokenise
from ivqa.text.vocabulary import SPECIALS, UNK, packed


def _existing(path: str) -> str:
    if not Path(path).exists():
        raise ValueError(
            "there are no skip-thoughts; give the folder of the published files, or the "
            "checkpoint that `python train.py model=skip_thoughts` wrote"
        )
    return path


SkipThoughtsPath = Annotated[str, AfterValidator(_existing), CONTENT]
Kind = Literal["uni", "bi", "combine"]
PARTS: dict[str, tuple[str, ...]] = {"uni": ("uni",), "bi": ("bi",), "combine": ("uni", "bi")}


def last_states(gru: nn.GRU, embedded: Tensor, lengths: Tensor) -> Tensor:
    """Computes the last states of a GRU over texts, (B, directions * d); 0 for an empty text.

    Args:
        gru: A batch-first GRU of one layer, in one or two directions.
        embedded: (B, T, d_e), padded on the right.
        lengths: (B,) int64, words of each text.
    """
    _, states = gru(packed(embedded, lengths))  # (directions, B, d)
    return states.transpose(0, 1).flatten(1) * (lengths > 0)[:, None]


@dataclass(frozen=True)
class SkipThoughts:
    """Trained encoders: word vectors and a GRU for each loaded part, uni and bi.

    Args:
        rows: Row of each word in the tables. "UNK" is among them; "<eos>" is if the encoder was
            trained with it.
        tables: Word vectors of each part, (N, d_e) float32; may be memory-mapped.
        grus: GRU of each part.
        split: Splits a text into words.
    """

    rows: Mapping[str, int]
    tables: Mapping[str, NDArray[np.float32]]
    grus: Mapping[str, nn.GRU]
    split: Callable[[str], list[str]]

    def vectors(self, part: str, words: Sequence[str]) -> Tensor:
        """Looks up the vectors (n, d_e) float32 of n words in a part, uni or bi.

        A word that is not in the dictionary gets the vector of UNK.
        """
        rows = [self.rows.get(word, self.rows["UNK"]) for word in words]
        return torch.from_numpy(np.array(self.tables[part][rows], dtype=np.float32))

    @torch.no_grad()
    def encode(
        self, texts: Sequence[str], parts: Sequence[str], *, eos: bool, batch_size: int
    ) -> NDArray[np.float32]:
        """Encodes N texts by the parts uni, bi or both.

        Args:
            texts: N texts.
            parts: The parts to concatenate.
            eos: Appends "<eos>" to each text.
            batch_size: Texts that are encoded together.

        Returns:
            (N, d) float32, each part of unit l2 norm; 0 for a text without words.

        Raises:
            UserError: `eos` is set, and the dictionary has no "<eos>".
        """
        if eos and "<eos>" not in self.rows:
            raise UserError(
                "this dictionary has no <eos>: it was trained without; pass use_eos=false"
            )
        # An empty text gets no <eos>, so that its encoding stays 0.
        words = [[*found, *["<eos>"] * eos] if (found := self.split(t)) else [] for t in texts]
        lengths = np.array([len(text) for text in words], dtype=np.int64)
        sizes = [self.grus[p].hidden_size * (1 + self.grus[p].bidirectional) for p in parts]
        result: NDArray[np.float32] = np.zeros((len(texts), sum(sizes)), dtype=np.float32)
        # Texts of equal length are encoded together, without padding.
        for length in np.unique(lengths[lengths > 0]):
            equal = np.flatnonzero(lengths == length)
            for start in range(0, len(equal), batch_size):
                batch = equal[start : start + batch_size]
                flat = [word for row in batch for word in words[row]]
                halves = [self._encoded(part, flat, len(batch)) for part in parts]
                # Each part has unit norm before the parts are joined, as in the published code.
                result[batch] = np.concatenate([unit_rows(half) for half in halves], axis=1)
        return result

    def _encoded(self, part: str, words: list[str], number: int) -> NDArray[np.float32]:
        embedded = self.vectors(part, words).view(number, len(words) // number, -1)  # (B, T, d_e)
        lengths = torch.full((number,), embedded.shape[1])
        return last_states(self.grus[part], embedded, lengths).numpy()


class SkipThoughtsEncoder(TrainedEncoder):
    """Skip-thought vectors of unit l2 norm.

    Args:
        path: A folder with the published files dictionary.txt, utable.npy, uni_skip.npz,
            btable.npy and bi_skip.npz (the first three are enough for uni), or a checkpoint of
            model=skip_thoughts.
        kind: uni, bi or combine.
        use_eos: Appends "<eos>" to each text; recommended for texts without punctuation.
        batch_size: Texts that are encoded together.
        cache: Folder for encodings; None stores none.

    Raises:
        UserError: `kind` is unknown, or a file is missing or invalid; the message names it.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        path: SkipThoughtsPath,
        kind: Kind = "combine",
        *,
        use_eos: bool = False,
        batch_size: Count = 128,
        cache: Cache | None = None,
    ) -> None:
        super().__init__(cache)
        if kind not in PARTS:
            raise UserError(f"kind must be one of {', '.join(PARTS)}, not {kind}")
        self.path, self.kind, self.use_eos, self.batch_size = path, kind, use_eos, batch_size
        self._model = load_skip_thoughts(path, PARTS[kind])
        self.content = content_digest(path)

    def _encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        parts = PARTS[self.kind]
        found = self._model.encode(texts, parts, eos=self.use_eos, batch_size=self.batch_size)
        return unit_rows(found)


def load_skip_thoughts(path: str | Path, parts: Sequence[str]) -> SkipThoughts:
    """Loads the `parts` uni, bi or both from the published files or from a checkpoint of ivqa.

    Raises:
        UserError: A file is missing or invalid; the message names it.
    """
    place = Path(path)
    if place.is_dir():
        return SkipThoughts(*read_published(place, parts), split=published_words)
    if not place.is_file():
        raise UserError(
            f"there are no skip-thoughts at '{path}'; give the folder of the published files, or "
            "the checkpoint that `python train.py model=skip_thoughts` wrote"
        )
    try:
        checkpoint = read_weights(place)
        words = checkpoint["component"]["question_words"]
        return from_weights(state_dict_of(checkpoint, place), words, parts)
    except Exception as error:  # a missing or misshapen weight raises errors of many types
        reason = reason_of(error)
        raise FileError(
            f"{path} is not a checkpoint of model=skip_thoughts ({reason}); give the one that "
            "`python train.py model=skip_thoughts` wrote"
        ) from error


def from_weights(
    state: Mapping[str, Tensor], words: Sequence[str], parts: Sequence[str] = ("uni", "bi")
) -> SkipThoughts:
    """Builds encoders on the CPU from the state dict of a `SkipThoughtsModule`.

    `words` are those of its vocabulary, without special tokens.
    """
    tables, grus = {}, {}
    for part in parts:
        prefix = f"network.{part}.gru."
        names = [name for name in state if name.startswith(prefix)]
        grus[part] = gru_of({name.removeprefix(prefix): state[name].cpu() for name in names})
        tables[part] = state[f"network.{part}.embedding.weight"].cpu().numpy()
    # The first rows of the embedding belong to the special tokens.
    rows = {word: row for row, word in enumerate(words, start=len(SPECIALS))}
    return SkipThoughts({**rows, "UNK": UNK}, tables, grus, tokenise)
