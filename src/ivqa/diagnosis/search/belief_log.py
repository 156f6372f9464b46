"""The chunks of a belief search, which several processes share and a killed one continues."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ivqa.diagnosis.beliefs.beliefs import Belief
from ivqa.diagnosis.beliefs.figures import Sums
from ivqa.store.digests import digest
from ivqa.store.files import FileError, read_json, write_json
from ivqa.store.identity import differences
from ivqa.store.shared_parts import SharedParts

# Version of a chunk's file; increase it when the meaning of its content changes.
LAYOUT = 5


class BeliefLog(SharedParts):
    """A file for each chunk of pairs, with its beliefs and sums.

    Args:
        folder: The folder of the files.
        num_pairs: The number of pairs of the search.
        chunk: The number of pairs of a chunk; the last one may have fewer.
        origin: The settings that determine the beliefs, as nested JSON values. Chunks of other
            settings are refused.

    Raises:
        FileError: A chunk has other settings, was changed after it was written, or was written by
            another version of ivqa.
    """

    def __init__(self, folder: Path, num_pairs: int, chunk: int, origin: Mapping[str, Any]) -> None:
        super().__init__(folder, -(-num_pairs // chunk), ".json")
        self._contents: dict[int, dict[str, Any]] = {}  # of the chunks that were read
        self.chunk, self.origin = chunk, {"num_pairs": num_pairs, "chunk": chunk, **origin}
        missing = set(self.missing())
        for part in range(len(self)):
            if part not in missing:
                self._read(part)

    def to_search(self) -> Iterator[slice]:
        """Takes the chunks that no process has written, and waits for those of others at the end.

        Yields:
            The pairs of a chunk; `write` must follow before the next one. When nothing is left to
            yield, all chunks have been written.
        """
        with self:
            while missing := self.missing():
                idle = True
                for part in self.claims():
                    idle = False
                    yield slice(part * self.chunk, (part + 1) * self.chunk)
                if idle:
                    self.wait_for(missing[0])  # other processes hold all that is left

    def write(self, pairs: slice, beliefs: Sequence[Belief], figures: dict[str, Sums]) -> None:
        """Writes the beliefs and sums (`SearchFigures.sums`) of one chunk of pairs to the disk."""
        part = pairs.start // self.chunk
        content = {
            "layout": LAYOUT,
            "origin": self.origin,
            "figures": figures,
            "beliefs": [belief.record() for belief in beliefs],
        }
        write_json(self.file(part), {"content": content, "digest": digest(content)}, indent=None)
        self.give_back(part)

    def beliefs(self) -> list[Belief]:
        """The beliefs of all chunks, without types, in the order of the pairs."""
        records = [one for part in range(len(self)) for one in self._read(part)["beliefs"]]
        return [Belief(**record) for record in records]

    def questions_asked(self) -> int:
        """The number of questions that the VQA model answered for all chunks, by any process."""
        return sum(int(chunk["beliefs"]["asked"]) for chunk in self.figures())

    def figures(self) -> list[dict[str, Sums]]:
        """The sums of each chunk."""
        return [self._read(part)["figures"] for part in range(len(self))]

    def _read(self, part: int) -> dict[str, Any]:
        if part in self._contents:
            return self._contents[part]
        file = self.file(part)
        remedy = f"delete {self.folder} to search the beliefs again"
        recorded = read_json(file, dict)
        content = recorded.get("content")
        if not isinstance(content, dict) or recorded.get("digest") != digest(content):
            raise FileError(f"{file} was changed after it was written; {remedy}")
        if content.get("layout") != LAYOUT:
            raise FileError(f"{file} was written by another version of ivqa; {remedy}")
        if others := differences(content["origin"], self.origin):
            raise FileError(
                f"{file} was written with other settings ({others[0]}); choose another output_dir, "
                f"or {remedy}"
            )
        self._contents[part] = content
        return content
