"""Errors of the package openai as one sentence each."""

import re
from typing import Any

from ivqa.errors import UserError

_LONGEST = 200  # characters of a server's own words
# "You are not allowed to request logprobs from this model", "log probabilities are unsupported",
# {"param": "top_logprobs"}: with the statuses 400, 403, 422, 500 and others.
_LOGPROBS = re.compile(r"log[\s_-]*prob", re.IGNORECASE)


class RequestRefused(UserError):
    """The endpoint does not accept a request, such as one with an unknown setting."""


class LogprobsRefused(RequestRefused):
    """The endpoint answers no request for log-probabilities, or not for so many."""


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
    """Describes an error of the client.

    Args:
        error: The error, an `openai.OpenAIError`.
        url: Address of the endpoint.
        api_key_env: Environment variable that holds the key; None without a key.
        timeout: Seconds that the client waited for a response.
        retries: Attempts after the first one.
        prompt: The question that failed; "" for other requests.
        kept: A sentence that says where earlier responses are.

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
    if status not in (None, 429) and _LOGPROBS.search(said):
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
    return RequestRefused(f"{url} refuses a request{asked}: {reason}")


def one_line(text: str) -> str:
    """Returns the text in one line of at most 200 characters.

    Example:
        >>> one_line("two\\n  lines")
        'two lines'
    """
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
