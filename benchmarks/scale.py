"""Cost of each job at the size of VQA v2 and at a million images, from slopes at small sizes.

Each job runs at two small sizes in one thread. The slope is the difference of the processor times
over that of the sizes, so what a job costs once does not count; bytes are measured the same way.
VQA v2 has 123,287 images and 443,757 training questions; a million images with as many questions
each have 3.6 million. Networks have random weights and the sizes of conf/model, on the features of
ResNet-50 (49 positions x 2048). Belief search samples 100 z for one pair of each of the 40,504
validation images, in the worst case, where no question is sampled twice. Robustness answers each
validation question at eight levels of noise, of 0 to 7 basic questions with ten words each; their
ranking is that of `python -m benchmarks lasso_large`.
"""

import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.extraction import images_for
from ivqa.data import VQADataModule, VQADataset, build_vocabularies
from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.diagnosis import BeliefSearch, LegalityCNN, LegalityModule
from ivqa.features import TimmFeatures
from ivqa.features.decoding import subset
from ivqa.features.extraction import extract
from ivqa.generators import GeneratorModule, VariationalGenerator
from ivqa.scenes import generate_scenes
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Tokens, Vocabulary
from ivqa.vqa import MLB, RecurrentEncoder, VQAModule

VQA_V2 = {
    "images": 123_287,
    "training questions": 443_757,
    "validation images": 40_504,
    "validation questions": 214_354,
}
FACTOR = 1_000_000 / VQA_V2["images"]
WORDS, ANSWERS, LATENTS = 10_000, 3_000, 100
Run = Callable[[int], int]  # does a job for a number of units, returns the bytes that it keeps


