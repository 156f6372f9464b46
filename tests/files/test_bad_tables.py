"""Damaged arrays and tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from bad_files import refused
from omegaconf import OmegaConf

from ivqa.ranking.bqd_files import read_bqd, write_parquet
from ivqa.robustness.records import NoiseRecords
from ivqa.store.arrays import load_array, load_arrays
from ivqa.tasks.compare import compare


@pytest.mark.parametrize(
    "array",
    [np.array(3.0), np.array([1, 2]), np.array(["a"]), np.array([1j]), np.array([True])],
)
def test_arrays_of_another_kind_arerefused(array: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array)
    refused(lambda file: load_array(file, "f"), tmp_path / "a.npy")


def test_arrays_of_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}]), allow_pickle=True)
    refused(lambda file: load_array(file, "f"), tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", a=np.array([{"a": 1}]))
    refused(lambda file: load_arrays(file, ["a"]), tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", a=np.array([np.nan]))
    refused(lambda file: load_arrays(file, ["a"]), tmp_path / "b.npz")
    refused(lambda file: load_arrays(file, ["a", "b"]), tmp_path / "b.npz")


@pytest.mark.parametrize("kept", [4, 60, 130, 200])
def test_truncated_arrays_arerefused(kept: int, tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    np.save(file, np.ones((10, 3)))
    file.write_bytes(file.read_bytes()[:kept])
    refused(lambda file: load_array(file, "f"), file)


def _bqd(**columns: Any) -> pa.Table:
    texts, floats = pa.list_(pa.string()), pa.list_(pa.float32())
    whole = {
        "question": pa.array(["a", "b"]),
        "basic_questions": pa.array([["c"], ["d"]], texts),
        "scores": pa.array([[0.5], [0.25]], floats),
    }
    return pa.table({**whole, **columns})


TABLES = {
    "numbers for questions": _bqd(question=pa.array([1, 2])),
    "a null question": _bqd(question=pa.array(["a", None])),
    "texts for scores": _bqd(scores=pa.array([["x"], ["y"]])),
    "NaN": _bqd(scores=pa.array([[0.5], [float("nan")]], pa.list_(pa.float32()))),
    "a null score": _bqd(scores=pa.array([[0.5], [None]], pa.list_(pa.float32()))),
    "no scores": _bqd(scores=pa.array([[0.5], None], pa.list_(pa.float32()))),
    "a score too many": _bqd(scores=pa.array([[0.5, 0.5], [0.5]], pa.list_(pa.float32()))),
    "no lists": _bqd(basic_questions=pa.array(["c", "d"])),
    "another column": _bqd().drop_columns(["scores"]),
}


@pytest.mark.parametrize("fault", TABLES)
def test_tables_of_other_columns_arerefused(fault: str, tmp_path: Path) -> None:
    write_parquet(tmp_path / "bqd.parquet", TABLES[fault], {})
    refused(read_bqd, tmp_path / "bqd.parquet")


def test_a_changed_byte_of_a_table_is_found(tmp_path: Path) -> None:
    file = tmp_path / "bqd.parquet"
    rng = np.random.default_rng(0)
    scores = pa.array(rng.random((2, 500), dtype=np.float32).tolist(), pa.list_(pa.float32()))
    texts = pa.array([["c"] * 500] * 2)
    write_parquet(file, _bqd(basic_questions=texts, scores=scores), {})
    assert len(read_bqd(file)) == 2
    whole = file.read_bytes()
    middle = len(whole) // 2  # in the scores, which do not compress
    file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    refused(read_bqd, file)


def _answers(**columns: Any) -> pa.Table:
    whole: dict[str, Any] = {
        "question_id": [1, 2, 1, 2],
        "image_id": [5, 6, 5, 6],
        "answer_type": ["other"] * 4,
        "level": [0, 0, 1, 1],
        "answer": ["a"] * 4,
        "accuracy": [1.0, 0.0, 0.5, 0.5],
        "blind_accuracy": [0.5] * 4,
    }
    return pa.table({name: v for name, v in {**whole, **columns}.items() if v is not None})


ANSWERS = {
    "no level": _answers(level=None),
    "no accuracy": _answers(accuracy=None),
    "no images": _answers(image_id=None),
    "NaN": _answers(accuracy=[1.0, float("nan"), 0.5, 0.5]),
    "percent": _answers(accuracy=[100.0, 0.0, 50.0, 50.0]),
    "a missing answer": _answers(answer=["a", None, "a", "a"]),
    "texts for ids": _answers(question_id=["1", "2", "1", "2"]),
    "other questions at a level": _answers(question_id=[1, 2, 1, 3]),
    "a level left out": _answers(level=[0, 0, 2, 2]),
    "no rows": _answers().slice(0, 0),
}


@pytest.mark.parametrize("fault", ANSWERS)
def test_invalid_tables_of_answers_under_noise_arerefused(fault: str, tmp_path: Path) -> None:
    write_parquet(tmp_path / "robustness.parquet", ANSWERS[fault], {})
    refused(NoiseRecords.read, tmp_path, named="robustness.parquet")
    write_parquet(tmp_path / "robustness.parquet", _answers(), {})
    assert len(NoiseRecords.read(tmp_path)) == 2
    cfg = OmegaConf.create({"compare": [str(tmp_path), str(tmp_path / "nowhere")]})
    refused(lambda _: compare(cfg), tmp_path, named="nowhere")
