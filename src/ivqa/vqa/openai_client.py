"""The client of the package openai, with a limit on the whole time of a response."""

import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from ivqa.vqa.openai_errors import openai_package

_DEADLINE = "ivqa.deadline"  # extension of a request: when its response must be complete


def openai_client(url: str, *, key: str, timeout: float, retries: int) -> Any:
    """Builds a client.

    The timeout of the client itself limits the wait for each piece of a response, so that a server
    that sends a byte every second would never time out.

    Args:
        url: Address of the endpoint.
        key: The key.
        timeout: Seconds to wait for a whole response.
        retries: Further attempts after a failed one, each with the same time.

    Returns:
        An `openai.OpenAI`.
    """
    openai = openai_package()
    hooks = {"request": [_start], "response": [_limit]}
    return openai.OpenAI(
        base_url=url,
        api_key=key,
        timeout=timeout,
        max_retries=retries,
        http_client=openai.DefaultHttpxClient(event_hooks=hooks),
    )


def _start(request: Any) -> None:
    request.extensions[_DEADLINE] = time.monotonic() + request.extensions["timeout"]["read"]


def _limit(response: Any) -> None:
    """Replaces the stream of a response by one that raises a timeout at the deadline."""
    # The package openai uses httpx or its successor httpx2.
    library = import_module(type(response).__module__.partition(".")[0])
    stream, deadline = response.stream, response.request.extensions[_DEADLINE]

    class Limited(library.SyncByteStream):  # type: ignore[name-defined]
        def __iter__(self) -> Iterator[bytes]:
            for chunk in stream:
                if time.monotonic() > deadline:
                    raise library.ReadTimeout("the response is not complete in time")
                yield chunk

        def close(self) -> None:
            stream.close()

    response.stream = Limited()
