"""Damaged checkpoints and weights, and folders of models."""

import io
import pickle
import resource
import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bad_files import refused
from safetensors.torch import load_file, save_file

from ivqa.encoders.skip_thoughts import load_skip_thoughts
from ivqa.errors import reason_of
from ivqa.features.pretrained.backbones import BackboneFeatures
from ivqa.runs.checkpoints import load_checkpoint
from ivqa.store.weights import read_weights, training_state, with_contents, write_weights
from ivqa.vqa.transformers.hf_blip import HFBlip
from tiny_transformers import tiny_blip


def _checkpoint(**changes: Any) -> dict[str, Any]:
    whole = {
        "state_dict": {"layer.weight": torch.ones(2, 2)},
        "component": {"question_words": ["a"], "feature_sizes": {}},
        "global_step": 3,
        "epoch": 1,
        "loops": {},
        "optimizer_states": [{"state": {0: {"exp_avg": torch.ones(2, 2)}}, "param_groups": []}],
        "lr_schedulers": [],
    }
    return {name: value for name, value in {**whole, **changes}.items() if value is not ...}


NAN, INF = torch.tensor([[1.0, float("nan")]]), torch.tensor([[1.0, float("inf")]])
LOADED: dict[str, Any] = {
    "no state_dict": _checkpoint(state_dict=...),
    "a state_dict of numbers": _checkpoint(state_dict={"a": 1}),
    "a state_dict that is a list": _checkpoint(state_dict=[1]),
    "NaN": _checkpoint(state_dict={"layer.weight": NAN}),
    "infinity": _checkpoint(state_dict={"layer.weight": INF}),
    "NaN in bfloat16": _checkpoint(state_dict={"layer.weight": NAN.bfloat16()}),
    "a list": [1, 2],
    "a tensor": torch.ones(2),
    "None": None,
}
USED = {
    "no component": _checkpoint(component=...),
    "another component": _checkpoint(component={"name": "x"}),
    "a component of a list": _checkpoint(component=[1]),
    "words of numbers": _checkpoint(component={"feature_sizes": {}, "question_words": [1]}),
    "a word twice": _checkpoint(component={"feature_sizes": {}, "answers": ["a", "a"]}),
}
RESUMED = {
    "no optimiser": with_contents(_checkpoint(optimizer_states=...)),
    "an empty optimiser": with_contents(_checkpoint(optimizer_states=[])),
    "no step": with_contents(_checkpoint(global_step=...)),
    "a step of text": with_contents(_checkpoint(global_step="3")),
    "no loops": with_contents(_checkpoint(loops=...)),
    "no schedulers": with_contents(_checkpoint(lr_schedulers=...)),
    "NaN in the optimiser": with_contents(
        _checkpoint(optimizer_states=[{"state": {0: {"exp_avg": NAN}}}])
    ),
}


@pytest.mark.parametrize("fault", [*LOADED, *USED])
def test_invalid_checkpoints_arerefused(fault: str, tmp_path: Path) -> None:
    torch.save({**LOADED, **USED}[fault], tmp_path / "a.ckpt")
    message = refused(load_checkpoint, tmp_path / "a.ckpt")
    if fault in ("NaN", "infinity"):
        assert "'layer.weight' holds values that are not finite" in message


@pytest.mark.parametrize("fault", [*LOADED, *RESUMED])
def test_checkpoints_without_training_state_are_refused_for_resuming(
    fault: str, tmp_path: Path
) -> None:
    torch.save({**LOADED, **RESUMED}[fault], tmp_path / "last.ckpt")
    refused(training_state, tmp_path / "last.ckpt")


def test_complete_checkpoints_are_read(tmp_path: Path) -> None:
    masked = {"layer.weight": torch.ones(2), "mask": torch.tensor([0.0, float("-inf")])}
    torch.save(with_contents(_checkpoint(state_dict=masked)), tmp_path / "a.ckpt")
    for read in (load_checkpoint, training_state):
        assert read(tmp_path / "a.ckpt")["global_step"] == 3


# What Lightning would continue without, or with another value, and without a word.
LOST: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "the state of a parameter": (
        lambda one: one["optimizer_states"][0]["state"].pop(1),
        "lacks 'optimizer_states.0.state.1'",
    ),
    "a moment of a parameter": (
        lambda one: one["optimizer_states"][0]["state"][0].pop("exp_avg"),
        "lacks 'optimizer_states.0.state.0.exp_avg'",
    ),
    "a moment of another shape": (
        lambda one: one["optimizer_states"][0]["state"][0].update(exp_avg=torch.ones(2)),
        "has another 'optimizer_states.0.state.0.exp_avg'",
    ),
    "parameter groups": (
        lambda one: one["optimizer_states"][0]["param_groups"].clear(),
        "lacks 'optimizer_states.0.param_groups.0'",
    ),
    "schedulers": (lambda one: one["lr_schedulers"].clear(), "lacks 'lr_schedulers.0'"),
    "a callback": (lambda one: one["callbacks"].pop("best"), "lacks 'callbacks.best'"),
    "the progress of a loop": (lambda one: one["loops"].pop("fit_loop"), "lacks 'loops.fit_loop'"),
    "Lightning's version": (
        lambda one: one.pop("pytorch-lightning_version"),
        "lacks 'pytorch-lightning_version'",
    ),
    "the scaler of half precision": (
        lambda one: one.pop("MixedPrecision"),
        "lacks 'MixedPrecision'",
    ),
    "another step": (lambda one: one.update(global_step=4), "has another 'global_step'"),
    "another epoch": (lambda one: one.update(epoch=7), "has another 'epoch'"),
    "the list itself": (lambda one: one.pop("contents"), "does not list its contents"),
}


