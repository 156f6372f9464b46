"""Every reader refuses every kind of bad file with one sentence that names it, and never hangs.

A test case combines a reader, a valid file for it, and a way to damage the file. If the damage
leaves the content readable (a byte order mark, UTF-16), the reader must return the same value.

These are the damages that all kinds of files share; test_bad_*.py have those of one kind.
"""

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from bad_files import ALL, UNREADABLE, forbidden, refused


@pytest.mark.parametrize("spoil", UNREADABLE)
@pytest.mark.parametrize("kind", ALL)
def test_paths_that_are_not_readable_files_arerefused(
    kind: str, spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    name, read = ALL[kind]
    if spoil is forbidden and os.geteuid() == 0:
        pytest.skip("the superuser may read everything")
    spoil(tmp_path / name)
    refused(read, tmp_path / name)


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
def test_files_of_another_format_arerefused(kind: str, junk: str, tmp_path: Path) -> None:
    name, read = ALL[kind]
    file = tmp_path / name
    file.write_bytes(JUNK[junk])
    if kind == "beliefs" and not JUNK[junk]:
        assert read(file) == []  # an empty file is valid: no beliefs
    else:
        refused(read, file)
