"""The answerer behind an endpoint: answers, phi and what it says about both."""

import json
import math
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_server import ChatServer, said, serving
from PIL import Image

from ivqa.config.keys import model_keys
from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.store.identity import result_settings
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa import Answerer, Metered
from ivqa.vqa.served.answer_estimates import Scoring
from ivqa.vqa.served.openai_endpoint import Endpoint
from ivqa.vqa.served.openai_model import OpenAIModel
from ivqa.vqa.served.openai_replies import REFUSAL
from ivqa.vqa.transformers.hf_generative import HFGenerative
from tiny_transformers import QUESTIONS, Pictures, tiny_llava

pytestmark = pytest.mark.usefixtures("on_cpu")

NO_LOGPROBS = (400, {}, '{"error": {"message": "logprobs are not supported by this model"}}')


def _images(*index: int) -> ImageBatch:
    rows = torch.tensor(index, dtype=torch.int64)
    return ImageBatch(torch.tensor([7, 8, 9]), rows, source=Pictures())


IMAGES = _images(0, 2, 1, 1, 0)


def _tokens(**probabilities: float) -> dict[str, Any]:
    """Log-probabilities of one token, the first, and its alternatives."""
    shown = [{"token": word, "logprob": math.log(p)} for word, p in probabilities.items()]
    return {"content": [{**shown[0], "top_logprobs": shown}]}


