"""The answers in a response of an OpenAI-compatible endpoint, with their log-probabilities."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ivqa.ranges import LARGEST
from ivqa.text.failed_answers import failure
from ivqa.text.thoughts import END, THOUGHTS, Tags, without_thoughts

REFUSAL = "[refused to answer]"
"""Stands for a refusal among the answers; it equals no answer of an annotator."""

# vLLM returns this for a written token whose log-probability it does not have, such as the end
# token after constrained decoding; OpenAI for alternatives of a probability near 0.
_UNKNOWN = -9999.0
# Endpoints round: a log-probability of 0 can be 1e-7, and the probabilities of a list sum to 1.001.
_LOG_ERROR, _SUM_ERROR = 1e-3, 1e-2
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # the escape of half a character
_HALF = re.compile("[\ud800-\udfff]")
_DEEP = 500  # brackets; Python gives up at about 1000, one in the other
_BYTE = re.compile("<0x([0-9A-F]{2})>")  # a token that is a byte, as sentencepiece spells it
# What servers write into finish_reason, in any capitals.
_CUT = re.compile(r"length|max_.*tokens|context_window", re.IGNORECASE)
_FILTERED = re.compile(r"filter|refusal|safety|prohibited|recitation|blocklist|spii", re.IGNORECASE)
_BROKEN = re.compile(r"error|abort|cancel|insufficient|malformed", re.IGNORECASE)
# Fields in which servers put thoughts apart from the answer.
_THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")


@dataclass(frozen=True)
class WrittenToken:
    """A token of a written answer.

    Args:
        text: Its bytes; a character can extend over several tokens. Empty for an end token.
        log_prob: Its log-probability after the tokens before it, at most 0; 0 for an end token
            whose log-probability the endpoint does not know, so that the probability of the text
            is that of its other tokens.
        others: Other tokens at this position with their log-probabilities.
    """

    text: bytes
    log_prob: float
    others: tuple[tuple[bytes, float], ...]


@dataclass(frozen=True)
class Choice:
    """What a model wrote, or that it wrote no answer.

    Args:
        text: The answer without thoughts and white space around it; `REFUSAL` if the model refused;
            "" if there is none, or if it is what a failed request left, see `failure`.
        tokens: Its tokens, which spell the answer; None without usable log-probabilities.
        flaw: Why the log-probabilities that are there cannot be used.
        is_refusal: Whether the model refused to answer.
        is_cut: Whether the limit of tokens, or the end of its thoughts, cut it.
    """

    text: str
    tokens: tuple[WrittenToken, ...] | None = None
    flaw: str = ""
    is_refusal: bool = False
    is_cut: bool = False

    @property
    def is_answer(self) -> bool:
        """Whether the model answered."""
        return not self.is_refusal and self.text != ""

    @property
    def is_lost(self) -> bool:
        """Whether there is neither an answer nor a refusal."""
        return self.text == ""


def parse_response(content: bytes) -> Any:
    """Parses a JSON body; half characters (lone surrogates), which no file can hold, are replaced.

    Raises:
        ValueError: The text is no JSON or is nested too deeply.
    """
    try:
        value = json.loads(content)
        if _SURROGATE.search(content):
            value = json.loads(_HALF.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
        if content.count(b"[") + content.count(b"{") > _DEEP:
            json.dumps([[[[value]]]])  # the cache writes it, within its own record
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def read_choices(response: Any, thoughts: Tags = THOUGHTS) -> tuple[Choice, ...]:
    """Reads the answers of a response to /chat/completions, of which there is at least one.

    A refusal is a message with the field `refusal` or a part of this type, or an answer that a
    content filter cut. The words of an answer do not matter: a sign may say "Sorry, I'm closed".
    Of several answers with one index, which repeat each other, the first is taken.

    Raises:
        ValueError: The body is not such a response; the message says why.

    Example:
        >>> message = {"role": "assistant", "content": "<think>A car.</think> red"}
        >>> read_choices({"choices": [{"message": message, "finish_reason": "stop"}]})[0].text
        'red'
    """
    if isinstance(response, dict) and response.get("error"):
        raise ValueError(f"it reports an error: {_short(response['error'])}")
    choices = response.get("choices") if isinstance(response, dict) else None
    if not isinstance(choices, list) or not choices:
        raise ValueError("it has no list of choices")
    try:
        given = _CHOICES.validate_python(choices, strict=True)
    except ValidationError as error:
        raise ValueError(f"a choice is malformed ({_first_fault(error)})") from None
    distinct: dict[Any, _GivenChoice] = {}
    for at, choice in enumerate(given):
        distinct.setdefault((choice.index,) if type(choice.index) is int else at, choice)
    return tuple(_choice(choice, thoughts) for choice in distinct.values())


def token_counts(response: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the numbers of prompt and completion tokens; 0 where the endpoint counts none."""
    usage = response.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return _count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens"))


class _Given(BaseModel):
    """A part of a response; other fields than those that are read are ignored."""

    model_config = ConfigDict(extra="allow")


class _GivenPart(_Given):
    type: str | None = None
    text: str | None = None


