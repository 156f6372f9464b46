"""phi from log-probabilities and from samples, against values computed by hand."""

import math
from typing import Any

import pytest

from ivqa.vqa.served.answer_estimates import (
    frequency_log_probs,
    reached_answers,
    unreached_log_prob,
)
from ivqa.vqa.served.openai_replies import REFUSAL, Choice, read_choices


def _entry(token: str, p: float, others: dict[str, float], **fields: object) -> dict[str, object]:
    shown = [{"token": text, "logprob": math.log(value)} for text, value in others.items()]
    return {"token": token, "logprob": math.log(p), "top_logprobs": shown, **fields}


def _choice(*entries: dict[str, object], text: str) -> Choice:
    body = {"message": {"content": text}, "logprobs": {"content": list(entries)}}
    return read_choices({"choices": [body]})[0]


# "A" .5, then " big" .6, then " cat" .9, then the end .8; alternatives at each place.
WRITTEN = _choice(
    _entry("A", 0.5, {"A": 0.5, "Cat": 0.2, "cat": 0.1, "</s>": 0.05}),
    _entry(" big", 0.6, {" big": 0.6, " cat": 0.3, " Big": 0.05}),
    _entry(" cat", 0.9, {" cat": 0.9, "<|im_end|>": 0.05}),
    _entry("</s>", 0.8, {"</s>": 0.8, ".": 0.1, "<|im_end|>": 0.05}),
    text="A big cat",
)


def test_equal_texts_on_all_branches_are_added() -> None:
    assert WRITTEN.tokens is not None
    reached = reached_answers(WRITTEN.tokens)
    assert reached.pop("") == pytest.approx(0.05)
    assert reached == {
        # "Cat", "cat" at once, and "A cat": articles are left out.
        "cat": pytest.approx(0.2 + 0.1 + 0.5 * 0.3),
        # "A big" ends, or "A Big" is left after one more token.
        "big": pytest.approx(0.5 * 0.6 * 0.05 + 0.5 * 0.05),
        # The whole text with either end token, and "A big cat."
        "big cat": pytest.approx(0.5 * 0.6 * 0.9 * (0.8 + 0.1 + 0.05)),
    }


def test_an_unreached_answer_has_the_smallest_probability_of_a_first_token() -> None:
    assert WRITTEN.tokens is not None
    assert unreached_log_prob(WRITTEN.tokens) == pytest.approx(math.log(0.05))
    assert unreached_log_prob(()) == -math.inf


def test_a_character_of_several_tokens_is_put_together() -> None:
    umlaut = "ü".encode()
    choice = _choice(
        _entry("gr", 0.5, {}),
        _entry("\\xc3", 0.5, {}, bytes=[umlaut[0]]),
        _entry("\\xbc", 1.0, {}, bytes=[umlaut[1]]),
        _entry("n", 1.0, {}),
        text="grün",
    )
    assert choice.tokens is not None
    assert reached_answers(choice.tokens) == {"grün": pytest.approx(0.25)}


def test_an_end_token_of_unknown_probability_is_left_out() -> None:
    end = {"token": "", "bytes": [], "logprob": -9999.0, "top_logprobs": []}
    choice = _choice(_entry("red", 0.5, {"red": 0.5, "blue": 0.25}), end, text="red")
    assert choice.tokens is not None
    assert reached_answers(choice.tokens) == {
        "red": pytest.approx(0.5),
        "blue": pytest.approx(0.25),
    }


def test_end_tokens_that_are_spelled_alike_are_added() -> None:
    ends = [{"token": "", "logprob": math.log(p)} for p in (0.5, 0.25)]
    for own in ends:
        choice = _choice(_entry("red", 0.5, {}), {**own, "top_logprobs": ends}, text="red")
        assert choice.tokens is not None
        assert reached_answers(choice.tokens) == {"red": pytest.approx(0.5 * 0.75)}


def test_tokens_without_alternatives_are_read() -> None:
    choice = _choice({"token": "red", "logprob": math.log(0.5)}, text="red")
    assert choice.tokens is not None
    assert reached_answers(choice.tokens) == {"red": pytest.approx(0.5)}
    assert unreached_log_prob(choice.tokens) == pytest.approx(math.log(0.5))


@pytest.mark.parametrize("value", [0.3, 5.0, math.nan, math.inf, -math.inf])
def test_an_impossible_log_probability_is_a_flaw_without_alternatives_too(value: float) -> None:
    tokens = {"content": [{"token": "red", "logprob": value}]}
    (choice,) = read_choices({"choices": [{"message": {"content": "red"}, "logprobs": tokens}]})
    assert (choice.text, choice.tokens) == ("red", None)
    assert "logprob" in choice.flaw


def test_samples_are_counted_with_smoothing() -> None:
    counts = {"red": 6, "blue": 2}
    values = [math.exp(value) for value in frequency_log_probs(counts, ["red", "blue", "green"])]
    assert values == pytest.approx([6.5 / 9.5, 2.5 / 9.5, 0.5 / 9.5])
    assert sum(values) == pytest.approx(1)  # of more answers than samples, too
    many = [f"answer {number}" for number in range(50)]
    assert sum(map(math.exp, frequency_log_probs({"red": 8}, ["red", *many]))) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "fields", "refused"),
    [
        ("Sorry, I'm closed", {}, False),  # the text of a sign
        ("I'm sorry, but I can't assist with that.", {}, False),
        ([{"type": "refusal", "refusal": "No."}], {}, True),
        ("red", {"refusal": "No."}, True),
        (None, {"refusal": "No."}, True),
        (None, {}, False),
        ("red", {"refusal": None}, False),
        ("[refused to answer]", {}, False),
    ],
)
def test_a_refusal_is_known_by_its_field(text: Any, fields: dict[str, Any], refused: bool) -> None:
    (choice,) = read_choices({"choices": [{"message": {"content": text, **fields}}]})
    assert choice.is_refusal is refused
    assert choice.text == (REFUSAL if refused else text or "")


def test_what_a_content_filter_cut_is_a_refusal() -> None:
    body = {"message": {"content": "re"}, "finish_reason": "content_filter"}
    assert read_choices({"choices": [body]})[0].is_refusal


def test_a_text_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": " dark"}, {"type": "text", "text": " red "}]
    assert read_choices({"choices": [{"message": {"content": parts}}]})[0].text == "dark red"


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ([], "no list of choices"),
        ({"choices": []}, "no list of choices"),
        ({"error": {"message": "over\nloaded"}, "choices": [1]}, "reports an error: .*over"),
        ({"choices": ["red"]}, "malformed"),
        ({"choices": [{"text": "red"}]}, "malformed .*message"),
        ({"choices": [{"message": {"content": 5}}]}, "malformed .*content"),
        ({"choices": [{"message": {"content": [5]}}]}, "malformed .*content"),
        ({"choices": [{"message": {"content": [{"text": 5}]}}]}, "malformed .*content"),
        ({"choices": [{"message": {"content": ""}, "finish_reason": 5}]}, "malformed .*reason"),
        ({"choices": [{"message": {"content": "x"}, "finish_reason": "error"}]}, "an error: error"),
        ({"choices": [{"message": {"content": "x"}, "error": {"code": 502}}]}, "an error: .*502"),
    ],
)
def test_malformed_responses_are_refused(response: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_choices(response)
