"""Asking in the app: loading in the background, uploaded pictures, contradictions."""

import io
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("fastapi", reason="needs the extra view")
from ivqa.api import LoadedAnswerer, LoadedGenerator
from ivqa.config.choices import choices_of, conf_dir
from ivqa.data.batches.batch import ImageBatch
from ivqa.data.given_pictures import NumberedPictures
from ivqa.diagnosis.search.asking import AskedQuestion
from ivqa.errors import UserError
from ivqa.runs.picture_model import asks_questions, check_gives_probabilities
from ivqa.runs.saved_config import configured
from ivqa.view import models

ANSWERS = {"Is there a dog?": "no", "How many dogs are there?": "two", "What color is it?": "red"}


class Module:
    """Answers from a table."""

    answers = None

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        assert len(images) == len(questions)
        return [ANSWERS[question] for question in questions]

    def log_scores(self, images: Any, questions: list[str], answers: list[str]) -> torch.Tensor:
        return torch.full((len(questions), len(answers)), 0.5).log()


def _read(picture: Image.Image) -> ImageBatch:
    first = torch.zeros(1, dtype=torch.int64)
    return ImageBatch(ids=first, index=first, source=NumberedPictures({0: picture}))


class Generator(LoadedGenerator):
    def ask(self, image: Any, answer: str, n: int = 10, **_: Any) -> list[AskedQuestion]:
        if answer == "unknown":
            raise UserError("answer 'unknown': the generator does not know the word 'unknown'")
        return [AskedQuestion("Is there a dog?", 0.25), AskedQuestion(f"Is it <{answer}>?", 0.1)]


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Loading waits for `go`; what was asked for is in `asked`."""
    seen = SimpleNamespace(go=threading.Event(), asked=[], error=None)
    model: Any = SimpleNamespace(module=Module(), read=_read)

    def load(source: object, **given: object) -> Any:
        seen.asked.append((source, given))
        assert seen.go.wait(20)
        if seen.error:
            raise seen.error
        return LoadedAnswerer(model) if len(seen.asked) == 1 else Generator(model)

    monkeypatch.setattr(models, "load", load)
    monkeypatch.setattr(models, "load_vqa", load)
    monkeypatch.setattr(
        models, "unlike_training", lambda model, pictures, ids: "It is unlike them."
    )
    yield seen
    seen.go.set()


def _png(width: int = 30, height: int = 20, mode: str = "RGB") -> bytes:
    data = io.BytesIO()
    Image.new(mode, (width, height)).save(data, "PNG")
    return data.getvalue()


def _wait(client: Any, kind: str) -> str:
    for _ in range(200):
        text = client.get(f"/ask/model?kind={kind}").text
        if "being loaded" not in text:
            return text
        time.sleep(0.02)
    pytest.fail("it is not loaded")


def _picture(client: Any, content: bytes | None = None) -> str:
    answer = client.post("/ask/picture", files={"picture": ("dog.png", content or _png())},
                         follow_redirects=False)  # fmt: skip
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].partition("picture=")[2]


def test_a_model_is_loaded_while_the_pages_answer(client: Any, loads: SimpleNamespace) -> None:
    text = client.post("/ask/load", data={"kind": "answers", "source": "mlb"}).text
    assert "mlb is being loaded" in text
    assert 'hx-trigger="load delay:1s"' in text  # the page looks again
    assert client.get("/").status_code == 200
    again = client.post("/ask/load", data={"kind": "answers", "source": "mcb"})
    assert "mlb is being loaded; wait until it is there" in again.text
    loads.go.set()
    text = _wait(client, "answers")
    assert "mlb is ready" in text
    assert "hx-get" not in text
    assert loads.asked == [("mlb", {"train": False, "artifacts": "artifacts"})]


def test_a_run_is_loaded_from_its_folder(client: Any, loads: SimpleNamespace, folder: Path) -> None:
    loads.go.set()
    client.post("/ask/load", data={"kind": "questions", "source": "sweep/0"})
    _wait(client, "questions")
    assert loads.asked[0][0] == folder / "sweep" / "0"


@pytest.mark.parametrize("source", ["/etc", "../secret", "none", "", "ivqa_vae"])
def test_only_listed_models_are_loaded(source: str, client: Any, loads: SimpleNamespace) -> None:
    answer = client.post("/ask/load", data={"kind": "answers", "source": source})
    assert answer.status_code in (400, 422)
    assert loads.asked == []


def test_a_model_that_cannot_be_loaded_says_why(client: Any, loads: SimpleNamespace) -> None:
    loads.error = UserError("mcb is not trained for these data")
    loads.go.set()
    client.post("/ask/load", data={"kind": "answers", "source": "mcb"})
    assert "could not be loaded: mcb is not trained for these data" in _wait(client, "answers")
    key = _picture(client)
    answer = client.post("/ask/question", data={"picture": key, "question": "Is it?"})
    assert "There is no VQA model yet: load one above." in answer.text


def test_contradictions_are_shown_as_one_asks(client: Any, loads: SimpleNamespace) -> None:
    loads.go.set()
    client.post("/ask/load", data={"kind": "answers", "source": "mlb"})
    _wait(client, "answers")
    key = _picture(client)
    text = ""
    for question in ("What color is it?", " Is there a  dog?", "Is there a dog?"):
        text = client.post("/ask/question", data={"picture": key, "question": question}).text
    assert "No answers contradict each other." in text
    assert len(re.findall("<tr><td", text)) == 2  # a question that is asked again stands once
    form = {"picture": key, "question": "How many dogs are there?"}
    text = client.post("/ask/question", data=form).text
    rows = re.findall(r'<th scope="row">(.*?)</th><td class="text">(.*?)</td>', text)
    assert [(one, re.sub("<.*?>", "", two).strip()) for one, two in rows] == [
        ("What color is it?", "red"),
        ("Is there a dog?", "no contradicts 3"),
        ("How many dogs are there?", "two contradicts 2"),
    ]
    assert "Answers 2 and 3 cannot all be true" in text
    for _ in range(100):
        if "It is unlike them." in (text := client.get(f"/ask/asked?picture={key}").text):
            break
        time.sleep(0.02)
    assert "It is unlike them." in text


def test_a_generator_asks_for_a_typed_answer(client: Any, loads: SimpleNamespace) -> None:
    loads.go.set()
    for kind, source in (("answers", "mlb"), ("questions", "ivqa_vae")):
        client.post("/ask/load", data={"kind": kind, "source": source})
        assert "is ready" in _wait(client, kind)
    key = _picture(client)
    text = client.post("/ask/answer", data={"picture": key, "answer": "yes"}).text
    assert "Is there a dog? <i>p 0.2500</i>" in text
    assert "Is it &lt;yes&gt;?" in text
    unknown = client.post("/ask/answer", data={"picture": key, "answer": "unknown"})
    assert unknown.status_code == 400
    assert "does not know the word" in unknown.text
    for field, value in (("question", "  "), ("answer", ""), ("question", "x" * 201)):
        answer = client.post(f"/ask/{field}", data={"picture": key, field: value})
        assert answer.status_code == 400


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no picture"),
        (b"<svg onload=alert(1)>", "is no picture"),
        (b"%PDF-1.4", "is no picture"),
        (b"P6\n1 1\n255\n123", "is no picture"),  # Pillow reads it, and the app does not offer it
        (_png()[:60], "cannot be read"),
        (_png(8000, 6251, "1"), "has too many pixels; choose a picture of at most 50 million"),
        (_png(16000, 16000, "1"), "has too many pixels"),
    ],
)
def test_what_is_no_picture_is_refused(content: bytes, message: str, client: Any) -> None:
    answer = client.post("/ask/picture", files={"picture": ("bad.png", content)},
                         headers={"hx-request": "true"})  # fmt: skip
    assert answer.status_code == 400
    assert "bad.png" in answer.text
    assert message in answer.text


def test_a_picture_is_shown_again_as_a_jpeg_of_the_app(client: Any) -> None:
    """What was uploaded is never sent back: it might be more than a picture."""
    key = _picture(client, _png(1300, 650) + b"<script>alert(1)</script>")
    text = client.get(f"/ask?picture={key}").text
    assert 'src="data:image/jpeg;base64,' in text
    assert "alert(1)" not in text
    answer = client.post("/ask/picture", files={"picture": ("a.png", _png())},
                         headers={"hx-request": "true"})  # fmt: skip
    assert answer.headers["hx-redirect"].startswith("/ask?picture=")


def test_the_oldest_pictures_are_forgotten(client: Any) -> None:
    keys = [_picture(client) for _ in range(6)]
    assert "no longer here" in client.get(f"/ask/asked?picture={keys[1]}").text
    assert client.get(f"/ask/asked?picture={keys[2]}").status_code == 200
    assert client.get(f"/ask?picture={keys[0]}").status_code == 200


def test_the_orientation_of_a_photograph_is_applied() -> None:
    data = io.BytesIO()
    exif = Image.Exif()
    exif[274] = 6  # turned by 90 degrees
    Image.fromarray(np.zeros((20, 30, 3), np.uint8)).save(data, "JPEG", exif=exif)
    data.seek(0)
    assert models.checked_picture("a.jpg", data).size == (20, 30)


def test_the_generators_are_those_that_can_be_loaded() -> None:
    """Compared with their composed configurations."""
    folder = conf_dir()
    answering = choices_of("vqa", [folder], "evaluate")
    expected = []
    for name in choices_of("model", [folder], "evaluate"):
        if name in answering:
            continue
        with suppress(UserError), configured(name, {}) as cfg:
            check_gives_probabilities(cfg.model)
            if asks_questions(cfg.model) and cfg.model.image_features:
                expected.append(name)
    assert "ivqa_vae" in expected
    assert models.sources("questions", {})["models of conf/model"] == expected
