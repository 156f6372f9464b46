"""W&B's own agent runs a sweep file against a stand-in of the sweep service, without a network.

Each run holds its objective; models that are trained on the way log to their own files.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from wandb_files import read_run

from .conftest import ONE_STEP, PROJECT, TINY_DIAGNOSIS, metrics_of
from .sweep_service import serving

# `wandb agent` without its five seconds between two questions to the service.
_AGENT = """
from wandb import wandb_agent
wandb_agent.Agent.POLL_INTERVAL = 0.2
wandb_agent.run_agent("sweep123", entity="someone", project="ivqa")
"""


@pytest.mark.slow
def test_the_agent_of_wandb_runs_the_points_of_a_sweep(tmp_path: Path, tiny_root: Path) -> None:
    sweep = yaml.safe_load((PROJECT / "conf" / "sweep" / "rl_rewards.yaml").read_text())
    assert sweep["program"] == "diagnose.py"
    *command, parameters = sweep["command"]
    command = [item for item in command if not item.startswith("vqa=")]
    small = [*TINY_DIAGNOSIS, *ONE_STEP, "vqa=vanilla", "data=vqa_json", f"data.root={tiny_root}"]
    sweep["command"] = [*command, *small, parameters]
    sweep["program"] = str(PROJECT / "diagnose.py")
    points = {
        "run00001": {"reward": "goal", "model.module.objective.num_samples": 5},
        "run00002": {"reward": "full", "model.module.optimizer.lr": 0.0002},
    }
    for point in points.values():
        assert set(point) <= set(sweep["parameters"])
    environment = {key: os.environ[key] for key in os.environ if not key.startswith("WANDB_")}
    with serving(sweep, points) as service:
        environment |= {
            "WANDB_BASE_URL": service.url,
            "WANDB_API_KEY": "0" * 40,
            "WANDB_MODE": "offline",  # of the runs; the agent talks to the service
            "WANDB_DIR": str(tmp_path),
            "HOME": str(tmp_path),
            "IVQA_ARTIFACTS": str(tmp_path / "artifacts"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        agent = subprocess.run(
            [sys.executable, "-c", _AGENT], env=environment, cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    assert agent.returncode == 0, agent.stdout
    assert {"viewer", "sweep", "createAgent", "agentHeartbeat"} == set(service.called)
    assert service.left == []

    runs = sorted(file.parent for file in tmp_path.glob("outputs/diagnose/vanilla/*/metrics.json"))
    files = [next(run.rglob("*.wandb")) for run in runs]
    assert len(list(tmp_path.rglob("*.wandb"))) == len(files) == 2, agent.stdout
    for run, file, (run_id, point) in zip(runs, files, points.items(), strict=True):
        logged = read_run(file)
        assert logged.id == run_id
        overrides = yaml.safe_load((run / "overrides.yaml").read_text())
        assert f"reward@model.module.rewards={point['reward']}" in overrides
        name = sweep["metric"]["name"]
        assert logged.summary[name] == metrics_of(run)[name]
        assert logged.history[name] == [metrics_of(run)[name]]
        keys = [key.split("/")[0] for key in (*logged.summary, *logged.history)]
        assert not {"train", "val", "epoch"} & set(keys)
        assert {key: logged.config[key] for key in point} == point
    # Generator, legality model, VQA model and two policies were trained.
    assert len(list((tmp_path / "artifacts").rglob("run/metrics.csv"))) == 5
