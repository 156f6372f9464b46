"""Fetches the official VQA archives: `python -m ivqa.data.download vqa_v2 --root data/vqa_v2`.

A broken connection is taken up where it broke (HTTP Range), within a run and across runs; every
archive is checked by length and by SHA-256, recorded in ROOT/checksums.json when it first arrives.
"""

import argparse
import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from ivqa.data.json_files import ARCHIVE_ERRORS
from ivqa.errors import UserError
from ivqa.files import FileError, read_json, write_json

QUESTIONS_URL = "https://s3.amazonaws.com/cvmlp/vqa/mscoco/vqa"
IMAGES_URL = "http://images.cocodataset.org"
CHECKSUMS = "checksums.json"
_BLOCK = 1 << 20
_TIMEOUT = 60.0  # seconds without a byte before the connection counts as broken


@dataclass(frozen=True)
class Archive:
    """A zip file at `url`, unpacked into the folder `into` of the root; `holds` lies in it then."""

    url: str
    into: str
    holds: str

    @property
    def name(self) -> str:
        """File name of the archive."""
        return self.url.rsplit("/", 1)[1]


def archives(
    data: str, images: bool = False, captions: bool = False, base_url: str | None = None
) -> list[Archive]:
    """The archives of "vqa_v1" or "vqa_v2"; images and captions are those of COCO 2014 and 2015.

    base_url: a mirror that holds all archives side by side, in place of the official addresses.

    >>> [archive.name for archive in archives("vqa_v1")][:2]
    ['Questions_Train_mscoco.zip', 'Questions_Val_mscoco.zip']
    """
    if data not in ("vqa_v1", "vqa_v2"):
        raise ValueError(f"no data set '{data}' to download; choose vqa_v1 or vqa_v2")
    prefix = "v2_" if data == "vqa_v2" else ""
    questions = base_url or QUESTIONS_URL
    splits = {"Train": "train2014", "Val": "val2014", "Test": "test2015"}
    found = [
        Archive(
            f"{questions}/{prefix}Questions_{part}_mscoco.zip",
            ".",
            f"{prefix}OpenEnded_mscoco_{split}_questions.json",
        )
        for part, split in splits.items()
    ]
    found += [
        Archive(
            f"{questions}/{prefix}Annotations_{part}_mscoco.zip",
            ".",
            f"{prefix}mscoco_{splits[part]}_annotations.json",
        )
        for part in ("Train", "Val")
    ]
    if captions:
        url = f"{base_url or IMAGES_URL + '/annotations'}/annotations_trainval2014.zip"
        found.append(Archive(url, ".", "annotations/captions_train2014.json"))
    if images:
        zips = base_url or f"{IMAGES_URL}/zips"
        found += [
            Archive(f"{zips}/{split}.zip", "images", f"images/{split}") for split in splits.values()
        ]
    return found


def download(
    root: Path,
    wanted: Sequence[Archive],
    *,
    retries: int = 8,
    wait: float = 1.0,
    keep_archives: bool = False,
    progress: Progress | None = None,
) -> None:
    """Fetches and unpacks `wanted` into `root`; what is complete there already is left alone.

    retries: broken connections in a row, without a new byte, before giving up. wait: seconds
    before the first retry, doubled each time. Raises ConnectionError when giving up and ValueError
    where an archive differs from its recorded checksum or is no zip file.
    """
    root.mkdir(parents=True, exist_ok=True)
    record = _read_record(root)
    for archive in wanted:
        if record.get(archive.name, {}).get("unpacked") and (root / archive.holds).exists():
            continue
        path = root / archive.name
        if not path.exists():
            _fetch(archive.url, path, retries, wait, progress)
        digest = _sha256(path)
        known = record.get(archive.name, {}).get("sha256", digest)
        if digest != known:
            raise UserError(
                f"{path}: sha256 is {digest}, {CHECKSUMS} says {known}; delete the archive to "
                f"fetch it anew, or its entry in {CHECKSUMS} if the source has changed"
            )
        record[archive.name] = {"sha256": digest, "bytes": path.stat().st_size, "unpacked": False}
        _write_record(root, record)
        _unpack(path, root / archive.into)
        if not (root / archive.holds).exists():
            raise UserError(f"{path}: does not hold {archive.holds}; check {archive.url}")
        record[archive.name]["unpacked"] = True
        _write_record(root, record)
        if not keep_archives:
            path.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m ivqa.data.download", description=__doc__)
    parser.add_argument("data", choices=("vqa_v1", "vqa_v2"))
    parser.add_argument("--root", type=Path, required=True, help="folder to put the data in")
    parser.add_argument("--images", action="store_true", help="COCO images too (about 25 GB)")
    parser.add_argument("--captions", action="store_true", help="COCO captions too, for concepts")
    parser.add_argument("--base-url", help="mirror that holds all archives side by side")
    parser.add_argument("--keep-archives", action="store_true", help="keep zips once unpacked")
    parser.add_argument("--retries", type=int, default=8, help="broken connections in a row")
    options = parser.parse_args(arguments)
    base_url = options.base_url.rstrip("/") if options.base_url else None
    wanted = archives(options.data, options.images, options.captions, base_url)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    try:
        with Progress(TextColumn("{task.description}"), *columns) as progress:
            download(
                options.root,
                wanted,
                retries=options.retries,
                keep_archives=options.keep_archives,
                progress=progress,
            )
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{options.data} is complete in {options.root}: data={options.data} data.root=...")
    return 0


