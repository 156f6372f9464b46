"""The jobs of a command."""

from pathlib import Path

from tools.jobs import overrides_of


def test_a_sweep_that_builds_on_another_has_its_parameters_too(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "evaluate.yaml").write_text("{}")
    for name, text in {
        "base": "hydra: {sweeper: {params: {model: 'a,b', seed: '1,2'}}}",
        "own": "defaults: [base, override /noise: image]\nhydra: {sweeper: {params: {seed: 3}}}",
    }.items():
        (tmp_path / "experiment" / f"{name}.yaml").write_text(text)
    given = ["-m", "experiment=own"]
    assert overrides_of("evaluate", given, tmp_path) == ["model=a,b", "seed=3", "experiment=own"]
