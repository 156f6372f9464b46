"""Replies that contradict themselves: they never change an answer or its phi without a count.

Each reply is made from a known distribution over texts, then damaged. A damage says what may come
out of it; what is right is computed from the distribution, apart from the code under test.
"""

import copy
import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_server import ChatServer, said, serving

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.text.thoughts import THOUGHTS
from ivqa.vqa.served.answer_estimates import Scoring, log_phi
from ivqa.vqa.served.openai_endpoint import Endpoint
from ivqa.vqa.served.openai_model import OpenAIModel
from ivqa.vqa.served.openai_replies import Choice, parse_response, read_choices, token_counts
from ivqa.vqa.served.openai_requests import Usage
from tiny_transformers import Pictures

WORDS = ("yes", "no", "red", "blue", "cat", "dog", "green")
ENDS = ("</s>", "<|im_end|>", "<end_of_turn>", "<|eot_id|>")
Random = random.Random
Json = Any


@dataclass
class Known:
    """A reply, and what is true of it.

    Attributes:
        answer: The written answer.
        phi: Probability of each answer that the reply shows.
        body: The reply.
    """

    answer: str
    phi: dict[str, float]
    body: dict[str, Json]

    @property
    def choice(self) -> dict[str, Json]:
        return self.body["choices"][0]

    @property
    def tokens(self) -> list[dict[str, Json]]:
        return self.choice["logprobs"]["content"]


def _entry(token: str, p: float) -> dict[str, Json]:
    return {"token": token, "logprob": math.log(p), "bytes": list(token.encode())}


def _known(rng: Random) -> Known:
    """One to three words of a random distribution, with an end token in most cases."""
    written = rng.sample(WORDS, rng.randint(1, 3))
    end, ends = rng.choice(ENDS), rng.random() < 0.7
    phi: dict[str, float] = {}
    positions, before, so_far = [], 1.0, list[str]()

    def add(words: list[str], p: float) -> None:
        answer = " ".join(words)
        phi[answer] = phi.get(answer, 0.0) + p

    for at, own in enumerate([*written, *([end] if ends else [])]):
        others = rng.sample([word for word in WORDS if word != own], rng.randint(1, 4))
        others += [end] * (at > 0 and own != end and rng.random() < 0.5)
        weights = [rng.uniform(2, 5), *(rng.uniform(0.1, 1) for _ in others), rng.uniform(0.1, 1)]
        shares = [weight / sum(weights) for weight in weights]  # the last is what is not shown
        spell = [" " * (at > 0 and word != end) + word for word in (own, *others)]
        shown = [_entry(word, p) for word, p in zip(spell, shares, strict=False)]
        rng.shuffle(shown)
        positions.append({**_entry(spell[0], shares[0]), "top_logprobs": shown})
        for word, p in zip(others, shares[1:], strict=False):
            add([*so_far, *([word] if word != end else [])], before * p)
        before *= shares[0]
        so_far += [own] if own != end else []
    add(so_far, before)
    text = " ".join(written)
    body = said(text, logprobs={"content": positions}, id="x", created=1, model="m")
    return Known(text, phi, body)


# --- What may come out -------------------------------------------------------------------------

SAME, FLAWED, LOST, CUT, REFUSED, ERROR = "same", "flawed", "lost", "cut", "refused", "error"
COUNTED = {FLAWED, LOST, CUT, REFUSED, ERROR}


def _outcome(known: Known, choice: Choice) -> str:
    """Names what came out; fails if an answer or a phi is neither right nor marked."""
    if choice.is_refusal:
        return REFUSED
    if choice.is_lost:
        return LOST
    assert choice.text.replace("\ufffd", "").strip() == known.answer
    if not choice.tokens:
        return FLAWED
    asked = [*known.phi, "none of them", "nor this"]
    values, unreached = log_phi(choice.tokens, asked)
    phi = dict(zip(asked, map(math.exp, values), strict=True))
    for answer, p in known.phi.items():
        assert phi[answer] == pytest.approx(p, rel=1e-3), answer
    assert unreached == 2
    assert all(0 < p <= 1 for p in phi.values())
    assert sum(phi.values()) <= 1 + 1e-5
    return CUT if choice.is_cut else SAME


# --- Damages -----------------------------------------------------------------------------------

Damage = Callable[[Random, Known], None]
DAMAGES: list[tuple[Damage, set[str]]] = []