def _certain(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
    """Answers "Red"; with log-probabilities where they are asked for."""
    asked = body.get("logprobs")
    return said("Red", logprobs=_tokens(Red=0.5, red=0.25, blue=0.125) if asked else None)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving(ChatServer(_certain)) as running:
        yield running


def _model(server: ChatServer, folder: Path, **arguments: Any) -> OpenAIModel:
    settings = {name: arguments.pop(name) for name in ("max_requests",) if name in arguments}
    scoring = Scoring(**arguments.pop("scoring", {}))
    endpoint = Endpoint(server.url, cache=str(folder), **settings)
    return OpenAIModel.load("tiny", endpoint, scoring=scoring, **arguments)


class TinyModel:
    """A tiny LLaVA as the server's model, called directly."""

    def __init__(self, folder: Path, max_new_tokens: int) -> None:
        self.direct = HFGenerative.load(str(folder), max_new_tokens=max_new_tokens)
        self.max_new_tokens = max_new_tokens
        self.lock = threading.Lock()

    def __call__(self, prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
        """The greedy text with the log-probabilities of all words at each position."""
        model, processor = self.direct.model, self.direct.processor
        text = f"<image> question : {prompt} answer :"
        with self.lock, torch.no_grad():
            inputs = processor(text=text, images=image, return_tensors="pt")
            found = model.generate(
                **inputs, max_new_tokens=body["max_tokens"], do_sample=False,
                output_scores=True, return_dict_in_generate=True,
            )  # fmt: skip
        tokens = found.sequences[0, inputs["input_ids"].shape[1] :].tolist()
        names = [
            "</s>" if at == 3 else "" if at in processor.tokenizer.all_special_ids else f" {word}"
            for at, word in enumerate(
                processor.tokenizer.convert_ids_to_tokens(range(len(processor.tokenizer)))
            )
        ]
        entries = []
        for token, scores in zip(tokens, found.scores, strict=True):
            shown = [
                {"token": name, "logprob": value}
                for name, value in zip(names, scores[0].log_softmax(0).tolist(), strict=True)
            ]
            entries.append({**shown[token], "top_logprobs": shown})
        written = processor.tokenizer.decode(tokens, skip_special_tokens=True)
        return said(written, logprobs={"content": entries} if body.get("logprobs") else None)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return TinyModel(tiny_llava(tmp_path_factory.mktemp("llava")), max_new_tokens=4)


def test_it_satisfies_the_protocols(server: ChatServer, tmp_path: Path) -> None:
    model: Answerer = _model(server, tmp_path)
    assert isinstance(model, Metered)
    assert model.answers is None


def test_served_answers_are_those_of_the_model_itself(
    server: ChatServer, tiny: TinyModel, tmp_path: Path
) -> None:
    server.reply = tiny
    model = _model(server, tmp_path, max_new_tokens=4, lower_case=False)
    answers = model.answer(IMAGES, QUESTIONS)
    assert answers == tiny.direct.answer(IMAGES, QUESTIONS)
    assert len(set(answers)) > 1
    # The log-likelihood of an answer, in nats, where the server's list reaches it: one word and
    # the end. The direct model scores the word and the end; the first word alone is an upper bound.
    words = ["yes", "no", "blue", "2", "cat"]
    served = model.log_scores(IMAGES, QUESTIONS, words)
    direct = tiny.direct.log_scores(IMAGES, QUESTIONS, words)
    assert (served >= direct - 1e-4).all()
    # The bound is the probability of the first word, by one plain pass.
    inputs = tiny.direct.processor(
        text=f"<image> question : {QUESTIONS[1]} answer :", images=Pictures().open(9),
        return_tensors="pt",
    )  # fmt: skip
    with torch.no_grad():
        first = tiny.direct.model(**inputs).logits[0, -1].log_softmax(0)
    at = tiny.direct.processor.tokenizer.convert_tokens_to_ids(words)
    again = [text.split()[0] for text in answers]
    expected = [float(first[i]) for i, word in zip(at, words, strict=True) if word != again[1]]
    kept = [i for i, word in enumerate(words) if word != again[1]]
    torch.testing.assert_close(served[1, kept], torch.tensor(expected), atol=1e-4, rtol=0)
    assert len(server.asked) == 5  # scores and answers share their requests


def test_the_written_answer_has_the_likelihood_of_the_model_itself(
    server: ChatServer, tiny: TinyModel, tmp_path: Path
) -> None:
    # A model that always ends after one word: its answer's likelihood is that of word and end.
    direct = tiny.direct

    def ended(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
        found = tiny(prompt, image, {**body, "max_tokens": 2})
        first, second = found["choices"][0]["logprobs"]["content"]
        end = next(entry for entry in second["top_logprobs"] if entry["token"] == "</s>")
        only = [{**entry, "top_logprobs": []} for entry in (first, end)]
        return said(first["token"], logprobs={"content": only})

    server.reply = ended
    model = _model(server, tmp_path, lower_case=False)
    written = model.answer(IMAGES, QUESTIONS)
    assert len(set(written)) > 1
    for answer in set(written):
        rows = [row for row, text in enumerate(written) if text == answer]
        torch.testing.assert_close(
            model.log_scores(IMAGES, QUESTIONS, [answer])[rows],
            direct.log_scores(IMAGES, QUESTIONS, [answer])[rows],
            atol=1e-4,
            rtol=0,
        )


def test_phi_from_log_probabilities(server: ChatServer, tmp_path: Path) -> None:
    model = _model(server, tmp_path)
    assert model.answer(IMAGES, QUESTIONS) == ["red"] * 5
    phi = model.log_scores(IMAGES, QUESTIONS, ["red", "The red", "blue", "green"]).exp()
    torch.testing.assert_close(phi, torch.tensor([[0.75, 0.75, 0.125, 0.125]] * 5))
    assert len(server.asked) == 5
    body = server.asked[0]
    assert (body["temperature"], body["logprobs"], body["top_logprobs"]) == (0, True, 20)
    usage = model.usage()
    assert (usage["served/phi_logprobs"], usage["served/phi_unreached"]) == (1, 0.25)


@pytest.mark.parametrize("refusing", [True, False])
def test_phi_from_samples_where_there_are_no_log_probabilities(
    refusing: bool, server: ChatServer, tmp_path: Path
) -> None:
    drawn = said("Red", "red.", "blue", None, "a red")
    drawn["choices"][3]["message"]["refusal"] = "I cannot say"

    def reply(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
        return drawn if "n" in body else said("Red")

    server.reply = reply
    server.faults = deque([NO_LOGPROBS] if refusing else [])
    model = _model(server, tmp_path, scoring={"num_samples": 5, "temperature": 0.7})
    assert model.answer(IMAGES, QUESTIONS) == ["red"] * 5
    assert all(("logprobs" in body) is not refusing for body in server.asked[1:])
    assert "served/phi_logprobs" not in model.usage()  # phi was not asked for
    phi = model.log_scores(IMAGES, QUESTIONS, ["red", "blue", "green"]).exp()
    torch.testing.assert_close(phi, torch.tensor([[3.5 / 7, 1.5 / 7, 0.5 / 7]] * 5))
    sampled = [body for body in server.asked if "n" in body]
    assert len(sampled) == 5
    assert {(body["n"], body["temperature"]) for body in sampled} == {(5, 0.7)}
    usage = model.usage()
    assert (usage["served/phi_logprobs"], usage["served/phi_samples"]) == (0, 5)
    assert usage["served/refusals"] == 5
    # Everything comes from disk in another run, the question whether there are log-probabilities
    # included: a refused request is not paid for.
    before = len(server.asked)
    server.faults = deque([NO_LOGPROBS] if refusing else [])
    again = _model(server, tmp_path, scoring={"num_samples": 5, "temperature": 0.7})
    asked = again.log_scores(IMAGES, QUESTIONS, ["red", "blue", "green"])
    torch.testing.assert_close(asked.exp(), phi)
    assert again.answer(IMAGES, QUESTIONS) == ["red"] * 5
    assert len(server.asked) - before == (1 if refusing else 0)
    assert again.usage()["served/requests"] == 0


def test_an_endpoint_that_ignores_n_is_asked_again_with_other_seeds(
    server: ChatServer, tmp_path: Path
) -> None:
    server.reply = lambda prompt, image, body: said("red" if body["seed"] % 2 else "blue")
    model = _model(server, tmp_path, scoring={"phi": "samples", "num_samples": 5})
    phi = model.log_scores(_images(0, 1), ["what", "is it"], ["red", "blue"]).exp()
    torch.testing.assert_close(phi, torch.tensor([[2.5 / 6, 3.5 / 6]] * 2))
    assert sorted(body["seed"] for body in server.asked) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_refusals_are_answers_that_match_nothing(server: ChatServer, tmp_path: Path) -> None:
    def reply(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
        if "color" not in prompt:
            return _certain(prompt, image, body)
        return said(None, message={"refusal": "I can't assist with that."})

    server.reply = reply
    model = _model(server, tmp_path)
    expected = [REFUSAL if "color" in question else "red" for question in QUESTIONS]
    order = [1, 0, 2, 3, 4]  # the first response, a refusal, has no log-probabilities
    images, questions = IMAGES.select(torch.tensor(order)), [QUESTIONS[row] for row in order]
    assert model.answer(images.select(torch.tensor([0])), questions[:1]) == [REFUSAL]
    phi = model.log_scores(images, questions, ["red", "sorry"]).exp()
    assert phi[0].tolist() == [0, 0]
    torch.testing.assert_close(phi[1:], torch.tensor([[0.75, 0.125]] * 4))
    assert model.answer(images, questions) == [expected[row] for row in order]
    assert model.usage()["served/refusals"] == 1


WORDINGS = {
    "OpenAI": (403, "You are not allowed to request logprobs from this model"),
    "Vertex": (400, "Logprobs is not enabled for models/gemini-2.5-flash"),
    "Vertex quota": (403, "You've reached the maximum number of requests with logprobs"),
    "Groq": (403, "logprobs is not supported with this model"),
    "words": (422, "Log probabilities are unavailable in reasoning mode"),
    "parameter": (403, "x" * 300 + " is not permitted: top_logprobs"),
}


@pytest.mark.parametrize("server_of", WORDINGS)
def test_an_endpoint_that_refuses_log_probabilities_is_asked_for_samples(
    server_of: str, server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, message = WORDINGS[server_of]
    refusal = (status, {}, json.dumps({"error": {"message": message}}))
    server.faults = deque([refusal])
    model = _model(server, tmp_path / "auto", scoring={"num_samples": 1})
    assert model.answer(IMAGES, QUESTIONS) == ["red"] * 5
    model.log_scores(IMAGES, QUESTIONS, ["red"])
    model.log_scores(IMAGES, QUESTIONS, ["blue"])
    assert capsys.readouterr().out.count("phi is estimated from samples, because http") == 1
    assert model.usage()["served/phi_logprobs"] == 0
    server.faults = deque([refusal])
    strict = _model(server, tmp_path / "strict", scoring={"phi": "logprobs"})
    with pytest.raises(UserError, match=r"refuses log-prob.*set scoring\.phi=samples"):
        strict.log_scores(IMAGES, QUESTIONS, ["red"])


def _spelled(**probabilities: float) -> dict[str, Any]:
    """A reply of one token, the first, with its alternatives."""
    return said(next(iter(probabilities)), logprobs=_tokens(**probabilities))


def test_phi_of_a_token_without_alternatives_leaves_the_rest_to_others(
    server: ChatServer, tmp_path: Path
) -> None:
    server.reply = lambda prompt, image, body: _spelled(Red=0.9)
    model = _model(server, tmp_path)
    phi = model.log_scores(IMAGES, QUESTIONS, ["red", "blue", "green"]).exp()
    torch.testing.assert_close(phi, torch.tensor([[0.9, 0.05, 0.05]] * 5))
    assert model.usage()["served/phi_unreached"] == pytest.approx(2 / 3)


NO_NUMBERS: dict[str, Any] = {
    "stopped": None,
    "of the thoughts": _tokens(blue=0.9, red=0.05),
    "positive": {"content": [{"token": "Red", "logprob": 0.5}]},
    "NaN": {"content": [{"token": "Red", "logprob": math.nan}]},
    "-inf": {"content": [{"token": "Red", "logprob": -math.inf}]},
    "over 1": _tokens(Red=0.6, blue=0.6),
}


@pytest.mark.parametrize("fault", NO_NUMBERS)
def test_unusable_log_probabilities_in_mid_run_are_replaced_by_samples_and_counted(
    fault: str, server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def reply(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
        if "n" in body:
            return said("red", "red", "red", "blue")
        if prompt.startswith("bad"):  # the reasons differ
            return said("Red" * len(prompt), logprobs=NO_NUMBERS[fault])
        return _spelled(Red=0.9)

    server.reply = reply
    model = _model(server, tmp_path, scoring={"num_samples": 4})
    questions = ["what", "bad", "is it", "is it red"]
    for bad in ("bad", "bad?"):
        questions[1] = bad
        phi = model.log_scores(_images(0, 1, 2, 0), questions, ["red"]).exp()
        torch.testing.assert_close(phi, torch.tensor([[0.9], [3.5 / 5], [0.9], [0.9]]))
    assert model.usage()["served/phi_logprobs"] == 0.75
    assert model.usage()["served/phi_samples"] == 4
    assert len(server.asked) == 7
    told = capsys.readouterr().out
    assert told.count("phi of some answers is estimated from samples") == 1
    strict = _model(server, tmp_path, scoring={"phi": "logprobs"})
    with pytest.raises(UserError, match=r"no log-probabilities.*; set scoring\.phi=samples"):
        strict.log_scores(_images(0, 1, 2, 0), questions, ["red"])


def test_every_sample_is_a_request_of_its_own_without_n_and_seed(
    server: ChatServer, tmp_path: Path
) -> None:
    drawn = iter(["red", "blue", "red", "red"])
    server.reply = lambda prompt, image, body: said(next(drawn))
    scoring, settings = {"phi": "samples", "num_samples": 4}, {"n": None, "seed": None}
    model = _model(server, tmp_path, scoring=scoring, settings=settings)
    phi = model.log_scores(_images(0), ["what"], ["red", "blue"]).exp()
    torch.testing.assert_close(phi, torch.tensor([[3.5 / 5, 1.5 / 5]]))
    assert len(server.asked) == 4
    assert not any({"n", "seed", "draw"} & set(body) for body in server.asked)
    again = _model(server, tmp_path, scoring=scoring, settings=settings)
    torch.testing.assert_close(again.log_scores(_images(0), ["what"], ["red"]).exp(), phi[:, :1])
    assert len(server.asked) == 4


def test_repeated_choices_are_one_sample(server: ChatServer, tmp_path: Path) -> None:
    def reply(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
        drawn = said("blue" if body["seed"] else "red")
        return {**drawn, "choices": drawn["choices"] * 3}

    server.reply = reply
    model = _model(server, tmp_path, scoring={"phi": "samples", "num_samples": 3})
    phi = model.log_scores(_images(0), ["what"], ["red", "blue"]).exp()
    torch.testing.assert_close(phi, torch.tensor([[1.5 / 4, 2.5 / 4]]))
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0}, r"settings\.temperature=0 makes all samples equal"),
        ({"seed": 7}, r"settings\.seed=7 makes all samples equal"),
    ],
)
def test_settings_that_make_all_samples_equal_are_refused(
    settings: dict[str, Any], message: str, server: ChatServer, tmp_path: Path
) -> None:
    model = _model(server, tmp_path, scoring={"phi": "samples"}, settings=settings)
    with pytest.raises(UserError, match=message):
        model.log_scores(_images(0), ["what"], ["red"])


CUT = said("", finish="length", message={"reasoning_content": "First I look"})
LOST: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "cut in thoughts": (CUT, {"cut": 1, "failed": 1}),
    "null": (said(None, finish="length"), {"cut": 1, "failed": 1}),
    "only thoughts": (said(None, message={"reasoning": "yes"}), {"cut": 1, "failed": 1}),
    "unclosed tag": (said("<think>It is"), {"cut": 1, "failed": 1}),
    "empty": (said("  "), {"cut": 0, "failed": 1}),
    "failed request": (said("Error code: 429 - slow down"), {"cut": 0, "failed": 1}),
    "answer cut": (said("A red car with", finish="length"), {"cut": 1, "failed": 0}),
}


@pytest.mark.parametrize("kind", LOST)
def test_answers_that_are_none_are_counted_reported_and_asked_for_again(
    kind: str, server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    response, counted = LOST[kind]

    def reply(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
        return response if prompt == "bad" else _spelled(Red=0.9)

    server.reply = reply
    model, questions = _model(server, tmp_path), ["what", "bad", "is it"]
    text = "" if counted["failed"] else "a red car with"
    assert model.answer(_images(0, 1, 2), questions) == ["red", text, "red"]
    if counted["failed"]:
        assert model.log_scores(_images(0, 1, 2), questions, ["red"]).exp()[1] == 0
    assert len(server.asked) == 3  # not asked for twice by one process
    capsys.readouterr()
    usage = model.usage()
    assert {name: usage[f"served/{name}"] for name in ("cut", "failed")} == counted
    assert usage["served/answers"] == 3
    told = capsys.readouterr().out
    said_so = "of 3 answers {cut} are cut (served/cut) and {failed} are none (served/failed); raise"
    assert told.count(said_so.format(**counted)) == 1
    server.reply = lambda prompt, image, body: _spelled(Red=0.9)
    again = _model(server, tmp_path)
    if counted["failed"]:
        assert again.answer(_images(0, 1, 2), questions) == ["red"] * 3
    assert again.answer(_images(0, 1, 2), questions)[::2] == ["red"] * 2
    assert len(server.asked) - 3 == counted["failed"]


def test_a_run_without_any_answer_stops_before_all_is_paid_for(
    server: ChatServer, tmp_path: Path
) -> None:
    server.reply = lambda prompt, image, body: CUT
    model = _model(server, tmp_path)
    questions = [f"what is {number}" for number in range(200)]
    with pytest.raises(UserError, match=r"no answer in \d+ replies: .* raise max_new_tokens"):
        model.answer(_images(*[0] * 200), questions)
    assert 20 <= len(server.asked) < 80


def test_samples_without_an_answer_are_left_out(server: ChatServer, tmp_path: Path) -> None:
    server.reply = lambda prompt, image, body: said(*["red", "", "blue", "<think>"])
    model = _model(server, tmp_path, scoring={"phi": "samples", "num_samples": 4})
    phi = model.log_scores(_images(0), ["what"], ["red"]).exp()
    assert phi.item() == pytest.approx(1.5 / 3)
    server.reply = lambda prompt, image, body: said("", "", "", "")
    assert model.log_scores(_images(0), ["is it"], ["red"]).exp().item() == 0


def test_thoughts_are_no_part_of_an_answer(server: ChatServer, tmp_path: Path) -> None:
    server.reply = lambda prompt, image, body: said("<think>It is red.</think>\n\nYes [X]hm[/X]")
    assert _model(server, tmp_path).answer(_images(0), ["is it"]) == ["yes [x]hm[/x]"]
    own = _model(server, tmp_path, thoughts=[("[X]", "[/X]")])
    assert own.answer(_images(0), ["is it"]) == ["<think>it is red.</think>\n\nyes"]


def test_answers_are_written_as_annotators_write(server: ChatServer, tmp_path: Path) -> None:
    written = {"what": "Yes.", "is it": "U.S.", "is it red": "[refused to answer]"}
    server.reply = lambda prompt, image, body: said(f" {written[prompt]}\n")
    plain, raw = (_model(server, tmp_path, lower_case=lower) for lower in (True, False))
    images = _images(0, 1, 2)
    assert plain.answer(images, list(written)) == ["yes", "u.s", REFUSAL]
    assert raw.answer(images, list(written)) == ["Yes.", "U.S.", REFUSAL]


def test_settings_are_added_replaced_and_left_out(server: ChatServer, tmp_path: Path) -> None:
    settings = {"max_tokens": None, "max_completion_tokens": 50, "temperature": 1, "user": "me"}
    model = _model(server, tmp_path, settings=settings, prompt="Q: {question}?")
    model.answer(_images(0), ["what"])
    body = server.asked[0]
    assert body["messages"][0]["content"][1]["text"] == "Q: what?"
    assert "max_tokens" not in body
    assert (body["max_completion_tokens"], body["temperature"], body["user"]) == (50, 1, "me")


def test_an_image_is_read_once_for_all_questions_about_it(
    server: ChatServer, tmp_path: Path
) -> None:
    model = _model(server, tmp_path)
    pictures = Pictures()
    images = ImageBatch(torch.tensor([7, 8, 9]), torch.tensor([0, 2, 1, 1, 0]), source=pictures)
    model.answer(images, QUESTIONS)
    model.log_scores(images, QUESTIONS, ["red"])
    assert sorted(pictures.opened) == [7, 8, 9]
    other = Pictures()  # such as another level of noise, with the same ids
    model.answer(ImageBatch(images.ids, images.index, source=other), QUESTIONS)
    assert sorted(other.opened) == [7, 8, 9]


def test_bad_input_is_named(server: ChatServer, tmp_path: Path) -> None:
    model = _model(server, tmp_path)
    with pytest.raises(UserError, match="in its own words: say which answers to score"):
        model.log_scores(IMAGES, QUESTIONS)
    with pytest.raises(ValueError, match="1 questions for 5 images"):
        model.answer(IMAGES, ["what"])
    blind = ImageBatch(torch.tensor([7]), torch.tensor([0]))
    with pytest.raises(UserError, match="has none; give an image folder"):
        model.answer(blind, ["what"])
    with pytest.raises(UserError, match="writes its answers; leave num_answers=null"):
        _model(server, tmp_path, answers=AnswerVocabulary(["yes"]))
    with pytest.raises(UserError, match=r"must have \{question\} in it"):
        _model(server, tmp_path, prompt="what?")
    assert model.answer(_images(), []) == []
    assert model.log_scores(_images(), [], ["red"]).shape == (0, 1)
    server.reply = lambda *_: said("red")
    with pytest.raises(UserError, match=r"returns no log-probabilities; set scoring\.phi=samples"):
        _model(server, tmp_path, scoring={"phi": "logprobs"}).answer(IMAGES, QUESTIONS)
    server.faults.append((400, {}, '{"error": {"message": "image too small"}}'))
    with pytest.raises(UserError, match=r"refuses a request .*image too small"):
        _model(server, tmp_path).answer(IMAGES, ["a new question"] * 5)


def _newer(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
    return said("Blue" if body.get("max_completion_tokens") == 7 else "?")


def _refusing(server: ChatServer, *fields: str, param: bool) -> None:
    """Lets a server refuse requests with one of the fields, as OpenAI's newer models do."""
    answer = server.answer

    def answered(body: dict[str, Any], name: str) -> tuple[int, dict[str, str], bytes, bool]:
        found = answer(body, name)
        for field in fields:
            if field in body:
                told = {"message": f"Unsupported parameter: '{field}' is not supported."}
                if param:
                    told = {"message": "This value is not supported.", "param": field}
                return 400, {}, json.dumps({"error": told}).encode(), False
        return found

    server.answer = answered  # type: ignore[method-assign]


@pytest.mark.parametrize("param", [True, False])
def test_what_an_endpoint_refuses_is_found_out_by_single_requests(
    param: bool, server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.reply = _newer
    _refusing(server, "max_tokens", "temperature", "logprobs", param=param)
    model = _model(server, tmp_path, max_new_tokens=7)
    questions = [f"what is the temperature {at}" for at in range(5)]
    assert model.answer(IMAGES, questions) == ["blue"] * 5
    # Three refusals, each of one request; then every question once.
    assert len(server.asked) == 3 + 5
    fields = {name for body in server.asked[3:] for name in body}
    assert fields == {"model", "messages", "max_completion_tokens"}
    assert "no temperature is taken: answers are sampled" in capsys.readouterr().out
    assert model.answer(IMAGES, [f"{text}?" for text in questions]) == ["blue"] * 5
    assert len(server.asked) == 3 + 10  # remembered
    counts = model.log_scores(_images(0), ["is it"], ["blue", "red"]).exp()[0].tolist()
    assert counts == pytest.approx([20.5 / 21, 0.5 / 21], abs=1e-6)
    before = len(server.asked)
    other = _model(server, tmp_path / "other", max_new_tokens=7, scoring={"phi": "samples"})
    assert other.answer(IMAGES, questions) == ["blue"] * 5
    assert len(server.asked) - before == 2 + 5


def test_a_refused_temperature_of_samples_is_no_other_temperature(
    server: ChatServer, tmp_path: Path
) -> None:
    server.faults.append((400, {}, '{"error": {"message": "max_tokens is too large: 16"}}'))
    with pytest.raises(UserError, match="max_tokens is too large"):
        _model(server, tmp_path, scoring={"phi": "samples"}).answer(_images(0), ["what"])
    _refusing(server, "temperature", param=False)
    model = _model(server, tmp_path, scoring={"phi": "samples", "temperature": 0.5})
    with pytest.raises(UserError, match=r"refuses temperature=0\.5; set scoring\.temperature=1"):
        model.log_scores(IMAGES, QUESTIONS, ["red"])


def test_address_and_budget_are_no_part_of_the_identity() -> None:
    """A policy that was trained with the model is found again after they have changed."""
    endpoint = {"base_url": "http://a", "max_requests": 5, "workers": 16, "cache": "x"}
    target = {"_target_": "ivqa.vqa.served.openai_model.OpenAIModel.load"}
    module = {**target, "path": "tiny", "prompt": "Q: {question}", "endpoint": endpoint}
    settings = {"base_url": "http://a", "max_requests": 5, "api_key_env": "K", "module": module}
    (found,) = (result_settings({**settings, "pretrained": True}, model_keys)["module"],)
    assert {key: found[key] for key in found if key != "_target_"} == {
        "path": "tiny",
        "prompt": "Q: {question}",
    }
