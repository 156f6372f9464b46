"""The page of results: tables from multirun directories, and which experiments run again."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ivqa.report.results_page import Experiment, Record, result_table, results_page
from ivqa.tasks import results

# A stand-in for evaluate.py: writes results.json, counts how often it ran, fails when told to.
COMMAND = """
import json, pathlib, sys
out = pathlib.Path(sys.argv[-1].removeprefix("output_dir="))
runs = pathlib.Path(f"runs_{out.name}.txt")
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
if pathlib.Path("fail").exists():
    sys.exit(1)
model, step = ("model=blind", 0.05) if "model=blind" in sys.argv else ("model=mlb", 0.1)
jobs = [
    {"overrides": [model, "x=1", f"seed={seed}"], "metrics": {"acc": 0.5 + step * seed}}
    for seed in (1, 2)
]
(out / "results.json").write_text(json.dumps(jobs))
"""
CONF = """
- title: Models
  text: Percent.
  experiments:
    - name: models
      command: evaluate.py -m model=mlb seed=1,2
      metrics: {accuracy: [acc, .1%]}
    - name: photographs
      command: evaluate.py data.root=$IVQA_NO_SUCH_DATA
      needs: [IVQA_NO_SUCH_DATA]
      metrics: {accuracy: [acc, .1%]}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one experiment that runs and one that lacks its data."""
    monkeypatch.delenv("IVQA_NO_SUCH_DATA", raising=False)
    for folder in ("conf", "docs", "src/ivqa"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "evaluate.py").write_text(COMMAND)
    (tmp_path / "conf" / "results.yaml").write_text(CONF)
    (tmp_path / "src" / "ivqa" / "model.py").write_text('"""Text."""\nx = 1  # comment\n')
    return tmp_path


def runs_of(root: Path, name: str = "models") -> int:
    return len((root / f"runs_{name}.txt").read_text())


def write_multirun(directory: Path, jobs: list[dict[str, Any]]) -> Path:
    directory.mkdir(parents=True)
    (directory / "results.json").write_text(json.dumps(jobs))
    return directory


def test_a_table_has_mean_and_deviation_over_seeds_and_intervals() -> None:
    experiment = Experiment(
        name="e",
        command="evaluate.py",
        metrics={"acc": ["acc", ".1%", "interval"], "n": ["n", ",.0f"], "KL": ["kl", ".2f"]},
        names={"b": "B"},
    )
    settings = {
        "a": [{"acc": 0.5, "n": 1000.0}, {"acc": 0.7, "n": 3000.0}],
        "b": [{"acc": 0.25, "acc_low": 0.2, "acc_high": 0.3, "n": 7.0, "kl": 1.234}],
    }
    assert result_table(experiment, settings).splitlines() == [
        "|  | acc | n | KL |",
        "| --- | ---: | ---: | ---: |",
        "| a | 60.0 ± 14.1 | 2,000 ± 1,414 | - |",
        "| B | 25.0 [20.0, 30.0] | 7 | 1.23 |",
    ]


def test_settings_become_sorted_columns_and_shared_rows_come_first() -> None:
    experiment = Experiment(
        name="e",
        command="diagnose.py",
        metrics={"U#": ["rl/unique", ".1f"]},
        settings_are="columns",
        shared_rows={"supervised": {"rl/": "supervised/"}},
    )
    settings = {
        "full": [{"rl/unique": 2.0, "supervised/unique": 3.0}],
        "goal": [{"rl/unique": 1.0, "supervised/unique": 3.0}],
    }
    table = result_table(experiment, settings).splitlines()
    assert table[0] == "|  | supervised | full | goal |"
    assert table[2] == "| U# | 3.0 | 2.0 | 1.0 |"
    by_mean = Experiment("e", "diagnose.py", {"U#": ["rl/unique", ".1f"]}, sort="rl/unique")
    assert [line[2:6] for line in result_table(by_mean, settings).splitlines()[2:]] == [
        "goal",
        "full",
    ]


def test_settings_are_sorted_by_the_mean_over_seeds() -> None:
    by_mean = Experiment("e", "evaluate.py", {"acc": ["acc", ".2f"]}, sort="acc")
    # The first seeds rise from a to c, and so do the last ones; the means fall.
    seeds = {"a": [0.1, 0.9, 0.2], "b": [0.2, 0.6, 0.3], "c": [0.3, 0.0, 0.4]}
    settings = {name: [{"acc": value} for value in own] for name, own in seeds.items()}
    table = result_table(by_mean, settings).splitlines()[2:]
    assert [line.split(" | ")[0] for line in table] == ["| c", "| b", "| a"]


def test_the_page_has_command_commit_machine_and_seconds() -> None:
    first = Experiment(
        "skip", "evaluate.py x={dir}/first", {"acc": ["acc", ".1%"]}, first="train.py"
    )
    other = Experiment("other", "evaluate.py", {"acc": ["acc", ".1%"]}, needs=["IVQA_DATA"])
    record = Record("abc1234", "2 cores with AVX2", 1234.4, {"mlb": [{"acc": 0.5}]})
    page = results_page([("Models", "Percent.", [first, other])], {"skip": record})
    assert "## Models\n\nPercent.\n\n" in page
    assert "python train.py output_dir=outputs/results/skip/first\n" in page
    assert "python evaluate.py x=outputs/results/skip/first\n" in page
    assert "Commit abc1234, 2 cores with AVX2, 1,234 s.\n\n|  | acc |" in page
    known = Record("abc1234", "2 cores", 0, {"mlb": [{"acc": 0.5}]}, "Python 3.11.7", [1, 3])
    page = results_page([("Models", "Percent.", [first, other])], {"skip": known})
    assert "Commit abc1234, 2 cores, Python 3.11.7, seeds 1, 3.\n\n|  | acc |" in page
    assert "Not measured yet. It needs data: set `IVQA_DATA`." in page


def test_a_baseline_with_a_command_of_its_own_comes_first_in_the_table(root: Path) -> None:
    file = root / "conf" / "results.yaml"
    command = "      command: evaluate.py -m model=mlb seed=1,2\n"
    baseline = "      baseline: evaluate.py -m model=blind seed=1,2\n"
    file.write_text(file.read_text().replace(command, command + baseline))
    results.main([], root=root)
    page = (root / "docs" / "results.md").read_text()
    assert "python evaluate.py -m model=blind seed=1,2\npython evaluate.py -m model=mlb" in page
    assert "| blind | 57.5 ± 3.5 |\n| mlb | 65.0 ± 7.1 |" in page
    assert (runs_of(root, "baseline"), runs_of(root)) == (1, 1)
    results.main([], root=root)
    assert runs_of(root, "baseline") == 1
    file.write_text(file.read_text().replace("blind seed=1,2", "blind lr=1 seed=1,2"))
    results.main([], root=root)
    assert (runs_of(root, "baseline"), runs_of(root)) == (2, 2)


def test_a_finished_experiment_is_skipped_and_changed_code_runs_it_again(root: Path) -> None:
    results.main([], root=root)
    page = (root / "docs" / "results.md").read_text()
    assert "| mlb | 65.0 ± 7.1 |" in page
    assert "set `IVQA_NO_SUCH_DATA`" in page
    results.main([], root=root)
    assert runs_of(root) == 1
    source = root / "src" / "ivqa" / "model.py"
    source.write_text('"""Other text."""\nx = 1  # other comment\n')
    results.main([], root=root)
    assert runs_of(root) == 1
    source.write_text("x = 2\n")
    stale = root / "outputs" / "results" / "models" / "9" / "metrics.json"
    stale.parent.mkdir()
    stale.touch()
    results.main([], root=root)
    assert runs_of(root) == 2
    assert not stale.exists()  # a job of an earlier command is no job of this one


def test_a_failed_experiment_keeps_the_page_and_runs_again(root: Path) -> None:
    results.main([], root=root)
    before = (root / "docs" / "results.md").read_text()
    (root / "src" / "ivqa" / "model.py").write_text("x = 3\n")
    (root / "fail").touch()
    with pytest.raises(SystemExit, match="failed, see its log in outputs/results: models"):
        results.main([], root=root)
    assert (root / "docs" / "results.md").read_text() == before
    (root / "fail").unlink()
    results.main([], root=root)
    assert runs_of(root) == 3


def test_an_imported_multirun_keeps_its_commit_and_the_page_needs_no_run(
    root: Path, tmp_path: Path
) -> None:
    jobs = [
        {"overrides": [f"model={name}", "data.root=/a/b"], "metrics": {"acc": value, "more": 1.0}}
        for name, value in (("mlb", 0.8), ("mutan", 0.9))
    ]
    directory = write_multirun(tmp_path / "elsewhere", jobs)
    command = [f"--import=models={directory}", "--commit=abc1234", "--machine=2 cores"]
    results.main([*command, "--seconds=60"], root=root)
    page = (root / "docs" / "results.md").read_text()
    assert "Commit abc1234, 2 cores, seed 1, 60 s.\n\n|  | accuracy |" in page
    assert "| mlb | 80.0 |\n| mutan | 90.0 |" in page
    stored = (root / "docs" / "results.json").read_text()
    assert "/a/b" not in stored
    assert "more" not in stored
    (directory / "results.json").unlink()
    (root / "docs" / "results.md").unlink()
    results.main(["--page"], root=root)
    assert (root / "docs" / "results.md").read_text() == page
    assert not (root / "outputs").exists()


def test_a_single_run_is_imported_by_its_metrics(root: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.json").write_text('{"acc": 0.5}')
    (tmp_path / "run" / "overrides.yaml").write_text("- model=mlb\n- data.root=/a/b\n")
    results.main([f"--import=models={tmp_path / 'run'}", "--commit=abc1234"], root=root)
    assert "| mlb | 50.0 |" in (root / "docs" / "results.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no experiment 'nothing'; there are models, photographs"),
        (["--import=models=DIR"], "--import needs --commit"),
        (["--import=models=DIR", "--commit=abc"], "DIR holds neither results.json"),
    ],
)
def test_errors_say_what_to_do(root: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        results.main(arguments, root=root)


def test_a_metric_that_no_job_has_is_an_error(root: Path, tmp_path: Path) -> None:
    directory = write_multirun(tmp_path / "m", [{"overrides": [], "metrics": {"other": 1.0}}])
    with pytest.raises(SystemExit, match="models: no job measured acc"):
        results.main([f"--import=models={directory}", "--commit=abc"], root=root)


def test_the_list_of_experiments_in_conf_is_valid() -> None:
    project = results.Project(Path(results.__file__).parents[3])
    experiments = project.experiments()
    assert len(experiments) == sum(len(part) for _, _, part in project.sections())
    for experiment in experiments.values():
        script = experiment.command.split()[0]
        assert (project.root / script).is_file()
        for spec in experiment.metrics.values():
            format(0.5, spec[1])
    assert sys.modules["ivqa.tasks.results"] is results
