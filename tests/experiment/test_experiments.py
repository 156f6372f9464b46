"""Every job of every experiment is a configuration that composes and that something reads."""

import itertools
import re
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode

from ivqa.experiment.checks import check_config
from ivqa.experiment.multirun import arranged

CONF = Path(__file__).parents[2] / "conf"
EXPERIMENTS = sorted((CONF / "experiment").glob("*.yaml"))


@pytest.mark.parametrize("file", EXPERIMENTS, ids=lambda file: file.stem)
def test_every_job_composes(file: Path) -> None:
    """As the command in the file's first lines runs it."""
    command = re.search(rf"python (\w+)\.py -m experiment={file.stem}\b", file.read_text())
    assert command is not None
    chosen = f"experiment={file.stem}"
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        sweep = loader.load_configuration(command[1], [chosen], RunMode.MULTIRUN)
        params = sweep.hydra.sweeper.params
        jobs = [
            [f"{key}={value}" for key, value in zip(params, values, strict=True)]
            for values in itertools.product(*(str(values).split(",") for values in params.values()))
        ]
        assert len(jobs) > 1
        seen = set()
        for job in jobs:
            cfg = compose(command[1], [chosen, *job])
            check_config(cfg)
            seen.add(str(cfg))
        assert len(seen) == len(jobs)


def test_a_table_has_the_columns_of_its_paper() -> None:
    row = {"setting": "model=mlb", "robustness/r_score": "0.4 ± 0.1", "other": 1.0, "seeds": 3}
    columns = {"clean": "robustness/partition_0/accuracy", "R_score": "robustness/r_score"}
    shown = arranged(row, columns)
    assert shown == {"setting": "model=mlb", "seeds": 3, "clean": "", "R_score": "0.4 ± 0.1"}
    assert arranged(row, {}) == row
