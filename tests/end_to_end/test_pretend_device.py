"""Commands with their models on another device than the CPU give what they give on the CPU.

The processes are those of `pretend_device`, which changes what a process takes for an accelerator.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PRETEND = PROJECT / "tests" / "pretend_device.py"
SMALL = [
    *("data.images={train:60,val:20,test:20}", "features.image_size=32", "features.width=16"),
    *("features.epochs=1", "trainer.precision=32-true"),
]
PARTS = [
    *("vqa.epochs=1", "vqa.batch_size=16", "model.epochs=1", "model.epoch_steps=2"),
    *("model.parts.questioner.epochs=8", "model.parts.legality_model.epochs=1"),
    *(f"model.parts.questioner.module.network.{size}_size=32" for size in ("embedding", "hidden")),
]
COMMANDS = {
    "diagnose": ["diagnose.py", "vqa=mlb", *PARTS, "num_images=4", "num_latents=20", "legality=0"],
    "iVQA": ["evaluate.py", "model=ivqa_vae", "model.epochs=2"],
    "robustness": ["evaluate.py", "model=mutan", "model.epochs=1", "callbacks=robustness"],
    "with a VQA model": ["evaluate.py", "model=ivqa_vqg_vqa", "vqa=mlb", "vqa.epochs=1"],
    "one by one": ["evaluate.py", "model=n2nmn", "model.epochs=1", "callbacks=consistency"],
}
LEFT_OUT = ("seconds", "per_second")


def _run(arguments: list[str], folder: Path, *, pretend: bool) -> dict[str, float]:
    script, *others = arguments
    before = [str(PRETEND)] if pretend else []
    done = subprocess.run(
        [sys.executable, *before, str(PROJECT / script), *others, *SMALL, f"output_dir={folder}"],
        env={
            **os.environ,
            "PYTHONPATH": str(PROJECT / "src"),
            "IVQA_ARTIFACTS": str(folder.parent / "artifacts"),
        },
        cwd=folder.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    metrics: dict[str, float] = json.loads((folder / "metrics.json").read_text())
    return {name: value for name, value in metrics.items() if not name.endswith(LEFT_OUT)}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_gives_the_same_with_its_models_elsewhere(name: str, tmp_path: Path) -> None:
    here = _run(COMMANDS[name], tmp_path / "cpu", pretend=False)
    there = _run(COMMANDS[name], tmp_path / "pretend", pretend=True)
    assert there == pytest.approx(here, abs=2e-4, rel=2e-4, nan_ok=True)
    if name == "diagnose":
        found, expected = (
            [
                (one["image_id"], one["answer"], one["question"], one["type"])
                for one in map(json.loads, (tmp_path / run / "beliefs.jsonl").open())
            ]
            for run in ("pretend", "cpu")
        )
        assert sorted(found) == sorted(expected)
        assert expected


@pytest.mark.slow
def test_modules_give_the_same_elsewhere() -> None:
    files = [f"{room}_devices.py" for room in ("generators/test_generator", "vqa/test_vqa")]
    files += ["diagnosis/test_search_devices.py", "features/test_feature_devices.py"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "pretend_device", "-m", "not slow"),
            *("-k", "pretend and not gradients and not training_step"),
            *(str(PROJECT / "tests" / file) for file in files),
        ],
        cwd=PROJECT,
        env={**os.environ, "IVQA_TEST_DEVICE": "pretend"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "skipped" not in done.stdout
