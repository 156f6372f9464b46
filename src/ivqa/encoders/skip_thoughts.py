"""Skip-thought vectors (Kiros et al., NeurIPS 2015): published encoders and those trained by ivqa.

uni is the last state of a GRU over the words (2400 dimensions as published). bi concatenates the
last states of a forward and a backward GRU (1200 each). combine concatenates uni and bi. The
published Theano GRU

    r, u = sigmoid(x W + b + h U),   h' = u h + (1 - u) tanh(x Wx + bx + r (h Ux))

applies the reset gate after the product with Ux, as torch.nn.GRU does, so the conversion is exact.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import AfterValidator
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from ivqa.arrays import load_array, load_arrays
from ivqa.encoders.encoder import TrainedEncoder, unit_rows
from ivqa.errors import UserError
from ivqa.files import FileError, content_digest, read_bytes
from ivqa.ranges import Count
from ivqa.text.tokens import tokenise
from ivqa.text.vocabulary import SPECIALS, UNK
from ivqa.weights import read_weights, state_dict_of


def _existing(path: str) -> str:
    if not Path(path).exists():
        raise ValueError(
            "there are no skip-thoughts; give the folder of the published files, or the "
            "checkpoint that `python train.py model=skip_thoughts` wrote"
        )
    return path


SkipThoughtsPath = Annotated[str, AfterValidator(_existing)]
Kind = Literal["uni", "bi", "combine"]
PARTS: dict[str, tuple[str, ...]] = {"uni": ("uni",), "bi": ("bi",), "combine": ("uni", "bi")}

_TABLES = {"uni": "utable.npy", "bi": "btable.npy"}
_ARRAYS = ("W", "Wx", "b", "bx", "U", "Ux")
_ROWS_AT_ONCE = 1 << 16  # rows of a table that are checked together
_GRUS = {"uni": ("uni_skip.npz", ["encoder"]), "bi": ("bi_skip.npz", ["encoder", "encoder_r"])}
# The Treebank tokeniser splits a full stop from a word only at the end of a sentence.
_SENTENCES = re.compile(r"(?<=\.)\s+(?=[A-Z])")


def published_words(text: str) -> list[str]:
    """Splits a text into the words of the published encoder: Penn Treebank tokens.

    Case and punctuation are kept. The published code finds sentences by a trained model that has
    to be downloaded. Here a sentence ends at a full stop before a capital letter; the results
    differ after abbreviations.

    Args:
        text: One or more sentences.

    Returns:
        The words.

    Example:
        >>> published_words("What's on the table? It is red. Why?")
        ['What', "'s", 'on', 'the', 'table', '?', 'It', 'is', 'red', '.', 'Why', '?']
    """
    from nltk.tokenize import TreebankWordTokenizer

    split = TreebankWordTokenizer().tokenize
    return [word for sentence in _SENTENCES.split(text.strip()) for word in split(sentence)]


def last_states(gru: nn.GRU, embedded: Tensor, lengths: Tensor) -> Tensor:
    """Computes the last states of a GRU over texts.

    Args:
        gru: A batch-first GRU of one layer, in one or two directions.
        embedded: (B, T, d_e), padded on the right.
        lengths: (B,) int64, words of each text.

    Returns:
        (B, directions * d); 0 for an empty text.
    """
    packed = pack_padded_sequence(
        embedded, lengths.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False
    )
    _, states = gru(packed)  # (directions, B, d)
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
        """Looks up word vectors.

        Args:
            part: uni or bi.
            words: n words.

        Returns:
            (n, d_e) float32; a word that is not in the dictionary gets the vector of UNK.
        """
        rows = [self.rows.get(word, self.rows["UNK"]) for word in words]
        return torch.from_numpy(np.array(self.tables[part][rows], dtype=np.float32))

    @torch.no_grad()
    def encode(
        self, texts: Sequence[str], parts: Sequence[str], *, eos: bool, batch_size: int
    ) -> NDArray[np.float32]:
        """Encodes texts.

        Args:
            texts: N texts.
            parts: The parts to concatenate: uni, bi or both.
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

    def __init__(
        self,
        path: SkipThoughtsPath,
        kind: Kind = "combine",
        *,
        use_eos: bool = False,
        batch_size: Count = 128,
        cache: str | None = None,
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
    """Loads encoders from a folder of the published files or from a checkpoint of ivqa.

    Args:
        path: See `SkipThoughtsEncoder`.
        parts: The parts to load: uni, bi or both.

    Returns:
        The encoders.

    Raises:
        UserError: A file is missing or invalid; the message names it.
    """
    place = Path(path)
    if place.is_dir():
        return _published(place, parts)
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
        reason = " ".join(str(error).split())[:200]
        raise FileError(
            f"{path} is not a checkpoint of model=skip_thoughts ({reason}); give the one that "
            "`python train.py model=skip_thoughts` wrote"
        ) from error


def from_weights(
    state: Mapping[str, Tensor], words: Sequence[str], parts: Sequence[str] = ("uni", "bi")
) -> SkipThoughts:
    """Builds encoders from the weights of a `SkipThoughtsModule`.

    Args:
        state: State dict of the module.
        words: Words of its vocabulary, without special tokens.
        parts: The parts to build: uni, bi or both.

    Returns:
        The encoders, on the CPU.
    """
    tables, grus = {}, {}
    for part in parts:
        prefix = f"network.{part}.gru."
        names = [name for name in state if name.startswith(prefix)]
        grus[part] = _gru({name.removeprefix(prefix): state[name].cpu() for name in names})
        tables[part] = state[f"network.{part}.embedding.weight"].cpu().numpy()
    rows = {word: row for row, word in enumerate(words, start=len(SPECIALS))}
    return SkipThoughts({**rows, "UNK": UNK}, tables, grus, tokenise)


def _published(folder: Path, parts: Sequence[str]) -> SkipThoughts:
    names = ["dictionary.txt", *[_TABLES[p] for p in parts], *[_GRUS[p][0] for p in parts]]
    if absent := [name for name in names if not (folder / name).is_file()]:
        raise UserError(
            f"{folder} has no {', '.join(absent)}; of the published files it needs "
            f"{', '.join(names)}"
        )
    # Lines are split as bytes: some words contain characters at which str.splitlines splits.
    lines = read_bytes(folder / "dictionary.txt").removesuffix(b"\n").split(b"\n")
    try:
        words = [line.decode("utf-8").strip() for line in lines]
    except UnicodeDecodeError as error:
        raise FileError(f"{folder / 'dictionary.txt'} is not UTF-8 text ({error})") from None
    rows = {word: row for row, word in enumerate(words)}  # the last row of a repeated word
    if "UNK" not in rows:
        raise UserError(
            f"{folder / 'dictionary.txt'} has no word UNK, which represents unknown words; fetch "
            "the published file"
        )
    tables = {part: _table(folder / _TABLES[part]) for part in parts}
    grus = {}
    for part in parts:
        file, prefixes = _GRUS[part]
        if len(tables[part]) != len(words):
            raise UserError(
                f"{folder / _TABLES[part]} has {len(tables[part])} rows for the {len(words)} words "
                "of dictionary.txt; they must be of one model"
            )
        grus[part] = _theano_gru(folder / file, prefixes)
        if (size := grus[part].input_size) != tables[part].shape[1]:
            raise UserError(
                f"{folder / file} reads word vectors of {size} dimensions, but those of "
                f"{_TABLES[part]} have {tables[part].shape[1]}; they must be of one model"
            )
    return SkipThoughts(rows, tables, grus, published_words)


def _theano_gru(file: Path, prefixes: Sequence[str]) -> nn.GRU:
    """The GRU of a published file; one prefix for each direction, the backward one second."""
    arrays = {prefix: [f"{prefix}_{name}" for name in _ARRAYS] for prefix in prefixes}
    remedy = "it is not a skip-thoughts file: fetch the published one"
    stored = load_arrays(file, [name for names in arrays.values() for name in names], remedy=remedy)
    weights = {}
    try:
        for prefix, ending in zip(prefixes, ("", "_reverse"), strict=False):
            w, wx, b, bx, u, ux = (torch.from_numpy(stored[n]).float() for n in arrays[prefix])
            # Both store the gates in the order reset, update, candidate. Theano computes x W,
            # PyTorch W x, so the matrices are transposed.
            weights[f"weight_ih_l0{ending}"] = torch.cat([w, wx], dim=1).t().contiguous()
            weights[f"weight_hh_l0{ending}"] = torch.cat([u, ux], dim=1).t().contiguous()
            weights[f"bias_ih_l0{ending}"] = torch.cat([b, bx])
            weights[f"bias_hh_l0{ending}"] = torch.zeros(3 * len(bx))
        return _gru(weights)
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise FileError(f"{file}: its arrays do not fit together ({reason}); {remedy}") from error


def _table(file: Path) -> NDArray[np.float32]:
    """Word vectors (N, d). Raises FileError for another shape or a value that is not finite."""
    table = load_array(file, "f", remedy="fetch the published file")
    if table.ndim != 2:
        raise FileError(f"{file} has shape {table.shape}, not (words, d); fetch the published file")
    for start in range(0, len(table), _ROWS_AT_ONCE):
        rows = table[start : start + _ROWS_AT_ONCE]
        if not np.isfinite(rows).all():
            row = start + int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise FileError(f"{file}: row {row} is not finite; fetch the published file")
    return table


def _gru(weights: Mapping[str, Tensor]) -> nn.GRU:
    (_, inputs), (_, size) = weights["weight_ih_l0"].shape, weights["weight_hh_l0"].shape
    both = "weight_ih_l0_reverse" in weights
    gru = nn.GRU(inputs, size, batch_first=True, bidirectional=both)
    gru.load_state_dict(dict(weights))
    return gru.eval().requires_grad_(False)
