"""The client of the package openai, with a limit on the whole time of a response."""

import threading
import time
from importlib import import_module
from typing import Any

from ivqa.vqa.served.openai_errors import openai_package

_current = threading.local()  # .deadline: when the response of this thread must be complete


def openai_client(url: str, *, key: str, timeout: float, retries: int) -> Any:
    """Builds a client.

    The timeout of the client itself limits the wait for each piece of a response, so that a server
    that sends a byte every second would never time out.

    Args:
        url: Address of the endpoint.
        key: The key.
        timeout: Seconds to wait for a whole response, its headers included.
        retries: Further attempts after a failed one, each with the same time.

    Returns:
        An `openai.OpenAI`.
    """
    openai = openai_package()
    return openai.OpenAI(
        base_url=url,
        api_key=key,
        timeout=timeout,
        max_retries=retries,
        http_client=openai.DefaultHttpxClient(event_hooks={"request": [_start]}),
    )


def _start(request: Any) -> None:
    _current.deadline = time.monotonic() + request.extensions["timeout"]["read"]
    request.extensions["trace"] = _limit


def _limit(event: str, info: Any) -> None:
    """Lets a new connection, plain or with TLS, wait for bytes until the deadline at most."""
    if not event.endswith(("connect_tcp.complete", "start_tls.complete")):
        return
    stream = info["return_value"]
    read = stream.read
    # The package openai uses httpx or its successor httpx2, which have packages of their own.
    timed_out = import_module(type(stream).__module__.partition(".")[0]).ReadTimeout

    def read_in_time(max_bytes: int, timeout: float | None = None) -> Any:
        left = _current.deadline - time.monotonic()
        if left <= 0:
            raise timed_out("the response is not complete in time")
        return read(max_bytes, timeout=left if timeout is None else min(left, timeout))

    stream.read = read_in_time
