"""diagnose.py images=FOLDER and ivqa.diagnose: pictures and a model, no data and no training."""

import hashlib
import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import ivqa
from ivqa.diagnosis import read_beliefs
from ivqa.errors import UserError
from ivqa.logic import contradicting
from ivqa.scenes import generate_scenes
from ivqa.scenes.oracle import SceneOracle
from tiny_transformers import tiny_llava
from vqa.chat_server import ChatServer, said, serving

from .conftest import TINY_FEATURES, TINY_MODEL, Run, metrics_of, start


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for number, color in enumerate(((200, 30, 30), (30, 200, 30), (30, 30, 200), (9, 9, 9))):
        Image.new("RGB", (64, 48), color).save(folder / f"photo {number}.png")
    (folder / "notes.txt").write_text("no picture")
    return folder


def _careless(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
    """Sees a dog, denies most things, and answers questions about them all the same."""
    text = prompt.partition("\n")[0].lower()
    if text.startswith(("is there", "are there")):
        seed = hashlib.sha256(text.encode() + image.tobytes()).digest()[0]
        words = "Yes" if "dog" in text or seed % 4 == 0 else "No"
    elif text.startswith("how many"):
        words = "2"
    elif "color" in text:
        words = "Red"
    else:
        words = "Yes" if text.startswith(("is", "are", "was")) else "A dog"
    shown = [{"token": words, "logprob": -0.1}]
    return said(words, logprobs={"content": [{**shown[0], "top_logprobs": shown}]})


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving(ChatServer(_careless)) as running:
        yield running


def _served(server: ChatServer, photos: Path, *overrides: str) -> list[str]:
    model = ["vqa=openai", "vqa.path=tiny", f"vqa.base_url={server.url}"]
    return [f"images={photos}", *model, *overrides]


def test_a_served_model_is_diagnosed_about_a_folder(
    run: Run, server: ChatServer, photos: Path, tmp_path: Path, artifacts: Path
) -> None:
    first = tmp_path / "first"
    command = _served(server, photos, "max_questions=60")
    status, printed = run("diagnose", *command, f"output_dir={first}")
    assert status == 0, printed
    assert "at most 60 questions about 4 pictures" in printed
    assert "are answered; the others take about a minute" in printed
    assert "No trained" not in printed
    assert not (artifacts / "data").exists() or "scenes" not in printed
    beliefs = read_beliefs(first / "beliefs.jsonl")
    assert len({(one.image_id, one.question) for one in beliefs}) == len(beliefs) == 60
    files = json.loads((first / "pictures.json").read_text())
    assert {int(one) for one in files} == {one.image_id for one in beliefs} == {1, 2, 3, 4}
    assert sorted(map(Path, files.values())) == sorted(photos.glob("*.png"))
    metrics = metrics_of(first)
    assert metrics["search/questions"] == metrics["beliefs/count"] == 60
    flags = [
        flag
        for number in (1, 2, 3, 4)
        for flag in contradicting([(b.question, b.answer) for b in beliefs if b.image_id == number])
    ]
    assert metrics["beliefs/contradictions"] == pytest.approx(sum(flags) / 60)
    assert 0 < metrics["beliefs/errors_at_least"] <= metrics["beliefs/contradictions"]
    assert f"At least {round(60 * metrics['beliefs/errors_at_least'])} of its 60 answers" in printed
    suspect = next(one for one in beliefs if one.suspect)
    against = beliefs[suspect.contradicts[0] - 1]
    assert any(contradicting([(one.question, one.answer) for one in (suspect, against)]))
    page = (first / "report.html").read_text()
    assert "What tiny believes about 4 pictures" in page
    assert json.dumps(against.question)[1:-1] in page
    assert {one.type for one in beliefs} == {None}
    assert not (first / "challenge").exists()
    assert (first / "annotate.html").is_file()
    # The endpoint's cache is left out, so that every request would be counted.
    asked = len(server.asked)
    shutil.rmtree(artifacts / "served")
    for name in ("metrics.json", "beliefs.jsonl", "report.html"):
        (first / name).unlink()
    lines = (first / "parts" / "asked.jsonl").read_text().splitlines(keepends=True)
    (first / "parts" / "asked.jsonl").write_text("".join(lines[:40]) + lines[40][:20])
    status, printed = run("diagnose", f"resume={first}", f"vqa.base_url={server.url}")
    assert status == 0, printed
    assert read_beliefs(first / "beliefs.jsonl") == beliefs
    again = len(server.asked) - asked
    assert again <= 21 + 8  # 21 answers were lost; probing requests may come first
    # More questions continue in the same directory.
    command[-1] = "max_questions=80"
    status, printed = run("diagnose", *command, f"output_dir={first}")
    assert status == 0, printed
    assert [one.question for one in read_beliefs(first / "beliefs.jsonl")][:60] == [
        one.question for one in beliefs
    ]
    assert metrics_of(first)["search/questions"] == 80


def test_what_the_others_take_is_said_and_asked_about(
    run: Run, server: ChatServer, photos: Path, tmp_path: Path
) -> None:
    """A reply has 100 and 2 tokens, so a question costs 0.102 at these prices."""
    priced = ["vqa.price_in=1000", "vqa.price_out=1000"]
    command = _served(server, photos, *priced, "max_questions=50", f"output_dir={tmp_path}/run")
    command.append(f"artifacts={tmp_path}/store")  # no replies of other tests
    status, printed = run("diagnose", *command, "ask_above.questions=40")
    assert status == 1
    assert "8 are answered; the others take about a minute, 4,200 prompt and 84 completion" in (
        printed
    )
    assert "tokens, and cost about 4.28" in printed
    assert "the other 42 questions pass ask_above.questions=40; the answers are kept" in printed
    assert len(server.asked) == 8
    assert not (tmp_path / "run" / "metrics.json").exists()
    # The answers are kept. A limit of money ends the search, and the page shows what there is.
    limit = ["vqa.max_cost=2.6", "vqa.workers=1", "ask_above.questions=40", "yes=true"]
    status, printed = run("diagnose", *command, *limit)
    assert status == 0, printed
    assert "stopped at max_cost=2.6 (25 requests with 2,500 prompt" in printed
    assert len(server.asked) == 8 + 25
    first = read_beliefs(tmp_path / "run" / "beliefs.jsonl")
    assert 8 <= len(first) <= 33
    assert metrics_of(tmp_path / "run")["served/cost"] == pytest.approx(2.55)
    status, printed = run("diagnose", *command, "yes=true")
    assert status == 0, printed
    # Of the 10 that are left, one reply more is on disk.
    assert "40 are answered; the others take about a minute, 1,000 prompt" in printed
    assert len(server.asked) == 50
    beliefs = read_beliefs(tmp_path / "run" / "beliefs.jsonl")
    assert [one.question for one in beliefs][: len(first)] == [one.question for one in first]
    assert len(beliefs) == 50


@pytest.mark.slow  # each kill costs a start of Python
@pytest.mark.parametrize("kills", [int(os.environ.get("IVQA_KILLS", "4"))])
def test_nothing_is_asked_twice_after_kills_at_random_moments(
    server: ChatServer, photos: Path, tmp_path: Path, kills: int
) -> None:
    server.latency, questions = 0.3, 40 * kills
    rng = random.Random(kills)
    command = [
        *_served(server, photos, f"max_questions={questions}", f"output_dir={tmp_path}/run"),
        *("vqa.workers=4", "yes=true"),
    ]
    met = 0  # requests on their way at a kill
    for _ in range(kills):
        reached = len(server.asked) + rng.randint(1, 2 * questions // kills)
        process = start("diagnose", *command, cwd=tmp_path, artifacts=tmp_path / "store")
        while process.poll() is None and len(server.asked) < reached:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.2))
        met += server.current
        process.kill()
        process.communicate()
    process = start("diagnose", *command, cwd=tmp_path, artifacts=tmp_path / "store")
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    asked = Counter(json.dumps(body, sort_keys=True) for body in server.asked)
    print(f"{met} requests were on their way")
    assert met > 0
    assert set(asked.values()) == {1}
    beliefs = read_beliefs(tmp_path / "run" / "beliefs.jsonl")
    assert len(beliefs) == len({(one.image_id, one.question) for one in beliefs}) == questions
    assert len(asked) == questions


