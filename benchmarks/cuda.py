"""Goal: a CUDA device is at least ten times as fast as the processor in every hot path.

Before the words of questions stayed on the device, image features alone reached it: training and
sampling were limited by the start of many small kernels, and the search of beliefs by the texts of
the questions, which the processor splits (`device_work` counts both). LASSO is solved in batches on
the device.

Image features, training steps, sampling, the search of beliefs, and LASSO with products in
bfloat16, each at the sizes of conf/model with random weights and inputs, in turn on both devices.
The benchmark runs only when asked for: python -m benchmarks cuda
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.diagnosis import (
    BeliefSearch,
    DiversityReward,
    GoalReward,
    LegalityCNN,
    LegalityModule,
    LegalityReward,
    PolicyGradientModule,
    PolicyObjective,
)
from ivqa.features.compact_cnn import CompactCNN
from ivqa.generators import GeneratorModule, VariationalGenerator
from ivqa.lasso import LassoSolver, SolverSettings
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Tokens, Vocabulary
from ivqa.vqa import MLB, RecurrentEncoder, VQAModule

WORDS = Vocabulary([f"w{number}" for number in range(120)])
ANSWERS = AnswerVocabulary([f"a{number}" for number in range(60)])


def run(devices: tuple[str, str] = ("cpu", "cuda"), scale: int = 1) -> list[dict[str, Any]]:
    """One row a hot path: its amount of work a second on both devices, and the ratio.

    Args:
        devices: The devices to compare.
        scale: Divides the amount of work; a test runs a small part of it.
    """
    if "cuda" in devices and not torch.cuda.is_available():
        sys.exit("error: there is no CUDA device on this machine; run this benchmark where one is")
    rows = []
    for name, (amount, make) in paths(scale).items():
        rates = [amount / _seconds(make(device), device) for device in devices]
        row: dict[str, Any] = {"hot path": name}
        row |= {f"{device}, /s": rate for device, rate in zip(devices, rates, strict=True)}
        rows.append({**row, "ratio": rates[1] / rates[0]})
    return rows


Path = tuple[int, Callable[[str], Callable[[], object]]]
"""The amount of work, and a function from a device to the work."""


def paths(scale: int) -> dict[str, Path]:
    """The hot paths by name; `scale` divides their work."""
    few, many = 64, 1024  # questions of a batch: as in conf/model, and as a GPU likes it
    return {
        "images, features=concepts": (512 // scale, partial(_features, 512 // scale)),
        **{
            f"training, {name}, batches of {size}": (number, partial(train, number, size))
            for name, train in (("mlb", _mlb), ("ivqa_vae", _vae))
            for size, number in ((few, 512 // scale), (many, 4096 // scale))
        },
        **{
            f"training, ivqa_rl, {pairs} x 20": (20 * pairs, partial(_policy, pairs))
            for pairs in (12, 12 + 180 // scale)
        },
        "sampled questions, ivqa_vae": (65_536 // scale, partial(_sampling, 65_536 // scale)),
        "z x pairs, beliefs": (40_000 // scale, partial(_search, 40_000 // scale)),
        "main questions, LASSO": (512 // scale, partial(_lasso, 512 // scale, 20_000 // scale)),
    }


def _seconds(work: Callable[[], object], device: str) -> float:
    """Seconds of the work after a first run, which compiles and allocates."""
    work()
    _wait(device)
    start = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _images(number: int, device: str = "cpu") -> ImageBatch:
    generator = torch.Generator().manual_seed(0)
    return ImageBatch(
        ids=torch.arange(number),
        index=torch.arange(number),
        grid=torch.randn(number, 144, 128, generator=generator),
        concepts=torch.rand(number, 415, generator=generator),
    ).to(device)


def _questioner(device: str) -> GeneratorModule:
    network = partial(
        VariationalGenerator,
        embedding_size=256,
        hidden_size=256,
        answer_size=128,
        latent_size=32,
        joint_size=256,
        feed_condition=True,
    )
    return GeneratorModule(
        network=network,
        question_vocabulary=WORDS,
        answer_words=Vocabulary(ANSWERS.answers),
        feature_sizes={"concepts": 415},
        max_length=10,
        optimizer=partial(torch.optim.Adam, lr=1e-3, fused=True),
    ).to(device)


def _answerer(device: str) -> VQAModule:
    encoder = partial(RecurrentEncoder, embedding_size=128, size=256, cell="gru")
    return VQAModule(
        network=partial(MLB, question_encoder=encoder, joint_size=256, num_glimpses=2),
        question_vocabulary=WORDS,
        answers=ANSWERS,
        feature_sizes={"grid": 128},
        optimizer=partial(torch.optim.Adam, lr=1e-3, fused=True),
    ).to(device)


def _legality_model(device: str) -> LegalityModule:
    widths, maps = (1, 2, 3, 4, 5, 6, 8), (32, 64, 64, 64, 64, 32, 32)
    network = partial(LegalityCNN, widths=widths, maps=maps)
    return LegalityModule(network=network, question_vocabulary=WORDS).to(device)


def _features(number: int, device: str) -> Callable[[], object]:
    network = CompactCNN(num_concepts=415, width=128).eval().to(device)
    pixels = torch.rand(number, 3, 96, 96).to(device).contiguous(memory_format=torch.channels_last)

    @torch.inference_mode()
    def work() -> None:
        for part in pixels.split(256):
            network(part)

    return work


def _mlb(number: int, batch_size: int, device: str) -> Callable[[], object]:
    return _training(_answerer(device), number, batch_size, device)


def _vae(number: int, batch_size: int, device: str) -> Callable[[], object]:
    return _training(_questioner(device), number, batch_size, device)


def _policy(pairs: int, device: str) -> Callable[[], object]:
    rewards: dict[str, Any] = {
        "goal": GoalReward(),
        "legality": LegalityReward(threshold=0),
        "diversity": DiversityReward(),
    }
    module = PolicyGradientModule(
        questioner=_questioner(device),
        answerer=_answerer(device),
        legality_model=_legality_model(device),
        rewards=rewards,
        objective=PolicyObjective(num_samples=20, entropy_weight=0.05),
        optimizer=partial(torch.optim.Adam, lr=1e-3, fused=True),
    )
    return _training(module.to(device), pairs, pairs, device)


def _training(module: Any, number: int, batch_size: int, device: str) -> Callable[[], object]:
    """Steps of the training of a module over `number` questions."""
    module.log_dict = lambda *_, **__: None
    images, rng = _images(number, device), np.random.default_rng(0)
    texts = [" ".join(f"w{word}" for word in rng.integers(0, 120, 8)) for _ in range(number)]
    question = WORDS.encode(texts).to(device)
    target = torch.arange(number, device=device) % len(ANSWERS)
    answer = Tokens(target[:, None] + 4, torch.ones_like(target))
    batch = VQABatch(images.ids, images, question, answer, target * 0, target)
    optimizer = module.optimizer(module.trained_parameters())

    def work() -> None:
        for rows in torch.arange(number, device=device).split(batch_size):
            optimizer.zero_grad()
            module.training_step(_selected(batch, rows), 0).backward()
            optimizer.step()

    return work


def _selected(batch: VQABatch, rows: torch.Tensor) -> VQABatch:
    question, answer = batch.question.select(rows), batch.answer.select(rows)
    target, images = batch.target[rows], batch.images.select(rows)
    return VQABatch(batch.rows[rows], images, question, answer, target * 0, target)


def _sampling(number: int, device: str) -> Callable[[], object]:
    questioner, pairs = _questioner(device), max(1, number // 128)
    images, asked = _images(pairs, device), [ANSWERS.answers[0]] * pairs
    return lambda: questioner.sample(images, asked, number // pairs)


def _search(number: int, device: str) -> Callable[[], object]:
    pairs = max(1, number // 200)
    images, asked = _images(pairs, device), [ANSWERS.answers[0]] * pairs
    search = BeliefSearch(
        {"one": _questioner(device)},
        _answerer(device),
        ANSWERS,
        _legality_model(device),
        num_latents=number // pairs,
        legality=0.0,
    )
    return lambda: search(images, asked, torch.Generator().manual_seed(0))


def _lasso(number: int, pool: int, device: str) -> Callable[[], object]:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(pool + number, 384)) + 0.5 * rng.normal(size=384)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors.astype(np.float32)
    settings = SolverSettings(screening=torch.bfloat16)
    solver = LassoSolver(vectors[:pool], device=device, settings=settings)
    return lambda: solver.rank(vectors[pool:], k=21)
