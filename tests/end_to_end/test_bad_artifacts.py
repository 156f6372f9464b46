"""Damaged models and runs on the command line: trained again, or refused in one sentence."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ivqa.store.weights import with_contents, write_weights

from .conftest import Run, metrics_of

LANGUAGE_ONLY = ["model=language_only", "model.epochs=1", "features=none"]
PRIOR = ["model=prior", "model.epochs=1", "features=none"]


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _edit(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def spoil(file: Path) -> None:
        content = torch.load(file, weights_only=True)
        change(content)
        torch.save(content, file)

    return spoil


def _diverge(checkpoint: dict[str, Any]) -> None:
    for value in checkpoint["state_dict"].values():
        value.fill_(float("nan"))


def _widen(checkpoint: dict[str, Any]) -> None:
    state = checkpoint["state_dict"]
    checkpoint["state_dict"] = {name: torch.zeros(3, 3) for name in state}


_nan, _other = _edit(_diverge), _edit(_widen)
_no_optimiser = _edit(lambda checkpoint: checkpoint.pop("optimizer_states"))
_no_moments = _edit(lambda checkpoint: checkpoint["optimizer_states"][0]["state"].pop(0))
_no_groups = _edit(lambda checkpoint: checkpoint["optimizer_states"][0]["param_groups"].clear())
_no_schedulers = _edit(lambda checkpoint: checkpoint["lr_schedulers"].clear())
_no_version = _edit(lambda checkpoint: checkpoint.pop("pytorch-lightning_version"))


def _data(root: Path) -> list[str]:
    return ["data=vqa_json", f"data.root={root}"]


def test_a_damaged_model_of_the_store_is_reported_and_trained_again(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    command = [*PRIOR, *_data(tiny_root), f"artifacts={tmp_path / 'store'}"]
    assert run("evaluate", *command, "output_dir=first")[0] == 0
    accuracy = metrics_of(tmp_path / "first")["vqa/accuracy"]
    (model,) = (tmp_path / "store" / "models").glob("*/model.ckpt")
    inner = model.parent / "run" / "checkpoints"
    for number, (spoil, files) in enumerate(
        ((_cut, [model]), (_nan, [model]), (_empty, [model, inner / "last.ckpt"]))
    ):
        for file in files:
            spoil(file)
        status, printed = run("evaluate", *command, f"output_dir={number}")
        assert status == 0, printed
        assert f"{model} " in printed.replace("\n", "")
        assert "the model is trained again" in printed.replace("\n", " ")
        assert metrics_of(tmp_path / str(number))["vqa/accuracy"] == accuracy
        assert torch.load(model, weights_only=True)["state_dict"]
    status, printed = run("evaluate", *command)
    assert status == 0
    assert "No trained" not in printed
    # An interrupted run continues for another command that needs the same model.
    model.unlink()
    status, printed = run("evaluate", *command, "split=train")
    assert status == 0, printed
    assert model.is_file()


def test_damaged_runs_are_not_resumed(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    command = [*LANGUAGE_ONLY, *_data(tiny_root)]
    assert run("train", *command, "output_dir=whole")[0] == 0
    for file, spoil in (
        ("checkpoints/last.ckpt", _empty),
        ("checkpoints/last.ckpt", _cut),
        ("checkpoints/last.ckpt", _nan),
        ("checkpoints/last.ckpt", _other),
        ("checkpoints/last.ckpt", _no_optimiser),
        ("checkpoints/last.ckpt", _no_moments),
        ("checkpoints/last.ckpt", _no_groups),
        ("checkpoints/last.ckpt", _no_schedulers),
        ("checkpoints/last.ckpt", _no_version),
        ("checkpoints/best.ckpt", Path.unlink),
        ("checkpoints/best.ckpt", _cut),
        ("config.yaml", _empty),
        ("overrides.yaml", _empty),
    ):
        folder = tmp_path / "spoilt"
        shutil.copytree(tmp_path / "whole", folder)
        spoil(folder / file)
        status, printed = run("train", f"resume={folder}")
        printed = printed.replace("\n", " ")
        assert status == 1, (file, spoil, printed)
        assert printed.count("error:") == 1
        assert "Traceback" not in printed
        assert f"spoilt/{file}" in printed
        shutil.rmtree(folder)


def test_a_run_that_was_moved_still_knows_its_best_epoch(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    command = [*LANGUAGE_ONLY, *_data(tiny_root), "output_dir=run"]
    assert run("train", *command)[0] == 0
    _edit(lambda checkpoint: checkpoint.pop("pytorch-lightning_version"))(
        tmp_path / "run" / "checkpoints" / "best.ckpt"
    )  # only the weights of best.ckpt are used
    (tmp_path / "run").rename(tmp_path / "moved")
    best = (tmp_path / "moved" / "checkpoints" / "best.ckpt").read_bytes()
    # No further epoch reaches an accuracy of 2.
    last = tmp_path / "moved" / "checkpoints" / "last.ckpt"
    content = torch.load(last, weights_only=True)
    (state,) = (s for s in content["callbacks"].values() if "best_model_score" in s)
    state |= {"best_model_score": torch.tensor(2.0), "kth_value": torch.tensor(2.0)}
    state["best_k_models"] = dict.fromkeys(state["best_k_models"], torch.tensor(2.0))
    write_weights(last, with_contents(content))
    status, printed = run("train", "resume=moved", "trainer.max_epochs=3")
    assert status == 0, printed
    assert metrics_of(tmp_path / "moved")["train/epochs"] == 3
    assert (tmp_path / "moved" / "checkpoints" / "best.ckpt").read_bytes() == best


def test_damaged_checkpoints_are_not_evaluated(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    command = [*PRIOR, *_data(tiny_root)]
    assert run("train", *command, "output_dir=whole")[0] == 0
    for spoil in (_empty, _cut, _nan, _other):
        ckpt = tmp_path / "spoilt.ckpt"
        shutil.copy(tmp_path / "whole" / "checkpoints" / "best.ckpt", ckpt)
        spoil(ckpt)
        status, printed = run("evaluate", *command, f"ckpt={ckpt}")
        assert status == 1, printed
        assert "Traceback" not in printed
        assert "spoilt.ckpt" in printed


def test_result_files_that_are_not_regular_files(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    cases = (("folder", "is a folder"), ("pipe.json", "is a pipe"), ("no", "no such file"))
    for name, expected in cases:
        status, printed = run("evaluate", *_data(tiny_root), f"predictions={tmp_path / name}")
        assert status == 1
        assert "Traceback" not in printed
        assert f"{tmp_path / name}" in printed.replace("\n", "")
        assert expected in printed.replace("\n", " ")
