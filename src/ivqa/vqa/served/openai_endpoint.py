"""Requests to an OpenAI-compatible endpoint: cached, concurrent, retried and limited in number."""

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ivqa.errors import LimitReached, UserError
from ivqa.ranges import Count, CountOrZero, NonNegative, Positive
from ivqa.terminal import terminal
from ivqa.vqa.served.openai_batches import BatchClient
from ivqa.vqa.served.openai_client import Address, described, openai_client, openai_package
from ivqa.vqa.served.openai_replies import Choice, parse_response, read_choices, token_counts
from ivqa.vqa.served.openai_requests import ChatRequest, ResponseCache, Usage
from ivqa.vqa.served.sender import await_leaving

_CHECK_SECONDS = 10.0  # for the list of models, before long work starts
_ESTIMATE_AFTER = 20  # responses, whose mean predicts the tokens of all
REMEDY = (
    "raise max_new_tokens, which thoughts count for too (a model that thinks may need 2000), or "
    "turn its thoughts off by a field of settings, such as {reasoning_effort: minimal}"
)
"""What to do about answers that are cut."""
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 8.0  # seconds between attempts, as in the client


Reader = Callable[[Any], tuple[Choice, ...]]
"""Reads the choices of a response, as `read_choices` does."""


@dataclass(eq=False, kw_only=True)
class Endpoint:
    """An OpenAI-compatible endpoint, such as vLLM, SGLang, llama.cpp or a commercial one.

    Every response is written to disk before it is used. The name of its file does not depend on the
    address, because a served model may move to another port. The next process asks again for a
    response without an answer (`is_lost` of a choice).

    Args:
        base_url: The address, up to /v1.
        cache: Folder of the responses.
        api_key_env: Environment variable that holds the key; None sends none.
        workers: Requests at the same time.
        batch_from: Where at least so many requests are to be sent at once, the batch API answers
            them: cheaper, within 24 hours. None: never.
        max_requests: Number of requests that one command may send; None sets no limit. Earlier
            responses and repeated attempts do not count.
        price_in: Price of a million prompt tokens, in any currency; None: unknown.
        price_out: Price of a million completion tokens; None: unknown.
        max_cost: What one command may pay. No request is sent that would cost more, if it and those
            on their way cost as much as those before; None sets no limit.
        timeout: Seconds to wait for a whole response.
        retries: Further attempts after a failed one: rate limits (429), server errors (5xx), cut
            connections, time-outs and malformed responses. The client waits as long as Retry-After
            says, otherwise 0.5 s, then twice as long each time up to 8 s, less a random part.
        check_model: Whether `check` requires the model in the endpoint's list of models.
    """

    version: ClassVar[int] = 1

    base_url: Address = field(kw_only=False)
    cache: str
    api_key_env: str | None = None
    workers: Count = 16
    batch_from: Count | None = None
    max_requests: CountOrZero | None = None
    price_in: NonNegative | None = None
    price_out: NonNegative | None = None
    max_cost: NonNegative | None = None
    timeout: Positive = 60.0
    retries: CountOrZero = 6
    check_model: bool = True

    def __post_init__(self) -> None:
        self.usage = Usage()
        self._cache = ResponseCache(Path(self.cache))
        self._known: set[str] = set()  # requests that `usage` contains
        self._on_way = 0  # requests without a response yet
        self._lock = threading.Lock()

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks that the key and the prices are there; the commands call this before any work.

        Raises:
            UserError: The environment variable is not set, or a limit of money has no prices.
        """
        prices = arguments.get("price_in"), arguments.get("price_out")
        if arguments.get("max_cost") is not None and None in prices:
            raise UserError("max_cost= needs price_in= and price_out=, of a million tokens each")
        if None not in (arguments.get("max_cost"), arguments.get("batch_from")):
            raise UserError("a batch cannot be stopped at max_cost=; set max_requests= instead")
        name = arguments.get("api_key_env")
        if name is not None and not os.environ.get(name):
            raise UserError(
                f"api_key_env={name}: the environment variable {name} is not set; put the "
                "endpoint's key into it, or set api_key_env=null for an endpoint without keys"
            )

    def check(self, model: str) -> None:
        """Checks that the endpoint answers and serves `model`, by a request that costs nothing.

        Raises:
            UserError: The endpoint is down or refuses the key, or has no such model.
        """
        if not self.check_model:
            return
        openai = openai_package()
        client = self._client.with_options(timeout=_CHECK_SECONDS, max_retries=1)
        try:
            content = parse_response(client.models.with_raw_response.list().content)
            names = [str(entry["id"]) for entry in content["data"]]
        except openai.OpenAIError as error:
            raise self._described(error) from None
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"{self.base_url}/models is no list of models; base_url is the address of an "
                "OpenAI-compatible endpoint and usually ends in /v1"
            ) from None
        if model not in names:
            known = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
            raise UserError(
                f"{self.base_url} lists no model '{model}', but {known or 'none'}; set model.path "
                "to one of them, or model.module.endpoint.check_model=false if its list is "
                "incomplete"
            )

    def ask(
        self, requests: Sequence[ChatRequest], read: Reader = read_choices
    ) -> list[tuple[Choice, ...]]:
        """Answers requests from the cache or the endpoint, several at the same time.

        Equal requests are sent once. `read` reads the choices of a response.

        Returns:
            The choices of each request, in the order of the requests.

        Raises:
            LimitReached: `max_requests` or `max_cost` is reached.
            UserError: A request failed for good, or none of the first responses has an answer. All
                responses that arrived are in the cache.
        """
        distinct = {request.cache_key(): request for request in requests}
        await_leaving(self._cache.folder)
        with ThreadPoolExecutor(self.workers) as pool:
            kept = pool.map(lambda key: self._stored(key, read), distinct)
            stored = zip(distinct, kept, strict=True)
            found = {key: choices for key, choices in stored if choices is not None}
            missing = [request for key, request in distinct.items() if key not in found]
            left = self._allowed(len(missing))
            if self.batch_from is not None and left >= self.batch_from:
                found |= self._by_batches(missing[:left], read)
                missing = [one for one in missing if one.cache_key() not in found]
                left = self._allowed(len(missing))
            sent = {
                pool.submit(self._answered, request, read): request.cache_key()
                for request in missing[:left]
            }
            try:
                for future in as_completed(sent):
                    found[sent[future]] = future.result()
                    self._check_answers()
            except BaseException:
                # Requests on their way are paid for, so their responses are awaited.
                pool.shutdown(cancel_futures=True)
                raise
        if left < len(missing):
            raise self._stopped("max_requests", self.max_requests)
        return [found[request.cache_key()] for request in requests]

    def _allowed(self, requests: int) -> int:
        """How many of so many requests `max_requests` lets through."""
        if self.max_requests is None:
            return requests
        return min(requests, self.max_requests - self.usage.requests)

    def _by_batches(self, requests: Sequence[ChatRequest], read: Reader) -> dict[str, Any]:
        """The choices of requests by the batch API, without those that it fails to answer."""
        asked = {request.cache_key(): request for request in requests}
        found = {}
        try:
            for key, response in BatchClient(self._client, self._cache.folder).responses(asked):
                if key not in asked:  # of an earlier command that was killed
                    self._cache.put(key, {}, response)
                else:
                    with suppress(ValueError):
                        found[key] = read(response)
                        self._cache.put(key, asked[key].identity(), response)
                        self._count_new(key, response, found[key])
        except openai_package().OpenAIError as error:
            raise self._described(error) from None
        return found

    def _stored(self, key: str, read: Reader) -> tuple[Choice, ...] | None:
        response = self._cache.get(key)
        if response is None:
            return None
        try:
            choices = read(response)
        except ValueError:
            return None  # malformed, or written by another program
        with self._lock:
            if key in self._known:
                return choices
            if any(choice.is_lost for choice in choices):
                return None  # of an earlier process; the endpoint may answer now
            self.usage.reused += 1
            self._count(key, choices)
        return choices

    def _answered(self, request: ChatRequest, read: Reader) -> tuple[Choice, ...]:
        """Sends a request, and stores and counts the response."""
        with self._lock:
            self._check_cost()
            self._on_way += 1
        try:
            response, choices, retries = self._send(request, read)
            self._cache.put_missing(request, response)
            self._count_new(request.cache_key(), response, choices, retries)
            return choices
        finally:
            with self._lock:
                self._on_way -= 1

    def _count_new(
        self, key: str, response: Any, choices: Sequence[Choice], retries: int = 0
    ) -> None:
        prompt, completion = token_counts(response)
        with self._lock:
            usage = self.usage
            usage.requests += 1
            usage.retries += retries
            usage.prompt_tokens += prompt
            usage.completion_tokens += completion
            self._count(key, choices)
            if usage.requests == _ESTIMATE_AFTER and usage.prompt_tokens:
                forecast = usage.forecast(self.max_requests or 1000)
                terminal().print(forecast, soft_wrap=True, highlight=False)

    def _check_cost(self) -> None:
        """Stops before a request that would probably cost more than `max_cost`."""
        if self.max_cost is None:
            return
        answered = self.usage.requests
        if answered and not self.usage.prompt_tokens:
            raise UserError(
                f"{self.base_url} does not report tokens, so that max_cost={self.max_cost} cannot "
                "be kept; set max_cost=null, and max_requests= to a number"
            )
        cost = self.usage.cost(self.price_in, self.price_out) or 0.0
        if cost + (self._on_way + 1) * cost / max(answered, 1) > self.max_cost:
            raise self._stopped("max_cost", self.max_cost)

    def _stopped(self, key: str, limit: float | None) -> LimitReached:
        return LimitReached(
            f"stopped at {key}={limit:,} ({self.usage}); all responses are kept in "
            f"{self._cache.folder}: raise {key} and start the command again, which asks only what "
            "is missing"
        )

    def _count(self, key: str, choices: Sequence[Choice]) -> None:
        self._known.add(key)
        self.usage.answers += len(choices)
        self.usage.refusals += sum(choice.is_refusal for choice in choices)
        self.usage.cut += sum(choice.is_cut for choice in choices)
        self.usage.failed += sum(choice.is_lost for choice in choices)

    def _check_answers(self) -> None:
        """Stops before more is paid for, if there has been no answer so far."""
        usage = self.usage
        if usage.failed == usage.answers >= _ESTIMATE_AFTER:
            raise UserError(
                f"{self.base_url} has given no answer in {usage.answers} replies: {usage.cut} are "
                "cut before their answer begins, the others are empty or hold a failed request; "
                f"{REMEDY}"
            )

    def _send(
        self, request: ChatRequest, read: Reader
    ) -> tuple[dict[str, Any], tuple[Choice, ...], int]:
        """Returns the response, its choices and the number of failed attempts."""
        openai = openai_package()
        fault, failed = "", 0
        for attempt in range(self.retries + 1):
            if attempt:
                delay = min(_FIRST_DELAY * 2 ** (attempt - 1), _LONGEST_DELAY)
                time.sleep(delay * random.uniform(0.75, 1))
            try:
                # `create` would check the types of the body and of the response, which takes two
                # fifths of the processor time of a request with 16 workers.
                received = self._client.post(
                    "/chat/completions",
                    body=request.body(),
                    cast_to=openai.HttpxBinaryResponseContent,
                    options={"headers": self._cache.header(request, attempt)},
                )
            except openai.OpenAIError as error:
                raise self._described(error, request.text) from None
            failed += int(received.response.request.headers.get("x-stainless-retry-count", 0))
            try:
                response = parse_response(received.content)
                return response, read(response), failed
            except ValueError as error:  # the client repeats only what fails before a response
                fault, failed = str(error), failed + 1
        raise UserError(
            f"{self.base_url} sends malformed responses, {failed} in a row ({fault}); look at its "
            f"log. {self._kept()}"
        )

    @cached_property
    def _client(self) -> Any:
        self.check_arguments(vars(self))
        # Under Hydra these would print a line for every request.
        for name in ("httpx", "httpx2", "openai"):
            logging.getLogger(name).setLevel(logging.WARNING)
        # The client requires a key; endpoints without keys ignore it.
        key = os.environ[self.api_key_env] if self.api_key_env else "none"
        return openai_client(self.base_url, key=key, timeout=self.timeout, retries=self.retries)

    def _described(self, error: Exception, prompt: str = "") -> UserError:
        return described(
            error,
            url=self.base_url,
            api_key_env=self.api_key_env,
            timeout=self.timeout,
            retries=self.retries,
            prompt=prompt,
            kept=self._kept(),
        )

    def _kept(self) -> str:
        return (
            f"All responses so far are kept in {self._cache.folder}, and the next run continues "
            f"({self.usage})"
        )

    def figures(self) -> dict[str, float]:
        """Returns the numbers of `usage` as floats by name, and the cost if it is known."""
        cost = self.usage.cost(self.price_in, self.price_out)
        figures = asdict(self.usage) | ({} if cost is None else {"cost": cost})
        return {name: float(value) for name, value in figures.items()}
