"""The ranking of pools of a data set: scores one by one, files, and the error of estimates."""

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor
from toy_generators import enlarge

from ivqa.data import VQADataModule, VQADataset
from ivqa.data.batches.datamodule import BatchContents, build_vocabularies
from ivqa.generators import GeneratorModule, VariationalGenerator, pool_ranking
from ivqa.generators.pool_ranking import PoolRanking, ranking_metrics
from ivqa.pools import read_pools
from ivqa.scenes import generate_scenes
from ivqa.store.digests import file_digest


class _Scorer:
    """Scores that depend on image, answer and question, so that no mix-up stays unseen."""

    def log_likelihood(self, images: Any, answers: list[str], questions: list[str]) -> Tensor:
        ids = images.ids[images.index].tolist()
        rows = zip(ids, answers, questions, strict=True)
        return torch.tensor([_score(*row) for row in rows])


def _score(image: int, answer: str, question: str) -> float:
    digest = hashlib.sha256(f"{image} {answer} {question}".encode()).digest()
    return int.from_bytes(digest[:2], "big") / 1000


class _Concepts:
    """Features that differ between images."""

    sizes = {"concepts": 3}  # noqa: RUF012

    def rows(self, split: str, image_ids: np.ndarray) -> np.ndarray:
        return np.asarray(image_ids)

    def gather(self, split: str, rows: np.ndarray, names: Any) -> dict[str, Tensor]:
        ids = torch.from_numpy(rows.copy()).float()[:, None]
        return {"concepts": torch.sin(ids * torch.tensor([1.0, 2.0, 3.0]))}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> VQADataModule:
    root = generate_scenes(
        tmp_path_factory.mktemp("data") / "scenes",
        images={"train": 30, "val": 30},
        workers=1,
        progress=False,
    )
    dataset = VQADataset(root, train="train", val="val")
    return VQADataModule(
        dataset,
        _Concepts(),  # type: ignore[arg-type]
        *build_vocabularies(dataset.split("train")),
        contents=BatchContents(image_features=["concepts"]),
    )


@pytest.fixture
def rank(
    data: VQADataModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[dict[str, float], dict[str, Any], Path]]:
    monkeypatch.setattr(pool_ranking, "_PAIRS_AT_ONCE", 7)  # several passes, the last one short

    def call(module: Any, **settings: Any) -> tuple[dict[str, float], dict[str, Any], Path]:
        folder = tmp_path / "pools"
        ranking = PoolRanking(folder=str(folder), **{"num_pairs": 60, **settings})
        metrics = ranking.run(module, data, "val", tmp_path, Console())
        told = json.loads((tmp_path / "pools.json").read_text())
        return metrics, told, folder / told["file"]

    return call


def test_each_candidate_is_scored_for_its_own_pair(rank: Any) -> None:
    metrics, told, file = rank(_Scorer())
    pools = read_pools(file)
    assert told["of"] == len(pools) == 60
    assert told["digest"] == file_digest(file)
    scores = [
        _score(int(pools.image_ids[pair]), pools.answers[pair], question)
        for pair, question in zip(pools.pair.tolist(), pools.questions, strict=True)
    ]
    expected = ranking_metrics(np.array(scores, np.float32), pools.pair, pools.kinds)
    assert metrics == {f"pools/{name}": value for name, value in expected.items()}
    assert 0 < metrics["pools/acc_at_3"] < 1


def test_pools_are_drawn_once_for_all_models(rank: Any) -> None:
    _, told, file = rank(_Scorer())
    written = file.stat().st_mtime_ns
    _, again, same = rank(_Scorer(), likelihood_samples=2)
    assert (again, same.stat().st_mtime_ns) == (told, written)
    _, other, _ = rank(_Scorer(), seed=1)
    assert other["file"] != told["file"]
    assert other["digest"] != told["digest"]
    assert rank(_Scorer(), num_pairs=3)[1]["of"] == 3


def test_a_latent_variable_gives_a_standard_error(rank: Any, data: VQADataModule) -> None:
    torch.manual_seed(1)
    module = GeneratorModule(
        network=partial(
            VariationalGenerator, embedding_size=5, hidden_size=6, answer_size=4, latent_size=3
        ),
        question_vocabulary=data.question_vocabulary,
        answer_words=data.answer_words,
        feature_sizes={"concepts": 3},
    )
    enlarge(module)
    metrics, _, file = rank(module, likelihood_samples=8)
    pools = read_pools(file)
    images = data.images_of("val", pools.image_ids[pools.pair].tolist())
    answers = [pools.answers[pair] for pair in pools.pair.tolist()]
    found = module.likelihood(images, answers, list(pools.questions), 8)
    assert found.standard_error is not None
    expected = float(found.standard_error.mean())
    assert metrics["pools/standard_error"] == pytest.approx(expected, rel=1e-3)
    assert metrics["pools/standard_error"] > 0.001
