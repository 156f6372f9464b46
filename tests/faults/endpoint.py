"""A stand-in for a served model, in a process of its own."""

import multiprocessing
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from PIL import Image

from vqa.chat_server import ChatServer, said, serving


@contextmanager
def endpoint() -> Iterator[str]:
    """Serves answers that depend on the question alone; gives the address."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_serve, args=(theirs,), daemon=True
    )
    process.start()
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def _serve(connection: Any) -> None:
    with serving(ChatServer(_reply, latency=0.05)) as server:
        connection.send(server.url)
        while True:
            time.sleep(60)


def _reply(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
    answers = ("yes", "no", "2", "red")
    return said(answers[zlib.crc32(prompt.encode()) % len(answers)])
