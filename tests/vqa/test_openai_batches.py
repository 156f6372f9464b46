"""The batch API of a local server: what is sent, awaited, kept and asked for again."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from chat_server import said

from ivqa.errors import LimitReached, UserError
from ivqa.vqa.served import openai_batches
from ivqa.vqa.served.image_urls import EncodedImage
from ivqa.vqa.served.openai_endpoint import Endpoint
from ivqa.vqa.served.openai_requests import ChatRequest

IMAGE = EncodedImage(b"pixels", "image/png")
TEXTS = [f"question {number}" for number in range(7)]


class BatchServer:
    """Answers batches after `looks` requests for their state.

    Attributes:
        fate: The status in which every batch ends.
        lost: Prompts that a batch answers by an error.
        forgets: Whether it does not know its batches any more.
        files: The lines of each file that was sent.
        created: The metadata of each batch, by its id.
        direct: Prompts of requests outside of batches.
    """

    def __init__(self) -> None:
        self.fate, self.looks, self.lost, self.forgets = "completed", 1, set[str](), False
        self.fault: dict[str, Any] = {"data": []}
        self.files: list[list[dict[str, Any]]] = []
        self.created: dict[str, dict[str, str]] = {}
        self.seen: dict[str, int] = {}
        self.direct: list[str] = []
        self.url = ""

    def get(self, path: str) -> tuple[int, bytes]:
        if path.endswith("/batches"):
            listed = [self._batch(name, False) for name in self.created]
            return 200, json.dumps({"object": "list", "data": listed}).encode()
        *_, kind, name = path.removesuffix("/content").split("/")
        if kind == "files":
            return 200, "\n".join(map(json.dumps, self._answers(int(name)))).encode()
        if self.forgets:
            return 404, b'{"error": {"message": "no such batch"}}'
        self.seen[name] = self.seen.get(name, 0) + 1
        return 200, json.dumps(self._batch(name, self.seen[name] > self.looks)).encode()

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        if path.endswith("/files"):
            content = body.partition(b"requests.jsonl")[2].partition(b"\r\n\r\n")[2]
            lines = content.partition(b"\r\n--")[0].decode().splitlines()
            self.files.append([json.loads(line) for line in lines])
            return 200, json.dumps({"id": str(len(self.files) - 1), "object": "file"}).encode()
        asked = json.loads(body)
        if path.endswith("/batches"):
            assert asked["endpoint"] == "/v1/chat/completions"
            self.created[asked["input_file_id"]] = asked["metadata"]
            return 200, json.dumps(self._batch(asked["input_file_id"], False)).encode()
        self.direct.append(asked["messages"][0]["content"][1]["text"])
        return 200, json.dumps(said("directly")).encode()

    def _batch(self, name: str, ended: bool) -> dict[str, Any]:
        number = len(self.files[int(name)])
        return {
            "id": name,
            "object": "batch",
            "status": self.fate if ended else "in_progress",
            "output_file_id": name if ended and self.fate != "failed" else None,
            "request_counts": {"total": number, "completed": number, "failed": 0},
            "errors": self.fault,
            "metadata": self.created.get(name),
        }

    def _answers(self, number: int) -> Iterator[dict[str, Any]]:
        for line in reversed(self.files[number]):
            prompt = line["body"]["messages"][0]["content"][1]["text"]
            status = 500 if prompt in self.lost else 200
            response = {"status_code": status, "body": said(f"answer to {prompt}")}
            yield {"custom_id": line["custom_id"], "response": response, "error": None}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    found = BatchServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(*found.get(self.path))

        def do_POST(self) -> None:
            self._send(*found.post(self.path, self.rfile.read(int(self.headers["Content-Length"]))))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setattr(openai_batches.BatchClient, "poll", 0.01)
    monkeypatch.setattr(openai_batches.BatchClient.__init__, "__defaults__", (0.01,))
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}).start()
    yield found
    http.shutdown()
    http.server_close()


def _endpoint(server: BatchServer, folder: Path, **arguments: Any) -> Endpoint:
    return Endpoint(server.url, cache=str(folder), retries=0, batch_from=3, **arguments)


def _answers(endpoint: Endpoint, texts: list[str]) -> list[str]:
    requests = [ChatRequest("tiny", IMAGE, text, {"temperature": 0}) for text in texts]
    return [found[0].text for found in endpoint.ask(requests)]


def test_a_batch_answers_many_requests_at_once(server: BatchServer, tmp_path: Path) -> None:
    endpoint = _endpoint(server, tmp_path)
    assert _answers(endpoint, TEXTS) == [f"answer to {text}" for text in TEXTS]
    (lines,) = server.files
    assert [line["body"]["messages"][0]["content"][1]["text"] for line in lines] == TEXTS
    assert lines[0]["body"]["temperature"] == 0
    assert server.direct == []
    assert (endpoint.usage.requests, endpoint.usage.prompt_tokens) == (7, 700)
    # They are kept: nothing is asked again, and a few are asked one by one.
    assert _answers(_endpoint(server, tmp_path), [*TEXTS, "new"]) == [
        *(f"answer to {text}" for text in TEXTS),
        "directly",
    ]
    assert len(server.files) == 1


def test_what_a_batch_leaves_out_is_asked_directly(server: BatchServer, tmp_path: Path) -> None:
    server.lost, server.fate = {TEXTS[2]}, "expired"
    answers = _answers(_endpoint(server, tmp_path), TEXTS)
    assert answers[1:4] == ["answer to question 1", "directly", "answer to question 3"]
    assert server.direct == [TEXTS[2]]


def test_large_batches_are_divided(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_batches, "_MOST_LINES", 3)
    assert _answers(_endpoint(server, tmp_path), TEXTS)[6] == "answer to question 6"
    assert [len(lines) for lines in server.files] == [3, 3, 1]
    monkeypatch.setattr(openai_batches, "_MOST_LINES", 50)
    monkeypatch.setattr(openai_batches, "_MOST_BYTES", 2500)  # two requests of 1,000 bytes and more
    _answers(_endpoint(server, tmp_path / "other"), TEXTS)
    assert [len(lines) for lines in server.files[3:]] == [2, 2, 2, 1]


def test_a_killed_command_waits_for_the_same_batch(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.looks = 10**6
    with monkeypatch.context() as killed:
        killed.setattr(openai_batches.time, "sleep", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            _answers(_endpoint(server, tmp_path), TEXTS)
    server.looks = 0
    # Another command needs fewer of them.
    assert _answers(_endpoint(server, tmp_path), TEXTS[:4]) == [
        f"answer to {text}" for text in TEXTS[:4]
    ]
    assert len(server.files) == 1
    # The answers to the others are kept too.
    assert _answers(_endpoint(server, tmp_path), TEXTS)[5:] == [
        f"answer to {text}" for text in TEXTS[5:]
    ]
    assert (len(server.files), server.direct) == (1, [])
    assert not list(tmp_path.glob("batches/*"))


def _interrupt(_: float) -> None:
    raise KeyboardInterrupt


def test_a_refused_batch_is_one_sentence(server: BatchServer, tmp_path: Path) -> None:
    server.fate = "failed"
    server.fault = {"data": [{"code": "quota", "message": "Enqueued token limit reached"}]}
    with pytest.raises(UserError, match="batch 0 is refused: Enqueued token limit reached; set"):
        _answers(_endpoint(server, tmp_path), TEXTS)
    server.fate = "completed"  # the next command sends it again
    assert _answers(_endpoint(server, tmp_path), TEXTS)[0] == "answer to question 0"


def test_a_forgotten_batch_is_asked_directly(server: BatchServer, tmp_path: Path) -> None:
    server.forgets = True
    assert set(_answers(_endpoint(server, tmp_path), TEXTS)) == {"directly"}


def test_limits(server: BatchServer, tmp_path: Path) -> None:
    with pytest.raises(LimitReached, match="stopped at max_requests=5"):
        _answers(_endpoint(server, tmp_path, max_requests=5), TEXTS)
    assert [len(lines) for lines in server.files] == [5]
    with pytest.raises(UserError, match="a batch cannot be stopped at max_cost="):
        Endpoint.check_arguments({"max_cost": 1, "price_in": 1, "price_out": 1, "batch_from": 9})


@pytest.mark.parametrize("created", [True, False])
def test_a_batch_whose_id_a_kill_lost_is_found(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, created: bool
) -> None:
    """The kill comes just after, or just before, the batch is created."""
    write, written = openai_batches.write_json, list[str]()

    def killed(file: Path, value: Any, indent: int | None) -> None:
        if written and created:
            raise KeyboardInterrupt
        write(file, value, indent=indent)
        written.append(file.name)
        if not created:
            raise KeyboardInterrupt

    monkeypatch.setattr(openai_batches, "write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        _answers(_endpoint(server, tmp_path), TEXTS)
    monkeypatch.setattr(openai_batches, "write_json", write)
    assert len(server.created) == created
    assert _answers(_endpoint(server, tmp_path), TEXTS)[6] == "answer to question 6"
    assert len(server.created) == 1
    assert not list(tmp_path.glob("batches/*.json"))