def _damage(*outcomes: str) -> Callable[[Damage], Damage]:
    def add(damage: Damage) -> Damage:
        DAMAGES.append((damage, set(outcomes)))
        return damage

    return add


def _numbers(known: Known) -> list[dict[str, Json]]:
    """All entries with a log-probability."""
    return [one for token in known.tokens for one in (token, *token["top_logprobs"])]


def _words(known: Known) -> list[int]:
    return [at for at, token in enumerate(known.tokens) if token["token"] not in ENDS]


@_damage(SAME)
def harmless(rng: Random, known: Known) -> None:
    def without_bytes() -> None:
        for one in _numbers(known):
            one["bytes"] = rng.choice([None, []])

    def without_own() -> None:
        token = rng.choice(known.tokens)
        kept = [one for one in token["top_logprobs"] if one["token"] != token["token"]]
        token["top_logprobs"] = kept

    def in_parts() -> None:
        parts = [{"type": "text", "text": known.answer[:2]}, {"text": known.answer[2:]}]
        known.choice["message"]["content"] = [{"type": "thinking", "thinking": []}, *parts]

    def doubled() -> None:
        known.body["choices"].append(copy.deepcopy(known.choice))

    def another() -> None:
        other = copy.deepcopy(known.choice) | {"message": {"content": "other"}}
        known.body["choices"].append(other | {"index": rng.choice([0, 1])})

    def unknown_end() -> None:
        end = known.tokens[-1]
        if len(_words(known)) == len(known.tokens):
            return
        # What is left of this position counts as the end.
        lost = {one["token"]: math.exp(one["logprob"]) for one in end["top_logprobs"]}
        before = known.phi[known.answer] / lost.pop(end["token"])
        for token, p in lost.items():
            known.phi.pop(f"{known.answer}{token}", before * p)
        known.phi[known.answer] = before
        end["logprob"] = -9999.0

    rng.choice([
        without_bytes, without_own, in_parts, doubled, another, unknown_end,
        lambda: known.choice.update(index=rng.choice([None, 10**400, "0", 7])),
        lambda: known.choice.update(finish_reason=rng.choice([None, "STOP", "eos_token"])),
        lambda: known.choice["message"].update(content=f"\n {known.answer} \n"),
        lambda: known.choice["message"].update(content=f"{known.answer}<|im_end|>"),
        lambda: known.choice["message"].update(reasoning_content="no no", refusal=None, x=[1]),
        lambda: known.body.update(usage=rng.choice([None, 5, {"prompt_tokens": "x"}]), y="\ud800"),
        lambda: known.body.update(error=None, created=10**400, z=json.loads("[" * 80 + "]" * 80)),
        lambda: rng.choice(_numbers(known)).update(extra={"a": None}),
    ])()  # fmt: skip


@_damage(SAME)
def thoughts_before_the_answer(rng: Random, known: Known) -> None:
    first, last = rng.choice(THOUGHTS)
    first = rng.choice([first, first.upper(), ""])
    known.choice["message"]["content"] = f"{first} It is {rng.choice(WORDS)}. {last} {known.answer}"


@_damage(FLAWED)
def tokens_of_other_text(rng: Random, known: Known) -> None:
    other = _known(rng)
    while other.answer == known.answer:
        other = _known(rng)
    known.choice["logprobs"] = rng.choice([
        other.choice["logprobs"],  # of the thoughts alone
        {"content": other.tokens + known.tokens},  # of thoughts and answer
    ])  # fmt: skip


@_damage(FLAWED)
def tokens_of_part_of_the_text(rng: Random, known: Known) -> None:
    tokens, at = known.tokens, rng.choice(_words(known))
    rng.choice([
        lambda: tokens.pop(at),
        lambda: tokens.insert(at, copy.deepcopy(tokens[at])),
        lambda: tokens.append(copy.deepcopy(tokens[-1])),
        lambda: tokens.insert(0, {**_entry(ENDS[0], 0.5), "top_logprobs": []}),
        lambda: tokens[at].update(token=tokens[at]["token"] + "s", bytes=None),
    ])()  # fmt: skip


@_damage(FLAWED)
def numbers_that_are_none(rng: Random, known: Known) -> None:
    bad = [0.3, 5, math.nan, math.inf, -math.inf, None, "-0.5", True, 10**400, -(10**400), [], {}]
    token = rng.choice(known.tokens)
    one = rng.choice([token, *token["top_logprobs"]])
    one["logprob"] = rng.choice(bad)
    if one is token and rng.random() < 0.5:
        token["top_logprobs"] = []  # no sum over alternatives shows the fault


