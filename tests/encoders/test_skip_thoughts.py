"""Skip-thought encoders against the published equations, and invalid files."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ivqa.encoders.skip_thoughts import SkipThoughtsEncoder, last_states
from ivqa.encoders.skip_thoughts_published import published_words

WORDS = ["<eos>", "UNK", "Is", "is", "the", "dog", "red", "?", "n't", ".", "caf\u00e9", "a\u2028b"]
D_E, D_U, D_B = 5, 6, 4
Weights = dict[str, NDArray[np.float32]]


def _theano_gru(rng: np.random.Generator, prefix: str, size: int) -> Weights:
    shapes = {"W": (D_E, 2 * size), "Wx": (D_E, size), "b": (2 * size,), "bx": (size,),
              "U": (size, 2 * size), "Ux": (size, size)}  # fmt: skip
    return {
        f"{prefix}_{name}": rng.normal(size=shape).astype("f4") for name, shape in shapes.items()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Small files in the published format."""
    rng = np.random.default_rng(0)
    (tmp_path / "dictionary.txt").write_bytes("".join(f"{word}\n" for word in WORDS).encode())
    for name in ("utable", "btable"):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(len(WORDS), D_E)).astype("f4"))
    uni = _theano_gru(rng, "encoder", D_U)
    bi = _theano_gru(rng, "encoder", D_B) | _theano_gru(rng, "encoder_r", D_B)
    decoders = {"Wemb": rng.normal(size=(3, D_E)), "ff_logit_W": rng.normal(size=(D_U, 3))}
    np.savez(tmp_path / "uni_skip.npz", **uni, **decoders)
    np.savez(tmp_path / "bi_skip.npz", **bi, **decoders)
    return tmp_path


