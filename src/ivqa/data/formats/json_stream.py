"""Reads the entries of large JSON files one by one, with a few MiB of memory.

Question files of GQA and CLEVR hold programs and have up to several GB; as Python objects they
would take many times as much. Python's own decoder finds the end of each entry in C.
"""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ivqa.data.json_files import ARCHIVE_ERRORS, opened
from ivqa.data.validation import DataError
from ivqa.errors import reason_of
from ivqa.store.files import check_characters

_BLOCK = 4 << 20  # bytes of each read
_SPACE = " \t\n\r"
_decoder = json.JSONDecoder()


def entries(path: Path, key: str | None = None) -> Iterator[tuple[str, Any]]:
    """Reads the entries of an object or a list, one by one.

    Args:
        path: A .json or .json.gz file, or a .zip file that holds one JSON file.
        key: The list or object is the value of this key of the top-level object. None: it is the
            whole content of the file.

    Yields:
        Name and value of each entry; the name of an entry of a list is its position, "0", "1", ...

    Raises:
        DataError: The file cannot be read, is not JSON, or has no such list or object.
    """
    with opened(path) as stream:
        text = _Text(stream, path)
        try:
            if key is not None:
                _go_to(text, key)
            yield from _entries_of(text)
        except DataError:
            raise
        except json.JSONDecodeError as error:
            at_end = error.pos >= len(error.doc.rstrip()) - 1
            hint = "the file seems cut off; download it again" if at_end else "repair the file"
            raise DataError(f"{path}: invalid JSON ({error.msg}); {hint}") from None
        except (*ARCHIVE_ERRORS, RecursionError) as error:
            reason = reason_of(error)
            raise DataError(f"{path}: cannot be read ({reason}); download it again") from None


class _Text:
    """A window over the text of a file; `at` is the next character."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.path = path
        self.ended = False
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._window = ""
        self._at = 0

    def peek(self) -> str:
        """The next character that is no space; "" at the end of the file."""
        while True:
            while self._at < len(self._window):
                if self._window[self._at] not in _SPACE:
                    return self._window[self._at]
                self._at += 1
            if not self._read():
                return ""

    def take(self, *expected: str) -> str:
        """Reads one of the characters `expected`."""
        found = self.peek()
        if found not in expected or not found:
            wanted = " or ".join(expected)
            raise json.JSONDecodeError(f"{wanted} expected, not {found!r}", self._window, self._at)
        self._at += 1
        return found

    def value(self) -> Any:
        """Reads a complete value."""
        self.peek()
        while True:
            try:
                found, end = _decoder.raw_decode(self._window, self._at)
                # A number that touches the end of the window may go on in the next block.
                if end < len(self._window) or not self._read():
                    check_characters(found, self._window[self._at : end])
                    self._at = end
                    return found
            except json.JSONDecodeError:
                # The value is incomplete, or wrong: the whole file is searched for its end.
                if not self._read():
                    raise

    def _read(self) -> bool:
        """Appends a block to the window; False at the end of the file."""
        if self.ended:
            return False
        # A value longer than a block is decoded again after each read; doubling keeps this linear.
        size = max(_BLOCK, len(self._window) - self._at)
        block = self._stream.read(size)
        self.ended = not block
        self._window = self._window[self._at :] + self._decode(block, self.ended)
        self._at = 0
        return not self.ended


def _go_to(text: _Text, key: str) -> None:
    """Moves `text` to the value of a key of the top-level object."""
    names = []
    if text.peek() == "{":
        text.take("{")
        while text.peek() not in ("}", ""):
            name = text.value()
            text.take(":")
            if name == key:
                return
            names.append(str(name))
            text.value()
            if text.take(",", "}") == "}":
                break
    found = ", ".join(names) or "no object"
    raise DataError(f"{text.path}: {key}: top-level key is missing; the file holds {found}")


def _entries_of(text: _Text) -> Iterator[tuple[str, Any]]:
    if text.peek() not in ("[", "{"):
        raise DataError(f"{text.path}: must hold a list or an object; check that it is the file")
    named = text.take("[", "{") == "{"
    end = "}" if named else "]"
    if text.peek() == end:
        return
    position = 0
    while True:
        name = str(position)
        if named:
            name = text.value()
            if not isinstance(name, str):
                raise DataError(f"{text.path}: entry {position} has no name; repair the file")
            text.take(":")
        yield name, text.value()
        position += 1
        if text.take(",", end) == end:
            return
