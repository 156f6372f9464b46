"""Requests by the batch API of an endpoint: answered within a day, at half the price or so."""

import io
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress

from ivqa.errors import UserError
from ivqa.store.digests import digest
from ivqa.store.files import read_json, write_json
from ivqa.terminal import terminal
from ivqa.vqa.served.openai_client import openai_package
from ivqa.vqa.served.openai_replies import parse_response
from ivqa.vqa.served.openai_requests import ChatRequest

_MOST_LINES, _MOST_BYTES = 50_000, 190_000_000  # of a file; the limits are 50,000 and 200 MB
_ENDED = ("completed", "failed", "expired", "cancelled")
_ADDRESS = "/v1/chat/completions"
_NAME = "ivqa"  # the metadata of a batch that has its name


@dataclass
class BatchClient:
    """Has requests answered by the batch API.

    A batch has its name on disk before it is created, and its id before its end is awaited: a
    command that is started again waits for the same batch, and nothing is paid for twice.

    Args:
        client: An `openai.OpenAI`.
        folder: Where the ids are, in batches/.
        poll: Seconds between two looks at a batch.
    """

    client: Any
    folder: Path
    poll: float = 20.0

    def responses(self, requests: Mapping[str, ChatRequest]) -> Iterator[tuple[str, Any]]:
        """Yields the responses as they come, each with the key of its request.

        A request that its batch did not answer is left out. There may be responses to further
        requests, of a command that was killed.

        Raises:
            UserError: The endpoint refuses a batch.
        """
        waiting, sent = {}, set[str]()
        for file in self.folder.glob("batches/*.json"):
            record = read_json(file, dict)
            if not requests.keys().isdisjoint(record["keys"]) and self._was_created(file, record):
                waiting[file] = 0
                sent.update(record["keys"])
        for keys in self._parts({k: one for k, one in requests.items() if k not in sent}):
            waiting[self._begin({key: requests[key] for key in keys})] = 0
        terminal().print(
            f"{len(requests):,} requests are on their way, batches: {len(waiting)}; if this "
            "command ends early, the next one waits for them",
            soft_wrap=True,
        )
        with Progress(console=terminal(), transient=True) as progress:
            bar = progress.add_task("batches", total=len(requests))
            while left := list(waiting):
                for file in left:
                    batch = self._batch(file)
                    if batch is not None and batch.request_counts is not None:
                        waiting[file] = batch.request_counts.completed
                        progress.update(bar, completed=sum(waiting.values()))
                    if batch is None or batch.status in _ENDED:
                        yield from self._answers(batch)
                        file.unlink(missing_ok=True)  # after its answers are kept
                        if batch is not None and batch.status == "failed":
                            raise _refused(batch)
                        del waiting[file]
                if waiting:
                    time.sleep(self.poll)

    def _was_created(self, file: Path, record: dict[str, Any]) -> bool:
        """Whether a batch exists; a command that was killed may not know, and the endpoint does."""
        if record["id"] is not None:
            return True
        for batch in self.client.batches.list():
            if (batch.metadata or {}).get(_NAME) == file.stem:
                write_json(file, {**record, "id": batch.id}, indent=None)
                return True
        file.unlink(missing_ok=True)
        return False

    def _batch(self, file: Path) -> Any:
        """The state of a batch; None where the endpoint does not know it any more."""
        try:
            return self.client.batches.retrieve(read_json(file, dict)["id"])
        except openai_package().NotFoundError:
            return None

    @staticmethod
    def _parts(requests: Mapping[str, ChatRequest]) -> Iterator[list[str]]:
        """Keys of the requests of each file."""
        part: list[str] = []
        size = 0
        for key, request in requests.items():
            length = len(request.image.url) + len(request.text) + 1000
            if part and (len(part) == _MOST_LINES or size + length > _MOST_BYTES):
                yield part
                part, size = [], 0
            part.append(key)
            size += length
        if part:
            yield part

    def _begin(self, requests: Mapping[str, ChatRequest]) -> Path:
        """Sends a batch; returns the file with its id."""
        lines = (
            json.dumps({"custom_id": key, "method": "POST", "url": _ADDRESS, "body": one.body()})
            for key, one in requests.items()
        )
        content = io.BytesIO("\n".join(lines).encode())
        sent = self.client.files.create(file=("requests.jsonl", content), purpose="batch")
        file = self.folder / "batches" / f"{digest(sent.id)}.json"
        record = {"id": None, "keys": list(requests)}
        write_json(file, record, indent=None)
        record["id"] = self.client.batches.create(
            input_file_id=sent.id,
            endpoint=_ADDRESS,
            completion_window="24h",
            metadata={_NAME: file.stem},
        ).id
        write_json(file, record, indent=None)
        return file

    def _answers(self, batch: Any) -> Iterator[tuple[str, Any]]:
        if batch is None or batch.output_file_id is None:
            return
        for line in self.client.files.content(batch.output_file_id).content.splitlines():
            try:
                record = parse_response(line)
                key, response = record["custom_id"], record["response"]
                if response["status_code"] == 200:
                    yield key, response["body"]
            except (ValueError, KeyError, TypeError):
                continue  # the request is sent by itself


def _refused(batch: Any) -> UserError:
    faults = batch.errors.data if batch.errors and batch.errors.data else []
    return UserError(
        f"batch {batch.id} is refused: {faults[0].message if faults else 'no reason is given'}; "
        "set batch_from=null to send its requests one by one"
    )
