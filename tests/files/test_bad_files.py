"""Every reader refuses every kind of bad file with one sentence that names it, and never hangs.

A test case combines a reader, a valid file for it, and a way to damage the file. If the damage
leaves the content readable (a byte order mark, UTF-16), the reader must return the same value.

The file is longer than 300 lines because all kinds of files share the readers and the damages.
"""

import gzip
import io
import json
import os
import pickle
import shutil
import signal
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from omegaconf import OmegaConf
from PIL import Image
from safetensors.torch import load_file, save_file

from ivqa.arrays import load_array, load_arrays
from ivqa.data import VQADataset
from ivqa.data.images import ImageFiles, open_picture
from ivqa.data.json_files import open_json
from ivqa.data.records import read_captions, read_layouts
from ivqa.data.results import read_results
from ivqa.data.validation import DataError, Problems
from ivqa.data.vqa_json import VQASplit, read_split
from ivqa.diagnosis import Belief, apply_annotations, read_beliefs
from ivqa.encoders.skip_thoughts import load_skip_thoughts
from ivqa.encoders.word_vectors import WordVectorEncoder
from ivqa.errors import UserError
from ivqa.features.backbones import BackboneFeatures
from ivqa.files import FileError, read_json, read_yaml
from ivqa.ranking import read_bqd, write_parquet
from ivqa.robustness import NoiseRecords
from ivqa.runs.checkpoints import load_checkpoint
from ivqa.runs.run_directory import read_metrics
from ivqa.scenes import SceneOracle
from ivqa.scenes.world import Scene
from ivqa.tasks.compare import compare
from ivqa.tasks.study_items import Study, StudyItem
from ivqa.tasks.study_ratings import read_ratings
from ivqa.vqa.hf_answerer import read_candidates
from ivqa.vqa.hf_blip import HFBlip
from ivqa.weights import training_state
from tiny_transformers import tiny_blip

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


def _refused(read: Reader, file: Path, *, named: str | None = None) -> str:
    """Checks that `read` refuses the file; returns the message."""
    with _at_most(SECONDS), pytest.raises(Exception) as raised:  # noqa: PT011
        read(file)
    error, message = raised.value, str(raised.value)
    assert type(error) in FOR_USERS, repr(error)
    assert (named or file.name) in message
    assert len(message) < 700
    return message


# JSON


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
# Contents that are valid for some kinds of files.
FITTING = {
    "layouts": {"an empty object"},
    "scenes": {"an empty object"},
    "metrics": {"an empty object", "an object of numbers"},
    "judgements": {"an empty list"},
}

