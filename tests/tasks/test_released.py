"""Released weights fit the current data, configuration and code, and reproduce their scores."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import OmegaConf
from PIL import Image
from rich.console import Console

from ivqa import released
from ivqa.features import ConceptFeatures
from ivqa.runs.context import RunContext
from ivqa.scenes import generation
from ivqa.store.files import FileError
from ivqa.tasks.evaluate import _may_be_released
from tools import release

NAMES = {"features", "ivqa_vae", "legality", "mlb", "training"}


@pytest.fixture(autouse=True)
def _no_hydra() -> None:
    GlobalHydra.instance().clear()


def test_released_weights_fit_the_data_and_configuration_of_diagnose() -> None:
    wanted = release.released_identities()
    assert wanted.keys() == released.catalogue().keys() == NAMES
    for name, identity in wanted.items():
        assert released.catalogue()[name].identity == identity, f"{name}: run `make release`"


def test_each_released_weight_has_a_card_with_its_scores() -> None:
    text = (released.FOLDER / "README.md").read_text()
    assert text == release.cards(), "run `make release CHECK=1`"
    found = {part.partition("\n")[0]: part for part in text.split("\n## ")[1:]}
    manifest = json.loads((released.FOLDER / "manifest.json").read_text())
    assert found.keys() == manifest.keys() == NAMES
    for name, entry in manifest.items():
        assert entry["digest"] in found[name]
        for term, value in entry["scores"].items():
            assert f"`{term}` {value:.3f}" in found[name]
            assert f"`{term}`:" in found[name]  # what it means


def test_released_weights_were_scored_with_the_current_code() -> None:
    for name, code in release.released_codes().items():
        assert released.catalogue()[name].code == code, f"{name}: run `make release CHECK=1`"


@pytest.mark.parametrize(
    "override",
    [
        "data.seed=3",
        "data.images.train=2000",
        "model.parts.questioner.module.network.hidden_size=128",
        "min_word_count=2",
    ],
)
def test_other_data_or_settings_find_no_released_weights(override: str) -> None:
    wanted = release.released_identities(override)
    codes = release.released_codes(override)
    assert released.find("ivqa_vae", wanted["ivqa_vae"], codes["ivqa_vae"]) is None
    # The legality model is trained on samples of the generator, so it does not fit either.
    assert released.find("legality", wanted["legality"], codes["legality"]) is None


def test_another_seed_finds_tools_but_no_vqa_model() -> None:
    # The generator is a tool; a VQA model is what an experiment over seeds measures.
    wanted, codes = release.released_identities("seed=2"), release.released_codes("seed=2")
    for name, one in released.catalogue().items():
        found = released.find(name, wanted[name], codes[name])
        assert found == (None if name == "mlb" else one), name


def test_released_weights_are_never_for_the_model_that_a_command_trains() -> None:
    part = release._bench(None).parts["questioner"]
    assert part.released == released.catalogue()["ivqa_vae"]
    assert replace(part, is_part=False).released is None


@pytest.mark.parametrize(
    ("overrides", "sweep", "wanted"),
    [
        ([], "", True),
        (["seed=2"], "", False),
        (["hydra.mode=MULTIRUN"], "", False),  # its jobs are compared with each other
        ([], "abc", False),  # the points of W&B's agent too
    ],
)
def test_a_single_evaluation_may_start_from_released_weights(
    overrides: list[str], sweep: str, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_SWEEP_ID", sweep)
    with initialize_config_dir(str(release.CONF), version_base="1.3"):
        cfg = compose("evaluate", ["model=mlb", *overrides], return_hydra_config=True)
    HydraConfig.instance().set_config(cfg)
    assert _may_be_released(cfg) == wanted


def test_a_loaded_model_uses_the_weights_that_diagnose_uses(tmp_path: Path) -> None:
    # ivqa.load_vqa("mlb") and image=photo.jpg vqa=mlb load the model of evaluate.py as a part.
    with initialize_config_dir(str(release.CONF), version_base="1.3"):
        cfg = compose("evaluate", ["model=mlb", f"artifacts={tmp_path}", "output_dir=."])
    context = RunContext(cfg, instantiate(cfg.data), None, Console(), is_part=True)
    assert context.released == released.catalogue()["mlb"]
    assert replace(context, cfg=OmegaConf.merge(cfg, {"pretrained": False})).released is None


def test_what_is_released_about_the_training_data_is_true_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = released.catalogue()["training"]
    settings = generation.SceneSettings(dict(generation.DEFAULT_IMAGES), 10, 0, False)
    (tmp_path / "images").mkdir()
    draw = partial(generation._generate_chunk, settings, "train", 0, tmp_path / "images")
    # The pictures that others are compared with, by the position of their scene.
    chosen = np.random.default_rng(0).permutation(np.arange(1, 4001))[:2] - 1
    rows = known.weights()["grid"]
    assert rows.shape == (500, 128)
    network, _ = ConceptFeatures().load_released(released.catalogue()["features"])
    for row, index in zip(rows, chosen.tolist(), strict=False):
        draw(index)  # and the 49 scenes behind it
        file = tmp_path / "images" / f"scenes_train_{index + 1:012d}.png"
        picture = Image.open(file).convert("RGB").resize((96, 96), Image.Resampling.BILINEAR)
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None].float() / 255
        with torch.no_grad():
            grid = network.eval()(pixels)[0]
        assert row == pytest.approx(grid.mean(dim=1)[0].numpy(), abs=0.05)
    nothing = SimpleNamespace(save=lambda *_, **__: None)
    monkeypatch.setattr(generation, "render", lambda *_: nothing)
    parts = [draw(start)["annotations"] for start in range(0, 4000, 50)]
    counts = Counter(one["multiple_choice_answer"] for part in parts for one in part)
    assert known.component()["answers"] == counts


def test_other_code_finds_no_released_weights() -> None:
    one = released.catalogue()["ivqa_vae"]
    assert released.find("ivqa_vae", one.identity, one.code) == one
    assert released.find("ivqa_vae", one.identity, "0" * 16) is None
    assert released.find("vanilla", one.identity, one.code) is None


def test_a_changed_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = released.catalogue()["features"]
    monkeypatch.setattr(released, "FOLDER", tmp_path)
    with pytest.raises(FileError, match=r"features.safetensors is missing or was changed"):
        one.weights()
    whole = shutil.copy(Path(released.__file__).with_name(one.file.name), one.file)
    assert one.weights()
    content = bytearray(Path(whole).read_bytes())
    content[-1] ^= 1
    one.file.write_bytes(content)
    with pytest.raises(FileError, match="pretrained=false"):
        one.weights()


def test_released_weights_take_at_most_ten_megabytes() -> None:
    assert sum(one.file.stat().st_size for one in released.catalogue().values()) <= 10e6


@pytest.mark.processor
def test_released_weights_reproduce_their_scores(tmp_path: Path) -> None:
    scenes = release.small_scenes(tmp_path)
    for name, scores in release.score(scenes, f"artifacts={tmp_path}").items():
        assert scores == pytest.approx(released.catalogue()[name].scores, abs=release.TOLERANCE)
