"""evaluate.py image=..., from the command line, and ivqa.load and ivqa.load_vqa in Python."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf
from PIL import Image

import ivqa
from ivqa.data.batches.batch import ImageBatch
from ivqa.data.given_pictures import NumberedPictures
from ivqa.errors import UserError
from ivqa.generators import GeneratorModule, VariationalGenerator
from ivqa.text.vocabulary import Vocabulary
from ivqa.vqa.transformers.hf_generative import HFGenerative
from tiny_transformers import QUESTIONS, tiny_llava

from .conftest import PROJECT, TINY, TINY_DIAGNOSIS, TINY_FEATURES, Run, metrics_of


@pytest.fixture(scope="module")
def picture(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture of the data under another name, in a folder with an odd name."""
    folder = tmp_path_factory.mktemp("my photos") / "a=b [1]"
    folder.mkdir()
    source = sorted((tiny_root / "images" / "val").iterdir())[3]
    return Path(shutil.copy(source, folder / "photo.png"))


def _data(root: Path) -> list[str]:
    return ["data=vqa_json", f"data.root={root}"]


def _records(run_dir: Path) -> list[dict]:
    return [json.loads(line) for line in (run_dir / "questions.jsonl").read_text().splitlines()]


@pytest.fixture
def trained(run: Run, tiny_root: Path, tmp_path: Path) -> Path:
    """The run directory of a tiny generator."""
    folder = tmp_path / "trained"
    status, printed = run("train", *_data(tiny_root), *TINY, f"output_dir={folder}")
    assert status == 0, printed
    return folder


def test_the_questions_are_those_of_the_generator_on_the_stored_features(
    run: Run, trained: Path, picture: Path, tiny_root: Path, tmp_path: Path, artifacts: Path
) -> None:
    command = [f"image={picture}", "answer=yes", *_data(tiny_root), *TINY, "num_questions=4"]
    ckpt = trained / "checkpoints" / "best.ckpt"
    status, printed = run(
        "evaluate", "task=ask", *command, f"ckpt={ckpt}", f"output_dir={tmp_path / 'asked'}"
    )
    assert status == 0, printed
    assert "photo.png: questions of ivqa_vae" in printed
    assert "No trained" not in printed
    (record,) = _records(tmp_path / "asked")
    assert record["image"] == str(picture)
    assert record["answer"] == "yes"
    asked = record["questions"]
    assert len(asked) == 4
    assert asked[0]["question"].split()[0] in printed

    # The same image in the data set: its stored features, read without ivqa's reader of pictures.
    module = _generator(ckpt)
    names = sorted((tiny_root / "images" / "val").iterdir())
    image_id = int(names[3].stem.rpartition("_")[2])
    stores = [
        folder.parent
        for folder in artifacts.glob("features/*/val")
        if np.load(folder / "concepts.npy").shape[1] == module.feature_sizes["concepts"]
    ]
    rows = [np.load(store / "val" / "ids.npy").tolist().index(image_id) for store in stores]
    found = []
    for store, row in zip(stores, rows, strict=True):
        values = torch.from_numpy(np.load(store / "val" / "concepts.npy")[[row]]).float()
        first = torch.zeros(1, dtype=torch.int64)
        batch = ImageBatch(first, first, concepts=values).repeat_interleave(4)
        texts = [one["question"] for one in asked]
        found.append(module.log_likelihood(batch, ["yes"] * 4, texts).exp().tolist())
    wanted = [one["probability"] for one in asked]
    assert any(np.allclose(wanted, values, rtol=0.1) for values in found)
    assert wanted == sorted(wanted, reverse=True)
    metrics = metrics_of(tmp_path / "asked")
    assert metrics["ask/questions"] == 4
    assert metrics["ask/best_probability"] == pytest.approx(wanted[0])


