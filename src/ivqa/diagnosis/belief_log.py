"""Writes beliefs.jsonl during a search, so that a killed search continues after its last chunk."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ivqa.diagnosis.beliefs import Belief
from ivqa.diagnosis.figures import Sums
from ivqa.files import (
    FileError,
    bytes_digest,
    digest,
    file_digest,
    read_bytes,
    read_json,
    write_bytes,
    write_json,
    write_text,
)

# Version of progress.json; increase it when the meaning of the sums in the file changes.
LAYOUT = 3


class BeliefLog:
    """Appends the beliefs of one chunk of pairs after another to a file.

    progress.json beside the file holds the number of searched pairs, their sums, and a digest of
    the beliefs, which shows whether the file was changed or shortened.

    Args:
        file: Path of beliefs.jsonl. An earlier search in this file is continued; otherwise an
            empty file is created.

    Raises:
        FileError: beliefs.jsonl or progress.json was changed after it was written, or was written
            by another version of ivqa.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._progress = file.with_name("progress.json")
        self._state = self._read()

    @property
    def pairs(self) -> int:
        """Number of pairs searched so far."""
        return self._state["pairs"]

    @property
    def figures(self) -> list[dict[str, Sums]]:
        """The sums of each chunk; see `SearchFigures.sums`."""
        return self._state["figures"]

    def append(self, beliefs: Sequence[Belief], pairs: int, figures: dict[str, Sums]) -> None:
        """Writes one chunk to the disk.

        Args:
            beliefs: Beliefs of the chunk.
            pairs: Number of pairs searched so far, this chunk included.
            figures: Sums of the chunk, by generator.
        """
        with self.file.open("ab") as stream:
            stream.write("".join(belief.line() for belief in beliefs).encode())
            stream.flush()
            os.fsync(stream.fileno())  # progress.json must never be ahead of the beliefs
            self._state["bytes"] = stream.tell()
        self._state["content"] = file_digest(self.file)
        self._state["pairs"] = pairs
        self._state["figures"].append(figures)
        self._write_progress()

    def finish(self, beliefs: Sequence[Belief]) -> None:
        """Replaces the file by the beliefs with their types; a finished search can be resumed.

        Args:
            beliefs: All beliefs.
        """
        text = "".join(belief.line() for belief in beliefs)
        # The digest is written first. A kill before the second write leaves the untyped file, whose
        # digest is known too.
        self._state["typed"] = bytes_digest(text.encode())
        self._write_progress()
        write_text(self.file, text)

    def _write_progress(self) -> None:
        write_json(self._progress, {"state": self._state, "digest": digest(self._state)})

    def _read(self) -> dict[str, Any]:
        if not (self._progress.is_file() and self.file.is_file()):
            write_bytes(self.file, b"")
            empty = {"layout": LAYOUT, "pairs": 0, "bytes": 0, "figures": []}
            return {**empty, "content": bytes_digest(b"")}
        remedy = f"delete {self._progress} to search the beliefs again"
        recorded = read_json(self._progress, dict)
        state = recorded.get("state")
        if not isinstance(state, dict) or recorded.get("digest") != digest(state):
            raise FileError(f"{self._progress} was changed after it was written; {remedy}")
        if state.get("layout") != LAYOUT:
            raise FileError(f"{self._progress} was written by another version of ivqa; {remedy}")
        content = read_bytes(self.file)
        # A finished search has the typed beliefs, an unfinished one has the first `bytes`.
        if bytes_digest(content) != state.get("typed"):
            if bytes_digest(content[: state["bytes"]]) != state["content"]:
                raise FileError(
                    f"{self.file} was cut short or changed after it was written; {remedy}"
                )
            with self.file.open("r+b") as stream:
                stream.truncate(state["bytes"])  # drops a chunk that progress.json does not count
        return state
