"""Downloads the official archives: `python -m ivqa.data.download vqa_v2 --root data/vqa_v2`.

An interrupted download continues where it stopped (HTTP Range), within a run and across runs. Every
archive is checked by its length, and by its SHA-256 checksum once ROOT/checksums.json records it.
"""

import argparse
import http.client
import shutil
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from email.message import Message
from functools import partial
from pathlib import Path
from typing import IO

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from ivqa.data.download.official_archives import DATA_SETS, Archive, archives
from ivqa.data.json_files import ARCHIVE_ERRORS
from ivqa.errors import UserError
from ivqa.store.digests import sha256_checksum
from ivqa.store.files import FileError, atomic_write, read_json, write_json, write_text

CHECKSUMS = "checksums.json"
_BLOCK = 1 << 20
_TIMEOUT = 60.0  # seconds without a byte after which a connection counts as broken


def download(
    root: Path,
    wanted: Sequence[Archive],
    *,
    retries: int = 8,
    wait: float = 1.0,
    keep_archives: bool = False,
    progress: Progress | None = None,
) -> None:
    """Downloads and unpacks archives; complete ones are skipped.

    Args:
        retries: Consecutive broken connections without a new byte before the download fails.
        wait: Seconds before the first retry; the time doubles with every further one, up to 60.
        keep_archives: Whether to keep the zip files after unpacking.
        progress: Shows the progress of every file; None for no display.

    Raises:
        ConnectionError: The server does not have a file, or too many connections broke.
        UserError: An archive differs from its recorded checksum, is not a zip file, or lacks the
            expected files.
    """
    progress = progress or Progress(disable=True)
    root.mkdir(parents=True, exist_ok=True)
    record = _read_record(root)
    for archive in wanted:
        if record.get(archive.name, {}).get("unpacked") and (root / archive.holds).exists():
            continue
        path = root / archive.name
        if not path.exists():
            _fetch(archive.url, path, retries, wait, progress)
        checksum = sha256_checksum(path)
        known = record.get(archive.name, {}).get("sha256", checksum)
        if checksum != known:
            raise UserError(
                f"{path}: sha256 is {checksum}, {CHECKSUMS} says {known}; delete the archive to "
                f"download it again, or its entry in {CHECKSUMS} if the source has changed"
            )
        record[archive.name] = {"sha256": checksum, "bytes": path.stat().st_size, "unpacked": False}
        _write_record(root, record)
        _unpack(path, root / archive.into, archive.flat)
        if not (root / archive.holds).exists():
            raise UserError(f"{path}: does not hold {archive.holds}; check {archive.url}")
        record[archive.name]["unpacked"] = True
        _write_record(root, record)
        if not keep_archives:
            path.unlink()


def parser() -> argparse.ArgumentParser:
    """The arguments of the command line."""
    options = argparse.ArgumentParser(prog="python -m ivqa.data.download", description=__doc__)
    options.add_argument("data", choices=tuple(DATA_SETS))
    options.add_argument("--root", type=Path, required=True, help="folder to put the data in")
    options.add_argument("--images", action="store_true", help="the images too (1 to 40 GB)")
    options.add_argument("--captions", action="store_true", help="COCO captions too, for concepts")
    options.add_argument("--base-url", help="mirror that holds all archives")
    options.add_argument("--keep-archives", action="store_true", help="keep the zip files")
    options.add_argument("--retries", type=int, default=8, help="consecutive broken connections")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status, 1 after an error, which is printed."""
    options = parser().parse_args(arguments)
    base_url = options.base_url.rstrip("/") if options.base_url else None
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    try:
        wanted = archives(options.data, options.images, options.captions, base_url)
        with Progress(TextColumn("{task.description}"), *columns) as progress:
            download(
                options.root,
                wanted,
                retries=options.retries,
                keep_archives=options.keep_archives,
                progress=progress,
            )
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{options.data} is complete in {options.root}: data={options.data} data.root=...")
    return 0


def _fetch(url: str, path: Path, retries: int, wait: float, progress: Progress) -> None:
    """Downloads `url` to `path`; an interrupted download stays in `path`.part for the next run."""
    part = path.with_name(path.name + ".part")
    task = progress.add_task(path.name, total=None)
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
                f"run the command again to continue with {part.name}"
            )
        time.sleep(min(wait * 2 ** (failures - 1), 60.0))
    progress.update(task, completed=total, total=total)
    part.replace(path)


def _receive(url: str, part: Path, progress: Progress, task: TaskID) -> int:
    """Appends the missing bytes of `url` to `part`; returns the length of the whole file."""
    have = part.stat().st_size if part.exists() else 0
    # If-Range: a file that changed in between is sent whole, instead of a tail that does not fit.
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
        part.unlink()  # longer than the source, so not a part of it
        raise OSError("the file on disk is not a part of the download; starting again") from None
    with response:
        resumed = response.status == 206
        total = _range_total(response.headers) if resumed else _length(response.headers)
        tag = response.headers.get("ETag", "")
        if tag.startswith('"'):  # weak tags, W/"...", are not allowed in If-Range
            write_text(tag_file, tag)
        have = have if resumed else 0
        with open(part, "ab" if resumed else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                have += len(block)
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


def _unpack(path: Path, folder: Path, flat: bool) -> None:
    """Writes every member atomically; existing files of the same size are not written again."""
    try:
        with _members(path) as members:
            for name, size, opened in members:
                target = (folder / (Path(name).name if flat else name)).resolve()
                if not target.is_relative_to(folder.resolve()):
                    raise UserError(f"its member {name} points outside the folder")
                if target.is_file() and target.stat().st_size == size:
                    continue
                with opened() as source, atomic_write(target) as draft, draft.open("wb") as file:
                    shutil.copyfileobj(source, file, _BLOCK)
    except tarfile.TarError as error:
        raise _damaged(path, error) from None
    except OSError:
        raise  # from the disk, not the archive
    except ARCHIVE_ERRORS as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> FileError:
    kind = "zip" if path.suffix == ".zip" else "tar"
    return FileError(f"{path}: is not an intact {kind} file ({error}); delete it and retry")


@contextmanager
def _members(path: Path) -> Iterator[Iterator[tuple[str, int, Callable[[], IO[bytes]]]]]:
    """Name, size and opener of the files in an archive, in its order."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            yield (
                (member.filename, member.file_size, partial(archive.open, member))
                for member in archive.infolist()
                if not member.is_dir()
            )
    else:
        with tarfile.open(path) as tar:
            # Links and devices are left out: only plain files are data.
            yield (
                (member.name, member.size, partial(_file_of, tar, member))
                for member in tar
                if member.isfile()
            )


def _file_of(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    file = tar.extractfile(member)
    assert file is not None  # members that are plain files have one
    return file


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
