"""Damaged stored files are detected when they are opened; they are computed again or refused."""

import errno
import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ivqa.data import VQADataset
from ivqa.encoders.encoder import stored_rows
from ivqa.features import FeatureStore
from ivqa.features.extraction import build_store, extract
from ivqa.features.pictures import Network, Resize
from ivqa.ranking import RandomRanker, Ranking
from ivqa.ranking.question_rankers import QuestionRanker
from ivqa.robustness import BasicQuestionNoise
from ivqa.scenes import generate_scenes
from ivqa.store.checkpoint_io import AtomicCheckpointIO
from ivqa.store.files import FileError, atomic_write, write_text
from ivqa.store.integrity import MANIFEST, first_fault, is_intact, manifest_of, write_manifest
from ivqa.store.locks import folder_lock

Spoil = Callable[[Path], Any]


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 3)


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _change(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _swap(file: Path) -> None:
    file.write_bytes(file.read_bytes()[::-1])


def _remove(file: Path) -> None:
    file.unlink()


def _into_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


SPOILT: list[Spoil] = [_cut, _empty, _change, _swap, _remove, _into_folder]


@pytest.fixture
def spoil(request: pytest.FixtureRequest) -> Spoil:
    return request.param


any_damage = pytest.mark.parametrize("spoil", SPOILT, indirect=True)


@any_damage
def test_every_damage_to_a_listed_file_is_found(spoil: Spoil, tmp_path: Path) -> None:
    files = [tmp_path / "a.npy", tmp_path / "inner" / "b.json"]
    for file in files:
        write_text(file, "some content")
    write_manifest(tmp_path / MANIFEST, files)
    assert first_fault(tmp_path / MANIFEST) is None
    spoil(files[1])
    fault = first_fault(tmp_path / MANIFEST)
    assert fault is not None
    assert str(files[1]) in fault


@any_damage
def test_a_damaged_manifest_is_named(spoil: Spoil, tmp_path: Path) -> None:
    file = tmp_path / "a"
    write_text(file, "some content")
    write_manifest(manifest_of(file), [file])
    assert is_intact(file)
    spoil(manifest_of(file))
    assert not is_intact(file)
    assert "a.integrity.json" in str(first_fault(manifest_of(file))) or spoil is _change


def test_a_large_file_is_read_again_only_if_its_time_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ivqa.store.integrity._LARGE", 10)
    file = tmp_path / "large"
    write_text(file, "some content")
    write_manifest(manifest_of(file), [file])
    state = file.stat()
    _change(file)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert is_intact(file)  # this damage goes unnoticed, because the time is unchanged
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert not is_intact(file)
    _change(file)
    assert is_intact(file)  # a copy has another time and the same content
    os.truncate(file, 5)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert not is_intact(file)


def test_an_interrupted_write_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "a.txt"
    write_text(file, "old")

    def interrupted() -> None:
        with atomic_write(file) as draft:
            draft.write_text("new")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        interrupted()
    assert [path.name for path in file.parent.iterdir()] == ["a.txt"]
    assert file.read_text() == "old"


def test_the_next_writer_deletes_the_draft_of_a_killed_one(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    killed = multiprocessing.get_context("fork").Process(target=_die_while_writing, args=(file,))
    killed.start()
    killed.join()
    assert [path.name.endswith(".a.txt") for path in tmp_path.iterdir()] == [True]
    write_text(tmp_path / "b.txt", "other")
    assert [path.name for path in tmp_path.iterdir()] == ["b.txt"]


def test_the_draft_of_a_running_writer_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    with atomic_write(file) as draft:
        draft.write_text("mine")
        child = multiprocessing.get_context("fork").Process(target=write_text, args=(file, "its"))
        child.start()
        child.join()
        assert file.read_text() == "its"
        assert draft.read_text() == "mine"
    assert file.read_text() == "mine"


def _die_while_writing(file: Path) -> None:
    with atomic_write(file) as draft:
        draft.write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", fail)
    message = r"\.lock cannot be locked .*; set artifacts= to a folder"
    with pytest.raises(FileError, match=message), folder_lock(tmp_path):
        pass


def test_the_name_of_a_file_does_not_change_the_bytes_of_a_checkpoint(tmp_path: Path) -> None:
    for name in ("a", "other"):
        AtomicCheckpointIO().save_checkpoint({"weights": torch.ones(3)}, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "other").read_bytes()


# Features


class Means:
    """Features that are cheap to compute; counts the images."""

    def __init__(self) -> None:
        self.images = 0
        self.network = Network(self.compute, Resize(8))

    def compute(self, images: Tensor) -> dict[str, Tensor]:
        self.images += len(images)
        images = images.float() / 255
        grid = images.flatten(2).transpose(1, 2)[:, :4]
        return {"grid": grid, "pooled": images.mean(dim=(2, 3))}


def _store(dataset: VQADataset, folder: Path, network: Means) -> FeatureStore:
    return build_store(
        dataset, ["val"], folder, "key", lambda device: network.network, batch_size=5
    )


@pytest.fixture
def dataset(tmp_path_factory: pytest.TempPathFactory) -> VQADataset:
    root = tmp_path_factory.getbasetemp() / "small_scenes"
    return VQADataset(
        generate_scenes(root, images={"train": 6, "val": 6}, workers=1, progress=False)
    )


@any_damage
@pytest.mark.parametrize("name", ["grid.npy", "pooled.npy", "ids.npy"])
def test_damaged_features_are_refused_and_computed_again(
    name: str,
    spoil: Spoil,
    dataset: VQADataset,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    network = Means()
    store = _store(dataset, tmp_path, network)
    rows = np.arange(6)
    before = store.gather("val", rows, ["grid", "pooled"])
    spoil(tmp_path / "val" / name)
    with pytest.raises(FileError, match=rf"val/{re.escape(name)}.*; delete .*val to compute"):
        FeatureStore(tmp_path).gather("val", rows, ["grid"])
    capsys.readouterr()
    after = _store(dataset, tmp_path, network).gather("val", rows, ["grid", "pooled"])
    assert network.images == 12
    assert f"val/{name}" in capsys.readouterr().out
    for feature, value in before.items():
        assert torch.equal(after[feature], value)
    _store(dataset, tmp_path, network)
    assert network.images == 12


@any_damage
def test_a_damaged_description_of_features_is_written_again(
    spoil: Spoil, dataset: VQADataset, tmp_path: Path
) -> None:
    if spoil is _into_folder:
        pytest.skip("a folder of this name is not expected")
    network = Means()
    sizes = _store(dataset, tmp_path, network).sizes
    assert sizes == {"grid": 3, "pooled": 3}
    spoil(tmp_path / "meta.json")
    if spoil is not _change:
        with pytest.raises(FileError, match=r"meta\.json"):
            FeatureStore(tmp_path)
    assert _store(dataset, tmp_path, network).sizes == sizes
    assert network.images == 6


@pytest.mark.parametrize("text", ["", "{", "[]", '{"images": "3"}', '{"images": 99}', "{}"])
def test_features_are_computed_again_if_their_progress_is_unreadable(
    text: str, dataset: VQADataset, tmp_path: Path
) -> None:
    write_text(tmp_path / "progress.json", text)
    network, images = Means(), dataset.split("val").require_images()
    extract(network.network, images, tmp_path, batch_size=5)
    assert network.images == 6
    assert np.load(tmp_path / "ids.npy").tolist() == images.ids.tolist()


# Scenes


@any_damage
@pytest.mark.parametrize("name", ["questions_train.json", "scenes_train.json", "images/train"])
def test_damaged_scenes_are_drawn_again(
    name: str, spoil: Spoil, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def make() -> dict[str, bytes]:
        generate_scenes(tmp_path / "root", images={"train": 2}, workers=1, progress=False)
        files = sorted(path for path in (tmp_path / "root").rglob("*") if path.is_file())
        return {path.name: path.read_bytes() for path in files}

    before = make()
    file = tmp_path / "root" / name
    file = min(file.iterdir()) if file.is_dir() else file
    spoil(file)
    capsys.readouterr()
    assert make() == before
    assert f"{file.name}" in capsys.readouterr().out.replace("\n", "")


# Rankings and encodings


class Watched:
    """A ranker with a list among its settings; counts the calls."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self._calls = 0

    def rank(
        self, questions: Sequence[str], pool: Sequence[str], k: int, exclude: Sequence[Any]
    ) -> Ranking:
        self._calls += 1
        return RandomRanker(seed=len(self.sizes)).rank(questions, pool, k, exclude)


POOL = [f"Is it number {number}?" for number in range(30)]


def _noise(ranker: QuestionRanker, cache: Path) -> list[list[str]]:
    noise = BasicQuestionNoise(ranker, levels=2, a_level=2, cache=str(cache))
    return noise.disturbed(["Why?", "How?"], POOL)


@any_damage
def test_damaged_rankings_are_computed_again(spoil: Spoil, tmp_path: Path) -> None:
    if spoil is _into_folder:
        pytest.skip("a folder of this name is not expected")
    ranker = Watched([1, 2])
    before = _noise(ranker, tmp_path)
    assert _noise(ranker, tmp_path) == before
    assert ranker._calls == 1
    (file,) = tmp_path.glob("*.npz")
    spoil(file)
    assert _noise(ranker, tmp_path) == before
    assert ranker._calls == 2
    assert _noise(ranker, tmp_path) == before
    assert ranker._calls == 2


def test_a_list_among_the_settings_changes_the_ranking(tmp_path: Path) -> None:
    first, other = Watched([1, 2]), Watched([1, 2, 3])
    assert _noise(first, tmp_path) != _noise(other, tmp_path)
    assert (first._calls, other._calls) == (1, 1)


@any_damage
def test_damaged_encodings_are_computed_again(spoil: Spoil, tmp_path: Path) -> None:
    if spoil is _into_folder:
        pytest.skip("a folder of this name is not expected")
    calls = []

    def encode(texts: Sequence[str]) -> np.ndarray:
        calls.append(len(texts))
        return np.arange(len(texts) * 3, dtype=np.float32).reshape(-1, 3)

    file = tmp_path / "rows.npy"
    before = np.array(stored_rows(file, ["a", "b"], encode))
    spoil(file)
    assert np.array_equal(stored_rows(file, ["a", "b"], encode), before)
    assert np.array_equal(stored_rows(file, ["a", "b"], encode), before)
    assert calls == [2, 2]