class _GivenMessage(_Given):
    content: str | list[_GivenPart] | None = None
    refusal: Any = None


class _GivenChoice(_Given):
    index: Any = None
    message: _GivenMessage
    finish_reason: str | None = None
    logprobs: Any = None
    error: Any = None


class _GivenToken(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)

    token: str
    logprob: Annotated[float, Le(_LOG_ERROR)]
    bytes: list[Annotated[int, Ge(0), Le(255)]] | None = None


class _GivenPosition(_GivenToken):
    top_logprobs: list[_GivenToken] | None = None


_CHOICES = TypeAdapter(list[_GivenChoice])
_POSITIONS = TypeAdapter(list[_GivenPosition])


def _short(value: Any) -> str:
    return " ".join(str(value).split())[:200]


def _first_fault(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))


def _count(value: Any) -> int:
    """A number of tokens, which some servers write as text; 0 for anything else."""
    try:
        number = 0 if isinstance(value, bool) else int(value)
    except (OverflowError, TypeError, ValueError):
        return 0
    return number if 0 <= number <= LARGEST else 0


def _choice(choice: _GivenChoice, thoughts: Tags) -> Choice:
    message, reason = choice.message, choice.finish_reason or ""
    if choice.error or _BROKEN.search(reason):
        raise ValueError(f"a choice reports an error: {_short(choice.error or reason)}")
    parts = message.content if isinstance(message.content, list) else []
    refuses = message.refusal or any(part.type == "refusal" for part in parts)
    if refuses or _FILTERED.search(reason):
        return Choice(REFUSAL, is_refusal=True)
    texts = [part.text or "" for part in parts if part.type in (None, "text", "output_text")]
    written = message.content if isinstance(message.content, str) else "".join(texts)
    answer = without_thoughts(written, thoughts)
    within_thoughts = answer is None or (
        not answer and any((message.model_extra or {}).get(name) for name in _THOUGHT_FIELDS)
    )
    is_cut = within_thoughts or _CUT.search(reason) is not None
    if answer is None or failure(answer) is not None:
        return Choice("", is_cut=is_cut)
    try:
        return Choice(answer, _tokens(choice.logprobs, answer), is_cut=is_cut)
    except ValueError as error:
        return Choice(answer, flaw=_short(error), is_cut=is_cut)


def _tokens(given: Any, answer: str) -> tuple[WrittenToken, ...] | None:
    """The tokens of an answer; raises ValueError if they belong to no answer, or not to this."""
    content = given.get("content") if isinstance(given, dict) else None
    if not content:
        return None
    try:
        positions = _POSITIONS.validate_python(content, strict=True)
    except ValidationError as error:
        raise ValueError(f"a token is malformed ({_first_fault(error)})") from None
    tokens = tuple(map(_token, positions))
    if any(END.fullmatch(position.token.strip()) for position in positions[:-1]):
        raise ValueError("their tokens go on after the end")
    spelled = b"".join(token.text for token in tokens).decode(errors="replace").strip()
    if spelled != answer:
        raise ValueError(f"their tokens spell '{spelled[:40]}' and not '{answer[:40]}'")
    return tokens


def _token(given: _GivenPosition) -> WrittenToken:
    name, text, others = given.token, _bytes(given), list(given.top_logprobs or ())
    if given.logprob <= _UNKNOWN:
        if text:
            raise ValueError(f"token '{name}' has no probability")
        return WrittenToken(text, 0.0, ())
    # The written token is usually among the alternatives. Servers can spell several special tokens
    # "", so only one of them is left out.
    same = [one for one in others if one.token == name]
    close = [one for one in same if abs(one.logprob - given.logprob) <= _LOG_ERROR]
    if close:
        others.remove(close[0])
    elif same and name:
        raise ValueError(f"token '{name}' has two probabilities")
    pairs = [(_bytes(one), min(one.logprob, 0.0)) for one in others if one.logprob > _UNKNOWN]
    # Special tokens that are spelled "" can be equally rare.
    copies = Counter((one.token, one.logprob) for one in others if one.token)
    if max(copies.values(), default=1) > 1:
        raise ValueError(f"an alternative to token '{name}' is there twice")
    log_prob = min(given.logprob, 0.0)
    total = math.exp(log_prob) + sum(math.exp(value) for _, value in pairs)
    if total > 1 + _SUM_ERROR:
        raise ValueError(f"the probabilities at token '{name}' add up to {total:.2f}")
    return WrittenToken(text, log_prob, tuple(pairs))


def _bytes(entry: _GivenToken) -> bytes:
    """The bytes of a token, by its field `bytes` where a character needs several tokens."""
    if byte := _BYTE.fullmatch(entry.token):
        return bytes.fromhex(byte[1])
    text = entry.token.encode()
    given = bytes(entry.bytes or text)
    # Some servers show a token as its vocabulary spells it.
    if _is_text(given) and given not in (text, re.sub("[Ġ▁]", " ", entry.token).encode()):
        raise ValueError(f"the bytes of token '{entry.token}' spell '{given.decode()[:40]}'")
    return b"" if END.fullmatch(entry.token.strip()) else given


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
