"""Every job of every experiment composes to a valid configuration."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import OmegaConf

from ivqa.config.checks import check_config
from ivqa.store.files import write_json, write_text
from ivqa.sweeps.multirun import MultirunTable, arranged

CONF = Path(__file__).parents[2] / "conf"
EXPERIMENTS = sorted((CONF / "experiment").glob("*.yaml"))


def _within(part: Any, whole: Any) -> bool:
    """Whether all values of `part`, at any depth, are in `whole`."""
    if isinstance(part, dict):
        return all(_within(value, whole[key]) for key, value in part.items())
    return part == whole


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_every_job_composes(file: Path) -> None:
    """The command is the one in the first lines of the file."""
    command = re.search(rf"python (\w+)\.py (-m )?experiment={file.stem}\b", file.read_text())
    assert command is not None
    chosen = [f"experiment={file.stem}"]
    if f"{chosen[0]} data.root=DIR" in file.read_text():
        chosen.append("data.root=.")
    own = {
        key: value
        for key, value in yaml.safe_load(file.read_text()).items()
        if key not in ("defaults", "hydra")
    }
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        sweep = loader.load_configuration(command[1], chosen, RunMode.MULTIRUN)
        params = {
            key: str(values).split(",")
            for key, values in (sweep.hydra.sweeper.params or {}).items()
        }
        if "seed" in params:
            params["seed"] = params["seed"][:1]  # seeds compose alike
        first = {key: values[0] for key, values in params.items()}
        # Each value once, beside the first values of the other keys.
        others = [{key: value} for key, values in params.items() for value in values[1:]]
        jobs = [
            [f"{key}={value}" for key, value in {**first, **other}.items()]
            for other in [{}, *others]
        ]
        assert len(jobs) > 1 or not command[2]
        seen = set()
        for job in jobs:
            cfg = compose(command[1], [*chosen, *job])
            check_config(cfg)
            assert _within(own, cfg), "an experiment overrides all other files"
            seen.add(str(cfg))
        assert len(seen) == len(jobs)
    # Each row of joined settings names jobs of this sweep, and no job is in no row.
    rows = OmegaConf.select(sweep, "hydra.callbacks.table.joined_rows") or {}
    if rows:
        (key,) = params.keys() - {"seed"}
        joined = {setting for settings in rows.values() for setting in settings}
        assert joined == {f"{key}={value}" for value in params[key]}


def test_a_table_has_the_columns_of_its_paper() -> None:
    row = {"setting": "model=mlb", "robustness/r_score": "0.4 ± 0.1", "other": 1.0, "seeds": 3}
    columns = {"clean": "robustness/partition_0/accuracy", "R_score": "robustness/r_score"}
    shown = arranged(row, columns)
    assert shown == {"setting": "model=mlb", "seeds": 3, "clean": "", "R_score": "0.4 ± 0.1"}
    assert arranged(row, {}) == row


def test_values_that_all_jobs_share_are_a_separate_row(tmp_path: Path) -> None:
    for job, (reward, seed) in enumerate(itertools.product(("goal", "full"), (1, 2))):
        metrics = {"rl/unique": 10.0 * job, "supervised/unique": 70.0 + seed}
        (tmp_path / str(job) / ".hydra").mkdir(parents=True)
        write_json(tmp_path / str(job) / "metrics.json", metrics)
        overrides = f"- reward={reward}\n- seed={seed}\n- num_images=9\n"
        write_text(tmp_path / str(job) / ".hydra" / "overrides.yaml", overrides)
    table = MultirunTable({"U#": "rl/unique"}, {"supervised": {"rl/": "supervised/"}})
    table.on_multirun_end(OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path)}}}))
    assert (tmp_path / "table.md").read_text().splitlines()[2:] == [
        "| supervised | 2 | 71.500 ± 0.707 |",
        "| reward=goal | 2 | 5.000 ± 7.071 |",
        "| reward=full | 2 | 25.000 ± 7.071 |",
    ]
