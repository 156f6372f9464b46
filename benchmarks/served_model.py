"""Claim: 16 workers ask a served model at least 8 times as fast as one request at a time.

Questions a second about JPEG pictures of 640 x 480, three questions each, answered by a server in a
process of its own that waits 50 ms before each response. The peer is the loop that a user of the
package openai would write: the picture is encoded once, and one request is sent after the other. On
our side everything is included: pictures are decoded, checked and encoded, responses are written to
disk, and log-probabilities are read. In turn, in one process. On disk: the same questions again.
"""

import base64
import io
import multiprocessing
import tempfile
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from openai import OpenAI
from PIL import Image, ImageFilter

from benchmarks.timing import paired
from ivqa.data.batches.batch import ImageBatch
from ivqa.data.images import ImageFiles
from ivqa.vqa.served.openai_endpoint import Endpoint
from ivqa.vqa.served.openai_model import OpenAIModel

LATENCY, WORKERS = 0.05, 16  # seconds; requests at the same time
PICTURES, QUESTIONS_EACH = 64, 3
ALTERNATIVES = [{"token": f"word{rank}", "logprob": -1.0 - rank} for rank in range(20)]
REPLY = {
    "choices": [
        {
            "message": {"role": "assistant", "content": "word0"},
            "finish_reason": "stop",
            "logprobs": {"content": [{**ALTERNATIVES[0], "top_logprobs": ALTERNATIVES}]},
        }
    ],
    "usage": {"prompt_tokens": 400, "completion_tokens": 1},
}


def run() -> list[dict[str, Any]]:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    server = context.Process(target=_serve, args=(sender,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{receiver.recv()}/v1"
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _measured(url, Path(folder))
    finally:
        server.terminate()
        server.join()


def _measured(url: str, folder: Path) -> list[dict[str, Any]]:
    files = _pictures(folder)
    index = torch.arange(PICTURES).repeat_interleave(QUESTIONS_EACH)
    images = ImageBatch(torch.arange(PICTURES), index, source=files)
    questions = [f"question {number}?" for number in range(len(index))]
    runs = count()

    def ours() -> OpenAIModel:
        cache = str(folder / f"cache {next(runs)}")  # every run pays for all requests
        model = OpenAIModel("bench", Endpoint(url, cache=cache, workers=WORKERS))
        model.answer(images, questions)
        return model

    one_by_one = partial(_one_by_one, url, files, index.tolist(), questions)
    concurrent, serial = paired(ours, one_by_one, repeats=3)
    model = ours()
    start = time.perf_counter()
    model.answer(images, questions)
    stored = time.perf_counter() - start
    return [
        {
            "questions": len(questions),
            "latency, ms": round(1000 * LATENCY),
            f"ivqa, {WORKERS} workers, questions/s": round(len(questions) / concurrent, 1),
            "one at a time, questions/s": round(len(questions) / serial, 1),
            "ratio": round(serial / concurrent, 1),
            "on disk, questions/s": round(len(questions) / stored),
        }
    ]


def _one_by_one(url: str, files: ImageFiles, index: list[int], questions: list[str]) -> None:
    client = OpenAI(base_url=url, api_key="none")
    encoded = {}
    for at, question in zip(index, questions, strict=True):
        if at not in encoded:
            encoded[at] = base64.b64encode(files.path(at).read_bytes()).decode()
        picture = {"url": f"data:image/jpeg;base64,{encoded[at]}"}
        content: Any = [
            {"type": "image_url", "image_url": picture},
            {"type": "text", "text": question},
        ]
        client.chat.completions.create(
            model="bench",
            messages=[{"role": "user", "content": content}],
            temperature=0,
            max_tokens=16,
            logprobs=True,
            top_logprobs=20,
        )


def _pictures(folder: Path) -> ImageFiles:
    """Blurred noise: files of about 60 kB."""
    rng = np.random.default_rng(0)
    paths = []
    for number in range(PICTURES):
        noise = rng.integers(0, 255, (480, 640, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        blurred = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(1.5))
        blurred.save(buffer, "JPEG", quality=90)
        paths.append(folder / f"{number}.jpg")
        paths[-1].write_bytes(buffer.getvalue())
    return ImageFiles(np.arange(PICTURES), paths)


def _serve(sender: Any) -> None:
    """Answers every request after LATENCY; sends its port through the pipe."""
    import asyncio
    import json

    body = json.dumps(REPLY).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
                length = next(line for line in lines if line.startswith("content-length:"))
                await reader.readexactly(int(length.split(":")[1]))
                await asyncio.sleep(LATENCY)
                writer.write(head.encode() + b"\r\n\r\n" + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=1 << 22)
        sender.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())
