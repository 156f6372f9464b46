"""Claim: each kernel of `kernels.py` makes a step of some model at least 1.3 times as fast.

Networks of conf/model with random weights, on synthetic features of 144 positions as those of
features=concepts. Training: forward, backward and optimiser, 64 questions about 63 images, in the
precision that training has on this machine. Search: log-scores of 512 questions about 8 images in
float32, as in belief search. Both sides have all other kernels fast and run in turn in one thread;
the ratio is reference over fast, of the median processor time of a step.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from torch import nn

from benchmarks.plain_kernels import NAMES, plain_kernels
from benchmarks.timing import paired
from ivqa.data.batches.batch import ImageBatch
from ivqa.device import fastest_dtype
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import VQANetwork

# Kernels that are swapped together, by the name of their row, and the models that use them.
COMPARED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "products by image": (("repeat_images", "matmul_by_image"), ("mlb", "mutan", "n2nmn")),
    "fusion scores": (("fusion_scores",), ("mutan",)),
    "normalised scores": (("normalised_scores",), ("n2nmn",)),
    "all": (NAMES, ("mlb", "mutan", "n2nmn", "mcb")),
}
CONF = Path(__file__).resolve().parents[1] / "conf"
NUM_WORDS, NUM_ANSWERS, CHANNELS, POSITIONS = 500, 300, 128, 144
# Layouts that N2NMN executes in training: one of each kind of question.
LAYOUTS = (
    ["_Find", "_Describe"],
    ["_Find", "_Transform", "_Count"],
    ["_Find", "_Find", "_And", "_Exist"],
    ["_Scene"],
)


def run() -> list[dict[str, Any]]:
    """Rows of RESULTS.md: milliseconds of a step with all kernels fast, and the ratios."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [
            _row(row, names, model) for row, (names, models) in COMPARED.items() for model in models
        ]
    finally:
        torch.set_num_threads(threads)


def _row(row: str, names: tuple[str, ...], model: str) -> dict[str, Any]:
    """One row: the kernels `names` of a model, in training and in search."""
    found: dict[str, Any] = {"kernel": row, "model": model}
    for workload, step, repeats in (("training", _training, 9), ("search", _search, 5)):
        fast, plain = step(model), step(model)

        def reference(plain: Callable[[], None] = plain) -> None:
            with plain_kernels(*names):
                plain()

        fast_s, plain_s = paired(fast, reference, repeats, clock=time.thread_time)
        found[f"{workload}, ms fast"] = round(1000 * fast_s, 1)
        found[f"{workload}, ratio"] = round(plain_s / fast_s, 2)
    return found


def _network(model: str) -> VQANetwork:
    """The network of a configuration, with random weights."""
    torch.manual_seed(0)
    with initialize_config_dir(str(CONF), version_base=None):
        cfg = compose("train", [f"model={model}"])
    build: Callable[..., VQANetwork] = instantiate(cfg.model.module.network, _convert_="all")
    sizes = {"grid": CHANNELS}
    return build(num_words=NUM_WORDS, num_answers=NUM_ANSWERS, feature_sizes=sizes)


def _batch(questions: int, images: int) -> tuple[ImageBatch, Tokens]:
    """Questions of 4 to 10 words about random grids."""
    lengths = torch.randint(4, 11, (questions,))
    ids = torch.randint(4, NUM_WORDS, (questions, 10)) * (torch.arange(10) < lengths[:, None])
    index = torch.arange(questions) % images
    grid = torch.rand(images, POSITIONS, CHANNELS)
    return ImageBatch(torch.arange(images), index, grid=grid), Tokens(ids, lengths)


def _training(model: str) -> Callable[[], None]:
    """A training step of a network."""
    network = _network(model)
    images, question = _batch(64, 63)
    target = torch.randint(NUM_ANSWERS, (len(question),))
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    forward: Callable[[], torch.Tensor] = partial(network, images, question)
    if network.encode_layouts is not None:
        layout = network.encode_layouts([LAYOUTS[row % 4] for row in range(len(question))])

        def forward() -> torch.Tensor:
            plan = network.policy(question, network.max_layout, expert=layout)  # type: ignore[operator]
            return network.execute(images, plan)[0]  # type: ignore[operator]

    mixed = fastest_dtype() is torch.bfloat16

    def step() -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
            logits = forward()
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits.float(), target).backward()
        optimizer.step()

    return step


def _search(model: str) -> Callable[[], None]:
    """A step of belief search: many questions about few images, without gradients."""
    network = _network(model).eval()
    images, question = _batch(512, 8)

    def step() -> None:
        with torch.no_grad():
            network(images, question)

    return step
