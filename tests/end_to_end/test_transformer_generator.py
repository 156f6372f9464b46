"""A transformers model that asks questions, trained, evaluated and used as a policy."""

import json
from pathlib import Path

import pytest
from tiny_writer import tiny_writer

from ivqa.data import VQADataset
from ivqa.store.weights import read_weights
from ivqa.text.vocabulary import Vocabulary

from .conftest import TINY_BENCHMARK, TINY_FEATURES, Run, metrics_of


@pytest.fixture(scope="module")
def folder(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny LLaVA that knows the words of the data."""
    train = VQADataset(tiny_root).split("train")
    words = Vocabulary.build([*train.questions, *train.main_answers]).words
    return tiny_writer(tmp_path_factory.mktemp("writer"), words)


def _data(tiny_root: Path) -> list[str]:
    return ["data=vqa_json", f"data.root={tiny_root}", *TINY_FEATURES]


@pytest.mark.slow
def test_adapters_are_trained_stored_and_evaluated(
    folder: Path, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    model = ["model=ivqa_transformer", f"model.path={folder}", *_data(tiny_root)]
    status, printed = run("train", *model, "model.epochs=2", f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    best = tmp_path / "run" / "checkpoints" / "best.ckpt"
    stored = read_weights(best)["state_dict"]
    assert all("lora_" in name or name.endswith("_base") for name in stored)
    told = [*TINY_BENCHMARK, "split=val", "model.benchmark.pools.num_pairs=5"]
    status, printed = run("evaluate", *model, *told, f"ckpt={best}", f"output_dir={tmp_path / 'e'}")
    assert status == 0, printed
    trained, evaluated = metrics_of(tmp_path / "run"), metrics_of(tmp_path / "e")
    assert evaluated["val/nll_per_word"] == pytest.approx(trained["val/nll_per_word"], rel=1e-4)
    assert 0 <= evaluated["pools/acc_at_1"] <= 1
    image = next((tiny_root / "images").rglob("*.*"))
    given = [f"image={image}", "answer=yes", f"ckpt={best}", "num_latents=4"]
    status, printed = run("evaluate", *model, *given, f"output_dir={tmp_path / 'ask'}")
    assert status == 0, printed
    assert "p(q | I, a)" in printed


def test_beliefs_are_found_by_a_policy_with_adapters(
    folder: Path, run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    status, printed = run(
        "diagnose",
        "model=ivqa_rl_transformer",
        f"model.path={folder}",
        "vqa=prior",
        *_data(tiny_root),
        "model.parts.questioner.epochs=1",
        "model.parts.legality_model.epochs=1",
        "model.epochs=1",
        "model.epoch_steps=3",
        "model.val_batches=1",
        "num_images=4",
        "num_latents=6",
        "legality=0",
        "callbacks=default",
        f"output_dir={tmp_path / 'run'}",
    )
    assert status == 0, printed
    lines = (tmp_path / "run" / "beliefs.jsonl").read_text().splitlines()
    assert len(lines) == metrics_of(tmp_path / "run")["beliefs/count"] > 0
    assert json.loads(lines[0])["question"].endswith("?")


def test_adapters_without_a_fitting_layer_are_refused(
    folder: Path, run: Run, tiny_root: Path
) -> None:
    model = ["model=ivqa_transformer", f"model.path={folder}", *_data(tiny_root)]
    status, printed = run("train", *model, "model.module.network.lora.rank=0")
    assert status != 0
    assert "model.module.network.lora" in printed
    assert "greater than or equal to 1" in printed
    status, printed = run("train", *model, "model.module.network.lora.target_modules=[query]")
    assert status != 0
    assert "the model has no module 'query'" in printed
