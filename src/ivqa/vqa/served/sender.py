"""Sends requests by a process of its own, which outlives a command that is killed.

A request on its way is paid for. The process keeps its response, and the next command waits for
that; so no request is sent twice. It is this file, run without PyTorch, and ends with its command.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any
from uuid import uuid4

from ivqa.store.files import write_bytes
from ivqa.store.locks import hold_lock

_NAME = "Idempotency-Key"
_LEAVING = "leaving"  # folder with a lock for each process that outlives its command
_MOST = 1000  # requests at the same time; more of them wait
# The response is passed on decoded and whole.
_OF_THE_TRANSPORT = {"content-encoding", "content-length", "transfer-encoding"}

_Kept = tuple[Path, Path, bytes]
"""The folder and the file of a response, and the JSON text of its request."""


def await_leaving(folder: Path) -> None:
    """Waits until the replies to commands that were killed have come and are kept."""
    for file in folder.glob(f"{_LEAVING}/*"):
        with hold_lock(file, "Waiting for the replies to a command that was killed"):
            file.unlink(missing_ok=True)


class Sender:
    """Sends requests by another process; an `httpx.BaseTransport`.

    Args:
        package: The package httpx, or its successor httpx2, that the client uses.
    """

    def __init__(self, package: str) -> None:
        self._http = import_module(package)
        self._connection, theirs = Pipe()
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno()), package]
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,  # no terminal and no pipe waits for its end
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._lock = threading.Lock()
        self._numbers = count()
        self._replies: dict[int, Future[Any]] = {}
        self._kept: dict[str, _Kept] = {}
        threading.Thread(target=self._receive, daemon=True).start()
        atexit.register(self.close)

    def keep(
        self, folder: Path, file: Path, request: Mapping[str, Any], name: str
    ) -> dict[str, str]:
        """Returns the header of a request whose response is kept in a file of the folder.

        Args:
            request: What the file says about the request.
            name: By this a server that knows Idempotency-Key, as gateways may, recognises a request
                that it has already answered.
        """
        text = json.dumps(request, ensure_ascii=False).encode()
        # A command may change its folder; the process has the first one.
        self._kept[name] = (folder.absolute(), file.absolute(), text)
        return {_NAME: name}

    def handle_request(self, request: Any) -> Any:
        """Sends a request, an `httpx.Request`; returns its response, an `httpx.Response`."""
        reply: Future[Any] = Future()
        headers = request.headers.multi_items()
        seconds = request.extensions["timeout"]["read"]
        name = request.headers.get(_NAME)
        kept = self._kept.get(name)
        sent = (request.method, str(request.url), headers, request.read(), seconds)
        with self._lock:
            number = next(self._numbers)
            self._replies[number] = reply
            try:
                self._connection.send((number, kept, sent))
            except OSError as error:
                raise self._http.ConnectError(_ended()) from error
        status, content, *headers = reply.result()
        if isinstance(status, int):
            if status == 200:  # others are tried again under the same name
                self._kept.pop(name, None)
            return self._http.Response(status, headers=headers[0], content=content)
        raise getattr(self._http, status)(content)

    def _receive(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                number, reply = self._connection.recv()
                self._replies.pop(number).set_result(reply)
        for waiting in list(self._replies.values()):
            waiting.set_result(("ConnectError", _ended()))

    def close(self) -> None:
        """Ends the process, after the replies to what it has sent."""
        with suppress(OSError):
            self._connection.send(None)
        self._process.wait()


def _ended() -> str:
    return "the process that sends requests has ended"


def _serve(connection: Connection, http: Any) -> None:
    """Sends requests until the command ends; then keeps the replies to those on their way."""
    sending = threading.Lock()
    on_way: dict[int, Path] = {}

    def answer(number: int, kept: _Kept | None, sent: tuple[Any, ...]) -> None:
        reply = _exchange(client, http, *sent)
        if kept is not None and reply[0] == 200 and _is_object(reply[1]):
            _, file, request = kept
            with suppress(OSError):  # the command tries it again, and says why it fails
                write_bytes(file, b'{"request": %b, "response": %b}' % (request, reply[1]))
        with sending, suppress(OSError):
            connection.send((number, reply))
        on_way.pop(number, None)

    limits = http.Limits(max_connections=None, max_keepalive_connections=None)
    with http.Client(limits=limits) as client, ThreadPoolExecutor(_MOST) as pool:
        with suppress(EOFError, OSError):
            while (message := connection.recv()) is not None:
                number, kept, sent = message
                if kept is not None:
                    on_way[number] = kept[0]
                pool.submit(answer, number, kept, sent)
        with ExitStack() as locks:
            for folder in set(on_way.copy().values()):
                file = folder / _LEAVING / uuid4().hex
                file.parent.mkdir(parents=True, exist_ok=True)
                locks.enter_context(hold_lock(file, ""))
                locks.callback(file.unlink, missing_ok=True)
            pool.shutdown()


def _exchange(
    client: Any,
    http: Any,
    method: str,
    url: str,
    headers: list[tuple[str, str]],
    content: bytes,
    seconds: float,
) -> tuple[Any, ...]:
    """Status, content and headers of a response, or the name and the words of an error.

    The timeout of the client itself limits the wait for each piece of a response, so that a server
    that sends a byte every second would never time out. So the whole response has `seconds`.
    """
    _current.deadline = time.monotonic() + seconds
    try:
        request = client.build_request(
            method,
            url,
            headers=headers,
            content=content,
            timeout=seconds,
            extensions={"trace": _limit},
        )
        response = client.send(request)
    except Exception as error:  # the command waits for a reply
        known = isinstance(error, http.RequestError)
        return type(error).__name__ if known else "ConnectError", str(error)
    passed = [pair for pair in response.headers.multi_items() if pair[0] not in _OF_THE_TRANSPORT]
    return response.status_code, response.content, passed


def _is_object(content: bytes) -> bool:
    try:
        return isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        return False


_current = threading.local()  # .deadline: when the response of this thread must be complete


def _limit(event: str, info: Any) -> None:
    """Lets a new connection, plain or with TLS, wait for bytes until the deadline at most."""
    if not event.endswith(("connect_tcp.complete", "start_tls.complete")):
        return
    stream = info["return_value"]
    read = stream.read
    # The transport of httpx is a package of its own.
    timed_out = import_module(type(stream).__module__.partition(".")[0]).ReadTimeout

    def read_in_time(max_bytes: int, timeout: float | None = None) -> Any:
        left = _current.deadline - time.monotonic()
        if left <= 0:
            raise timed_out("the response is not complete in time")
        return read(max_bytes, timeout=left if timeout is None else min(left, timeout))

    stream.read = read_in_time


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])), import_module(sys.argv[2]))
