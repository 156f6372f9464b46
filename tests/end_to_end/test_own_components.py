"""A component of the user that fails is named, and before the long work where that is possible."""

import shlex
import sys
from pathlib import Path

import pytest
import yaml

from .conftest import TINY_FEATURES, Run

COMPONENTS = """
import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn

from ivqa.ranking import Ranking
from ivqa.vqa import VQANetwork


class Network(VQANetwork):
    def __init__(self, *, num_words, num_answers, feature_sizes, fault="none"):
        super().__init__()
        self.fault = fault
        self.words = nn.EmbeddingBag(num_words, num_answers, mode="sum", padding_idx=0)

    def forward(self, images, question):
        logits = self.words(question.ids)
        if self.fault == "raises":
            return self.scaled(logits)
        if self.fault == "undefined":
            return logits * float("nan")
        return {"none": logits, "shape": logits[:, :3], "axis": logits[0]}[self.fault]

    def scaled(self, logits):
        raise ValueError("no scale\\nfor colours")  # MARK


class Reward:
    def __init__(self, value):
        self.value = value

    def __call__(self, candidates):
        return torch.full((len(candidates),), self.value)


class Ranker:
    def rank(self, questions, pool, k, exclude):
        rows = np.full((len(questions), k), len(pool))
        return Ranking(rows)


class Noise:
    levels = 2

    def disturbed(self, questions, training):
        return [list(questions)]


class Callback(pl.Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        raise KeyError("epoch")  # MARK
"""
MODEL = """
defaults:
  - shared/answerer@_here_
  - _self_
name: mine
image_features: []
module:
  network:
    _target_: own_components.Network
    fault: none
"""


