"""beliefs.jsonl while a search writes it: a killed search continues after its last whole chunk."""

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
    write_json,
    write_text,
)

LAYOUT = 2
"""Of progress.json; it counts up when the sums in the file get another meaning."""


class BeliefLog:
    """Appends the beliefs of one chunk of pairs after another to a file.

    progress.json beside the file holds how many pairs were searched, their figures, and a digest
    of the beliefs, so that a changed or shortened file is noticed.

    Args:
        file: beliefs.jsonl. An earlier search in it is continued; without one it starts empty.

    Raises:
        FileError: The beliefs or progress.json are not as they were written.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._progress = file.with_name("progress.json")
        self._state = self._read()

    @property
    def pairs(self) -> int:
        """How many pairs were searched."""
        return self._state["pairs"]

    @property
    def figures(self) -> list[dict[str, Sums]]:
        """The sums of each chunk; see `SearchFigures`."""
        return self._state["figures"]

    def append(self, beliefs: Sequence[Belief], pairs: int, figures: dict[str, Sums]) -> None:
        """Writes one chunk to the disk.

        Args:
            beliefs: Its beliefs.
            pairs: The number of pairs searched with this chunk.
            figures: Its sums.
        """
        with self.file.open("ab") as stream:
            stream.write("".join(belief.line() for belief in beliefs).encode())
            stream.flush()
            os.fsync(stream.fileno())
            self._state["bytes"] = stream.tell()
        self._state["content"] = file_digest(self.file)
        self._state["pairs"] = pairs
        self._state["figures"].append(figures)
        self._note()

    def finish(self, beliefs: Sequence[Belief]) -> None:
        """Writes the beliefs with their types; a finished search can be resumed too."""
        text = "".join(belief.line() for belief in beliefs)
        self._state["typed"] = bytes_digest(text.encode())
        self._note()
        write_text(self.file, text)

    def _note(self) -> None:
        write_json(self._progress, {"state": self._state, "digest": digest(self._state)})

    def _read(self) -> dict[str, Any]:
        if not (self._progress.is_file() and self.file.is_file()):
            self.file.write_bytes(b"")
            begun = {"layout": LAYOUT, "pairs": 0, "bytes": 0, "figures": []}
            return {**begun, "content": bytes_digest(b"")}
        remedy = f"delete {self._progress} to search the beliefs again"
        noted = read_json(self._progress, dict)
        state = noted.get("state")
        if not isinstance(state, dict) or noted.get("digest") != digest(state):
            raise FileError(f"{self._progress} was changed after it was written; {remedy}")
        if state.get("layout") != LAYOUT:
            raise FileError(f"{self._progress} was written by another version of ivqa; {remedy}")
        content = read_bytes(self.file)
        if bytes_digest(content) != state.get("typed"):
            if bytes_digest(content[: state["bytes"]]) != state["content"]:
                raise FileError(
                    f"{self.file} was cut short or changed after it was written; {remedy}"
                )
            with self.file.open("r+b") as stream:
                stream.truncate(state["bytes"])  # a chunk that was cut short is searched again
        return state