def test_a_model_that_writes_its_answers_needs_no_data(
    run: Run, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_llava(tmp_path / "llava")
    store = tmp_path / "store"
    model = ["vqa=hf_generative", f"vqa.path={folder}", "vqa.module.max_new_tokens=3"]
    one = next(photos.glob("*.png"))
    status, printed = run(
        "diagnose",
        f"images={one}",
        *model,
        "max_questions=12",
        f"artifacts={store}",
        f"output_dir={tmp_path / 'run'}",
    )
    assert status == 0, printed
    assert metrics_of(tmp_path / "run")["search/questions"] == 12
    assert not (store / "data").exists()
    assert not (store / "models").exists()


def test_consistency_about_a_folder_needs_no_data(
    run: Run, server: ChatServer, photos: Path, tmp_path: Path
) -> None:
    model = ["model=openai", "model.path=tiny", f"model.base_url={server.url}"]
    command = [f"images={photos}", *model, "max_questions=60", f"output_dir={tmp_path}/run"]
    status, printed = run("evaluate", *command)
    assert status == 1
    assert "images= measures consistency; give callbacks=consistency too" in printed
    status, printed = run("evaluate", *command, "callbacks=consistency")
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "run")
    assert metrics["consistency/questions"] == 60
    # By hand from the file: how many implied questions are answered as implied.
    lines = (tmp_path / "run" / "implications.jsonl").read_text().splitlines()
    given = [json.loads(line) for line in lines]
    as_implied = [one["given_answer"].lower() == one["implied_answer"].lower() for one in given]
    assert metrics["consistency/rate"] == pytest.approx(sum(as_implied) / len(given))
    assert 0 < metrics["consistency/errors_at_least"] < 1
    assert (tmp_path / "run" / "consistency.html").is_file()
    status, printed = run("evaluate", f"images={photos}", "callbacks=consistency")
    assert status == 1
    assert "model=ivqa_vae answers no questions; choose a VQA model: model=mlb" in printed


