"""A stand-in for an OpenAI-compatible endpoint: a local server with faults and latency."""

import base64
import io
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

Reply = Callable[[str, Image.Image, dict[str, Any]], dict[str, Any]]
"""From the prompt, the image and the body of a request to the `choices` and other fields."""


@dataclass
class ChatServer:
    """What a server answers, and what it was asked.

    Attributes:
        reply: Answers a question.
        faults: What goes wrong with the next requests, one each: a status with headers and body,
            "cut" (the connection is closed in the middle) or "text" (a body that is no JSON).
        latency: Seconds before an answer.
        pause: Seconds between two bytes of an answer.
        asked: The bodies of all requests to /chat/completions, failed ones too.
        names: Their Idempotency-Keys.
        times: When they arrived.
        most: The largest number of requests at the same time.
    """

    reply: Reply
    faults: deque[Any] = field(default_factory=deque)
    latency: float = 0.0
    pause: float = 0.0
    key: str | None = None
    models: tuple[str, ...] = ("tiny",)
    asked: list[dict[str, Any]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    most: int = 0
    url: str = ""
    lock: Any = field(default_factory=threading.Lock)
    current: int = 0

    def answer(self, body: dict[str, Any], name: str) -> tuple[int, dict[str, str], bytes, bool]:
        """Status, headers and body of a response, and whether the connection is cut."""
        with self.lock:
            self.asked.append(body)
            self.names.append(name)
            self.times.append(time.monotonic())
            self.current += 1
            self.most = max(self.most, self.current)
            fault = self.faults.popleft() if self.faults else None
        time.sleep(self.latency)
        if isinstance(fault, tuple):
            status, headers, text = fault
            response = (status, headers, text.encode(), False)
        elif fault == "text":
            response = (200, {}, b'{"choices": [{"mess', False)
        else:
            picture, prompt = body["messages"][0]["content"]
            content = base64.b64decode(picture["image_url"]["url"].partition(",")[2])
            found = self.reply(prompt["text"], Image.open(io.BytesIO(content)), body)
            response = (200, {}, json.dumps(found).encode(), fault == "cut")
        with self.lock:
            self.current -= 1
        return response


def said(
    *texts: str | None,
    logprobs: Any = None,
    finish: str = "stop",
    message: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A response whose choices are `texts`; `message` has further fields of each message."""
    return {
        "choices": [
            {
                "index": at,
                "message": {"role": "assistant", "content": text, **(message or {})},
                "finish_reason": finish,
                "logprobs": logprobs,
            }
            for at, text in enumerate(texts)
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 2 * len(texts)},
        **fields,
    }


@contextmanager
def serving(server: ChatServer) -> Iterator[ChatServer]:
    """Runs a server in threads of this process; its `url` is the base_url."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body leave together

        def do_GET(self) -> None:
            refused = server.key and self.headers["Authorization"] != f"Bearer {server.key}"
            if refused or self.path != "/v1/models":
                self._send(401 if refused else 404, {}, b'{"error": {"message": "no"}}')
                return
            listed = {"data": [{"id": name} for name in server.models]}
            self._send(200, {}, json.dumps(listed).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            *response, cut = server.answer(
                json.loads(body), self.headers.get("Idempotency-Key", "")
            )
            self._send(*response, cut=cut)

        def _send(self, status: int, headers: Any, body: bytes, *, cut: bool = False) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if server.pause:
                self._trickle(body)
            else:
                self.wfile.write(body[:10] if cut else body)
                self.wfile.flush()
            self.close_connection = cut

        def _trickle(self, body: bytes) -> None:
            try:
                for at in range(len(body)):
                    self.wfile.write(body[at : at + 1])
                    self.wfile.flush()
                    time.sleep(server.pause)
            except ConnectionError:  # the client has gone
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    http = Server(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
