"""The answers of a search, one a line, so that a killed search asks nothing twice."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ivqa.diagnosis.search.asking import GivenAnswer
from ivqa.diagnosis.search.budget import AskAll
from ivqa.store.files import FileError, parse_json, read_text
from ivqa.store.identity import differences


class AskedLog:
    """A file of answers; it wraps a model, and answers what it has been asked before from the file.

    Args:
        file: The file; its first line holds `origin`.
        ask: The model.
        origin: What determines the answers: the model and the pictures, as nested JSON values.

    Raises:
        FileError: The file belongs to another model or other pictures, or is damaged.
    """

    def __init__(self, file: Path, ask: AskAll, origin: Mapping[str, Any]) -> None:
        self.file = file
        self._ask = ask
        self._known: dict[tuple[int, str], GivenAnswer] = {}
        self.asked = 0
        file.parent.mkdir(parents=True, exist_ok=True)
        content = read_text(file) if file.is_file() else ""
        whole = content[: content.rfind("\n") + 1]  # a kill may leave half a line
        if whole != content:
            os.truncate(file, len(whole.encode()))
        if not whole:
            self._append([dict(origin)])
            return
        remedy = f"choose another output_dir, or delete {file} to ask again"
        # splitlines() would also split at characters such as U+2028, which answers may contain.
        first, *lines = whole.removesuffix("\n").split("\n")
        stored = parse_json(first.encode(), file)
        if not isinstance(stored, dict) or (others := differences(stored, dict(origin))):
            reason = others[0] if isinstance(stored, dict) else "its first line is damaged"
            raise FileError(f"{file} was written for other settings ({reason}); {remedy}")
        for number, line in enumerate(lines, start=2):
            record = parse_json(line.encode(), f"{file}, line {number}", finite=True)
            try:
                key = int(record["image_id"]), str(record["question"])
                self._known[key] = GivenAnswer(str(record["answer"]), float(record["phi"]))
            except (KeyError, TypeError, ValueError) as error:
                raise FileError(
                    f"{file}, line {number}: not an answer ({error!r}); {remedy}"
                ) from error

    def __len__(self) -> int:
        """The number of answers in the file."""
        return len(self._known)

    def __call__(self, pairs: Sequence[tuple[int, str]]) -> list[GivenAnswer]:
        """Answers N questions; those without an answer in the file are asked and written there."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        if new:
            given = self._ask(new)
            self._append(
                {
                    "image_id": image,
                    "question": question,
                    "answer": one.answer,
                    "phi": one.probability,
                }
                for (image, question), one in zip(new, given, strict=True)
            )
            self._known.update(zip(new, given, strict=True))
            self.asked += len(new)
        return [self._known[pair] for pair in pairs]

    def _append(self, records: Any) -> None:
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        with self.file.open("a", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