def test_a_closed_vocabulary_model_is_judged_by_the_oracle(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", *TINY_FEATURES, "vqa.epochs=1"]
    common = [f"images={tiny_root / 'images' / 'val'}", "vqa=mlb", *data, "max_questions=80"]
    judged = tmp_path / "judged"
    status, printed = run("diagnose", *common, "oracle=true", "split=val", f"output_dir={judged}")
    assert status == 0, printed
    beliefs = read_beliefs(judged / "beliefs.jsonl")
    assert {one.type_by for one in beliefs} >= {"oracle"}
    metrics = metrics_of(judged)
    wrong = [one for one in beliefs if one.type in ("adversarial", "irrelevant")]
    typed = [one for one in beliefs if one.type is not None]
    assert metrics["beliefs/incorrect"] == pytest.approx(len(wrong) / len(typed))
    assert metrics["beliefs/errors_at_least"] * 80 <= len(wrong) + 80 - len(typed)
    assert (
        metrics["search/wrong_facts_per_1000"] >= metrics["search/confident_wrong_facts_per_1000"]
    )
    words = {word for one in beliefs for word in one.question.lower().rstrip("?").split()}
    assert "dog" not in words  # the model was trained on scenes
    status, printed = run(
        "diagnose", *common, "oracle=true", "split=train", f"output_dir={tmp_path / 'other'}"
    )
    assert status == 1
    assert "is no image of split 'train'" in printed


@pytest.mark.slow  # a thousand questions
def test_what_is_found_without_labels_is_true(
    tmp_path: Path, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLB about scenes through ivqa.diagnose, which knows no labels, beside the oracle."""
    monkeypatch.setenv("IVQA_ARTIFACTS", str(artifacts))
    root = generate_scenes(tmp_path / "scenes", images={"val": 100}, seed=5, progress=False)
    oracle = SceneOracle.load(root, "val")
    found = ivqa.diagnose(ivqa.load_vqa("mlb"), root / "images" / "val", max_questions=1000)
    beliefs = found.beliefs
    right: list[bool | None] = []
    for picture, question, answer in zip(
        beliefs["picture"], beliefs["question"], beliefs["answer"], strict=True
    ):
        judged = oracle.judge(int(Path(picture).stem.rpartition("_")[2]), question)
        right.append(answer in judged.acceptable if judged.understood else None)
    wrong, unknown = right.count(False), right.count(None)
    proved = round(found.metrics["beliefs/errors_at_least"] * 1000)
    assert 100 < proved <= wrong + unknown
    # No contradiction holds only right answers.
    for answer_is_right, others in zip(right, beliefs["contradicts"], strict=True):
        assert not others or not answer_is_right or not all(right[line - 1] for line in others)
    # By chance a suspect would be wrong as often as any answer.
    suspects = [one for one, suspect in zip(right, beliefs["suspect"], strict=True) if suspect]
    precision = suspects.count(False) / (suspects.count(False) + suspects.count(True))
    assert len(suspects) > 150
    assert precision > wrong / (1000 - unknown) + 0.05


def test_pictures_unlike_those_of_the_training_are_said(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    """A model of scenes about bright surfaces, and about scenes."""
    photos = tmp_path / "bright"
    photos.mkdir()
    for color in ("white", "magenta", "cyan", "yellow", "red", "lime", "blue", "black"):
        Image.new("RGB", (64, 48), color).save(photos / f"{color}.png")
    data = ["data=vqa_json", f"data.root={tiny_root}", *TINY_FEATURES]
    said = "pictures are unlike the training pictures of {} (tiny), by the image features"
    scenes, own = tiny_root / "images" / "val", tmp_path / "trained"
    status, printed = run("train", *data, "model=mlb", "model.epochs=1", f"output_dir={own}")
    assert status == 0, printed
    command = [
        *data,
        "vqa=mlb",
        f"model.part_ckpt.answerer={own}/checkpoints/best.ckpt",
        "max_questions=8",
    ]
    for images, unlike in ((photos, True), (scenes, False)):
        folder = tmp_path / str(unlike)
        status, printed = run("diagnose", f"images={images}", *command, f"output_dir={folder}")
        assert status == 0, printed
        # Before the first question, and after the figures.
        assert printed.partition("at most 8 questions")[0].count(said.format("MLB")) == unlike
        assert ("by the image features" in (folder / "report.html").read_text()) == unlike
    for images, unlike in ((photos, True), (scenes, False)):
        measured = ["model=mlb", f"ckpt={own}/checkpoints/best.ckpt", "callbacks=consistency"]
        status, printed = run(
            *("evaluate", f"images={images}", *data, *measured, "max_questions=8"),
            f"output_dir={tmp_path / 'consistency' / str(unlike)}",
        )
        assert status == 0, printed
        assert printed.count(said.format("MLB")) == unlike
    asked = tmp_path / "asked"
    status, printed = run(
        *("evaluate", f"image={photos}", "answer=yes", *data, *TINY_MODEL, "num_questions=2"),
        f"output_dir={asked}",
    )
    assert status == 0, printed
    assert said.format("ivqa_vae") in printed
    assert said.format("ivqa_vae") in (asked / "questions.html").read_text()
    # Python says the same; data with other words are not those of the training.
    model = ivqa.load_vqa(own)
    assert said.format("MLB") in ivqa.diagnose(model, photos, max_questions=8).found.note
    root = Path(shutil.copytree(tiny_root, tmp_path / "tiny"))
    questions = root / "questions_train.json"
    questions.write_text(questions.read_text().replace("star", "asterisk"))
    command[1] = f"data.root={root}"
    status, printed = run("diagnose", f"images={photos}", *command, f"output_dir={asked}2")
    assert status == 0, printed
    assert "unlike the training" not in printed


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["images=FOLDER/absent"], "there is no such file; give a file, folder or pattern"),
        (["images=FOLDER", "judge=prior"], "there is no configuration key 'judge'"),
        (["images=FOLDER", "compare=[FOLDER]"], "there is no configuration key 'compare'"),
        (["images=FOLDER/empty"], "this folder has no image files"),
        (["images=FOLDER/bad"], "broken.png"),
        (["images=FOLDER/good", "model=ivqa_rl"], "those of model=ivqa_rl are not; leave model="),
        (["images=FOLDER/good", "max_questions=0"], "max_questions=0"),
        (["images=FOLDER/good", "oracle=true"], "the name of"),
    ],
)
def test_what_cannot_be_asked_about_is_one_sentence(
    run: Run, tmp_path: Path, photos: Path, overrides: list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("bad", "good"):
        (tmp_path / name).mkdir()
        shutil.copy(photos / "photo 0.png", tmp_path / name / "photo.png")
    (tmp_path / "bad" / "broken.png").write_bytes(b"\x89PNG no picture")
    given = [item.replace("FOLDER", str(tmp_path)) for item in overrides]
    out = f"output_dir={tmp_path / 'run'}"
    served = ["vqa=openai", "vqa.path=tiny", "vqa.base_url=http://localhost:9/v1"]
    status, printed = run("diagnose", *given, *served, out)
    assert status == 1
    assert message in printed
    assert "Traceback" not in printed


def test_any_function_is_a_model(photos: Path, tmp_path: Path) -> None:
    asked = []

    def careless(picture: Image.Image, question: str) -> tuple[str, float]:
        asked.append((picture.getpixel((0, 0)), question))
        return _careless(question, picture, {})["choices"][0]["message"]["content"].lower(), 0.8

    found = ivqa.diagnose(careless, photos, max_questions=60)
    assert len(asked) == len(set(asked)) == len(found.beliefs) == 60
    assert set(found.beliefs.columns) >= {"image_id", "question", "answer", "phi", "suspect"}
    assert set(found.beliefs["phi"]) == {0.8}
    files = [str(file) for file in sorted(photos.glob("*.png"))]
    assert set(found.beliefs["picture"]) == set(files)
    for row in found.beliefs.itertuples():
        assert row.picture == files[row.image_id - 1]
    assert found.metrics["search/questions"] == 60
    assert found.metrics["beliefs/errors_at_least"] > 0
    page = found.save(tmp_path / "page")
    assert "At least" in page.read_text()
    assert len(read_beliefs(tmp_path / "page" / "beliefs.jsonl")) == 60
    pictures = [Image.new("RGB", (32, 32)), np.zeros((32, 32, 3), np.uint8)]
    in_memory = ivqa.diagnose(lambda picture, question: "yes", pictures, max_questions=20)
    assert set(in_memory.beliefs["image_id"]) == {1, 2}
    assert list(in_memory.beliefs["picture"]) == list(in_memory.beliefs["image_id"])
    # Each row has the picture that the model saw: the second of three says no.
    mixed = [files[1], Image.new("L", (8, 8), 7), files[0]]
    seen = ivqa.diagnose(
        lambda picture, question: "no" if picture.size == (8, 8) else "yes", mixed, max_questions=20
    ).beliefs
    assert set(seen["picture"]) == {files[1], 2, files[0]}
    assert [row.answer == "no" for row in seen.itertuples()] == [
        row.picture == 2 for row in seen.itertuples()
    ]
    assert set(in_memory.beliefs["phi"]) == {1.0}
    assert in_memory.save(tmp_path / "memory").is_file()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (3, "the model returned 3 to 'What is in the picture\\?'; return an answer as a text"),
        (("yes", 1.5), "the probability 1.5"),
        (("yes", None), "the probability None"),
        (("yes", float("nan")), "the probability nan"),
    ],
)
def test_what_is_no_answer_is_refused(returned: Any, message: str, photos: Path) -> None:
    with pytest.raises(UserError, match=message):
        ivqa.diagnose(lambda picture, question: returned, photos)
    with pytest.raises(UserError, match="max_questions=0 must be at least 1"):
        ivqa.diagnose(lambda picture, question: "yes", photos, max_questions=0)
    with pytest.raises(UserError, match="give a folder, or at least one picture"):
        ivqa.diagnose(lambda picture, question: "yes", [])
