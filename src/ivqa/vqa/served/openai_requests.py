"""What is sent to an OpenAI-compatible endpoint, and what it costs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ivqa.store.digests import digest
from ivqa.store.files import write_bytes
from ivqa.vqa.served.image_urls import EncodedImage
from ivqa.vqa.served.openai_client import sender
from ivqa.vqa.served.openai_replies import parse_response


@dataclass(frozen=True)
class ChatRequest:
    """A question about an image.

    Args:
        model: Name of the model.
        image: The image.
        text: The prompt.
        settings: Further fields of the body, such as temperature.
        draw: Tells requests with equal bodies apart, where each is one more sample; not sent.
    """

    model: str
    image: EncodedImage
    text: str
    settings: Mapping[str, Any]
    draw: int = 0

    def body(self) -> dict[str, Any]:
        """The body of the request to /chat/completions."""
        return {**self._with_image(self.image.url), **self.settings}

    def identity(self) -> dict[str, Any]:
        """Everything that is sent, with the digest of the image in place of its bytes."""
        draw = {"draw": self.draw} if self.draw else {}
        return {**self._with_image(self.image.digest), **self.settings, **draw}

    def cache_key(self) -> str:
        """The digest of `identity`."""
        return digest(self.identity())

    def _with_image(self, url: str) -> dict[str, Any]:
        content = [
            {"type": "image_url", "image_url": {"url": url}},
            {"type": "text", "text": self.text},
        ]
        return {"model": self.model, "messages": [{"role": "user", "content": content}]}


@dataclass
class Usage:
    """What one command has asked and paid for.

    Args:
        requests: Requests that were answered.
        reused: Distinct requests whose responses were found on disk.
        retries: Attempts that failed and were repeated.
        answers: Distinct answers, those found on disk included.
        refusals: Refusals among them.
        cut: Those that the limit of tokens cut, or that end in thoughts.
        failed: Those that are none: empty, cut before they began, or what a failed request left.
        prompt_tokens: Tokens that the endpoint read, as it counts them.
        completion_tokens: Tokens that it wrote.
    """

    requests: int = 0
    reused: int = 0
    retries: int = 0
    answers: int = 0
    refusals: int = 0
    cut: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def cost(self, price_in: float | None, price_out: float | None) -> float | None:
        """What the tokens cost, by the prices of a million of them; None if one is unknown.

        >>> round(Usage(prompt_tokens=2_000_000, completion_tokens=1000).cost(0.25, 3.0), 6)
        0.503
        """
        if price_in is None or price_out is None:
            return None
        return (self.prompt_tokens * price_in + self.completion_tokens * price_out) / 1e6

    def forecast(self, requests: int) -> str:
        """Says how many tokens so many requests would take, by the mean of those so far."""
        read, wrote = self.prompt_tokens / self.requests, self.completion_tokens / self.requests
        return (
            f"the first {self.requests} requests took {read:,.0f} prompt and {wrote:,.1f} "
            f"completion tokens each; {requests:,} requests would take about "
            f"{requests * read:,.0f} and {requests * wrote:,.0f}"
        )

    def __str__(self) -> str:
        return (
            f"{self.requests:,} requests with {self.prompt_tokens:,} prompt and "
            f"{self.completion_tokens:,} completion tokens, and {self.reused:,} earlier responses"
        )


class ResponseCache:
    """One JSON file for each request, named by the digest of everything that was sent.

    Files are renamed into place, so any number of threads, processes and machines can share the
    folder, also on a network file system, and a killed process leaves no partial response. The
    folder is created with the first response.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> dict[str, Any] | None:
        """Returns the stored response to a request; None if there is none or it is damaged."""
        try:
            record = parse_response(self._path(key).read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        response = record.get("response") if isinstance(record, dict) else None
        return response if isinstance(response, dict) else None

    def put(self, key: str, request: dict[str, Any], response: dict[str, Any]) -> None:
        """Stores the response to a request, with the request for people who read the file."""
        record = {"request": request, "response": response}
        write_bytes(self._path(key), json.dumps(record, ensure_ascii=False).encode())

    def put_missing(self, request: ChatRequest, response: dict[str, Any]) -> None:
        """Stores a response that the sender could not store."""
        if not self._path(key := request.cache_key()).exists():
            self.put(key, request.identity(), response)

    def header(self, request: ChatRequest, attempt: int) -> dict[str, str]:
        """Has the response to a request kept by what sends it; returns a header for the request.

        By its name a server that knows Idempotency-Key, as gateways may, recognises a request that
        it has answered. A new attempt after a malformed response, or after a stored response
        without an answer, has another name.
        """
        key = request.cache_key()
        name = digest([key, attempt, repr(self.get(key))])
        return sender().keep(self.folder, self._path(key), request.identity(), name)

    def _path(self, key: str) -> Path:
        # Folders of a million files are slow to list on some file systems.
        return self.folder / key[:2] / f"{key}.json"
