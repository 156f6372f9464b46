"""Downloads from a local server that breaks connections, ignores ranges or changes files."""

import http.server
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ivqa.data.download import download as module
from ivqa.data.download.download import CHECKSUMS, download, main
from ivqa.data.download.official_archives import Archive, archives


class FlakyServer:
    """Serves `files`; if `cut` is set, every response ends after so many bytes."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: int | None = None
        self.ranges = True
        self.requests: list[tuple[str, str | None]] = []
        self.status: list[int] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: Any) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        name, wanted = handler.path.lstrip("/"), handler.headers.get("Range")
        self.requests.append((name, wanted))
        if self.status:
            handler.send_error(self.status.pop(0))
            return
        if name not in self.files:
            handler.send_error(404)
            return
        body, tag = self.files[name], f'"{hash(self.files[name])}"'
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        if start and handler.headers.get("If-Range", tag) != tag:
            start = 0
        if start >= len(body):
            handler.send_response(416)
            handler.send_header("Content-Range", f"bytes */{len(body)}")
            handler.end_headers()
            return
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        handler.send_header("Content-Length", str(len(body) - start))
        handler.send_header("ETag", tag)
        handler.end_headers()
        handler.wfile.write(body[start : None if self.cut is None else start + self.cut])


@pytest.fixture
def server() -> Iterator[FlakyServer]:
    flaky = FlakyServer()
    thread = threading.Thread(target=flaky.server.serve_forever, daemon=True)
    thread.start()
    yield flaky
    flaky.server.shutdown()
    flaky.server.server_close()
    thread.join()


def zipped(seed: int = 0, name: str = "data.json", size: int = 50_000) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, np.random.default_rng(seed).bytes(size))
    return buffer.getvalue()


def content(seed: int = 0, size: int = 50_000) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def wanted(server: FlakyServer) -> list[Archive]:
    return [Archive(f"{server.url}/a.zip", ".", "data.json")]


def test_broken_downloads_continue_where_they_stopped(server: FlakyServer, tmp_path: Path):
    server.files["a.zip"] = zipped()
    server.cut = 20_000
    download(tmp_path, wanted(server), wait=0)
    assert (tmp_path / "data.json").read_bytes() == content()
    assert [asked for _, asked in server.requests] == [None, "bytes=20000-", "bytes=40000-"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [CHECKSUMS, "data.json"]


def test_a_second_run_continues_and_a_third_requests_nothing(server: FlakyServer, tmp_path: Path):
    server.files["a.zip"] = zipped()
    server.cut = 0
    (tmp_path / "a.zip.part").write_bytes(zipped()[:30_000])
    with pytest.raises(ConnectionError, match="gave up after 2 retries without a new byte"):
        download(tmp_path, wanted(server), retries=2, wait=0)
    assert len(server.requests) == 3
    server.cut = None
    download(tmp_path, wanted(server), wait=0)
    assert server.requests[-1] == ("a.zip", "bytes=30000-")
    assert (tmp_path / "data.json").read_bytes() == content()
    before = len(server.requests)
    download(tmp_path, wanted(server), wait=0)
    assert len(server.requests) == before


def test_without_ranges_the_download_starts_again(server: FlakyServer, tmp_path: Path):
    server.files["a.zip"] = zipped()
    server.ranges = False
    (tmp_path / "a.zip.part").write_bytes(zipped()[:30_000])
    download(tmp_path, wanted(server), wait=0)
    assert (tmp_path / "data.json").read_bytes() == content()


def test_a_file_that_changed_in_between_is_downloaded_whole(server: FlakyServer, tmp_path: Path):
    server.files["a.zip"] = zipped(seed=1)
    server.cut = 20_000
    with pytest.raises(ConnectionError):
        download(tmp_path, wanted(server), retries=0, wait=0)
    server.files["a.zip"], server.cut = zipped(seed=2), None
    download(tmp_path, wanted(server), wait=0)
    assert (tmp_path / "data.json").read_bytes() == content(seed=2)


@pytest.mark.parametrize("extra", [0, 10])
def test_a_partial_file_that_is_complete_or_too_long(
    server: FlakyServer, tmp_path: Path, extra: int
):
    server.files["a.zip"] = zipped()
    (tmp_path / "a.zip.part").write_bytes(zipped() + b"x" * extra)
    download(tmp_path, wanted(server), wait=0)
    assert (tmp_path / "data.json").read_bytes() == content()


def test_a_busy_server_is_retried_and_a_missing_file_is_not(server: FlakyServer, tmp_path: Path):
    server.files["a.zip"] = zipped()
    server.status = [503, 429]
    download(tmp_path, wanted(server), wait=0)
    assert len(server.requests) == 3
    with pytest.raises(ConnectionError, match=r"404 Not Found; check the address"):
        download(tmp_path, [Archive(f"{server.url}/b.zip", ".", "b")], wait=0)
    assert len(server.requests) == 4


def test_the_wait_doubles_with_every_retry(
    server: FlakyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    waits: list[float] = []
    monkeypatch.setattr(module.time, "sleep", waits.append)
    server.status = [500] * 4
    server.files["a.zip"] = zipped()
    download(tmp_path, wanted(server))
    assert waits == [1, 2, 4, 8]


def test_checksum_is_recorded_and_checked(server: FlakyServer, tmp_path: Path):
    server.files["a.zip"] = zipped()
    download(tmp_path, wanted(server), wait=0, keep_archives=True)
    record = json.loads((tmp_path / CHECKSUMS).read_text())
    assert record["a.zip"]["bytes"] == len(zipped())
    (tmp_path / "data.json").unlink()
    (tmp_path / "a.zip").write_bytes(zipped(seed=9))
    with pytest.raises(ValueError, match=r"a\.zip: sha256 is .* checksums\.json says"):
        download(tmp_path, wanted(server), wait=0)


def test_damaged_and_unexpected_archives_are_refused(server: FlakyServer, tmp_path: Path):
    server.files["a.zip"] = b"<html>sorry</html>"
    with pytest.raises(ValueError, match="is not an intact zip file"):
        download(tmp_path / "html", wanted(server), wait=0)
    server.files["a.zip"] = zipped(name="other.json")
    with pytest.raises(ValueError, match=r"does not hold data\.json"):
        download(tmp_path / "other", wanted(server), wait=0)
    server.files["a.zip"] = zipped(name="../escape.json")
    with pytest.raises(ValueError, match="points outside the folder"):
        download(tmp_path / "escape", wanted(server), wait=0)
    assert not (tmp_path / "escape.json").exists()


@pytest.mark.parametrize("data", ["vqa_v1", "vqa_v2"])
def test_the_command_line_downloads_the_official_archives(
    server: FlakyServer, tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]
):
    for archive in archives(data, images=True, captions=True, base_url=server.url):
        inner = archive.holds.removeprefix("images/")
        inner = inner if inner.endswith(".json") else f"{inner}/COCO_{inner}_000000000009.jpg"
        server.files[archive.name] = zipped(name=inner, size=100)
    arguments = [data, "--root", str(tmp_path), "--base-url", server.url + "/"]
    assert main([*arguments, "--images", "--captions"]) == 0
    prefix = "v2_" if data == "vqa_v2" else ""
    assert (tmp_path / f"{prefix}OpenEnded_mscoco_train2014_questions.json").exists()
    assert (tmp_path / "images" / "test2015" / "COCO_test2015_000000000009.jpg").exists()
    assert f"{data} is complete" in capsys.readouterr().out
    server.files.clear()
    assert main([data, "--root", str(tmp_path / "new"), "--base-url", server.url]) == 1
    assert "404" in capsys.readouterr().err


def packed(name: str, *members: str) -> bytes:
    """An archive of files that hold their own names."""
    buffer = io.BytesIO()
    if name.endswith(".zip"):
        with zipfile.ZipFile(buffer, "w") as archive:
            for member in members:
                archive.writestr(member, member)
        return buffer.getvalue()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for member in members:
            info = tarfile.TarInfo(member)
            info.size = len(member)
            tar.addfile(info, io.BytesIO(member.encode()))
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    return buffer.getvalue()


# The members of the official archives, and the paths under the root that the readers expect.
LAYOUTS = {
    "okvqa": (
        {
            f"{name}.json.zip": [f"{name}.json"]
            for split in ("train2014", "val2014")
            for name in (f"OpenEnded_mscoco_{split}_questions", f"mscoco_{split}_annotations")
        },
        ["OpenEnded_mscoco_val2014_questions.json", "mscoco_train2014_annotations.json"],
    ),
    "aokvqa": (
        {"aokvqa_v1p0.tar.gz": [f"./aokvqa_v1p0_{split}.json" for split in ("train", "val")]},
        ["aokvqa_v1p0_train.json", "aokvqa_v1p0_val.json"],
    ),
    "vizwiz": (
        {
            "Annotations.zip": ["Annotations/train.json", "Annotations/val.json"],
            **{f"{s}.zip": [f"{s}/VizWiz_{s}_00000000.jpg"] for s in ("train", "val", "test")},
        },
        ["Annotations/val.json", "images/test/VizWiz_test_00000000.jpg"],
    ),
    "visual7w": (
        {
            "dataset_v7w_telling.zip": ["dataset_v7w_telling.json"],
            "visual7w_images.zip": ["images/v7w_7.jpg"],
        },
        ["dataset_v7w_telling.json", "images/v7w_7.jpg"],
    ),
    "clevr": (
        {"CLEVR_v1.0.zip": ["CLEVR_v1.0/images/train/CLEVR_train_000000.png"]},
        ["CLEVR_v1.0/images/train/CLEVR_train_000000.png"],
    ),
    "gqa": (
        {
            "sceneGraphs.zip": ["train_sceneGraphs.json", "val_sceneGraphs.json"],
            "questions1.2.zip": [
                "train_balanced_questions.json",
                "train_all_questions/train_all_questions_0.json",
            ],
            "images.zip": ["images/n7.jpg"],
        },
        [
            "sceneGraphs/val_sceneGraphs.json",
            "questions/train_balanced_questions.json",
            "questions/train_all_questions/train_all_questions_0.json",
            "images/n7.jpg",
        ],
    ),
}


@pytest.mark.parametrize("data", list(LAYOUTS))
def test_archives_are_unpacked_where_the_readers_expect_them(
    server: FlakyServer, tmp_path: Path, data: str, capsys: pytest.CaptureFixture[str]
):
    held, expected = LAYOUTS[data]
    server.files = {name: packed(name, *members) for name, members in held.items()}
    wanted_names = {archive.name for archive in archives(data, images=True)}
    for name in wanted_names - held.keys():  # the images of COCO
        split = name.removesuffix(".zip")
        server.files[name] = packed(name, f"{split}/000000000009.jpg")
        expected = [*expected, f"images/{split}/000000000009.jpg"]
    assert held.keys() <= wanted_names
    arguments = [data, "--root", str(tmp_path), "--base-url", server.url, "--images"]
    assert main(arguments) == 0, capsys.readouterr().err
    for path in expected:
        assert (tmp_path / path).read_text().endswith(Path(path).name)
    assert not list(tmp_path.rglob("link.json"))
    before = len(server.requests)
    assert main(arguments) == 0
    assert len(server.requests) == before
    if data not in ("vqa_v1", "vqa_v2", "okvqa"):
        assert main([*arguments, "--captions"]) == 1
        assert f"{data} has no captions; leave out --captions" in capsys.readouterr().err


def test_a_damaged_tar_archive_is_refused(server: FlakyServer, tmp_path: Path):
    server.files["a.tar.gz"] = packed("a.tar.gz", "data.json" * 3)[:-60]
    with pytest.raises(ValueError, match=r"a\.tar\.gz: is not an intact tar file"):
        download(tmp_path, [Archive(f"{server.url}/a.tar.gz", ".", "data.json")], wait=0)


def test_official_addresses():
    urls = [archive.url for archive in archives("vqa_v2", images=True)]
    assert urls[0].startswith("https://s3.amazonaws.com/cvmlp/vqa/mscoco/vqa/v2_Questions_Train")
    assert urls[-1] == "http://images.cocodataset.org/zips/test2015.zip"
    assert len(urls) == 8
    with pytest.raises(ValueError, match="choose one of vqa_v1, vqa_v2, okvqa,"):
        archives("vqa_v3")
