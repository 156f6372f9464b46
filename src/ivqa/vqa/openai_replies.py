"""The answers in a response of an OpenAI-compatible endpoint, with their log-probabilities."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REFUSAL = "[refused to answer]"
"""Stands for a refusal among the answers; it equals no answer of an annotator."""

# How models begin a refusal in their own words. "I cannot tell" is an answer, if not a helpful one.
_REFUSES = re.compile(
    r"(i['’]?m|i am) (sorry|unable to (assist|help)|not able to (assist|help))"
    r"|sorry,? (but )?i\b"
    r"|i (can['’]?t|cannot|can not|won['’]?t) (assist|help|comply)",
    re.IGNORECASE,
)
# vLLM returns this for a written token whose log-probability it does not have, such as the end
# token after constrained decoding.
_UNKNOWN = -9999.0
# A token that ends a text, as servers spell it: </s>, <|im_end|>, <end_of_turn>.
_END = re.compile(r"\s*<[^<>\s]+>\s*")


@dataclass(frozen=True)
class WrittenToken:
    """A token of a written answer.

    Args:
        text: Its bytes; a character can extend over several tokens. Empty for an end token.
        log_prob: Its log-probability after the tokens before it; 0 if the endpoint does not know
            it, so that the probability of the text is that of its other tokens.
        others: Other tokens at this position with their log-probabilities.
    """

    text: bytes
    log_prob: float
    others: tuple[tuple[bytes, float], ...]


@dataclass(frozen=True)
class Choice:
    """An answer that a model wrote.

    Args:
        text: The answer without white space around it; `REFUSAL` if the model refused.
        tokens: Its tokens; None if the endpoint returned no log-probabilities.
    """

    text: str
    tokens: tuple[WrittenToken, ...] | None = None

    @property
    def is_refusal(self) -> bool:
        """Whether the model refused to answer."""
        return self.text == REFUSAL


def read_choices(response: Any) -> tuple[Choice, ...]:
    """Reads the answers of a response to /chat/completions.

    A refusal is a message with the field `refusal`, an answer that a content filter cut, or an
    apology for not helping.

    Args:
        response: The JSON value of the body.

    Returns:
        The answers, at least one.

    Raises:
        ValueError: The body is not such a response; the message says why.

    Example:
        >>> message = {"role": "assistant", "content": " red"}
        >>> read_choices({"choices": [{"message": message, "finish_reason": "stop"}]})
        (Choice(text='red', tokens=None),)
    """
    if isinstance(response, dict) and response.get("error"):
        raise ValueError(f"it reports an error: {' '.join(str(response['error']).split())[:200]}")
    choices = response.get("choices") if isinstance(response, dict) else None
    if not isinstance(choices, list) or not choices:
        raise ValueError("it has no list of choices")
    try:
        return tuple(_choice(choice) for choice in choices)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"a choice is malformed ({type(error).__name__}: {error})") from None


def token_counts(response: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the numbers of prompt and completion tokens; 0 where the endpoint counts none."""
    usage = response.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    return prompt or 0, completion or 0


def _choice(choice: dict[str, Any]) -> Choice:
    message = choice["message"]
    content = message.get("content") or ""
    if isinstance(content, list):  # parts of a text, as some servers return it
        content = "".join(part.get("text") or "" for part in content)
    text = content.strip()
    refuses = message.get("refusal") or choice.get("finish_reason") == "content_filter"
    if refuses or _REFUSES.match(text):
        return Choice(REFUSAL)
    given = (choice.get("logprobs") or {}).get("content")
    tokens = tuple(_token(entry) for entry in given) if given else None
    return Choice(text, tokens)


def _token(entry: dict[str, Any]) -> WrittenToken:
    others = list(entry.get("top_logprobs") or ())
    # The written token is usually among the alternatives. Servers can spell several end tokens
    # alike, so only one of them is left out.
    own = next((at for at, one in enumerate(others) if one["token"] == entry["token"]), None)
    if own is not None:
        del others[own]
    pairs = tuple((_bytes(one), float(one["logprob"])) for one in others)
    log_prob = float(entry["logprob"])
    return WrittenToken(_bytes(entry), 0.0 if log_prob <= _UNKNOWN else log_prob, pairs)


def _bytes(entry: dict[str, Any]) -> bytes:
    if _END.fullmatch(entry["token"]):
        return b""
    given = entry.get("bytes")
    return bytes(given) if given else entry["token"].encode(errors="replace")