@pytest.fixture
def own(tmp_path: Path, tiny_root: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments that choose the user's own folder of configurations and small data."""
    (tmp_path / "own_components.py").write_text(COMPONENTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_components", raising=False)
    for name, content in {
        "model/mine": MODEL,
        "reward/mine": "defaults: [goal, _self_]\nmine: {_target_: own_components.Reward}\n",
        "ranker/mine": "_target_: own_components.Ranker\n",
        "noise/mine": "_target_: own_components.Noise\n",
    }.items():
        file = tmp_path / "my_conf" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    folder = f"--config-dir={tmp_path / 'my_conf'}"
    return [folder, "data=vqa_json", f"data.root={tiny_root}", "output_dir=run", "features=none"]


def _line(tmp_path: Path, which: int) -> str:
    lines = COMPONENTS.splitlines()
    found = [number for number, line in enumerate(lines, start=1) if "# MARK" in line]
    return f"({tmp_path / 'own_components.py'}:{found[which]})"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("shape", "own_components.Network.forward must return a float tensor of shape (2, "),
        ("undefined", "own_components.Network.forward must return a float tensor of shape (2, "),
        ("axis", "own_components.Network returned a value that cannot be used: IndexError: "),
    ],
)
def test_a_model_is_tried_before_it_is_trained(
    fault: str, message: str, run: Run, own: list[str], tmp_path: Path
) -> None:
    status, printed = run("train", *own, "model=mine", f"model.module.network.fault={fault}")
    assert status == 1
    assert f"error: {message}" in printed
    assert "Traceback" not in printed
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_an_error_of_own_code_has_its_place_and_message(
    run: Run, own: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [*own, "model=mine", "model.module.network.fault=raises"]
    status, printed = run("train", *broken)
    place = f"error: own_components.Network.scaled {_line(tmp_path, 0)}"
    assert status == 1
    assert f"{place} raised ValueError: no scale for colours; this is your own code" in printed
    assert "bug in ivqa" not in printed
    assert "Traceback" not in printed
    monkeypatch.setenv("IVQA_TRACEBACK", "1")
    assert "Traceback" in run("train", *broken)[1]
    monkeypatch.delenv("IVQA_TRACEBACK")

    callback = "+callbacks.mine={_target_:own_components.Callback}"
    status, printed = run("train", *own, "model=mine", callback)
    place = f"error: own_components.Callback.on_train_epoch_end {_line(tmp_path, 1)}"
    assert status == 1
    assert f"{place} raised KeyError: 'epoch'" in printed


def test_a_model_that_reads_images_is_trained_for_its_evaluation(
    run: Run, own: list[str], tmp_path: Path
) -> None:
    """Its trial takes features of the training split, which an evaluation may not need."""
    model = MODEL.replace("image_features: []", "image_features: [pooled]")
    (tmp_path / "my_conf" / "model" / "mine.yaml").write_text(model)
    command = [*own[:-1], *TINY_FEATURES, "model=mine", "model.epochs=1", "split=val"]
    status, printed = run("evaluate", *command, f"artifacts={tmp_path / 'own'}")
    assert status == 0, printed
    assert "vqa/accuracy" in printed


def test_a_reward_is_tried_before_the_policy_is_trained(run: Run, own: list[str]) -> None:
    policy = ["model=ivqa_rl", "vqa=language_only", "reward=mine", "features=concepts"]
    policy += ["features.image_size=32", "features.width=16", "features.epochs=1"]
    status, printed = run("train", *own, *policy, "+model.module.rewards.mine.value=1.5")
    assert status == 1
    wanted = "own_components.Reward must return floats in [0, 1] of shape (2,) for two questions"
    assert f"error: {wanted}, not torch.float32 of shape (2,): [1.5, 1.5]" in printed
    assert "training it first" not in printed


def test_a_ranker_and_noise_are_tried_before_the_model_is_trained(run: Run, own: list[str]) -> None:
    for command, wanted in (
        (["task=rank", "ranker=mine"], "Ranker.rank, .indices, must return integers below"),
        (["ranker=mine"], "Ranker.rank, .indices, must return integers below"),
        (["noise=mine"], "Noise.disturbed must return two texts at each of its 2 levels"),
    ):
        noisy = [] if "task=rank" in command else ["model=language_only", "callbacks=robustness"]
        given = [item for item in own if "features" not in item or noisy]
        status, printed = run("evaluate", *given, *noisy, *command)
        assert status == 1, printed
        assert f"error: own_components.{wanted}" in printed
        assert "training it first" not in printed


FORMS = [
    "--config-dir my_conf resume=run",
    "resume=run --config-dir=my_conf",
    "resume=run -cd my_conf",
]


@pytest.mark.parametrize("form", [*FORMS, "-cd=my_conf resume=run"])
@pytest.mark.parametrize(
    ("command", "stored"),
    [
        ("train", ["model=mine"]),
        ("evaluate", ["task=rank", "ranker=mine"]),
        ("diagnose", ["model@vqa=mine", "reward@model.module.rewards=mine"]),
    ],
)
def test_a_run_resumes_with_the_folder_of_its_components(
    command: str, stored: list[str], form: str, run: Run, own: list[str], tmp_path: Path
) -> None:
    """The run gets as far as the check of values, behind that of its components."""
    folder = tmp_path / "run"
    (folder / "parts").mkdir(parents=True)
    (folder / "config.yaml").touch()
    (folder / "overrides.yaml").write_text(yaml.safe_dump([*stored, *own[1:3]]))
    status, printed = run(command, *form.split(), "seed=-1")
    assert status == 1
    assert "error: configuration: seed=-1: " in printed
    assert ";" not in printed


def test_a_ranking_with_an_own_ranker_resumes(run: Run, own: list[str], tmp_path: Path) -> None:
    file = tmp_path / "own_components.py"
    ranked = COMPONENTS.replace(
        "np.full((len(questions), k), len(pool))", "np.tile(np.arange(k), (len(questions), 1))"
    )
    file.write_text(ranked)
    given = [item for item in own if "features" not in item]
    status, printed = run("evaluate", *given, "task=rank", "ranker=mine")
    assert status == 0, printed
    whole = (tmp_path / "run" / "bqd.parquet").read_bytes()
    for form in FORMS:
        (tmp_path / "run" / "bqd.parquet").unlink()
        status, printed = run("evaluate", *form.split())
        assert status == 0, printed
        assert (tmp_path / "run" / "bqd.parquet").read_bytes() == whole
    status, printed = run("evaluate", "resume=run", "k=2")  # the folder is not given
    assert status == 1
    assert "there is no ranker=mine" in printed
    folder = str(tmp_path / "my_conf")
    line = printed.split(f"; the run was started with --config-dir {folder}; continue it with: ")[1]
    continued = ["evaluate.py", "resume=run", "k=2", "--config-dir", folder]
    assert shlex.split(line)[1:] == continued
    status, printed = run("evaluate", *continued[1:], "seed=-1")
    assert printed.startswith("error: configuration: seed=-1: ")


def test_the_checkpoint_of_a_part_is_read_before_another_is_trained(
    run: Run, own: list[str], tmp_path: Path
) -> None:
    (tmp_path / "wrong.ckpt").write_bytes(b"no checkpoint")
    given = [item for item in own if "features" not in item]
    status, printed = run(
        "diagnose", *given, "vqa=mine", "model.part_ckpt.legality_model=wrong.ckpt"
    )
    assert status == 1
    assert "error: wrong.ckpt is not a readable checkpoint" in printed
    assert "training" not in printed