def run() -> list[dict[str, Any]]:
    """Rows of RESULTS.md: the slope of each job, and its cost at both sizes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            return [
                _row(
                    "reading, bytes in memory", "training questions", _reading(place), (30, 90), 10
                ),
                _row("features, bytes on disk", "images", _features(place), (8, 24)),
                _row("an epoch of mlb", "training questions", _mlb(), (128, 512)),
                _row("an epoch of ivqa_vae", "training questions", _vae(), (256, 1024)),
                _row("belief search", "validation images", _search(), (4, 12)),
                _row("robustness of mlb", "validation questions", _robustness(), (128, 512)),
            ]
    finally:
        torch.set_num_threads(threads)


def _row(job: str, unit: str, work: Run, sizes: tuple[int, int], units: int = 1) -> dict[str, Any]:
    """One row; a size is `units` units."""
    work(sizes[0])  # a warm-up
    times, kept = [], []
    for size in sizes:
        start = time.process_time()
        kept.append(work(size))
        times.append(time.process_time() - start)
    step = (sizes[1] - sizes[0]) * units
    seconds, size_of_one = (times[1] - times[0]) / step, (kept[1] - kept[0]) / step
    number = VQA_V2[unit]
    return {
        "job": job,
        "unit": unit.removesuffix("s"),
        "ms": round(1000 * seconds, 3),
        "KB": round(size_of_one / 1000, 1) if size_of_one else "",
        "VQA v2, core hours": round(seconds * number / 3600, 2),
        "VQA v2, GB": round(size_of_one * number / 1e9, 1) if size_of_one else "",
        "a million images, core hours": round(FACTOR * seconds * number / 3600, 1),
        "a million images, GB": round(FACTOR * size_of_one * number / 1e9) if size_of_one else "",
    }


def _reading(place: Path) -> Run:
    """Reads and tokenises images with ten questions each."""
    roots = {}

    def work(size: int) -> int:
        if size not in roots:
            root = place / f"scenes_{size}"
            sizes = {"train": size, "val": 1}
            roots[size] = generate_scenes(root, images=sizes, workers=1, progress=False)
            return 0
        tracemalloc.start()
        dataset = VQADataset(roots[size])
        module = VQADataModule(dataset, None, *build_vocabularies(dataset.split("train")))
        module.encoded("train")
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return kept

    work(90)
    return work


def _features(place: Path) -> Run:
    images = images_for(place)
    network = TimmFeatures(arch="resnet50", weights="random").on_device("cpu")

    def work(size: int) -> int:
        with tempfile.TemporaryDirectory() as folder:
            extract(network, subset(images, images.ids[:size].tolist()), Path(folder), batch_size=8)
            return sum(file.stat().st_size for file in Path(folder).rglob("*.npy"))

    return work


def _mlb() -> Run:
    network = _answerer().network
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    batch = _batch(64)

    def work(size: int) -> int:
        for _ in range(size // 64):
            optimizer.zero_grad()
            logits = network(batch.images, batch.question)
            nn.functional.cross_entropy(logits, batch.target).backward()
            optimizer.step()
        return 0

    return work


def _vae() -> Run:
    module = _questioner()
    optimizer = torch.optim.Adam(module.parameters(), fused=True)
    batch = _batch(128)

    def work(size: int) -> int:
        for _ in range(size // 128):
            optimizer.zero_grad()
            (-module.network(batch).elbo.mean()).backward()
            optimizer.step()
        return 0

    return work


def _search() -> Run:
    answerer, legality_model = _answerer(), _judge()
    search = BeliefSearch(
        {"one": _questioner()}, answerer, answerer.answers, legality_model, num_latents=LATENTS
    )

    def work(size: int) -> int:
        asked = [answerer.answers.answers[number] for number in range(size)]
        search(_batch(size).images, asked, torch.Generator().manual_seed(0))
        return 0

    return work


def _robustness() -> Run:
    answerer, batch = _answerer(), _batch(64)
    words = answerer.question_vocabulary.words
    levels = [
        [" ".join(random.choices(words[4:], k=10 * (level + 1))) + "?" for _ in range(64)]
        for level in range(8)
    ]

    def work(size: int) -> int:
        for _ in range(size // 64):
            for questions in levels:
                answerer.answer(batch.images, questions)
        return 0

    return work


def _batch(size: int) -> VQABatch:
    """Questions of 4 to 10 words, each about an image of its own, with answers of one word."""
    lengths = torch.randint(4, 11, (size,))
    ids = torch.randint(4, WORDS, (size, 10)) * (torch.arange(10) < lengths[:, None])
    target, rows = torch.randint(4, ANSWERS, (size,)), torch.arange(size)
    grid, pooled = torch.rand(size, 49, 2048), torch.rand(size, 2048)
    return VQABatch(
        rows=rows,
        images=ImageBatch(rows, rows, grid=grid, pooled=pooled),
        question=Tokens(ids, lengths),
        answer=Tokens(target[:, None], torch.ones_like(target)),
        answer_type=torch.zeros_like(target),
        target=target,
    )


def _words() -> Vocabulary:
    return Vocabulary([f"w{number}" for number in range(WORDS)])


def _answerer() -> VQAModule:
    encoder = partial(RecurrentEncoder, embedding_size=128, size=256, cell="gru")
    return VQAModule(
        network=partial(MLB, question_encoder=encoder, joint_size=256, num_glimpses=2),
        question_vocabulary=_words(),
        answers=AnswerVocabulary([f"a{number}" for number in range(ANSWERS)]),
        feature_sizes={"grid": 2048},
    )


def _questioner() -> GeneratorModule:
    network = partial(
        VariationalGenerator, embedding_size=256, hidden_size=256, answer_size=128, latent_size=32,
        joint_size=256, feed_condition=True,
    )  # fmt: skip
    return GeneratorModule(
        network=network,
        question_vocabulary=_words(),
        answer_words=Vocabulary([f"a{number}" for number in range(ANSWERS)]),
        feature_sizes={"pooled": 2048},
        max_length=10,
    )


def _judge() -> LegalityModule:
    network = partial(LegalityCNN, widths=(1, 2, 3, 4, 5, 6, 8), maps=(32, 64, 64, 64, 64, 32, 32))
    return LegalityModule(network=network, question_vocabulary=_words())