TEXTS = {
    "nothing": b"",
    "a space": b" ",
    "null": b"null",
    "true": b"true",
    "a number": b"7",
    "a text": b'"text"',
    "an empty object": b"{}",
    "an empty list": b"[]",
    "a list of null": b"[null]",
    "a list of numbers": b"[1, 2]",
    "a list of lists": b"[[]]",
    "an object of null": b'{"questions": null, "annotations": null, "1": null}',
    "an object of numbers": b'{"questions": 1, "annotations": 1, "1": 1, "a": 1, "b": 1, "c": 1}',
    "an object of objects": b'{"questions": {}, "annotations": {}, "1": {}, "a": {}, "b": {}}',
    "a list of objects": b'[{"a": 1}]',
    "nested lists": b"[" * 100_000 + b"]" * 100_000,
    "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "open lists": b"[" * 100_000,
    "half a character": b'["\\ud800"]',
    "half a character as a key": b'{"\\udfff": 1}',
    "half a character in bytes": b'["\xed\xa0\x80"]',
    "an integer of 5000 digits": b"[" + b"9" * 5000 + b"]",
    "NaN": b"NaN",
    "Infinity": b"[Infinity]",
    "1e999": b"1e999",
    "Latin-1": '["\u00e9"]'.encode("latin-1"),
    "zeros": bytes(64),
    "other bytes": bytes(range(256)),
    "HTML": b"<html>404 Not Found</html>",
    "two values": b"{} {}",
    "single quotes": b"{'a': 1}",
    "a comma too many": b'{"a": 1,}',
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", JSON_FILES)
def test_invalid_json_and_other_values_are_refused(kind: str, text: str, tmp_path: Path) -> None:
    read, file = JSON_FILES[kind][1], tmp_path / f"{kind}.json"
    file.write_bytes(TEXTS[text])
    if text in FITTING.get(kind, ()):
        read(file)
        return
    message = _refused(read, file, named=kind if kind != "scenes" else "scenes_val.json")
    if text.startswith(("nested", "open lists")):
        assert "nested too deeply" in message or "invalid JSON" in message
    if text.startswith("half a character"):
        assert "half a character" in message or "not UTF-8" in message


@pytest.mark.parametrize("kind", JSON_FILES)
def test_truncated_json_is_refused(kind: str, tmp_path: Path) -> None:
    value, read = JSON_FILES[kind]
    file = tmp_path / f"{kind}.json"
    text = json.dumps(value)
    for kept in (1, len(text) // 2, len(text) - 1):
        for made in tmp_path.glob("scenes_val.json"):
            made.unlink()
        file.write_text(text[:kept])
        message = _refused(read, file, named=kind)
        assert "invalid JSON" in message


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize("kind", JSON_FILES)
def test_json_in_other_encodings_gives_the_same_value(
    kind: str, encoding: str, tmp_path: Path
) -> None:
    value, read = JSON_FILES[kind]
    found = []
    for number, used in enumerate(("utf-8", encoding)):
        file = tmp_path / str(number) / f"{kind}.json"
        file.parent.mkdir()
        file.write_bytes(json.dumps(value).encode(used))
        found.append(read(file))
    assert found[0] == found[1]


# Paths that are not readable files


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


def _nothing(file: Path) -> None:
    pass


def _forbidden(file: Path) -> None:
    file.write_text("[]")
    file.chmod(0)


UNREADABLE = [_folder, _pipe, _broken_link, _circle, _device, _nothing, _forbidden]


def _word_vectors(file: Path) -> Any:
    return WordVectorEncoder(str(file)).fit(["red"])


def _one_picture(file: Path) -> Any:
    return ImageFiles(np.array([7]), [file]).open(7)


OTHERS: dict[str, tuple[str, Reader]] = {
    "checkpoint": ("a.ckpt", load_checkpoint),
    "resumed checkpoint": ("a.ckpt", training_state),
    "picture": ("7.png", open_picture),
    "picture of a split": ("7.jpg", _one_picture),
    "array": ("a.npy", lambda file: load_array(file, "f")),
    "arrays": ("a.npz", lambda file: load_arrays(file, ["a"])),
    "parquet": ("a.parquet", read_bqd),
    "packed json": ("a.json.gz", open_json),
    "zipped json": ("a.zip", open_json),
    "word vectors": ("a.txt", _word_vectors),
    "packed word vectors": ("a.txt.gz", _word_vectors),
    "beliefs": ("beliefs.jsonl", read_beliefs),
    "yaml": ("config.yaml", lambda file: read_yaml(file, dict)),
    "plain candidates": ("a.txt", read_candidates),
}
ALL = {
    **{kind: (f"{kind}.json", read) for kind, (_, read) in JSON_FILES.items() if kind != "scenes"},
    **OTHERS,
    "scenes": ("scenes_val.json", JSON_FILES["scenes"][1]),
}


@pytest.mark.parametrize("spoil", UNREADABLE)
@pytest.mark.parametrize("kind", ALL)
def test_paths_that_are_not_readable_files_are_refused(
    kind: str, spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    name, read = ALL[kind]
    if spoil is _forbidden and os.geteuid() == 0:
        pytest.skip("the superuser may read everything")
    spoil(tmp_path / name)
    _refused(read, tmp_path / name)


JUNK = {
    "nothing": b"",
    "one byte": b"\x80",
    "zeros": bytes(1000),
    "all bytes": bytes(range(256)) * 8,
    "a page": b"<!DOCTYPE html><html>404</html>\n",
    "a pickle": pickle.dumps({"state_dict": Path("x")}),
    "an empty zip": b"PK\x05\x06" + bytes(18),
    "a gzip header": b"\x1f\x8b\x08\x00",
    "a png header": b"\x89PNG\r\n\x1a\n",
    "a jpeg header": b"\xff\xd8\xff\xe0\x00\x10JFIF",
    "a parquet mark": b"PAR1PAR1",
    "a numpy header": b"\x93NUMPY\x01\x00\x76\x00{'descr'",
}


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("kind", [kind for kind in ALL if kind != "plain candidates"])
def test_files_of_another_format_are_refused(kind: str, junk: str, tmp_path: Path) -> None:
    name, read = ALL[kind]
    file = tmp_path / name
    file.write_bytes(JUNK[junk])
    if kind == "beliefs" and not JUNK[junk]:
        assert read(file) == []  # an empty file is valid: no beliefs
    else:
        _refused(read, file)


# Archives


def _zip(*members: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def _in_headers(content: bytes, offsets: tuple[int, int], value: int) -> bytes:
    """Replaces a 16-bit value in both headers of the only member of a zip file."""
    changed = bytearray(content)
    for mark, offset in zip((b"PK\x03\x04", b"PK\x01\x02"), offsets, strict=True):
        struct.pack_into("<H", changed, content.index(mark) + offset, value)
    return bytes(changed)


MEMBER = ("a.json", json.dumps(list(range(100))).encode())
PACKED = gzip.compress(MEMBER[1])
DEFLATED = _zip(MEMBER, compression=zipfile.ZIP_DEFLATED)
LZMA, BZIP2 = (_zip(MEMBER, compression=one) for one in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2))
ARCHIVES = {
    "no member.zip": _zip(),
    "no json.zip": _zip(("a.txt", b"[]")),
    "two members.zip": _zip(MEMBER, ("b.json", b"[]")),
    "only a folder.zip": _zip(("a.json/", b"")),
    "encrypted.zip": _in_headers(DEFLATED, (6, 8), 1),
    "of an unknown compression.zip": _in_headers(DEFLATED, (8, 10), 97),
    "of another compression.zip": _in_headers(DEFLATED, (8, 10), 14),
    "cut.zip": DEFLATED[: len(DEFLATED) // 2],
    "without its end.zip": DEFLATED[:-10],
    "of lzma, damaged.zip": LZMA.replace(LZMA[50:60], b"\x00" * 10),
    "of bzip2, damaged.zip": BZIP2.replace(BZIP2[60:70], b"\x00" * 10),
    "damaged.zip": DEFLATED.replace(DEFLATED[50:60], b"\x55" * 10),
    "of a cut text.zip": _zip(("a.json", b"[1, 2")),
    "of an empty text.zip": _zip(("a.json", b"")),
    "a gzip.zip": PACKED,
    "cut.json.gz": PACKED[:-12],
    "cut in the middle.json.gz": PACKED[: len(PACKED) // 2],
    "without its checksum.json.gz": PACKED[:-8],
    "damaged.json.gz": PACKED.replace(PACKED[30:40], b"\x55" * 10),
    "not packed.json.gz": MEMBER[1],
    "a zip.json.gz": DEFLATED,
    "with a tail.json.gz": PACKED + b"tail",
    "empty inside.json.gz": gzip.compress(b""),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_damaged_archives_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(ARCHIVES[name])
    _refused(open_json, tmp_path / name)


# Pictures


def _encoded(kind: str, **options: Any) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).resize((160, 120)).save(stream, kind, **options)
    return stream.getvalue()


PICTURES = {
    "jpg": _encoded("JPEG"),
    "progressive.jpg": _encoded("JPEG", progressive=True),
    "png": _encoded("PNG"),
    "bmp": _encoded("BMP"),
    "gif": _encoded("GIF"),
    "webp": _encoded("WEBP"),
}


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("kind", PICTURES)
def test_truncated_pictures_are_refused(kind: str, share: float, tmp_path: Path) -> None:
    file, whole = tmp_path / f"7.{kind}", PICTURES[kind]
    file.write_bytes(whole)
    assert open_picture(file).size == (160, 120)
    file.write_bytes(whole[: int(share * len(whole))])
    assert "replace the file" in _refused(open_picture, file)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("kind", ["jpg", "progressive.jpg"])
def test_a_jpeg_with_an_early_end_mark_is_refused(kind: str, share: float, tmp_path: Path) -> None:
    """Decoders silently fill missing pixels with grey if an end mark follows."""
    file, whole = tmp_path / f"7.{kind}", PICTURES[kind]
    file.write_bytes(whole[: int(share * len(whole))] + b"\xff\xd9")
    with Image.open(file) as image:
        image.convert("RGB")
    assert "its pixels end before the picture does" in _refused(open_picture, file)


def test_complete_jpegs_of_one_colour_are_read(tmp_path: Path) -> None:
    for size in ((1, 1), (8, 8), (33, 17), (160, 120)):
        for options in ({}, {"progressive": True}, {"subsampling": 0}, {"quality": 5}):
            file = tmp_path / "white.jpg"
            Image.new("RGB", size, "white").save(file, **options)
            assert open_picture(file).size == size


def test_a_damaged_png_is_refused_though_it_decodes(tmp_path: Path) -> None:
    file, whole = tmp_path / "7.png", bytearray(PICTURES["png"])
    whole[-13:] = bytes(13)  # the end chunk and the last checksum
    file.write_bytes(whole)
    _refused(open_picture, file)


# Weights


def _checkpoint(**changes: Any) -> dict[str, Any]:
    whole = {
        "state_dict": {"layer.weight": torch.ones(2, 2)},
        "component": {"question_words": ["a"], "feature_sizes": {}},
        "global_step": 3,
        "epoch": 1,
        "loops": {},
        "optimizer_states": [{"state": {0: {"exp_avg": torch.ones(2, 2)}}, "param_groups": []}],
        "lr_schedulers": [],
    }
    return {name: value for name, value in {**whole, **changes}.items() if value is not ...}


NAN, INF = torch.tensor([[1.0, float("nan")]]), torch.tensor([[1.0, float("inf")]])
LOADED: dict[str, Any] = {
    "no state_dict": _checkpoint(state_dict=...),
    "a state_dict of numbers": _checkpoint(state_dict={"a": 1}),
    "a state_dict that is a list": _checkpoint(state_dict=[1]),
    "NaN": _checkpoint(state_dict={"layer.weight": NAN}),
    "infinity": _checkpoint(state_dict={"layer.weight": INF}),
    "NaN in bfloat16": _checkpoint(state_dict={"layer.weight": NAN.bfloat16()}),
    "a list": [1, 2],
    "a tensor": torch.ones(2),
    "None": None,
}
USED = {
    "no component": _checkpoint(component=...),
    "another component": _checkpoint(component={"name": "x"}),
    "a component of a list": _checkpoint(component=[1]),
    "words of numbers": _checkpoint(component={"feature_sizes": {}, "question_words": [1]}),
    "a word twice": _checkpoint(component={"feature_sizes": {}, "answers": ["a", "a"]}),
}
RESUMED = {
    "no optimiser": _checkpoint(optimizer_states=...),
    "an empty optimiser": _checkpoint(optimizer_states=[]),
    "no step": _checkpoint(global_step=...),
    "a step of text": _checkpoint(global_step="3"),
    "no loops": _checkpoint(loops=...),
    "no schedulers": _checkpoint(lr_schedulers=...),
    "NaN in the optimiser": _checkpoint(optimizer_states=[{"state": {0: {"exp_avg": NAN}}}]),
}


@pytest.mark.parametrize("fault", [*LOADED, *USED])
def test_invalid_checkpoints_are_refused(fault: str, tmp_path: Path) -> None:
    torch.save({**LOADED, **USED}[fault], tmp_path / "a.ckpt")
    message = _refused(load_checkpoint, tmp_path / "a.ckpt")
    if fault in ("NaN", "infinity"):
        assert "'layer.weight' holds values that are not finite" in message


@pytest.mark.parametrize("fault", [*LOADED, *RESUMED])
def test_checkpoints_without_training_state_are_refused_for_resuming(
    fault: str, tmp_path: Path
) -> None:
    torch.save({**LOADED, **RESUMED}[fault], tmp_path / "last.ckpt")
    _refused(training_state, tmp_path / "last.ckpt")


def test_complete_checkpoints_are_read(tmp_path: Path) -> None:
    masked = {"layer.weight": torch.ones(2), "mask": torch.tensor([0.0, float("-inf")])}
    torch.save(_checkpoint(state_dict=masked), tmp_path / "a.ckpt")
    for read in (load_checkpoint, training_state):
        assert read(tmp_path / "a.ckpt")["global_step"] == 3


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_truncated_checkpoints_are_refused(kept: float, tmp_path: Path) -> None:
    file = tmp_path / "a.ckpt"
    torch.save(_checkpoint(), file)
    content = file.read_bytes()
    file.write_bytes(content[: int(kept * len(content))])
    for read in (load_checkpoint, training_state, lambda f: load_skip_thoughts(f, ["uni"])):
        _refused(read, file)


def test_a_changed_bit_of_a_checkpoint_is_found(tmp_path: Path) -> None:
    file = tmp_path / "a.ckpt"
    torch.save(_checkpoint(state_dict={"layer.weight": torch.full((50,), 1.5)}), file)
    whole = file.read_bytes()
    at = whole.index(np.full(50, 1.5, "f4").tobytes()) + 100
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert "was changed after it was written" in _refused(load_checkpoint, file)


@pytest.mark.parametrize("content", [{"fc.weight": NAN}, {"fc.weight": torch.ones(2)}, [1], {}])
def test_invalid_weights_of_a_backbone_are_refused(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "resnet.pt")
    network = BackboneFeatures(arch="resnet18", weights=str(tmp_path / "resnet.pt"))
    _refused(lambda _: network.network(), tmp_path / "resnet.pt")


# Arrays and tables


@pytest.mark.parametrize(
    "array",
    [np.array(3.0), np.array([1, 2]), np.array(["a"]), np.array([1j]), np.array([True])],
)
def test_arrays_of_another_kind_are_refused(array: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array)
    _refused(lambda file: load_array(file, "f"), tmp_path / "a.npy")


def test_arrays_of_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}]), allow_pickle=True)
    _refused(lambda file: load_array(file, "f"), tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", a=np.array([{"a": 1}]))
    _refused(lambda file: load_arrays(file, ["a"]), tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", a=np.array([np.nan]))
    _refused(lambda file: load_arrays(file, ["a"]), tmp_path / "b.npz")
    _refused(lambda file: load_arrays(file, ["a", "b"]), tmp_path / "b.npz")


@pytest.mark.parametrize("kept", [4, 60, 130, 200])
def test_truncated_arrays_are_refused(kept: int, tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    np.save(file, np.ones((10, 3)))
    file.write_bytes(file.read_bytes()[:kept])
    _refused(lambda file: load_array(file, "f"), file)


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
def test_tables_of_other_columns_are_refused(fault: str, tmp_path: Path) -> None:
    write_parquet(tmp_path / "bqd.parquet", TABLES[fault], {})
    _refused(read_bqd, tmp_path / "bqd.parquet")


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
    _refused(read_bqd, file)


def _answers(**columns: Any) -> pa.Table:
    whole: dict[str, Any] = {
        "question_id": [1, 2, 1, 2],
        "answer_type": ["other"] * 4,
        "level": [0, 0, 1, 1],
        "answer": ["a"] * 4,
        "accuracy": [1.0, 0.0, 0.5, 0.5],
    }
    return pa.table({name: v for name, v in {**whole, **columns}.items() if v is not None})


ANSWERS = {
    "no level": _answers(level=None),
    "no accuracy": _answers(accuracy=None),
    "NaN": _answers(accuracy=[1.0, float("nan"), 0.5, 0.5]),
    "percent": _answers(accuracy=[100.0, 0.0, 50.0, 50.0]),
    "a missing answer": _answers(answer=["a", None, "a", "a"]),
    "texts for ids": _answers(question_id=["1", "2", "1", "2"]),
    "other questions at a level": _answers(question_id=[1, 2, 1, 3]),
    "a level left out": _answers(level=[0, 0, 2, 2]),
    "no rows": _answers().slice(0, 0),
}


@pytest.mark.parametrize("fault", ANSWERS)
def test_invalid_tables_of_answers_under_noise_are_refused(fault: str, tmp_path: Path) -> None:
    write_parquet(tmp_path / "robustness.parquet", ANSWERS[fault], {})
    _refused(NoiseRecords.read, tmp_path, named="robustness.parquet")
    write_parquet(tmp_path / "robustness.parquet", _answers(), {})
    assert len(NoiseRecords.read(tmp_path)) == 2
    cfg = OmegaConf.create({"compare": [str(tmp_path), str(tmp_path / "nowhere")]})
    _refused(lambda _: compare(cfg), tmp_path, named="nowhere")


# Texts by lines


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "{}",
        json.dumps({**asdict(BELIEF), "more": 1}),
        json.dumps({**asdict(BELIEF), "phi": "high"}),
        json.dumps({**asdict(BELIEF), "phi": float("nan")}),
        json.dumps({**asdict(BELIEF), "image_id": 1.5}),
        json.dumps({**asdict(BELIEF), "type": "wrong"}),
        json.dumps({**asdict(BELIEF), "type_by": "me"}),
        BELIEF.line()[:40],
    ],
)
def test_lines_that_are_not_beliefs_are_refused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "beliefs.jsonl"
    file.write_text(f"{BELIEF.line()}{line}\n{BELIEF.line()}")
    assert "line 2" in _refused(read_beliefs, file)


@pytest.mark.parametrize(
    "change",
    [
        {"image_id": "1"},
        {"image_id": None},
        {"answer": 1},
        {"relevant": "no"},
        {"correct": None},
        {"question": "Is it blue?"},
        {"relevant": ...},
    ],
)
def test_records_that_are_not_judgements_are_refused(
    change: dict[str, Any], tmp_path: Path
) -> None:
    record = {name: value for name, value in {**JUDGED, **change}.items() if value is not ...}
    file = tmp_path / "annotations.json"
    file.write_text(json.dumps([record]))
    assert "record 1" in _refused(lambda f: apply_annotations([BELIEF], f), file)


@pytest.mark.parametrize(
    "text",
    [
        "red\nblue\n",
        "red 1 2\nblue 1\n",
        "red 1 2\nblue 1 2 3\n",
        "red x y\n",
        "red nan 1\n",
        "red inf 1\n",
        "3 2\nred 1 2\nblue 1 2\n",
        "2 3\nred 1 2\nblue 1 2\n",
    ],
)
def test_word_vectors_with_wrong_columns_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text(text)
    _refused(_word_vectors, tmp_path / "vectors.txt")


@pytest.mark.parametrize("text", ["", "a: [", "7", "- a", "a: !!python/name:os.system", "\0"])
def test_invalid_yaml_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    _refused(lambda file: read_yaml(file, dict), tmp_path / "config.yaml")


def test_json_with_nan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text('{"figures": [NaN]}')
    _refused(read_json, tmp_path / "progress.json")


# Data roots, and folders of models


def _root(folder: Path) -> Path:
    (folder / "images" / "train").mkdir(parents=True)
    for name, value in (("questions", QUESTIONS), ("annotations", ANNOTATIONS)):
        (folder / f"{name}_train.json").write_text(json.dumps(value))
    (folder / "images" / "train" / "000000000001.png").write_bytes(PICTURES["png"])
    return folder


@pytest.mark.parametrize("spoil", [s for s in UNREADABLE if s not in (_nothing, _forbidden)])
@pytest.mark.parametrize("kind", ["questions", "annotations", "captions", "layouts"])
def test_data_roots_with_unreadable_files_are_refused(
    kind: str, spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    """The error names the path; the split does not count as one without such a file."""
    file = _root(tmp_path) / f"{kind}_train.json"
    file.unlink(missing_ok=True)
    spoil(file)
    _refused(lambda _: VQADataset(tmp_path, val=None).split("train"), file)


@pytest.mark.parametrize("spoil", UNREADABLE)
def test_data_roots_with_unreadable_pictures_are_refused(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    if spoil is _forbidden and os.geteuid() == 0:
        pytest.skip("the superuser may read everything")
    picture = _root(tmp_path) / "images" / "train" / "000000000001.png"
    other = picture.with_name("000000000002.png")
    other.write_bytes(picture.read_bytes())
    picture.unlink()
    spoil(picture)
    dataset = VQADataset(tmp_path, val=None)
    _refused(lambda _: dataset.split("train"), picture, named="image 1")
    assert len(dataset.fingerprint()) == 16


def test_a_file_in_place_of_the_picture_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "images" / "train"
    folder.parent.mkdir()
    folder.write_text("")
    (tmp_path / "questions_train.json").write_text(json.dumps(QUESTIONS))
    _refused(lambda _: VQADataset(tmp_path).split("train"), folder)


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blip")
    tiny_blip(folder)
    return folder


@pytest.mark.parametrize("junk", ["", "{", "[]", "null", "\0" * 100])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_damaged_model_folders_are_refused(
    name: str, junk: str, blip: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(blip, folder)
    (folder / name).write_text(junk)
    _refused(lambda file: HFBlip.load(str(file)), folder)


def test_models_with_non_finite_weights_are_refused(blip: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(blip, folder)
    weights = load_file(folder / "model.safetensors")
    next(iter(weights.values())).fill_(float("nan"))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert "not finite" in _refused(lambda file: HFBlip.load(str(file)), folder)
    whole = (blip / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    _refused(lambda file: HFBlip.load(str(file)), folder)
