"""Every value of a W&B sweep composes, and no value changes how the objective is measured."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from ivqa.config.short_forms import expanded

PROJECT = Path(__file__).parents[2]
SWEEPS = sorted((PROJECT / "conf" / "sweep").glob("*.yaml"))


def _points(parameters: dict[str, dict[str, Any]]) -> list[list[str]]:
    """The first value of all parameters, and each other value with the first of the others."""
    choices = []
    for key, setting in parameters.items():
        values = setting.get("values") or [setting["min"], setting["max"]]
        # The agent writes values as Python's str does, so true becomes True.
        choices.append([f"{key}={value}" for value in values])
    first = [values[0] for values in choices]
    return [first] + [
        [*first[:at], value, *first[at + 1 :]]
        for at, values in enumerate(choices)
        for value in values[1:]
    ]


@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.stem)
def test_every_value_composes(file: Path) -> None:
    sweep = yaml.safe_load(file.read_text())
    assert (PROJECT / sweep["program"]).is_file()
    assert sweep["command"][:3] == ["${env}", "${interpreter}", "${program}"]
    assert sweep["command"][-1] == "${args_no_hyphens}"
    fixed = sweep["command"][3:-1]
    points = _points(sweep["parameters"])
    assert len(points) >= 8
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(PROJECT / "conf"), version_base="1.3"):
        seen = set()
        for point in points:
            name = Path(sweep["program"]).stem
            cfg = compose(name, expanded([*fixed, *point], PROJECT / "conf", name))
            seen.add(str(cfg))
        assert len(seen) == len(points)


@pytest.mark.parametrize("file", SWEEPS, ids=lambda file: file.stem)
def test_no_point_changes_how_the_objective_is_measured(file: Path) -> None:
    """The grammar counts beliefs, with one legality filter and one number of samples."""
    sweep = yaml.safe_load(file.read_text())
    judged_by = {"legality", "num_latents", "num_images", "pool", "split", "vqa", "model"}
    assert not judged_by & set(sweep["parameters"])
    assert not [
        key for key in sweep["parameters"] if key.startswith(("data", "model.parts.legality_model"))
    ]
    if sweep["program"] == "diagnose.py":
        assert sweep["metric"] == {"name": "rl/understood_per_pair", "goal": "maximize"}
        assert "legality=0" in sweep["command"]
