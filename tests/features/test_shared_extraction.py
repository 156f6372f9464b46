"""Several processes compute the features of one split."""

import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import ForkProcess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ivqa.data import VQADataset
from ivqa.data.images import ImageFiles
from ivqa.features.extraction import extract
from ivqa.features.feature_parts import FeatureParts
from ivqa.features.pictures import Network, Resize

PARTS = 6  # of 10 images


def worker_of_rows(batch: Tensor) -> Mapping[str, Tensor]:
    """Some pixels of each image, and the process that computed them."""
    time.sleep(0.1)  # so long that the other process gets parts too
    process = torch.full((len(batch), 1), float(os.getpid() % 2048))  # exact in half precision
    return {"pooled": batch.flatten(1)[:, :6].float(), "process": process}


def started(
    compute: Callable[[Tensor], Mapping[str, Tensor]], images: ImageFiles, folder: Path
) -> ForkProcess:
    """A process that extracts the features, with the thread pools of the parent left alone."""

    def run() -> None:
        torch.set_num_threads(1)
        network = Network(compute, Resize(8))
        extract(network, images, folder, batch_size=10, part_size=10)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    return process


@pytest.fixture
def images(dataset: VQADataset) -> ImageFiles:
    return dataset.split("train").require_images()


def pixels(images: ImageFiles) -> np.ndarray:
    """What `worker_of_rows` must store, computed from the pictures alone."""
    pictures = [Resize(8)(images.open(int(one))) for one in images.ids]
    return torch.stack(pictures).flatten(1)[:, :6].numpy()


def test_two_processes_share_the_parts(images: ImageFiles, tmp_path: Path) -> None:
    workers = [started(worker_of_rows, images, tmp_path / "train") for _ in range(2)]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    stored = np.load(tmp_path / "train" / "pooled.npy")
    assert np.array_equal(stored, pixels(images))
    by_part = np.load(tmp_path / "train" / "process.npy").reshape(PARTS, 10)
    assert (by_part == by_part[:, :1]).all()  # one process a part: none is computed twice
    assert set(by_part[:, 0]) == {float(worker.pid % 2048) for worker in workers}


def test_the_part_of_a_process_that_died_is_computed_by_another(
    images: ImageFiles, tmp_path: Path
) -> None:
    reached = tmp_path / "reached"

    def hangs(batch: Tensor) -> Mapping[str, Tensor]:
        reached.touch()
        time.sleep(60)
        return worker_of_rows(batch)

    dying = started(hangs, images, tmp_path / "train")
    while not reached.exists():
        time.sleep(0.05)
    working = started(worker_of_rows, images, tmp_path / "train")
    while len(list((tmp_path / "train" / "parts").glob("*.npz"))) < PARTS - 1:
        assert working.is_alive()
        time.sleep(0.05)
    time.sleep(0.5)
    assert working.is_alive()  # it waits for the part that the other process holds
    os.kill(dying.pid, signal.SIGKILL)
    dying.join()
    working.join(60)
    assert working.exitcode == 0
    assert np.array_equal(np.load(tmp_path / "train" / "pooled.npy"), pixels(images))


def test_a_part_that_another_process_wrote_in_the_meantime_is_left(tmp_path: Path) -> None:
    mine, other = (FeatureParts(tmp_path, 5, 2, tmp_path / "manifest") for _ in range(2))
    with mine:
        claims = mine.claims()
        assert next(claims) == 0
        with other:
            assert next(other.claims()) == 1
            other.write(1, {"a": np.arange(2)})
        assert next(claims) == 2
        assert mine.rows(2) == range(4, 5)
        mine.write(0, {"a": np.arange(2)})
        assert list(claims) == []
    assert mine.missing() == [2]  # its lock was given back without a file
    assert list(other.claims()) == [2]


def test_a_part_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    larger, smaller = (FeatureParts(tmp_path, 3, size, tmp_path / "manifest") for size in (3, 1))
    with larger:
        assert next(larger.claims()) == 0
        larger.write(0, {"a": np.arange(3)})
    with pytest.raises(ValueError, match=r"part_000000\.npz does not have 1 rows"):
        smaller.join(tmp_path)


def test_a_process_that_waits_goes_on_when_the_parts_are_joined(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest"
    waiting, working = (FeatureParts(tmp_path / "parts", 2, 2, manifest) for _ in range(2))
    with ThreadPoolExecutor(1) as pool, working:
        assert next(working.claims()) == 0
        waiter = pool.submit(waiting.wait_for, 0)
        time.sleep(0.3)
        assert waiter.running()
        manifest.touch()
        shutil.rmtree(tmp_path / "parts")
        assert waiter.result(10) is None  # raises what the thread raised
    assert waiting.missing() == []


def test_joined_parts_are_not_computed_again(tmp_path: Path) -> None:
    parts = FeatureParts(tmp_path, 4, 2, tmp_path / "manifest")
    with parts:
        claims = parts.claims()
        assert next(claims) == 0
        (tmp_path / "manifest").touch()
        assert list(claims) == []
        assert parts.missing() == []
