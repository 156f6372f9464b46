"""The client of the package openai, and its errors as one sentence each."""

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from ivqa.errors import UserError
from ivqa.vqa.served.sender import Sender

_LONGEST = 200  # characters of a server's own words
# "You are not allowed to request logprobs from this model", "log probabilities are unsupported",
# {"param": "top_logprobs"}: with the statuses 400, 403, 422, 500 and others.
_LOGPROBS = re.compile(r"log[\s_-]*prob", re.IGNORECASE)


# "Unsupported parameter: 'max_tokens' is not supported with this model", "Unsupported value:
# 'temperature' does not support 0", "Unrecognized request argument", "temperature is deprecated".
_UNSUPPORTED = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|deprecated|unknown|not (allowed|permitted)",
    re.IGNORECASE,
)


def _address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("must be an address such as http://localhost:8000/v1")
    return url


Address = Annotated[str, AfterValidator(_address)]


class RequestRefused(UserError):
    """The endpoint does not accept a request, such as one with an unknown setting.

    `reason` has the endpoint's own words, with the name of the field that it refuses.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class LogprobsRefused(RequestRefused):
    """The endpoint answers no request for log-probabilities, or not for so many."""


class TakenFields:
    """The fields of requests as an endpoint takes them, as far as its refusals have shown.

    Newer models take max_completion_tokens in place of max_tokens, and no temperature.
    `accepted` says whether the endpoint has accepted a request.
    """

    _REPLACED: ClassVar[Mapping[str, str | None]] = {
        "max_tokens": "max_completion_tokens",
        "temperature": None,
    }

    def __init__(self) -> None:
        self.accepted = False
        self._unsupported: set[str] = set()

    def translated(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Replaces the fields that the endpoint refuses.

        Raises:
            UserError: It samples at temperature 1 alone, and another one is asked for.
        """
        kept = dict(fields)
        for name in self._unsupported & kept.keys():
            value, other = kept.pop(name), self._REPLACED[name]
            if other is not None:
                kept[other] = value
            elif value not in (0, 1):
                raise UserError(
                    f"this endpoint refuses temperature={value}; set scoring.temperature=1.0"
                )
        return kept

    def learn(self, refusal: RequestRefused, sent: Mapping[str, Any]) -> bool:
        """Remembers what a refusal of the fields `sent` says; returns whether that is new."""
        said = refusal.reason
        new = {name for name in self._REPLACED if name in sent and re.search(rf"\b{name}\b", said)}
        if not _UNSUPPORTED.search(said):
            return False
        self._unsupported |= new
        return bool(new)


def openai_package() -> Any:
    """Imports the package openai, which is an extra of ivqa.

    Raises:
        UserError: It is not installed.
    """
    try:
        import openai
    except ImportError as error:
        raise UserError(
            "model=openai needs the package openai: pip install 'ivqa[served]'"
        ) from error
    return openai


def described(
    error: Exception,
    *,
    url: str,
    api_key_env: str | None,
    timeout: float,
    retries: int,
    prompt: str,
    kept: str,
) -> UserError:
    """Describes an error of the client, an `openai.OpenAIError`.

    `retries` are the attempts after the first one, `prompt` is the question that failed, "" for
    other requests, and `kept` a sentence that says where earlier responses are.

    Returns:
        `RequestRefused` for a request that the endpoint does not accept, `LogprobsRefused` if the
        log-probabilities are the reason, otherwise a UserError.
    """
    openai = openai_package()
    said = str(getattr(error, "message", error))
    reason = one_line(said.rstrip(".")) or type(error).__name__
    asked = f" ({one_line(prompt)})" if prompt else ""
    status = getattr(error, "status_code", None)
    if isinstance(error, openai.APITimeoutError):
        return UserError(
            f"{url} did not respond within {timeout:g} s{asked}; raise the endpoint's timeout or "
            f"lower workers. {kept}"
        )
    if isinstance(error, openai.APIConnectionError):
        cause = one_line(str(error.__cause__ or reason))
        return UserError(
            f"the connection to {url} failed ({cause}); start the server or set base_url. {kept}"
        )
    words = f"{getattr(error, 'param', None) or ''}: {said}"
    if status not in (None, 429) and _LOGPROBS.search(words):
        return LogprobsRefused(
            f"{url} refuses log-probabilities ({reason}); set scoring.phi=samples, or a smaller "
            "scoring.top_logprobs"
        )
    if status in (401, 403):
        refused = f"the key in {api_key_env}" if api_key_env else "requests without key"
        return UserError(
            f"{url} refuses {refused} ({reason}); set api_key_env to the environment variable that "
            "holds its key"
        )
    if status == 404:
        return UserError(
            f"{url} does not know this address or model ({reason}); base_url usually ends in /v1"
        )
    if status == 429 or (status is not None and status >= 500):
        return UserError(
            f"{url} still fails after {retries} further attempts (status {status}: {reason}); "
            f"lower workers, raise retries or try later. {kept}"
        )
    return RequestRefused(f"{url} refuses a request{asked}: {reason}", words)


def one_line(text: str) -> str:
    """Returns the text in one line of at most 200 characters.

    Example:
        >>> one_line("two\\n  lines")
        'two lines'
    """
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def openai_client(url: str, *, key: str, timeout: float, retries: int) -> Any:
    """Builds a client, an `openai.OpenAI`, that sends its requests by `sender`.

    A whole response has `timeout` seconds, and so has each of `retries` further attempts after a
    failed one.
    """
    openai = openai_package()
    return openai.OpenAI(
        base_url=url,
        api_key=key,
        timeout=timeout,
        max_retries=retries,
        http_client=openai.DefaultHttpxClient(transport=sender()),
    )


def sender() -> Sender:
    """Returns the sender of this process, which all its endpoints share."""
    return _sender(os.getpid())


@cache
def _sender(process: int) -> Sender:
    # The package openai uses httpx or its successor httpx2.
    return Sender(openai_package().DefaultHttpxClient.__mro__[1].__module__)
