"""Readers of all kinds of files, and what is no readable file: for the tests of bad files."""

import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ivqa.data.images import ImageFiles, open_picture
from ivqa.data.json_files import open_json
from ivqa.data.records import read_captions, read_layouts
from ivqa.data.results import read_results
from ivqa.data.split import VQASplit
from ivqa.data.validation import DataError, Problems
from ivqa.data.vqa_json import read_split
from ivqa.diagnosis import Belief, apply_annotations, read_beliefs
from ivqa.encoders.word_vectors import WordVectorEncoder
from ivqa.errors import UserError
from ivqa.ranking.bqd_files import read_bqd
from ivqa.runs.checkpoints import load_checkpoint
from ivqa.runs.run_directory import read_metrics
from ivqa.scenes import SceneOracle
from ivqa.scenes.world import Scene
from ivqa.store.arrays import load_array, load_arrays
from ivqa.store.files import FileError, read_yaml
from ivqa.store.weights import training_state
from ivqa.tasks.human_study.items import Study, StudyItem
from ivqa.tasks.human_study.ratings import read_ratings
from ivqa.vqa.transformers.hf_answerer import read_candidates

SECONDS = 20
# The errors that the user can fix; other ValueErrors, such as UnicodeDecodeError, name no file.
FOR_USERS = {FileError, DataError, UserError}

QUESTIONS = [{"question_id": n, "image_id": 1, "question": "Is it red?"} for n in (1, 2)]
ANNOTATIONS = [{"question_id": n, "answers": [{"answer": "yes"}]} for n in (1, 2)]
BELIEF = Belief(1, "yes", "Is it red?", 0.5, -3.0, 0.9, "rl")
JUDGED = {"image_id": 1, "answer": "yes", "question": "Is it red?"} | dict.fromkeys(
    ("relevant", "same_fact", "correct"), True
)
SPLIT = VQASplit(
    "val", np.array([1, 2]), np.array([1, 1]), ["a", "b"], [["yes"]] * 2, ["yes"] * 2, [], []
)
STUDY = Study("s", {}, {}, [StudyItem("1", 1, "yes", "Is it red?", "Why?", ["a"], {})])
RATINGS = {"study": "s", "person": "Anna", "ratings": {"1": 3}}

Reader = Callable[[Path], Any]


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        pytest.fail(f"still reading after {seconds} s")  # no reader catches its exception

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refused(read: Reader, file: Path, *, named: str | None = None) -> str:
    """Checks that `read` refuses the file; returns the message."""
    with _at_most(SECONDS), pytest.raises(Exception) as raised:  # noqa: PT011
        read(file)
    error, message = raised.value, str(raised.value)
    assert type(error) in FOR_USERS, repr(error)
    assert (named or file.name) in message
    assert len(message) < 700
    assert " object at 0x" not in message
    assert "weights_only" not in message
    return message


def _json_files() -> dict[str, tuple[Any, Reader]]:
    def problems(read: Callable[[Path, Problems], Any]) -> Reader:
        def reader(file: Path) -> Any:
            found = Problems()
            value = read(file, found)
            found.raise_if_any()
            return value

        return reader

    def questions(file: Path) -> Any:
        return read_split("train", file).questions

    def annotations(file: Path) -> Any:
        asked = file.with_name("asked.json")
        asked.write_text(json.dumps(QUESTIONS))
        return read_split("train", asked, file).answers

    def oracle(file: Path) -> Any:
        scenes = file.with_name("scenes_val.json")
        if scenes != file:
            os.symlink(file, scenes)
        return SceneOracle.load(file.parent, "val").scenes

    def key(file: Path) -> Any:
        folder = file.with_name("study")
        folder.mkdir(exist_ok=True)
        if not (folder / "key.json").is_symlink():
            os.symlink(file, folder / "key.json")
        return Study.read(folder)

    scene = Scene("sea", "day", "sun", ()).to_json()
    return {
        "questions": ({"questions": QUESTIONS}, questions),
        "annotations": ({"annotations": ANNOTATIONS}, annotations),
        "captions": ({"annotations": [{"image_id": 1, "caption": "a"}]}, problems(read_captions)),
        "layouts": ({"1": ["find"]}, problems(read_layouts)),
        "results": (
            [{"question_id": n, "answer": "yes"} for n in (1, 2)],
            lambda file: read_results(file, SPLIT),
        ),
        "judgements": ([JUDGED], lambda file: apply_annotations([BELIEF], file)),
        "bqd": (
            [{"MQ": "a", "BQ": [["b", 0.5]]}],
            lambda file: read_bqd(file).to_pylist(),
        ),
        "candidates": (["yes", "no"], lambda file: read_candidates(file).answers),
        "scenes": ({"1": scene}, oracle),
        "ratings": (RATINGS, lambda file: read_ratings([file], STUDY)),
        "key": (asdict(STUDY), key),
        "metrics": ({"cider": 0.5}, read_metrics),
    }


JSON_FILES = _json_files()


def _folder(file: Path) -> None:
    file.mkdir()


def _pipe(file: Path) -> None:
    os.mkfifo(file)


def _broken_link(file: Path) -> None:
    file.symlink_to(file.with_name("nowhere"))


def _circle(file: Path) -> None:
    file.symlink_to(file)


def _device(file: Path) -> None:
    file.symlink_to("/dev/null")


def nothing(file: Path) -> None:
    pass


def forbidden(file: Path) -> None:
    file.write_text("[]")
    file.chmod(0)


UNREADABLE = [_folder, _pipe, _broken_link, _circle, _device, nothing, forbidden]


def word_vectors(file: Path) -> Any:
    return WordVectorEncoder(str(file)).fit(["red"])


def one_picture(file: Path) -> Any:
    return ImageFiles(np.array([7]), [file]).open(7)


OTHERS: dict[str, tuple[str, Reader]] = {
    "checkpoint": ("a.ckpt", load_checkpoint),
    "resumed checkpoint": ("a.ckpt", training_state),
    "picture": ("7.png", open_picture),
    "picture of a split": ("7.jpg", one_picture),
    "array": ("a.npy", lambda file: load_array(file, "f")),
    "arrays": ("a.npz", lambda file: load_arrays(file, ["a"])),
    "parquet": ("a.parquet", read_bqd),
    "packed json": ("a.json.gz", open_json),
    "zipped json": ("a.zip", open_json),
    "word vectors": ("a.txt", word_vectors),
    "packed word vectors": ("a.txt.gz", word_vectors),
    "beliefs": ("beliefs.jsonl", read_beliefs),
    "yaml": ("config.yaml", lambda file: read_yaml(file, dict)),
    "plain candidates": ("a.txt", read_candidates),
}
ALL = {
    **{kind: (f"{kind}.json", read) for kind, (_, read) in JSON_FILES.items() if kind != "scenes"},
    **OTHERS,
    "scenes": ("scenes_val.json", JSON_FILES["scenes"][1]),
}


def encoded(kind: str, **options: Any) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).resize((160, 120)).save(stream, kind, **options)
    return stream.getvalue()