def _generator(ckpt: Path) -> GeneratorModule:
    checkpoint = torch.load(ckpt, weights_only=True)
    component = checkpoint["component"]
    settings = component["network"]["arguments"]
    module = GeneratorModule(
        network=lambda **given: VariationalGenerator(**{**settings, **given}),
        question_vocabulary=Vocabulary(component["question_words"]),
        answer_words=Vocabulary(component["answer_words"]),
        feature_sizes=component["feature_sizes"],
        likelihood_samples=10_000,  # the command takes 512, with other noise
    )
    module.load_state_dict(checkpoint["state_dict"])
    return module.eval()


def test_python_gives_what_the_command_gives(
    run: Run,
    trained: Path,
    picture: Path,
    tiny_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    best = trained / "checkpoints" / "best.ckpt"
    command = [f"image={picture}", "answer=yes", *_data(tiny_root), *TINY, "num_questions=3"]
    vqa = ["vqa=language_only", "vqa.epochs=1"]
    output = f"output_dir={tmp_path / 'asked'}"
    status, printed = run("evaluate", *command, *vqa, f"ckpt={best}", output)
    assert status == 0, printed
    (record,) = _records(tmp_path / "asked")
    texts = [one["question"] for one in record["questions"]]

    before = HydraConfig.instance().cfg
    for source in (trained, best, tmp_path / "asked"):
        asked = ivqa.load(source).ask(str(picture), "yes", n=3)
        assert [one.question for one in asked] == texts
        for one, known in zip(asked, record["questions"], strict=True):
            assert one.probability == pytest.approx(known["probability"], rel=1e-4)
    with pytest.raises(AttributeError):
        asked[0].question = "changed"  # type: ignore[misc]
    assert HydraConfig.instance().cfg is before

    overrides = {"data.root": str(tiny_root), "model.epochs": 1}
    overrides |= {key: int(value) for key, value in (o.split("=") for o in TINY_FEATURES)}
    model = ivqa.load_vqa("language_only", data="vqa_json", **overrides)
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    scores = model.log_scores(pixels, texts)
    assert model.answers is not None
    assert scores.shape == (3, len(model.answers))
    assert scores.exp().sum(dim=1).tolist() == pytest.approx([1] * 3, abs=1e-4)
    answers = model.answer(Image.open(picture), texts)
    assert answers == [model.answers[index] for index in scores.argmax(dim=1).tolist()]
    assert answers == [one["vqa_answer"] for one in record["questions"]]
    best_scores = scores.max(dim=1).values.exp().tolist()
    assert best_scores == pytest.approx([one["vqa_probability"] for one in record["questions"]])
    two = model.log_scores(picture, texts, ["no", "yes"])
    columns = [model.answers.index("no"), model.answers.index("yes")]
    torch.testing.assert_close(two, scores[:, columns])
    assert model.answer(picture, []) == []
    with pytest.raises(UserError, match=r"must be a list of texts; write \['Is it\?'\]"):
        model.answer(picture, "Is it?")
    # The run of a diagnosis or of asking knows its VQA model too.
    assert ivqa.load_vqa(tmp_path / "asked").answer(picture, texts) == answers
    with pytest.raises(UserError, match=r"load it with ivqa\.load_vqa"):
        ivqa.load("language_only", data="vqa_json", **overrides)
    with pytest.raises(UserError, match="neither a run directory nor a checkpoint nor a model"):
        ivqa.load("ivqa_vea")
    with pytest.raises(UserError, match="there is no such run directory or checkpoint"):
        ivqa.load(tmp_path / "none")
    with pytest.raises(UserError, match=r"has no config\.yaml"):
        ivqa.load(tmp_path)
    with pytest.raises(UserError, match=r"there is no configuration key 'modle\.epochs'"):
        ivqa.load(trained, **{"modle.epochs": 3})


def test_a_policy_asks_and_its_run_knows_the_vqa_model(
    run: Run, picture: Path, tiny_root: Path, tmp_path: Path
) -> None:
    small = [item for item in TINY_DIAGNOSIS if "num_" not in item and "legality=" not in item]
    command = ["model=ivqa_rl", "vqa=prior", *_data(tiny_root), *small]
    status, printed = run("train", *command, f"output_dir={tmp_path / 'policy'}")
    assert status == 0, printed
    model = ivqa.load(tmp_path / "policy")
    asked = model.ask(picture, "yes", n=3)
    assert len(asked) == 3
    module = model.model.module
    assert model.model.questioner is module.questioner
    assert not module.questioner.training
    assert ivqa.load_vqa(tmp_path / "policy").answers == module.answerer.answers.answers


def test_without_an_answer_the_vqa_model_chooses_and_a_folder_gives_a_page(
    run: Run, trained: Path, picture: Path, tiny_root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    shutil.copy(picture, folder / "one.png")
    Image.new("RGB", (1, 1)).save(folder / "two.gif")
    best = f"ckpt={trained / 'checkpoints' / 'best.ckpt'}"
    command = [*_data(tiny_root), *TINY, best, "num_questions=3", "num_top_answers=2"]
    vqa = ["vqa=prior", "vqa.epochs=1"]
    output = f"output_dir={tmp_path / 'asked'}"
    status, printed = run("evaluate", f"image={folder}", *vqa, *command, output)
    assert status == 0, printed
    page = tmp_path / "asked" / "questions.html"
    assert f"contact sheet: {page}" in printed
    records = _records(tmp_path / "asked")
    assert [Path(one["image"]).name for one in records] == ["one.png"] * 2 + ["two.gif"] * 2
    text = page.read_text()
    assert text.count("<article") == 4
    assert "prior: " in text
    assert "in the data set" not in text
    assert "all answer types" not in text
    # The prior gives the same answers to every question: its own probabilities are the order.
    given = {one["questions"][0]["vqa_answer"]: one["questions"][0] for one in records}
    assert len(given) == 1
    (answer,) = given
    assert records[0]["answer"] == answer
    assert records[0]["answer_share"] == pytest.approx(given[answer]["vqa_probability"], rel=1e-3)

    status, printed = run("evaluate", f"image={folder}/*.png", *command, output)
    assert status == 0, printed
    assert "the most frequent of the training split" in printed
    main = [json.loads((tiny_root / f"annotations_{s}.json").read_text()) for s in ("train",)]
    answers = [one["multiple_choice_answer"] for one in main[0]["annotations"]]
    share = answers.count("yes") / len(answers)
    shown = {one["answer"]: one["answer_share"] for one in _records(tmp_path / "asked")}
    assert math.isclose(shown["yes"], share)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["image=PICTURES/text.jpg"], "text.jpg: picture cannot be read"),
        (["image=PICTURES/none.jpg"], "there is no such file"),
        (["image=PICTURES/empty"], "this folder has no image files"),
        (["image=PICTURES"], "text.jpg: picture cannot be read"),
        (["image=PICTURES/one.png", "answer=yse"], "did you mean yes"),
        (["image=PICTURES/one.png", "answer=[yes,zzz]"], "does not know the word 'zzz'"),
        (["image=PICTURES/one.png", "answer=[]"], "names no answer"),
        (["image=PICTURES/one.png", "model=ivqa_answer_only"], "reads no images"),
        (["image=PICTURES/one.png", "features=none"], "but features=none"),
        (["image=PICTURES/one.png", "model=mlb"], "generates no questions"),
        (["image=PICTURES/one.png", "model=ivqa_vqg_vqa", "vqa=mlb"], "gives no probabilities"),
        (["image=PICTURES/one.png", "model=ivqa_nearest_neighbour"], "gives no probabilities"),
        (["image=PICTURES/one.png", "vqa=legality"], "answers no questions"),
        (["image=PICTURES/one.png", "ckpt=none.ckpt"], "there is no such checkpoint"),
        (["image=PICTURES/one.png", "vqa=mlb", "vqa_ckpt=x.ckpt"], "there is no such checkpoint"),
        (["image=PICTURES/one.png", "num_questions=0"], "num_questions=0"),
        (["task=ask"], "image must be set"),
    ],
)
def test_bad_input_is_one_sentence_before_anything_is_trained(
    overrides: list[str], message: str, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    pictures, store = tmp_path / "pictures", tmp_path / "artifacts"
    (pictures / "empty").mkdir(parents=True)
    Image.new("RGB", (1, 1)).save(pictures / "one.png")
    (pictures / "text.jpg").write_text("text")
    given = [item.replace("PICTURES", str(pictures)) for item in overrides]
    status, printed = run("evaluate", *_data(tiny_root), *given, f"artifacts={store}")
    assert status == 1, printed
    assert message in " ".join(printed.split())
    assert len([line for line in printed.splitlines() if line.strip()]) == 1
    assert not list(store.glob("models/*"))
    assert not list(store.rglob("cnn.pt"))


def test_a_model_that_reads_pixels_gets_the_picture(
    run: Run, trained: Path, picture: Path, tiny_root: Path, tmp_path: Path
) -> None:
    folder = tiny_llava(tmp_path / "llava")
    settings = {"model.path": str(folder), "model.module.device": "cpu"}
    model = ivqa.load_vqa("hf_generative", data="vqa_json", **{"data.root": tiny_root, **settings})
    assert model.answers is None
    prompt = OmegaConf.load(PROJECT / "conf" / "model" / "hf_generative.yaml").prompt
    direct = HFGenerative.load(str(folder), prompt=prompt, device="cpu")
    index = torch.zeros(3, dtype=torch.int64)
    pixels = Image.open(picture).convert("RGB")
    images = ImageBatch(index[:1], index, source=NumberedPictures({0: pixels}))
    texts = QUESTIONS[:3]
    wanted = direct.log_scores(images, texts, ["yes", "no"])
    torch.testing.assert_close(model.log_scores(picture, texts, ["yes", "no"]), wanted)
    turned = model.log_scores(pixels.rotate(180), texts, ["yes", "no"])
    assert not torch.allclose(turned, wanted)
    assert model.answer(picture, texts) == direct.answer(images, texts)

    best = f"ckpt={trained / 'checkpoints' / 'best.ckpt'}"
    command = [f"image={picture}", *_data(tiny_root), *TINY, best, "num_questions=2"]
    vqa = ["vqa=hf_generative", f"vqa.path={folder}", "vqa.module.device=cpu", "answer=[no,yes]"]
    status, printed = run("evaluate", *command, *vqa, f"output_dir={tmp_path / 'asked'}")
    assert status == 0, printed
    for record in _records(tmp_path / "asked"):
        asked = [one["question"] for one in record["questions"]]
        assert [one["vqa_answer"] for one in record["questions"]] == model.answer(picture, asked)
        for one in record["questions"]:
            score = model.log_scores(picture, [one["question"]], [one["vqa_answer"]])
            assert one["vqa_probability"] == pytest.approx(float(score.exp()), rel=1e-3)


def test_released_models_need_no_data(run: Run, picture: Path, tmp_path: Path) -> None:
    """Of an empty store, a scene and a photograph."""
    store = tmp_path / "store"
    noise = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "photo.png")
    said = "The picture is unlike the training pictures of ivqa_vae (scenes)"
    for file, unlike in ((picture, False), (tmp_path / "photo.png", True)):
        asked = tmp_path / file.stem / str(unlike)
        command = [f"image={file}", "vqa=mlb", "num_questions=2", "num_latents=5"]
        command += ["num_top_answers=2", "likelihood_samples=4", f"artifacts={store}"]
        status, printed = run("evaluate", *command, f"output_dir={asked}")
        assert status == 0, printed
        assert "ivqa_vae: released weights" in printed
        assert "mlb: released weights" in printed
        assert (said in printed) == unlike
        assert len(_records(asked)) == 2
    assert not (store / "data").exists()
    assert not list(store.rglob("*.npy"))
    status, printed = run("evaluate", f"image={picture}", "answer=yess", f"artifacts={store}")
    assert status == 1
    assert "answer 'yess': the generator does not know the word 'yess'; did you mean yes" in printed
    assert not (store / "data").exists()
