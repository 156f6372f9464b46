"""Runs and checkpoints from elsewhere cannot run code: each attempt ends with one sentence."""

import json
import os
import zipfile
from pathlib import Path

import pytest
import torch
import yaml
from omegaconf import OmegaConf

import ivqa
from ivqa.errors import UserError
from ivqa.runs.console import conf_dir
from ivqa.runs.trust import check_targets, without_trust
from ivqa.weights import read_weights


def _run_from_elsewhere(folder: Path, overrides: list[str]) -> Path:
    """A run directory that looks interrupted, with the given overrides."""
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump({"name": "vanilla"}))
    (folder / "overrides.yaml").write_text(yaml.safe_dump(overrides))
    (folder / "progress.json").write_text(json.dumps({}))
    return folder


@pytest.mark.parametrize(
    "attack",
    [
        "+callbacks.x={_target_:os.system,command:'touch WITNESS'}",
        "+callbacks.x={_target_:torch.os.system,command:'touch WITNESS'}",
        "+callbacks.x={_target_:builtins.open,file:WITNESS,mode:w}",
        "+callbacks.x={_target_:ivqa.files.write_text,path:WITNESS,text:x}",
        "+callbacks.x=[[{_target_:os.system,command:'touch WITNESS'}]]",
        "+callbacks.x={_target_:hydra.utils.get_method,path:os.system}",
        "+callbacks.x={_target_:'os.${y}',command:'touch WITNESS'}|+y=system",
        "command._target_=os.system",
    ],
)
def test_a_resumed_run_cannot_name_other_code(run, tmp_path: Path, attack: str) -> None:  # type: ignore[no-untyped-def]
    witness = tmp_path / "witness"
    overrides = attack.replace("WITNESS", str(witness)).split("|")
    folder = _run_from_elsewhere(tmp_path / "run", ["trust=[os,builtins]", *overrides])
    status, output = run("train", f"resume={folder}")
    assert status == 1
    assert "was not run; if you wrote it, add trust=[" in " ".join(output.split())
    assert not witness.exists()
    assert "Traceback" not in output


@pytest.mark.parametrize("line", ["hydra.launcher._target_=os.system", "hydra/launcher=x", "-m"])
def test_a_resumed_run_cannot_set_hydra(run, tmp_path: Path, line: str) -> None:  # type: ignore[no-untyped-def]
    folder = _run_from_elsewhere(tmp_path / "run", [line])
    status, output = run("train", f"resume={folder}")
    assert status == 1
    assert f"holds '{line}', which no run of ivqa stores" in " ".join(output.split())


def test_a_loaded_run_cannot_name_other_code(tmp_path: Path) -> None:
    folder, witness = tmp_path / "run", tmp_path / "witness"
    folder.mkdir()
    attack = {"_target_": "os.system", "command": f"touch {witness}"}
    (folder / "config.yaml").write_text(yaml.safe_dump({"model": {"module": attack}}))
    with pytest.raises(UserError, match=r"model\.module\._target_ names 'os\.system'"):
        ivqa.load(folder)
    assert not witness.exists()
    for key in ("defaults", "hydra"):
        (folder / "config.yaml").write_text(yaml.safe_dump({key: []}))
        with pytest.raises(UserError, match=f"has the key '{key}'"):
            ivqa.load(folder)


def test_components_and_own_packages_are_trusted(tmp_path: Path) -> None:
    def check(target: str, trust: tuple[str, ...] = ()) -> None:
        cfg = OmegaConf.create({"model": {"optimizer": {"_target_": target}}})
        check_targets(cfg, "resume=x", conf_dir(), trust)

    for target in ("torch.optim.SGD", "ivqa.vqa.MLB", "pytorch_lightning.callbacks.Timer",
                   "transformers.get_cosine_schedule_with_warmup"):  # fmt: skip
        check(target)
    for target in ("torch.hub.load", "transformers.AutoModel.from_pretrained", "my_package.Model",
                   "torch.subprocess.Popen", "ivqa.nothing"):  # fmt: skip
        with pytest.raises(UserError, match=target):
            check(target)
    check("my_package.Model", ("my_package",))
    kept = without_trust(["model=mlb", "trust=[os]", "seed=2"], tmp_path)
    assert kept == ["model=mlb", "seed=2"]


def test_a_checkpoint_cannot_run_code(tmp_path: Path) -> None:
    witness, file = tmp_path / "witness", tmp_path / "model.ckpt"

    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {witness}",)

    torch.save({"state_dict": Attack()}, file)
    assert zipfile.is_zipfile(file)
    with pytest.raises(UserError, match="is not a readable checkpoint"):
        read_weights(file)
    assert not witness.exists()
