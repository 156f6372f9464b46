"""Real questions as vectors for the LASSO benchmarks, encoded once and kept in artifacts/.

384 dimensions: tf-idf with a truncated SVD, fitted on the pool. 4800 dimensions: GRUs of the shape
of skip-thoughts (uni 2400, bi 2 x 1200, words of 620) with random weights from a fixed seed. They
are stand-ins for the trained ones: the arithmetic is the same, the geometry is not. Started as the
published code does (orthogonal between states, normal from words), they keep questions apart, and a
main question needs 121 to 315 basic ones; started as torch does (uniform), 69 to 227.
"""

import os
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ivqa.data import VQADataset
from ivqa.encoders.encoder import unit_rows
from ivqa.encoders.tfidf import TfidfEncoder
from ivqa.scenes import ScenesDataset
from ivqa.text.duplicates import unique_questions
from ivqa.text.tokens import tokenise

FOLDER = Path("artifacts/benchmarks/sentence_vectors")
MAIN_QUESTIONS = 1024
_SETS = ("vqa_v2_subset", "daquar")


def sentence_vectors(
    size: int, most: int = 40_000, start: str = "orthogonal"
) -> tuple[NDArray, NDArray, str]:
    """Pool (N, size), main questions (1024, size), none of them in the pool, and where from.

    N <= most. start: of the GRUs, orthogonal or uniform. Of VQA v2 and DAQUAR where the environment
    variable IVQA_SHARED_DATA or ../shared/data has them, else of scenes.
    """
    texts, source = _questions()
    texts = texts[: MAIN_QUESTIONS + most]
    folder = FOLDER / f"{source}_{len(texts)}_{size}{'_uniform' * (start == 'uniform')}"
    if not (folder / "pool.npy").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        vectors = _encode(texts, size, start)
        np.save(folder / "main.npy", vectors[:MAIN_QUESTIONS])
        np.save(folder / "pool.npy", vectors[MAIN_QUESTIONS:])
    pool = np.load(folder / "pool.npy", mmap_mode="r")
    return pool, np.load(folder / "main.npy"), source


def _questions() -> tuple[list[str], str]:
    """Distinct questions in random order."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    shared = Path(os.environ.get("IVQA_SHARED_DATA", default))
    if shared.is_dir():
        found = [
            question
            for name in _SETS
            for split in ("train", "val")
            for question in VQADataset(shared / name).split(split).questions
        ]
        source = "vqa_v2_daquar"
    else:
        sizes = {"train": 2000, "val": 2, "test": 2}
        scenes = ScenesDataset(FOLDER / "scenes", images=sizes, questions_per_image=24)
        scenes.prepare()
        found, source = scenes.split("train").questions, "scenes"
    unique = unique_questions(found)
    order = np.random.default_rng(0).permutation(len(unique))
    return [unique[row] for row in order], source


def _encode(texts: list[str], size: int, start: str) -> NDArray[np.float32]:
    if size == 4800:
        return _random_skip_thoughts(texts, start)
    return TfidfEncoder(size=size).fit(texts[MAIN_QUESTIONS:]).encode(texts)


@torch.no_grad()
def _random_skip_thoughts(texts: list[str], start: str) -> NDArray[np.float32]:
    torch.manual_seed(0)
    words = [tokenise(text) or ["?"] for text in texts]
    rows = {word: row for row, word in enumerate(sorted({word for text in words for word in text}))}
    embedded = torch.randn(len(rows), 620)
    uni, bi = _gru(2400, start, bidirectional=False), _gru(1200, start, bidirectional=True)
    vectors = np.zeros((len(texts), 4800), dtype=np.float32)
    lengths = np.array([len(text) for text in words])
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        for part in np.array_split(same, len(same) // 512 + 1):
            tokens = embedded[torch.tensor([[rows[word] for word in words[row]] for row in part])]
            states = (*uni(tokens)[1], *bi(tokens)[1])
            vectors[part] = torch.cat(states, dim=1).numpy()
    return unit_rows(vectors)


def _gru(size: int, start: str, *, bidirectional: bool) -> nn.GRU:
    gru = nn.GRU(620, size, bidirectional=bidirectional, batch_first=True)
    if start == "uniform":
        return gru
    for name, weights in gru.named_parameters():
        if name.startswith("weight_hh"):
            for gate in weights.chunk(3):
                nn.init.orthogonal_(gate)
        elif name.startswith("weight_ih"):
            nn.init.normal_(weights, std=0.1)
        else:
            nn.init.zeros_(weights)
    return gru
