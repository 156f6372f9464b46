"""The published files of skip-thought vectors (Kiros et al., NeurIPS 2015): words and weights.

The published Theano GRU

    r, u = sigmoid(x W + b + h U),   h' = u h + (1 - u) tanh(x Wx + bx + r (h Ux))

applies the reset gate after the product with Ux, as torch.nn.GRU does, so the conversion is exact.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ivqa.errors import UserError, reason_of
from ivqa.store.arrays import load_array, load_arrays
from ivqa.store.files import FileError, read_bytes

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

    Example:
        >>> published_words("What's on the table? It is red. Why?")
        ['What', "'s", 'on', 'the', 'table', '?', 'It', 'is', 'red', '.', 'Why', '?']
    """
    from nltk.tokenize import TreebankWordTokenizer

    split = TreebankWordTokenizer().tokenize
    return [word for sentence in _SENTENCES.split(text.strip()) for word in split(sentence)]


def read_published(
    folder: Path, parts: Sequence[str]
) -> tuple[dict[str, int], dict[str, NDArray[np.float32]], dict[str, nn.GRU]]:
    """Reads the published files of the parts uni, bi or both.

    Returns:
        The row of each word in the tables; the table of each part, (N, d_e) float32,
        memory-mapped; the GRU of each part.

    Raises:
        UserError: A file is missing or invalid; the message names it.
    """
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
    return rows, tables, grus


def gru_of(weights: Mapping[str, Tensor]) -> nn.GRU:
    """Builds a GRU of one layer, in one or two directions, from its state dict.

    It is batch-first, in evaluation mode and without gradients.
    """
    (_, inputs), (_, size) = weights["weight_ih_l0"].shape, weights["weight_hh_l0"].shape
    both = "weight_ih_l0_reverse" in weights
    gru = nn.GRU(inputs, size, batch_first=True, bidirectional=both)
    gru.load_state_dict(dict(weights))
    return gru.eval().requires_grad_(False)


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
            # The published GRU has one bias where PyTorch adds two.
            weights[f"bias_hh_l0{ending}"] = torch.zeros(3 * len(bx))
        return gru_of(weights)
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        reason = reason_of(error)
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