def _fetch(url: str, path: Path, retries: int, wait: float, progress: Progress | None) -> None:
    part = path.with_name(path.name + ".part")
    task = None if progress is None else progress.add_task(path.name, total=None)
    failures = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            total = _receive(url, part, progress, task)
            break
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                raise ConnectionError(
                    f"{url}: the server answers {error.code} {error.reason}; "
                    "check the address, or give a mirror by --base-url"
                ) from None
            reason = str(error)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
        advanced = part.exists() and part.stat().st_size > before
        failures = 1 if advanced else failures + 1
        if failures > retries:
            raise ConnectionError(
                f"{url}: gave up after {retries} retries without a new byte ({reason}); "
                f"run the command again to go on from {part.name}"
            )
        time.sleep(min(wait * 2 ** (failures - 1), 60.0))
    if progress is not None and task is not None:
        progress.update(task, completed=total, total=total)
    os.replace(part, path)


def _receive(url: str, part: Path, progress: Progress | None, task: TaskID | None) -> int:
    """Appends what is missing of `url` to `part`; returns the length of the whole."""
    have = part.stat().st_size if part.exists() else 0
    # If-Range: a source that changed in between sends the whole anew rather than a misfit tail.
    tag_file = part.with_name(part.name + ".etag")
    headers = {}
    if have:
        headers["Range"] = f"bytes={have}-"
        if tag_file.exists():
            headers["If-Range"] = tag_file.read_text()
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        total = _range_total(error.headers)
        if total == have:
            return have
        part.unlink()  # longer than the source: not a piece of it
        raise OSError("the part on disk is no piece of the file; starting anew") from None
    with response:
        resumed = response.status == 206
        total = _range_total(response.headers) if resumed else _length(response.headers)
        tag = response.headers.get("ETag", "")
        if tag.startswith('"'):  # weak tags, W/"...", must not be sent in If-Range
            tag_file.write_text(tag)
        have = have if resumed else 0
        with open(part, "ab" if resumed else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                have += len(block)
                if progress is not None and task is not None:
                    progress.update(task, completed=have, total=total)
    if total is not None and have != total:
        raise OSError(f"connection closed after {have} of {total} bytes")
    tag_file.unlink(missing_ok=True)
    return have


def _length(headers: Message) -> int | None:
    value = headers.get("Content-Length")
    return None if value is None else int(value)


def _range_total(headers: Message) -> int | None:
    total = (headers.get("Content-Range") or "").rpartition("/")[2]
    return int(total) if total.isdigit() else None


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack(path: Path, folder: Path) -> None:
    """Every member appears at its place complete or not at all; present ones are not rewritten."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                target = (folder / member.filename).resolve()
                if not target.is_relative_to(folder.resolve()):
                    raise UserError(f"its member {member.filename} points outside the folder")
                if member.is_dir() or (
                    target.is_file() and target.stat().st_size == member.file_size
                ):
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                temporary = target.with_name(target.name + ".part")
                with archive.open(member) as source, open(temporary, "wb") as file:
                    while block := source.read(_BLOCK):
                        file.write(block)
                os.replace(temporary, target)
    except OSError:
        raise  # of the disk
    except ARCHIVE_ERRORS as error:
        raise FileError(f"{path}: is no intact zip file ({error}); delete it and retry") from None


def _read_record(root: Path) -> dict[str, dict[str, object]]:
    path = root / CHECKSUMS
    if not path.exists():
        return {}
    try:
        record = read_json(path, dict)
    except FileError as error:
        raise FileError(f"{error}, or delete it") from None
    if not all(isinstance(entry, dict) for entry in record.values()):
        raise FileError(f"{path} holds no checksums; delete it")
    return record


def _write_record(root: Path, record: dict[str, dict[str, object]]) -> None:
    write_json(root / CHECKSUMS, dict(sorted(record.items())))


if __name__ == "__main__":
    sys.exit(main())