@_damage(FLAWED)
def lists_that_contradict_themselves(rng: Random, known: Known) -> None:
    token = rng.choice(known.tokens)
    others = [one for one in token["top_logprobs"] if one["token"] != token["token"]]
    other = rng.choice(others)
    own = next(one for one in token["top_logprobs"] if one["token"] == token["token"])
    rng.choice([
        lambda: token["top_logprobs"].append(dict(other)),
        lambda: other.update(logprob=-0.001),
        lambda: token.update(logprob=token["logprob"] - 0.1),
        lambda: own.update(logprob=own["logprob"] - rng.uniform(0.01, 3)),
        lambda: other.update(token=" purple"),  # its bytes spell another
        lambda: other.update(bytes=rng.choice([[300], [-1], ["a"], [1.5], "abc", list(b"oak")])),
        lambda: known.choice.update(logprobs={"content": known.tokens * 2}),
    ])()  # fmt: skip


@_damage(FLAWED)
def malformed_log_probabilities(rng: Random, known: Known) -> None:
    token = rng.choice(known.tokens)
    rng.choice([
        lambda: known.choice.update(logprobs=rng.choice([None, {}, [], "x", 5, True, [[1]]])),
        lambda: known.choice.update(logprobs={"content": rng.choice([None, [], "x", {}, [5]])}),
        lambda: known.choice.update(logprobs={"tokens": ["yes"], "token_logprobs": [-0.1]}),
        lambda: token.update(top_logprobs=rng.choice(["x", 5, [5], {"yes": -0.1}, [{}]])),
        lambda: token.update(token=rng.choice([None, 5, [], "\ud800"])),
        lambda: token.pop(rng.choice(["token", "logprob"])),
    ])()  # fmt: skip


@_damage(FLAWED)
def half_a_character(rng: Random, known: Known) -> None:
    half = rng.choice(["\ud83d", "\udc00", "\udc00\ud83d"])
    known.choice["message"]["content"] = f"{known.answer} {half}"


@_damage(CUT)
def cut(rng: Random, known: Known) -> None:
    known.choice["finish_reason"] = rng.choice(["length", "MAX_TOKENS", "model_length"])


@_damage(LOST)
def no_answer(rng: Random, known: Known) -> None:
    message = known.choice["message"]
    message["content"] = rng.choice([
        None, "", " \n", [], [{"type": "text", "text": " "}], "<think>It is", "[THINK]", "</s>",
        "<think></think>", "<|channel|>analysis<|message|>yes", "Error code: 429 - {}",
        "Failed to obtain answer via API.", [{"type": "reasoning", "text": "yes"}],
    ])  # fmt: skip
    known.choice["finish_reason"] = rng.choice(["stop", "length", None])
    if rng.random() < 0.5:
        message[rng.choice(["reasoning", "reasoning_content"])] = known.answer


@_damage(REFUSED)
def refused(rng: Random, known: Known) -> None:
    part = {"type": "refusal", "refusal": "I cannot"}
    rng.choice([
        lambda: known.choice["message"].update(refusal=rng.choice(["No", {"x": 1}, True])),
        lambda: known.choice["message"].update(content=[part]),
        lambda: known.choice.update(finish_reason=rng.choice(["content_filter", "SAFETY"])),
    ])()  # fmt: skip


@_damage(ERROR)
def no_reply(rng: Random, known: Known) -> None:
    body, choice = known.body, known.choice
    rng.choice([
        lambda: body.update(error=rng.choice([{"message": "over\nloaded"}, "x", 5])),
        lambda: body.update(choices=rng.choice([None, [], {}, "x", 5, [None], [[]], [5], ["yes"]])),
        lambda: choice.update(message=rng.choice([None, [], "yes", 5])),
        lambda: choice.pop("message"),
        lambda: choice["message"].update(content=rng.choice([5, 0, True, False, {}, [5], [["x"]]])),
        lambda: choice["message"].update(content=[{"type": "text", "text": {"value": "yes"}}]),
        lambda: choice.update(finish_reason=rng.choice([5, True, [], {"reason": "stop"}])),
        lambda: choice.update(finish_reason=rng.choice(["error", "abort"])),
        lambda: choice.update(error={"code": 502}),
    ])()  # fmt: skip