def _gru(weights: Weights, prefix: str, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
    """The last state of a GRU over one text (T, d_e), as in the published Theano code."""
    w, wx, b, bx, u, ux = (weights[f"{prefix}_{n}"] for n in ("W", "Wx", "b", "bx", "U", "Ux"))
    size = len(bx)
    state = np.zeros(size)
    for x in inputs:
        gates = 1 / (1 + np.exp(-(x @ w + b + state @ u)))
        reset, update = gates[:size], gates[size:]
        candidate = np.tanh((state @ ux) * reset + x @ wx + bx)
        state = update * state + (1 - update) * candidate
    return state


def _published_encode(folder: Path, texts: list[list[str]], use_eos: bool) -> NDArray[np.float32]:
    """Combine-skip vectors of texts: uni and bi of unit norm, concatenated."""
    tables = [
        dict(zip(WORDS, np.load(folder / f), strict=True)) for f in ("utable.npy", "btable.npy")
    ]
    uni, bi = (dict(np.load(folder / f)) for f in ("uni_skip.npz", "bi_skip.npz"))
    rows = []
    for text in texts:
        words = [*text, "<eos>"] if use_eos else text
        u, b = (np.array([t.get(word, t["UNK"]) for word in words]) for t in tables)
        one = _gru(uni, "encoder", u)
        both = np.concatenate([_gru(bi, "encoder", b), _gru(bi, "encoder_r", b[::-1])])
        rows.append(np.concatenate([one / np.linalg.norm(one), both / np.linalg.norm(both)]))
    return np.array(rows)


@pytest.mark.parametrize("use_eos", [False, True])
def test_it_is_the_published_encoder(folder: Path, use_eos: bool) -> None:
    texts = ["Isn't the dog red?", "the dog.", "is caf\u00e9", "Is the cat dog red? is", "zebra"]
    words = [
        ["Is", "n't", "the", "dog", "red", "?"],
        ["the", "dog", "."],
        ["is", "caf\u00e9"],
        ["Is", "the", "cat", "dog", "red", "?", "is"],
        ["zebra"],
    ]
    expected = _published_encode(folder, words, use_eos)
    combine = SkipThoughtsEncoder(str(folder), use_eos=use_eos, batch_size=2).fit([]).encode(texts)
    # uni and bi have unit norm in the published vectors; here their concatenation has.
    np.testing.assert_allclose(combine * 2**0.5, expected, atol=1e-5)
    for kind, part in {"uni": slice(0, D_U), "bi": slice(D_U, None)}.items():
        encoder = SkipThoughtsEncoder(str(folder), kind, use_eos=use_eos)  # type: ignore[arg-type]
        np.testing.assert_allclose(encoder.encode(texts), expected[:, part], atol=1e-5)


def test_words_are_those_of_the_penn_treebank() -> None:
    assert published_words("What's in the U.S.A.? It's red.") == [
        "What", "'s", "in", "the", "U.S.A.", "?", "It", "'s", "red", ".",
    ]  # fmt: skip
    assert published_words("It is red. The end.") == ["It", "is", "red", ".", "The", "end", "."]
    assert published_words(" ") == []


def test_an_empty_text_is_zero_and_other_texts_change_nothing(folder: Path) -> None:
    encoder = SkipThoughtsEncoder(str(folder), use_eos=True)
    together = encoder.encode(["", "is the dog red", "the dog", "red ?"])
    assert not together[0].any()
    np.testing.assert_allclose(np.linalg.norm(together[1:], axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(["the dog"])[0], together[2], atol=1e-6)


def test_padding_does_not_reach_the_backward_direction() -> None:
    gru = torch.nn.GRU(3, 4, batch_first=True, bidirectional=True)
    texts = torch.randn(3, 5, 3)
    states = last_states(gru, texts, torch.tensor([5, 2, 0]))
    torch.testing.assert_close(states[1:2], last_states(gru, texts[1:2, :2], torch.tensor([2])))
    assert (states[2] == 0).all()


def test_encodings_are_cached_and_memory_mapped(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ivqa.encoders.encoder._STORED_AT_ONCE", 2)
    texts = ["is the dog red", "", "the dog", "red", "Is the dog ?"]
    cache = tmp_path / "cache"
    encoder = SkipThoughtsEncoder(str(folder), cache=str(cache))
    first = encoder.encode(texts)
    assert isinstance(first, np.memmap)
    np.testing.assert_allclose(first, SkipThoughtsEncoder(str(folder)).encode(texts), atol=1e-6)
    monkeypatch.setattr(encoder, "_model", None)  # cached texts are not encoded again
    assert np.array_equal(encoder.encode(texts), first)
    SkipThoughtsEncoder(str(folder), "uni", cache=str(cache)).encode(texts)
    np.save(folder / "utable.npy", np.zeros((len(WORDS), D_E), "f4"))
    SkipThoughtsEncoder(str(folder), cache=str(cache)).encode(texts)
    assert (
        len(list(cache.glob("*.npy"))) == 3
    )  # one for each kind and content of the files, no drafts


def test_missing_and_inconsistent_files_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no skip-thoughts at 'nowhere'.*train.py model=skip_tho"):
        SkipThoughtsEncoder("nowhere")
    with pytest.raises(ValueError, match="kind must be one of uni, bi, combine, not both"):
        SkipThoughtsEncoder(str(folder), "both")  # type: ignore[arg-type]
    (tmp_path / "other.ckpt").write_bytes(b"no checkpoint")
    with pytest.raises(ValueError, match="is not a checkpoint of model=skip_thoughts"):
        SkipThoughtsEncoder(str(tmp_path / "other.ckpt"))
    np.save(folder / "btable.npy", np.zeros((len(WORDS) - 1, D_E), "f4"))
    with pytest.raises(ValueError, match=r"btable.npy has 11 rows for the 12 words"):
        SkipThoughtsEncoder(str(folder))
    np.save(folder / "btable.npy", np.zeros((len(WORDS), 3), "f4"))
    with pytest.raises(ValueError, match=r"bi_skip.npz reads word vectors of 5 dim.*have 3"):
        SkipThoughtsEncoder(str(folder))
    (folder / "bi_skip.npz").unlink()
    with pytest.raises(ValueError, match=r"has no bi_skip.npz; of the published files"):
        SkipThoughtsEncoder(str(folder))
    SkipThoughtsEncoder(str(folder), "uni")  # needs no file of bi
    np.savez(folder / "uni_skip.npz", Wemb=np.zeros(3))
    with pytest.raises(ValueError, match=r"uni_skip.npz has no array encoder_W"):
        SkipThoughtsEncoder(str(folder), "uni")


def _nan(array: NDArray[np.float32]) -> NDArray[np.float32]:
    changed = array.copy()
    changed.flat[-1] = np.nan
    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_nan, "is not finite"),
        (lambda table: table[0], r"has shape \(\d+,\), not \(words, d\)"),
        (lambda table: table.astype(int), "not an array of kind 'f'"),
        (lambda table: table[:-1], "rows for the"),
        (lambda table: table[:, :-1], "reads word vectors of"),
    ],
)
def test_invalid_tables_are_named(
    change: Callable[[NDArray[np.float32]], NDArray[np.float32]], message: str, folder: Path
) -> None:
    file = folder / "utable.npy"
    np.save(file, change(np.load(file)))
    with pytest.raises(ValueError, match=rf"(utable\.npy|uni_skip\.npz).* {message}"):
        SkipThoughtsEncoder(str(folder))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("encoder_W", lambda array: array[:, :-1], "do not fit together"),
        ("encoder_U", lambda array: array[0], "do not fit together"),
        ("encoder_b", _nan, "encoder_b holds values that are not finite"),
        ("encoder_Wx", lambda array: np.array(["x"]), "encoder_Wx holds values that are not"),
        ("encoder_bx", lambda array: None, "has no array encoder_bx"),
    ],
)
def test_invalid_grus_are_named(
    name: str, change: Callable[[NDArray[np.float32]], Any], message: str, folder: Path
) -> None:
    file = folder / "uni_skip.npz"
    arrays = {**dict(np.load(file)), name: change(np.load(file)[name])}
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ValueError, match=rf"uni_skip\.npz.*{message}"):
        SkipThoughtsEncoder(str(folder))


@pytest.mark.parametrize("kept", [0, 10, 200])
def test_truncated_files_are_named(kept: int, folder: Path) -> None:
    for name in ("utable.npy", "uni_skip.npz"):
        file = folder / name
        whole = file.read_bytes()
        file.write_bytes(whole[:kept])
        with pytest.raises(ValueError, match=re.escape(name)):
            SkipThoughtsEncoder(str(folder))
        file.write_bytes(whole)
