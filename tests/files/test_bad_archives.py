"""Damaged archives."""

import gzip
import io
import json
import struct
import zipfile
from pathlib import Path

import pytest
from bad_files import (
    refused,
)

from ivqa.data.json_files import open_json


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
def test_damaged_archives_arerefused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(ARCHIVES[name])
    refused(open_json, tmp_path / name)