def _replies(seed: int, number: int) -> list[tuple[Known, bytes, set[str]]]:
    """Damaged replies, with what may come out of them."""
    rng = Random(seed)
    made = []
    for at in range(number):
        known = _known(rng)
        damage, allowed = DAMAGES[at % len(DAMAGES)]
        damage(rng, known)
        content = json.dumps(known.body)
        if rng.random() < 0.05:
            content, allowed = content[: rng.randrange(len(content))], {ERROR}
        elif rng.random() < 0.05:
            deep = "[" * 100_000 + "]" * 100_000
            content, allowed = f'{{"deep": {rng.choice([deep, "9" * 5000])}, {content[1:]}', {ERROR}
        made.append((known, content.encode(), allowed))
    return made


def _read(content: bytes) -> tuple[Choice, ...]:
    """The choices of a reply; none where it is said to be malformed."""
    try:
        response = parse_response(content)
        assert all(count >= 0 for count in token_counts(response))
        return read_choices(response)
    except ValueError:
        return ()


def test_2000_damaged_replies_change_no_answer_and_no_phi_silently() -> None:
    seen: dict[str, int] = {}
    for known, content, allowed in _replies(0, 2000):
        choices = _read(content)
        outcome = _outcome(known, choices[0]) if choices else ERROR
        assert outcome in allowed, content[:3000]
        seen[outcome] = seen.get(outcome, 0) + 1
    assert set(seen) == {SAME, *COUNTED}
    assert min(seen.values()) > 50


def test_replies_with_two_damages_change_no_answer_and_no_phi_silently() -> None:
    rng = Random(1)
    # Two damages to tokens could undo each other.
    others = [numbers_that_are_none, half_a_character, cut, no_answer, refused, no_reply]
    for _ in range(1000):
        known = _known(rng)
        try:
            rng.choice(DAMAGES)[0](rng, known)
            rng.choice([thoughts_before_the_answer, *others])(rng, known)
        except (AttributeError, LookupError, TypeError):
            pass  # nothing is left to damage
        if choices := _read(json.dumps(known.body).encode()):
            _outcome(known, choices[0])


def test_an_alternative_of_unknown_probability_is_like_one_that_is_not_there() -> None:
    """Servers write -9999 for what they do not know; as a probability it would be 0."""
    blue = {**_entry("blue", 0.3), "logprob": -9999.0}
    position = {**_entry("red", 0.6), "top_logprobs": [_entry("red", 0.6), blue]}
    (choice,) = read_choices(said("red", logprobs={"content": [position]}))
    assert choice.tokens is not None
    values, unreached = log_phi(choice.tokens, ["red", "blue", "none of them"])
    assert unreached == 2
    assert values[0] == pytest.approx(math.log(0.6))
    assert values[1] == values[2] > math.log(1e-9)


def test_damaged_replies_of_a_server_are_right_or_counted(tmp_path: Path) -> None:
    images = ImageBatch(torch.tensor([7]), torch.tensor([0]), source=Pictures())
    with serving(ChatServer(lambda prompt, image, body: said("dog", "dog", "dog"))) as server:
        endpoint = Endpoint(server.url, cache=str(tmp_path), workers=1, retries=0)
        for at, (known, content, allowed) in enumerate(_replies(2, 60)):
            server.faults.append((200, {}, content.decode()))
            endpoint.usage = Usage()
            model = OpenAIModel("tiny", endpoint, scoring=Scoring(num_samples=3))
            asked = [*known.phi]
            if allowed == {ERROR}:
                with pytest.raises(UserError, match="malformed responses"):
                    model.log_scores(images, [f"what is {at}"], asked)
                continue
            (phi,) = model.log_scores(images, [f"what is {at}"], asked).exp().tolist()
            usage = model.usage()
            counted = {name for name in ("failed", "refusals", "cut") if usage[f"served/{name}"]}
            if usage["served/phi_logprobs"] == 0:
                assert allowed == {FLAWED}
                total = 3 + 0.5 * max(2, len({"dog", *asked}))
                assert phi == pytest.approx([(3.5 if a == "dog" else 0.5) / total for a in asked])
            elif counted & {"failed", "refusals"}:
                assert allowed <= {LOST, REFUSED}
                assert phi == [0] * len(asked)
            else:
                assert allowed <= {SAME, CUT}
                assert ("cut" in counted) == (allowed == {CUT})
                assert phi == pytest.approx(list(known.phi.values()), rel=1e-3)
