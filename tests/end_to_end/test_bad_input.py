"""Mistakes of the user: one sentence names fault and remedy before any training starts."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from .conftest import TINY, TINY_BENCHMARK, TINY_FEATURES, TINY_MODEL, Run, metrics_of


def _edit(file: Path, change: Callable[[dict], None]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def _truncate(root: Path) -> None:
    file = root / "questions_train.json"
    file.write_text(file.read_text()[:1000])


def _duplicate(root: Path) -> None:
    _edit(root / "questions_train.json", lambda c: c["questions"].append(c["questions"][0]))


def _orphan(root: Path) -> None:
    _edit(root / "questions_train.json", lambda c: c["questions"].pop(0))


def _no_answers(root: Path) -> None:
    _edit(root / "annotations_train.json", lambda c: c["annotations"][0].update(answers=[]))


def _empty(root: Path) -> None:
    _edit(root / "questions_val.json", lambda c: c.update(questions=[]))
    _edit(root / "annotations_val.json", lambda c: c.update(annotations=[]))


def _missing_image(root: Path) -> None:
    next((root / "images" / "train").iterdir()).unlink()


def _no_image(root: Path) -> None:
    picture = next((root / "images" / "train").iterdir())
    picture.with_suffix(".jpg").write_text("no picture")
    picture.unlink()


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (_truncate, ["questions_train.json", "JSON"]),
        (_duplicate, ["questions_train.json", "100", "question_id"]),
        (_orphan, ["annotations_train.json", "question"]),
        (_no_answers, ["annotations_train.json", "answers"]),
        (_empty, ["questions_val.json", "empty"]),
        (_missing_image, ["image", "no file"]),
        (_no_image, [".jpg"]),
    ],
)
def test_damaged_data_are_refused(
    spoil: Callable[[Path], None], expected: list[str], run: Run, root: Path, tmp_path: Path
) -> None:
    spoil(root)
    output = tmp_path / "run"
    status, printed = run(
        "train", "data=vqa_json", f"data.root={root}", *TINY, f"output_dir={output}"
    )
    assert status == 1
    assert "Traceback" not in printed
    assert printed.count("error:") == 1
    for word in expected:
        assert word in printed
    assert not (output / "checkpoints").exists()


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["data.val=valid"], ["valid", "train"]),
        (["trainer.max_epoch=3"], ["did you mean trainer.max_epochs"]),
        (["+model.module.network.latent_sizes=3"], ["nothing reads", "did you mean latent_size"]),
        (["+typo=1"], ["nothing reads typo"]),
        (["features=none"], ["features=none", "concepts"]),
        (["model.image_features=[grids]"], ["grids", "offer"]),
        (["data.root=nowhere"], ["nowhere"]),
        (["min_word_count=1000000"], ["no word occurs 1000000 times", "lower min_word_count"]),
        (["model.module._target_=ivqa.Nothing"], ["cannot be imported: No module named 'ivqa.N"]),
        (
            ["model.module._target_=absent_rewards.Own"],
            ["absent_rewards.Own cannot be imported: there is no module absent_rewards; put its"],
        ),
    ],
)
def test_wrong_overrides_are_refused(
    overrides: list[str], expected: list[str], run: Run, tiny_root: Path
) -> None:
    tiny = TINY_MODEL if "features=none" in overrides else TINY
    status, printed = run("train", "data=vqa_json", f"data.root={tiny_root}", *tiny, *overrides)
    assert status == 1
    assert "Traceback" not in printed
    assert "Are you sure" not in printed  # Hydra's own log of the same error
    assert printed.count("error:") == 1
    for word in expected:
        assert word in printed


def test_wrong_checkpoints_are_refused(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", *TINY]
    (tmp_path / "broken.ckpt").write_bytes(b"no checkpoint")
    for ckpt, expected in (
        ("none", "ckpt=none: there is no such checkpoint; pass a file, or auto"),
        ("absent.ckpt", "ckpt=absent.ckpt: there is no such checkpoint"),
        ("broken.ckpt", "broken.ckpt is not a readable checkpoint"),
    ):
        status, printed = run("evaluate", *data, f"ckpt={ckpt}")
        assert status == 1
        assert expected in printed.replace("\n", " ")
        assert "Traceback" not in printed


def test_a_checkpoint_of_another_model_is_refused(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", *TINY]
    assert run("train", "model=ivqa_image_only", *data, "output_dir=run")[0] == 0
    ckpt = "run/checkpoints/best.ckpt"
    status, printed = run("evaluate", "model=ivqa_vae", *data, f"ckpt={ckpt}")
    assert status == 1
    assert "does not hold the weights of model=ivqa_vae" in printed.replace("\n", " ")


def test_a_checkpoint_of_other_features_or_answers_is_refused(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    data = ["model=mlb", "data=vqa_json", f"data.root={tiny_root}", *TINY_FEATURES]
    assert run("train", *data, "model.epochs=1", "output_dir=run")[0] == 0
    ckpt = tmp_path / "run" / "checkpoints" / "best.ckpt"
    status, printed = run("evaluate", *data, "features.width=8", f"ckpt={ckpt}")
    assert status == 1
    printed = " ".join(printed.split())
    assert "best.ckpt was trained on the image features {'grid':" in printed
    assert "pass the features= and data= it was trained with" in printed
    content = torch.load(ckpt, weights_only=True)
    content["component"]["answers"].pop()
    torch.save(content, tmp_path / "other.ckpt")
    status, printed = run("evaluate", *data, f"ckpt={tmp_path / 'other.ckpt'}")
    assert status == 1
    printed = " ".join(printed.split())
    assert "other.ckpt does not hold the weights of model=mlb" in printed
    assert "Traceback" not in printed


def test_invalid_result_files_are_refused(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}"]
    asked = json.loads((tiny_root / "questions_val.json").read_text())["questions"]
    right = [{"question_id": one["question_id"], "answer": "yes"} for one in asked]
    first = right[0]["question_id"]
    file = tmp_path / "results.json"
    for text, expected in (
        (json.dumps(right)[:-9], ["results.json: invalid JSON", "seems cut off"]),
        (json.dumps([*right, right[0]]), [f"question {first}: question_id: occurs twice"]),
        (json.dumps(right[1:]), [f"question {first}: of 'val' has no answer"]),
        (
            json.dumps([*right, {"question_id": 5, "answer": "yes"}]),
            ["question 5: question_id: is not in split 'val'"],
        ),
        (json.dumps([*right[1:], {"question_id": first}]), ["answer: is missing"]),
        (json.dumps({"results": right}), ["must hold a list of"]),
    ):
        file.write_text(text)
        status, printed = run("evaluate", *data, f"predictions={file}")
        assert status == 1
        assert printed.count("error:") == 1
        for words in expected:
            assert words in " ".join(printed.split())


def test_text_only_data_need_a_model_without_images(run: Run, root: Path) -> None:
    for file in (root / "images").rglob("*.png"):
        file.unlink()
    for folder in sorted((root / "images").rglob("*"), reverse=True):
        folder.rmdir()
    (root / "images").rmdir()
    for name in ("questions", "annotations"):
        file = root / f"{name}_train.json"
        (root / f"{name}_train.json.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    data = ["data=vqa_json", f"data.root={root}", *TINY]
    status, printed = run("train", *data)
    assert status == 1
    assert "has no images" in printed.replace("\n", " ")
    text = ["data=vqa_json", f"data.root={root}", *TINY_MODEL, "features=none"]
    status, printed = run("train", "model=ivqa_answer_only", *text, "trainer.max_epochs=1")
    assert status == 0, printed


def test_bfloat16_is_refused_on_a_processor_without_avx512(
    run: Run, tiny_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    status, printed = run(
        "train",
        "model=language_only",
        "data=vqa_json",
        f"data.root={tiny_root}",
        "trainer.accelerator=cpu",
        "trainer.precision=bf16-mixed",
    )
    assert status == 1
    assert "trainer.precision=bf16-mixed" in printed
    assert "trainer.precision=auto" in printed
    assert "Traceback" not in printed


def test_paths_may_contain_any_character(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    ugly = "a=b [1], 'x' é"
    root, run_dir = tmp_path / f"data {ugly}", tmp_path / f"run {ugly}"
    shutil.copytree(tiny_root, root)
    command = ["model=ivqa_answer_only", "features=none", "data=vqa_json", f"data.root={root}"]
    command += [*TINY_MODEL, *TINY_BENCHMARK, "model.epochs=1"]
    train = [item for item in command if item not in TINY_BENCHMARK]
    assert run("train", *train, f"output_dir={run_dir}")[0] == 0
    assert run("train", f"resume={run_dir}", "trainer.max_epochs=2")[0] == 0
    assert metrics_of(run_dir)["train/epochs"] == 2
    ckpt = run_dir / "checkpoints" / "best.ckpt"
    scored = tmp_path / f"scored {ugly}"
    status, printed = run("evaluate", *command, f"ckpt={ckpt}", f"output_dir={scored}")
    assert status == 0, printed
    assert metrics_of(scored)


@pytest.mark.parametrize(
    ("command", "override", "expected"),
    [
        ("train", "model.epochs=a", "model.epochs=a: must be an integer from 1"),
        ("train", "trainer.devices=99", "trainer.devices=99: this machine has"),
        ("train", "model.module.optimizer.lr=1e30", "lr=1e+30: must be a number above 0"),
        ("train", "model.monitor=val/nothing", "model.monitor=val/nothing: ivqa_vae does not log"),
        ("train", "data=null", "data=null: choose a file of conf/data"),
        ("train", "~data", "data must be set"),
        ("train", "~trainer", "trainer must be set"),
        ("train", "~model.module", "leave ~model.module out"),
        ("train", "~model", "model must be set"),
        ("diagnose", "vqa=null", "vqa=null: choose a file of conf/model"),
        (
            "evaluate",
            "model=mlb callbacks=consistency witness=mlb",
            "witness=mlb: is the model itself; choose another one",
        ),
        ("train", "command=null", "command=null: must be a mapping"),
        (
            "evaluate",
            "callbacks=robustness ranker.lam=1e300",
            "ranker.lam=1e+300: must be a number",
        ),
        ("train", "data=vqa_json data.root=", "data.root='': must be the folder"),
        ("train", "data=vqa_json data.root=s3://a/b", "s3://a/b: is an address; download"),
        ("evaluate", "sweep=lasso_lambda trials=-1", "trials=-1: must be an integer from 1"),
        ("evaluate", "sweep=lasso_lambda trials=0", "trials=0: must be an integer from 1"),
        ("evaluate", "sweep=lasso_lambda trials=a", "trials=a: must be an integer from 1"),
        ("evaluate", "-m --cfg job", "exclude each other"),
        (
            "train",
            "modle=mlb trainr.max_epochs=3",
            "mean model?; there is no configuration key 'tr",
        ),
        ("evaluate", "split=nothing", "split=nothing: must be one of train, val, test"),
        ("evaluate", "ckpt=/no/such/file", "ckpt=/no/such/file: there is no such checkpoint"),
        ("diagnose", "num_images=-1", "num_images=-1: must be an integer from 1"),
    ],
)
def test_bad_values_are_refused_before_data_are_read(
    command: str, override: str, expected: str, run: Run, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    folders = [f"artifacts={store}", f"output_dir={tmp_path / 'run'}"]
    status, printed = run(command, *override.split(), *folders)
    assert status == 1
    assert expected in printed
    assert printed.count("\n") == printed.count("error:") == 1
    assert not store.exists()


LONG = "x" * 300


@pytest.mark.parametrize(
    "folder",
    ["file", "file/below", "/dev/null", "/dev/null/x", "/proc/x", "/proc", LONG, f"a/{LONG}/b"],
)
@pytest.mark.parametrize("key", ["output_dir", "artifacts", "-m output_dir", "name"])
def test_folders_that_cannot_be_made_are_refused(
    key: str, folder: str, run: Run, tmp_path: Path
) -> None:
    if key == "name" and LONG not in folder:
        pytest.skip("a name is the last part of a folder")
    (tmp_path / "file").touch()
    *flags, name = key.split()
    train = ["model=language_only", "features=none"]
    status, printed = run("train", *flags, *train, f"{name}={folder}")
    assert status == 1
    assert "no folder can be made there (" in printed
    named = "output_dir" if name == "name" else name
    assert printed.startswith(f"error: {named}=")
    assert printed.count("\n") == printed.count("error:") == 1
    assert {path.name for path in tmp_path.iterdir()} <= {"file", "outputs", "a"}


def test_a_folder_of_any_name_is_printed_as_it_is(run: Run, root: Path, tmp_path: Path) -> None:
    train = ["model=language_only", "features=none", "data=vqa_json", f"data.root={root}"]
    for name in ("run[a]", "[/b]", ":car: é", "a\nb"):
        status, printed = run("train", *train, "model.epochs=1", f"output_dir={tmp_path / name}")
        assert status == 0
        assert printed.endswith(f"run: {tmp_path / name}\n")
        assert metrics_of(tmp_path / name)


def test_the_home_directory_is_meant_by_a_tilde(
    run: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    train = ["model=language_only", "features=none", "data=vqa_json", "model.epochs=1"]
    assert run("train", *train, "data.root=~/root", "output_dir=~/a [run]")[0] == 0
    assert metrics_of(tmp_path / "a [run]")
    assert not (tmp_path / "~").exists()


def test_too_little_memory_is_one_sentence(run: Run, root: Path, tmp_path: Path) -> None:
    train = ["model=language_only", "features=none", "data=vqa_json", f"data.root={root}"]
    status, printed = run("train", *train, "question_encoder.size=1000000000")
    assert status == 1
    assert "error: the memory does not suffice (" in printed
    assert "choose smaller sizes or batches" in printed
    assert "Traceback" not in printed


def _layouts(change: Callable[[dict], None]) -> Callable[[Path], None]:
    return lambda root: _edit(root / "layouts_train.json", change)


def _first(layout: list[str]) -> Callable[[Path], None]:
    return _layouts(lambda content: content.update({next(iter(content)): layout}))


def _without(name: str) -> Callable[[Path], None]:
    return lambda root: (root / name).unlink()


def _nothing(root: Path) -> None:
    """Leaves the data valid."""


@pytest.mark.parametrize(
    ("spoil", "command", "message"),
    [
        (
            _nothing,
            "train model=n2nmn model.module.network.max_layout=2",
            "steps; raise max_layout",
        ),
        (
            _first(["_Find", "_Filter", "_Exist"]),
            "evaluate model=n2nmn split=val",
            "uses _Filter, which is not among the modules",
        ),
        (
            _first(["_Find", "_And", "_Exist"]),
            "train model=n2nmn",
            "layout _Find _And _Exist is not in reverse Polish with one answer module at its end",
        ),
        (
            _layouts(lambda content: content.pop(next(iter(content)))),
            "train model=n2nmn",
            "split 'train' has no layout for question",
        ),
        (
            _without("layouts_train.json"),
            "diagnose vqa=n2nmn split=val",
            "n2nmn clones expert layouts, but these data have none",
        ),
        (
            _without("layouts_train.json"),
            "train model=ivqa_attention",
            "answer_network= of model=ivqa_attention learns from layouts, which split 'train' does "
            "not have; pass answer_network=mlb",
        ),
        (
            _first(["_Find", "_Filter", "_Exist"]),
            "train model=ivqa_attention",
            "uses _Filter, which is not among the modules",
        ),
        (
            _nothing,
            "train model=ivqa_attention model.module.answer_features=[concepts] answer_network=mlb",
            "attention needs a spatial feature, but 'concepts' is one vector an image",
        ),
        (
            _nothing,
            "train model=n2nmn model.module.network.modules=[_Find,_And]",
            "must hold an answer module and only these",
        ),
        (
            _nothing,
            "train model=mlb model.image_features=[pooled]",
            "attention needs a spatial feature, but 'pooled' is one vector an image",
        ),
        (
            _nothing,
            "train model=vanilla model.image_features=[pooled,concepts]",
            "vanilla reads exactly one image feature, not ['concepts', 'pooled']",
        ),
        (
            _nothing,
            "train model=mcb model.module.network.pool=3",
            "image feature 'grid' has 16 places, which are not a square of 3 x 3 tiles",
        ),
        (
            _nothing,
            "train model=mlb model.image_features=[grids]",
            "reads the image features ['grids'], which features= does not offer",
        ),
        (
            _without("annotations_train.json"),
            "train model=mlb",
            "split 'train' has no annotations",
        ),
        (
            _without("annotations_val.json"),
            "evaluate model=mlb split=val",
            "split 'val' has no annotations",
        ),
        (
            _without("annotations_val.json"),
            "diagnose vqa=mlb split=val",
            "split 'val' has no annotations",
        ),
        (
            _nothing,
            "evaluate model=mlb split=val callbacks=robustness noise=joint noise.question.levels=3",
            "joint noise needs equally many levels, not 3",
        ),
        (
            _nothing,
            "evaluate model=mlb split=val callbacks=robustness noise=bqd noise.path=bqd.json",
            "bqd.json has no basic questions for",
        ),
        (
            _nothing,
            "train model=mlb augment=basic_questions ~augment.noise.cache ~augment.noise.ranker "
            "augment.noise._target_=ivqa.robustness.BQDNoise +augment.noise.path=bqd.json",
            "bqd.json has no basic questions for",
        ),
    ],
)
def test_data_are_checked_before_features_are_computed(
    spoil: Callable[[Path], None], command: str, message: str, run: Run, root: Path, tmp_path: Path
) -> None:
    spoil(root)
    record = {"image": 1, "MQ": "Is it a yak?", "BQ": [["Is it?", 0.5], ["Is?", 0.4]]}
    (tmp_path / "bqd.json").write_text(json.dumps([record]))
    name, *overrides = command.split()
    data = ["data=vqa_json", f"data.root={root}", *TINY_FEATURES, f"artifacts={tmp_path / 'store'}"]
    status, printed = run(name, *data, *overrides, f"output_dir={tmp_path / 'run'}")
    printed = " ".join(printed.split())
    assert status == 1
    assert message in printed
    assert "Traceback" not in printed
    assert printed.count("error:") == 1
    built = [file for file in (tmp_path / "store").rglob("*") if file.is_file()]
    assert built == []
