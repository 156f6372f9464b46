"""Requests to a local server with faults: what is sent, repeated, kept and counted."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, said, serving

from ivqa.errors import LimitReached, UserError
from ivqa.vqa.served import openai_client, openai_requests
from ivqa.vqa.served.image_urls import EncodedImage
from ivqa.vqa.served.openai_endpoint import Endpoint
from ivqa.vqa.served.openai_requests import ChatRequest, ResponseCache
from ivqa.vqa.served.sender import Sender

# A PNG of one pixel.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082"
)
IMAGE = EncodedImage(PIXEL, "image/png")


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving(ChatServer(lambda prompt, image, body: said(f"answer to {prompt}"))) as running:
        yield running


def _requests(*texts: str, **settings: Any) -> list[ChatRequest]:
    return [ChatRequest("tiny", IMAGE, text, settings) for text in texts]


def _endpoint(server: ChatServer, folder: Path, **arguments: Any) -> Endpoint:
    return Endpoint(server.url, cache=str(folder), **arguments)


def _texts(endpoint: Endpoint, *texts: str, **settings: Any) -> list[str]:
    return [found[0].text for found in endpoint.ask(_requests(*texts, **settings))]


def test_what_is_sent(server: ChatServer, tmp_path: Path) -> None:
    _texts(_endpoint(server, tmp_path), "what?", temperature=0, max_tokens=5)
    content = [
        {"type": "image_url", "image_url": {"url": IMAGE.url}},
        {"type": "text", "text": "what?"},
    ]
    assert server.asked == [
        {
            "model": "tiny",
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_tokens": 5,
        }
    ]


def test_answers_have_the_order_of_the_questions(server: ChatServer, tmp_path: Path) -> None:
    def late(prompt: str, image: object, body: object) -> dict[str, Any]:
        time.sleep(0.2 if prompt == "0" else 0.05)
        return said(prompt)

    server.reply = late
    wanted = [str(number % 30) for number in range(40)]
    assert _texts(_endpoint(server, tmp_path, workers=8), *wanted) == wanted
    assert len(server.asked) == 30
    assert 4 <= server.most <= 8


def test_every_part_of_a_request_is_part_of_its_name() -> None:
    base = ChatRequest("tiny", IMAGE, "q", {"temperature": 0})
    others = [
        ChatRequest("other", IMAGE, "q", {"temperature": 0}),
        ChatRequest("tiny", EncodedImage(b"x", "image/png"), "q", {"temperature": 0}),
        ChatRequest("tiny", IMAGE, "q?", {"temperature": 0}),
        ChatRequest("tiny", IMAGE, "q", {"temperature": 1}),
        ChatRequest("tiny", IMAGE, "q", {"temperature": 0, "seed": 1}),
    ]
    assert len({request.cache_key() for request in [base, *others]}) == 6
    assert ChatRequest("tiny", IMAGE, "q", {"temperature": 0}).cache_key() == base.cache_key()


def test_no_request_is_sent_twice(server: ChatServer, tmp_path: Path) -> None:
    first = _endpoint(server, tmp_path)
    assert _texts(first, "a", "b", "a") == ["answer to a", "answer to b", "answer to a"]
    assert _texts(first, "b") == ["answer to b"]
    assert (first.usage.requests, first.usage.reused) == (2, 0)
    # Another process, after the server has moved.
    with serving(ChatServer(server.reply)) as moved:
        second = _endpoint(moved, tmp_path)
        assert _texts(second, "b", "c", "b") == ["answer to b", "answer to c", "answer to b"]
        assert _texts(second, "b", "c") == ["answer to b", "answer to c"]
        assert len(moved.asked) == 1
    assert (second.usage.requests, second.usage.reused) == (1, 1)
    assert (second.usage.prompt_tokens, second.usage.completion_tokens) == (100, 2)


def test_a_damaged_response_on_disk_is_asked_for_again(server: ChatServer, tmp_path: Path) -> None:
    _texts(_endpoint(server, tmp_path), "a", "b", "c")
    files = sorted(tmp_path.rglob("*.json"))
    files[0].write_bytes(files[0].read_bytes()[:50])
    files[1].write_text('{"response": {"choices": 5}}')
    texts = _texts(_endpoint(server, tmp_path), "a", "b", "c")
    assert texts == ["answer to a", "answer to b", "answer to c"]
    assert len(server.asked) == 5


def test_a_stored_response_can_be_read_by_people(server: ChatServer, tmp_path: Path) -> None:
    (request,) = _requests("Grün?")
    _endpoint(server, tmp_path).ask([request])
    text = (tmp_path / request.cache_key()[:2] / f"{request.cache_key()}.json").read_text()
    assert json.loads(text)["request"] == request.identity()
    assert "Grün?" in text
    assert "base64" not in text
    assert ResponseCache(tmp_path).get(request.cache_key()) == said("answer to Grün?")
    assert ResponseCache(tmp_path).get("00" * 8) is None


FAULTS: dict[str, Any] = {
    "rate limit": (429, {}, '{"error": {"message": "slow down"}}'),
    "server error": (500, {}, "oops"),
    "unavailable": (503, {}, ""),
    "cut connection": "cut",
    "wrong JSON": "text",
    "no choices": (200, {}, '{"detail": "overloaded"}'),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_overcome(fault: str, server: ChatServer, tmp_path: Path) -> None:
    server.faults.append(FAULTS[fault])
    endpoint = _endpoint(server, tmp_path)
    assert _texts(endpoint, "a") == ["answer to a"]
    assert len(server.asked) == 2
    assert (endpoint.usage.requests, endpoint.usage.retries) == (1, 1)
    assert server.times[1] - server.times[0] > 0.3  # back-off: 0.5 s less up to a quarter


def test_retry_after_is_honoured(server: ChatServer, tmp_path: Path) -> None:
    server.faults.append((429, {"Retry-After": "1.2"}, "{}"))
    assert _texts(_endpoint(server, tmp_path), "a") == ["answer to a"]
    assert 1.15 < server.times[1] - server.times[0] < 10


def test_a_response_that_takes_too_long_is_asked_for_again(
    server: ChatServer, tmp_path: Path
) -> None:
    server.latency = 1.0
    endpoint = _endpoint(server, tmp_path, timeout=0.2, retries=0)
    with pytest.raises(UserError, match=r"did not respond within 0\.2 s .*raise the endpoint's"):
        endpoint.ask(_requests("a"))


def test_a_response_that_trickles_in_times_out(server: ChatServer, tmp_path: Path) -> None:
    server.pause = 0.05  # between two bytes, of which a response has about 200
    endpoint = _endpoint(server, tmp_path, timeout=0.5, retries=1)
    started = time.monotonic()
    with pytest.raises(UserError, match=r"did not respond within 0\.5 s"):
        endpoint.ask(_requests("a"))
    assert time.monotonic() - started < 6
    assert len(server.asked) == 2
    server.pause = 0.0
    assert _texts(endpoint, "a") == ["answer to a"]


def test_headers_that_trickle_in_time_out(tmp_path: Path) -> None:
    sent: list[int] = []

    def trickle(listener: socket.socket) -> None:
        with suppress(OSError):  # closed at the end of the test, or by the client
            while True:
                with listener.accept()[0] as connection, suppress(OSError):
                    sent.append(0)
                    for byte in b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 200:
                        connection.send(bytes([byte]))
                        sent[-1] += 1
                        time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=trickle, args=[listener], daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        endpoint = Endpoint(url, cache=str(tmp_path), timeout=0.3, retries=1)
        with pytest.raises(UserError, match=r"did not respond within 0\.3 s"):
            endpoint.ask(_requests("a"))
    assert len(sent) == 2
    assert max(sent) < 40  # of 1,200 bytes, which take a minute


@pytest.mark.parametrize(
    ("prompt_tokens", "expected"),
    [("12", 12), (12, 12), (12.0, 12), (-1, 0), (None, 0), (True, 0), ([1], 0), (10**400, 0),
     ("many", 0), (math.nan, 0)],
)  # fmt: skip
def test_token_counts_of_any_type_are_survived(
    prompt_tokens: object, expected: int, server: ChatServer, tmp_path: Path
) -> None:
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 2}
    server.reply = lambda prompt, image, body: said("red", usage=usage)
    endpoint = _endpoint(server, tmp_path)
    assert _texts(endpoint, "a") == ["red"]
    assert (endpoint.usage.prompt_tokens, endpoint.usage.completion_tokens) == (expected, 2)


def test_half_a_character_is_replaced_and_the_response_kept(
    server: ChatServer, tmp_path: Path
) -> None:
    server.reply = lambda prompt, image, body: said("red \ud83d", id="\udc00")
    assert _texts(_endpoint(server, tmp_path), "a") == ["red \ufffd"]
    assert _texts(_endpoint(server, tmp_path), "a") == ["red \ufffd"]
    assert len(server.asked) == 1


@pytest.mark.parametrize("depth", [900, *range(970, 1000, 2), 100_000])
def test_a_deeply_nested_response_is_malformed(
    depth: int, server: ChatServer, tmp_path: Path
) -> None:
    nested = '{"choices": [{"message": {"content": "red"}}], "x": ' + "[" * depth + "]" * depth
    server.faults.append((200, {}, nested + "}"))
    # What is read near Python's limit must also be written.
    malformed = pytest.raises(UserError, match="nested too deeply")
    with nullcontext() if depth == 900 else malformed if depth > 1000 else suppress(UserError):
        assert _texts(_endpoint(server, tmp_path, retries=0), "a") == ["red"]
    assert _texts(_endpoint(server, tmp_path), "a")[0] in ("red", "answer to a")


def test_an_interrupt_loses_no_response(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.latency = 0.2
    endpoint = _endpoint(server, tmp_path, workers=4)

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(endpoint, "_check_answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        endpoint.ask(_requests(*map(str, range(20))))
    kept = len(list(tmp_path.rglob("*.json")))
    assert kept == len(server.asked) < 20


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("rate limit", r"still fails after 1 further attempts \(status 429: .*slow down"),
        ("server error", r"status 500: .*lower workers, raise retries or try later"),
        ("cut connection", "the connection to http.* failed"),
        ("wrong JSON", r"malformed responses, 2 in a row \(.*char"),
    ],
)
def test_a_lasting_fault_is_one_sentence_and_keeps_what_was_paid_for(
    fault: str, message: str, server: ChatServer, tmp_path: Path
) -> None:
    endpoint = _endpoint(server, tmp_path, retries=1, workers=1)
    _texts(endpoint, "a", "b")
    server.faults.extend([FAULTS[fault]] * 50)
    with pytest.raises(UserError, match=message) as error:
        endpoint.ask(_requests("b", "c"))
    assert str(tmp_path) in str(error.value)
    assert "2 requests with 200 prompt and 4 completion tokens" in str(error.value)
    assert "\n" not in str(error.value)
    server.faults.clear()
    assert _texts(endpoint, "a", "b", "c") == ["answer to a", "answer to b", "answer to c"]
    assert endpoint.usage.requests == 3


def test_a_refused_request_is_not_repeated(server: ChatServer, tmp_path: Path) -> None:
    server.faults.append((400, {}, '{"error": {"message": "image is\\n too small"}}'))
    with pytest.raises(UserError, match=r"refuses a request \(tiny question\): .*image is too"):
        _endpoint(server, tmp_path).ask(_requests("tiny question"))
    assert len(server.asked) == 1


def test_nothing_more_is_sent_after_a_failure(server: ChatServer, tmp_path: Path) -> None:
    server.latency = 0.1
    server.faults.append((400, {}, "{}"))
    with pytest.raises(UserError, match="refuses a request"):
        _endpoint(server, tmp_path, workers=2).ask(_requests(*map(str, range(30))))
    assert len(server.asked) < 10


def test_max_requests_stops_after_the_last_paid_response(
    server: ChatServer, tmp_path: Path
) -> None:
    endpoint = _endpoint(server, tmp_path, max_requests=5, workers=4)
    _texts(endpoint, "a", "b")
    message = r"stopped at max_requests=5 \(5 requests with 500 prompt .* raise max_requests"
    with pytest.raises(UserError, match=message):
        endpoint.ask(_requests("b", "c", "d", "e", "f", "g"))
    assert len(server.asked) == len(list(tmp_path.rglob("*.json"))) == 5
    assert _texts(endpoint, "c", "a") == ["answer to c", "answer to a"]  # these are free
    again = _endpoint(server, tmp_path, max_requests=2)
    assert len(again.ask(_requests("a", "b", "c", "d", "e", "f", "g"))) == 7
    assert len(server.asked) == 7
    assert _texts(_endpoint(server, tmp_path, max_requests=0), "a") == ["answer to a"]


@pytest.mark.parametrize("workers", [1, 4])
def test_max_cost_is_never_passed(server: ChatServer, tmp_path: Path, workers: int) -> None:
    """A request reads 100 tokens and writes 2, which cost 1 + 0.1."""
    prices = {"price_in": 10_000.0, "price_out": 50_000.0}
    endpoint = _endpoint(server, tmp_path, workers=workers, max_cost=5.6, **prices)
    with pytest.raises(LimitReached, match=r"stopped at max_cost=5\.6 \(.*: raise max_cost and"):
        endpoint.ask(_requests(*map(str, range(20))))
    sent = len(server.asked)
    assert sent == 5 if workers == 1 else 3 <= sent <= 5
    assert endpoint.figures()["cost"] == pytest.approx(1.1 * sent)
    again = _endpoint(server, tmp_path, **prices)
    assert len(again.ask(_requests(*map(str, range(20))))) == 20
    assert len(server.asked) == 20


def test_a_limit_of_money_needs_prices_and_tokens(server: ChatServer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="max_cost= needs price_in= and price_out="):
        Endpoint.check_arguments({"max_cost": 1.0, "price_in": 0.5, "price_out": None})
    server.reply = lambda prompt, image, body: {**said("yes"), "usage": None}
    costly = {"price_in": 1.0, "price_out": 1.0, "max_cost": 5.0, "workers": 1}
    with pytest.raises(UserError, match=r"does not report tokens, so that max_cost=5\.0 cannot"):
        _endpoint(server, tmp_path, **costly).ask(_requests("a", "b"))
    assert "cost" not in _endpoint(server, tmp_path).figures()


SCRIPT = """
import sys
import threading
from pathlib import Path
from ivqa.vqa.served.openai_endpoint import Endpoint
from ivqa.vqa.served.openai_requests import ChatRequest
from ivqa.vqa.served.image_urls import EncodedImage
image = EncodedImage(bytes.fromhex(sys.argv[3]), "image/png")
requests = [ChatRequest("tiny", image, str(number), {}) for number in range(60)]
endpoint = Endpoint(sys.argv[1], cache=sys.argv[2], workers=3)
endpoint.ask(requests)
"""


def test_a_killed_run_goes_on_without_a_repeated_request(
    server: ChatServer, tmp_path: Path
) -> None:
    released = threading.Event()
    released.set()
    server.reply = lambda prompt, *_: (released.wait(60) and said(f"answer to {prompt}")) or {}
    server.latency = 0.1
    command = [sys.executable, "-c", SCRIPT, server.url, str(tmp_path), PIXEL.hex()]
    run = subprocess.Popen(command, env=os.environ, start_new_session=True)
    deadline = time.monotonic() + 60
    while len(server.asked) < 15 and time.monotonic() < deadline:
        time.sleep(0.01)
    released.clear()
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    while not list(tmp_path.glob("leaving/*")) and time.monotonic() < deadline:
        time.sleep(0.01)  # a command takes seconds to start again
    threading.Timer(0.5, released.set).start()
    endpoint = _endpoint(server, tmp_path)
    numbers = [str(number) for number in range(60)]
    assert _texts(endpoint, *numbers) == [f"answer to {n}" for n in numbers]
    asked = [body["messages"][0]["content"][1]["text"] for body in server.asked]
    assert sorted(asked) == sorted(numbers)
    assert endpoint.usage.reused + endpoint.usage.requests == 60
    assert 15 <= endpoint.usage.reused < 60
    assert not list(tmp_path.glob("leaving/*"))


def test_a_sender_that_ends_is_named(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Sender("httpx2" if "httpx2" in sys.modules else "httpx")
    monkeypatch.setattr(openai_client, "sender", lambda: own)
    monkeypatch.setattr(openai_requests, "sender", lambda: own)
    assert _texts(_endpoint(server, tmp_path), "sent") == ["answer to sent"]
    assert (
        "torch" not in Path(f"/proc/{own._process.pid}/maps").read_text()
    )  # a second of its start
    server.reply = lambda *_: own._process.kill() or said("late")  # type: ignore[func-returns-value]
    with pytest.raises(UserError, match="the process that sends requests has ended"):
        _endpoint(server, tmp_path, retries=0).ask(_requests("a"))
    with pytest.raises(UserError, match="the process that sends requests has ended"):
        _endpoint(server, tmp_path, retries=0).ask(_requests("b"))


def test_a_response_that_cannot_be_kept_is_not_paid_for_again(server: ChatServer) -> None:
    with pytest.raises(FileNotFoundError, match="/proc/ivqa"):
        Endpoint(server.url, cache="/proc/ivqa").ask(_requests("a"))
    assert len(server.asked) == 1


def test_an_attempt_after_a_useless_response_has_another_name(
    server: ChatServer, tmp_path: Path
) -> None:
    server.faults.extend([(429, {"Retry-After": "0"}, "{}"), "text"])
    _texts(_endpoint(server, tmp_path / "busy"), "a")
    refused, malformed, right = server.names
    assert refused == malformed != right
    server.reply = lambda *_: said("")
    for _ in range(2):  # what has no answer is asked for again by the next process
        _endpoint(server, tmp_path / "empty").ask(_requests("a"))
    lost, again = server.names[3:]
    assert lost == refused != again


def test_the_check_finds_what_is_wrong_before_the_work(
    server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _endpoint(server, tmp_path).check("tiny")
    with pytest.raises(UserError, match=r"lists no model 'huge', but tiny; set model.path to one"):
        _endpoint(server, tmp_path).check("huge")
    _endpoint(server, tmp_path, check_model=False).check("huge")
    with pytest.raises(UserError, match=r"does not know this address .* usually ends in /v1"):
        Endpoint(server.url.removesuffix("/v1"), cache=str(tmp_path)).check("tiny")
    server.key = "secret"
    with pytest.raises(UserError, match=r"refuses requests without key .* set api_key_env"):
        _endpoint(server, tmp_path).check("tiny")
    monkeypatch.setenv("TINY_KEY", "wrong")
    with pytest.raises(UserError, match=r"refuses the key in TINY_KEY") as error:
        _endpoint(server, tmp_path, api_key_env="TINY_KEY").check("tiny")
    assert "wrong" not in str(error.value)
    monkeypatch.setenv("TINY_KEY", "secret")
    _endpoint(server, tmp_path, api_key_env="TINY_KEY").check("tiny")
    assert not server.asked  # nothing was paid for


def test_an_endpoint_that_is_down_is_named_at_once(tmp_path: Path) -> None:
    with serving(ChatServer(lambda *_: said("red"))) as stopped:
        pass
    started = time.monotonic()
    with pytest.raises(UserError, match=f"connection to {stopped.url} failed .*start the server"):
        _endpoint(stopped, tmp_path).check("tiny")
    assert time.monotonic() - started < 10


def test_a_missing_key_is_named_by_the_check_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NO_KEY", raising=False)
    with pytest.raises(UserError, match="environment variable NO_KEY is not set; put the"):
        Endpoint.check_arguments({"api_key_env": "NO_KEY"})
    Endpoint.check_arguments({"api_key_env": None})
    monkeypatch.setenv("NO_KEY", "x")
    Endpoint.check_arguments({"api_key_env": "NO_KEY"})


def test_without_the_package_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UserError, match=r"pip install 'ivqa\[served\]'"):
        Endpoint("http://localhost:1/v1", cache=str(tmp_path)).check("tiny")


def test_tokens_are_estimated_after_the_first_responses(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint = _endpoint(server, tmp_path, max_requests=1234)
    endpoint.ask(_requests(*map(str, range(19))))
    assert not capsys.readouterr().out
    endpoint.ask(_requests(*map(str, range(30))))
    assert capsys.readouterr().out.strip() == (
        "the first 20 requests took 100 prompt and 2.0 completion tokens each; "
        "1,234 requests would take about 123,400 and 2,468"
    )