@pytest.mark.parametrize("lost", LOST)
def test_a_checkpoint_that_lost_a_part_is_not_resumed(lost: str, tmp_path: Path) -> None:
    moments = {index: {"exp_avg": torch.ones(2, 2)} for index in range(2)}
    whole = {
        **_checkpoint(optimizer_states=[{"state": moments, "param_groups": [{"lr": 0.1}]}]),
        "lr_schedulers": [{"last_epoch": 3}],
        "callbacks": {"best": {"best_model_score": torch.tensor(0.5)}},
        "loops": {"fit_loop": {"total": 3}},
        "pytorch-lightning_version": "2.6.0",
        "MixedPrecision": {"scale": 65536.0},
    }
    file = tmp_path / "last.ckpt"
    write_weights(file, with_contents(whole))
    content = training_state(file)
    change, message = LOST[lost]
    change(content)
    torch.save(content, file)
    found = refused(training_state, file)
    assert f"last.ckpt {message}" in found
    assert "without resume=" in found


def test_a_checkpoint_of_other_objects_is_refused_without_advice_to_run_its_code(
    tmp_path: Path,
) -> None:
    torch.save({"state_dict": {}, "arguments": Namespace(a=1)}, tmp_path / "a.ckpt")
    (tmp_path / "b.ckpt").write_bytes(pickle.dumps({"arguments": Namespace(a=1)}, protocol=4))
    for name, what in (("a", "it holds argparse.Namespace"), ("b", "other objects than tensors")):
        message = refused(load_checkpoint, tmp_path / f"{name}.ckpt")
        assert what in message
        assert "weights_only" not in message
        assert "\x1b" not in message


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_truncated_checkpoints_arerefused(kept: float, tmp_path: Path) -> None:
    file = tmp_path / "a.ckpt"
    torch.save(_checkpoint(), file)
    content = file.read_bytes()
    file.write_bytes(content[: int(kept * len(content))])
    for read in (load_checkpoint, training_state, lambda f: load_skip_thoughts(f, ["uni"])):
        refused(read, file)


def test_a_changed_bit_of_a_checkpoint_is_found(tmp_path: Path) -> None:
    file = tmp_path / "a.ckpt"
    torch.save(_checkpoint(state_dict={"layer.weight": torch.full((50,), 1.5)}), file)
    whole = file.read_bytes()
    at = whole.index(np.full(50, 1.5, "f4").tobytes()) + 100
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert "was changed after it was written" in refused(load_checkpoint, file)


@pytest.mark.parametrize("content", [{"fc.weight": NAN}, {"fc.weight": torch.ones(2)}, [1], {}])
def test_invalid_weights_of_a_backbone_arerefused(content: Any, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "resnet.pt")
    network = BackboneFeatures(arch="resnet18", weights=str(tmp_path / "resnet.pt"))
    refused(lambda _: network.network(), tmp_path / "resnet.pt")


@pytest.fixture(scope="module")
def blip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blip")
    tiny_blip(folder)
    return folder


@pytest.mark.parametrize("junk", ["", "{", "[]", "null", "\0" * 100])
@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_damaged_model_folders_arerefused(name: str, junk: str, blip: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(blip, folder)
    (folder / name).write_text(junk)
    refused(lambda file: HFBlip.load(str(file)), folder)


def test_models_with_non_finite_weights_arerefused(blip: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(blip, folder)
    weights = load_file(folder / "model.safetensors")
    next(iter(weights.values())).fill_(float("nan"))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert "not finite" in refused(lambda file: HFBlip.load(str(file)), folder)
    whole = (blip / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    refused(lambda file: HFBlip.load(str(file)), folder)


def test_a_full_disk_is_named_and_the_weights_before_remain(tmp_path: Path) -> None:
    file = tmp_path / "last.ckpt"
    write_weights(file, {"a": torch.ones(3)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match=r"last\.ckpt"):
            write_weights(file, {"a": torch.ones(1_000_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]
    assert read_weights(file)["a"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(143)])
def test_a_signal_during_writing_stays_a_signal(
    stop: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(io.BytesIO):
        def write(self, _: Any) -> int:
            raise stop

    monkeypatch.setattr(Path, "open", lambda *_: Interrupted())
    with pytest.raises(type(stop)) as raised:
        write_weights(tmp_path / "last.ckpt", {"a": torch.ones(3)})
    assert raised.value is stop


def test_the_reason_of_an_error_advises_nothing_unsafe(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(1, 1), tmp_path / "a.ckpt")
    with pytest.raises(pickle.UnpicklingError, match="weights_only") as raised:
        torch.load(tmp_path / "a.ckpt", weights_only=True)
    reason = reason_of(raised.value)
    assert reason == "it holds torch.nn.modules.linear.Linear, which could run code"
