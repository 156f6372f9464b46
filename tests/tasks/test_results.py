"""The page of results: tables from multirun directories, and which experiments run again."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tools import results
from tools.results_page import Experiment, Record, result_table, results_page

from ivqa import provenance
from ivqa.errors import UserError

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


def test_without_a_root_the_project_is_this_checkout() -> None:
    with pytest.raises(SystemExit, match="no experiment 'nothing'; there are table1, "):
        results.main(["nothing"])


def test_a_metric_that_no_job_has_is_an_error(root: Path, tmp_path: Path) -> None:
    directory = write_multirun(tmp_path / "m", [{"overrides": [], "metrics": {"other": 1.0}}])
    with pytest.raises(SystemExit, match="models: no job measured acc"):
        results.main([f"--import=models={directory}", "--commit=abc"], root=root)


def test_the_list_of_experiments_in_conf_is_valid() -> None:
    project = results.Project(Path(results.__file__).parents[1])
    experiments = project.experiments()
    assert len(experiments) == sum(len(part) for _, _, part in project.sections())
    for experiment in experiments.values():
        script = experiment.command.split()[0]
        assert (project.root / script).is_file()
        for spec in experiment.metrics.values():
            format(0.5, spec[1])
    assert sys.modules["tools.results"] is results


# Notes its arguments, folder and standard error, and fails or measures nothing when told to.
NOTES = """
import json, pathlib, sys
out = pathlib.Path(sys.argv[-1].removeprefix("output_dir="))
print(json.dumps([str(pathlib.Path.cwd()), *sys.argv[1:]]))
print("a warning", file=sys.stderr)
if pathlib.Path(f"fail_{out.name}").exists():
    sys.exit(3)
metrics = {} if pathlib.Path("nothing").exists() else {"acc": 0.5, "acc_low": 0.4, "other": 1.0}
jobs = [{"overrides": [f"model={out.name}", f"seed={seed}"], "metrics": metrics} for seed in (5, 2)]
(out / "results.json").write_text(json.dumps(jobs))
"""
THREE = """
- title: Models
  experiments:
    - name: models
      first: train.py a data.root=$IVQA_SOME_DATA
      baseline: evaluate.py blind x={dir}/first
      command: evaluate.py 'two words' x={dir}/first
      needs: [IVQA_SOME_DATA, IVQA_MORE_DATA]
      metrics: {accuracy: [acc, .1%]}
"""


@pytest.fixture
def noting(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose only experiment has three commands."""
    for name in ("train.py", "evaluate.py"):
        (root / name).write_text(NOTES)
    (root / "conf" / "results.yaml").write_text(THREE)
    monkeypatch.setenv("IVQA_SOME_DATA", "/some/data")
    monkeypatch.setenv("IVQA_MORE_DATA", "/more")
    return root


def _logs(root: Path) -> dict[str, list[str]]:
    """The lines of each log by the name of its folder."""
    files = (root / "outputs" / "results").rglob("log.txt")
    return {file.parent.name: file.read_text().splitlines() for file in files}


def test_each_command_runs_in_the_project_with_a_folder_of_its_own(
    noting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results.main([], root=noting)
    directory = noting / "outputs" / "results" / "models"
    asked = {
        "first": ["a", "data.root=/some/data", f"output_dir={directory}/first"],
        "baseline": ["blind", f"x={directory}/first", f"output_dir={directory}/baseline"],
        "models": ["two words", f"x={directory}/first", f"output_dir={directory}"],
    }
    for name, lines in _logs(noting).items():
        assert json.dumps([str(noting), *asked.pop(name)]) in lines
        assert "a warning" in lines
    assert not asked
    record = json.loads((noting / "docs" / "results.json").read_text())["models"]
    assert 0 < record.pop("seconds") < 60
    measured = [{"acc": 0.5, "acc_low": 0.4}] * 2
    assert record == {
        "commit": provenance.commit_of(noting),
        "machine": provenance.this_machine(),
        "settings": {"baseline": measured, "models": measured},
        "versions": provenance.versions(),
        "seeds": [2, 5],
    }
    said = capsys.readouterr().out.splitlines()
    assert "models: python evaluate.py 'two words' x={dir}/first" in said
    results.main([], root=noting)
    assert "models: done before" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("failing", "ran"),
    [
        ("fail_first", {"first"}),
        ("fail_baseline", {"first", "baseline"}),
        ("fail_models", {"first", "baseline", "models"}),
        ("nothing", {"first", "baseline", "models"}),
    ],
)
def test_what_fails_ends_an_experiment_and_is_not_kept(
    failing: str, ran: set[str], noting: Path
) -> None:
    (noting / failing).touch()
    with pytest.raises(SystemExit, match="failed, see its log in outputs/results: models"):
        results.main([], root=noting)
    assert set(_logs(noting)) == ran
    assert not (noting / "docs" / "results.json").exists()
    assert "Not measured yet" in (noting / "docs" / "results.md").read_text()
    (noting / failing).unlink()
    results.main(["models"], root=noting)
    assert "| baseline | 50.0 ± 0.0 |" in (noting / "docs" / "results.md").read_text()


@pytest.mark.parametrize("absent", ["IVQA_SOME_DATA", "IVQA_MORE_DATA"])
def test_an_experiment_without_its_data_is_skipped(
    absent: str, noting: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(absent)
    results.main([], root=noting)
    assert _logs(noting) == {}
    assert f"models: skipped, {absent} is not set" in capsys.readouterr().out


def test_only_named_experiments_run_and_others_keep_their_records(root: Path) -> None:
    conf = root / "conf" / "results.yaml"
    conf.write_text(conf.read_text().replace("name: photographs", "name: second"))
    conf.write_text(conf.read_text().replace("      needs: [IVQA_NO_SUCH_DATA]\n", ""))
    results.main(["second"], root=root)
    assert not (root / "runs_models.txt").exists()
    results.main(["models"], root=root)
    assert (runs_of(root, "second"), runs_of(root)) == (1, 1)
    stored = json.loads((root / "docs" / "results.json").read_text())
    assert list(stored) == ["second", "models"]


def test_imports_of_several_experiments_at_once(root: Path, tmp_path: Path) -> None:
    jobs = [
        {"overrides": ["model=mlb", f"seed={seed}"], "metrics": {"acc": 0.1 * seed}}
        for seed in (7, 3)
    ]
    places = {name: write_multirun(tmp_path / name, jobs) for name in ("models", "photographs")}
    results.main(
        [*(f"--import={name}={place}" for name, place in places.items()), "--commit=abc"], root=root
    )
    stored = json.loads((root / "docs" / "results.json").read_text())
    expected = {
        "commit": "abc",
        "machine": provenance.this_machine(),
        "seconds": 0.0,
        "settings": {"mlb": [{"acc": pytest.approx(0.7)}, {"acc": pytest.approx(0.3)}]},
        "versions": "",
        "seeds": [3, 7],
    }
    assert stored == {"models": expected, "photographs": expected}


def _settings(overrides: list[list[str]], **values: Any) -> list[str]:
    jobs = [{"overrides": own, "metrics": {"acc": 1.0}} for own in overrides]
    experiment = Experiment("e", "evaluate.py", {"acc": ["acc", ".1%"]}, **values)
    return list(results.settings_of(jobs, experiment))


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        ([["model=a", "seed=1"], ["model=b", "seed=1"]], ["a", "b"]),
        ([["model=a", "x=1"], ["model=a", "x=2"]], ["x=1", "x=2"]),
        ([["model=a", "x=1", "seed=1"], ["model=a", "x=1", "seed=2"]], ["a"]),
        ([["model@vqa=a", "ranker=b", "data.root=/x"]], ["a b"]),
        ([["model=a", "experiment=t"], ["model=b", "experiment=u"]], ["a", "b"]),
        ([["model=a"], ["model=a", "output_dir=x"]], ["default"]),
    ],
)
def test_a_setting_is_named_by_what_tells_it_from_others(
    overrides: list[list[str]], names: list[str]
) -> None:
    assert _settings(overrides) == names


def test_only_metrics_of_the_table_are_kept() -> None:
    values = {"rl/x": 1.0, "rl/x_low": 0.5, "rl/x_high": 1.5, "rl/y": 2.0, "sup/x": 3.0}
    values |= {"sup/x_high": 4.0, "sup/y": 5.0, "cost": 6.0, "": 7.0}
    jobs = [{"overrides": ["model=a"], "metrics": values}]
    experiment = Experiment(
        "e",
        "evaluate.py",
        {"X": ["rl/x", ".1f"]},
        sort="cost",
        shared_rows={"supervised": {"rl/": "sup/"}},
    )
    (kept,) = results.settings_of(jobs, experiment)["a"]
    assert kept == {name: values[name] for name in values if name and name[-1] != "y"}
    absent = Experiment("e", "", {name: [name, ""] for name in ("b", "rl/x", "a")})
    with pytest.raises(UserError, match=r"e: no job measured a, b$"):
        results.settings_of(jobs, absent)


@pytest.mark.parametrize(
    ("file", "text", "counts"),
    [
        ("src/ivqa/model.py", "x = 2\n", True),
        ("src/ivqa/model.py", "# Text.\nx = 1\n", False),
        ("src/ivqa/model.py", 'def f():\n    """Text."""\n    return 1\n', True),
        ("src/ivqa/more.py", "x = 1\n", True),
        ("src/ivqa/report/page.py", "x = 1\n", False),
        ("tools/results.py", "x = 1\n", False),
        ("src/ivqa/tasks/other.py", "x = 1\n", True),
        ("conf/results.yaml", "[]\n", False),
        ("conf/model/mlb.yaml", "a: 1\n", True),
        ("conf/train.yaml", "# Text.\n\na: 1   # text\n# text\n", False),
        ("conf/train.yaml", "a: 2\n", True),
    ],
)
def test_the_digest_of_code_leaves_out_what_changes_no_number(
    file: str, text: str, counts: bool, root: Path
) -> None:
    (root / "conf" / "train.yaml").write_text("a: 1\n")
    before = results.code_of(root)
    assert results.code_of(root) == before
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text)
    assert (results.code_of(root) != before) is counts


def test_documentation_of_a_function_changes_no_number(root: Path) -> None:
    digests = []
    for text in ("", '    """Text."""\n', '    """Other."""\n', "    y = 'text'\n"):
        (root / "src" / "ivqa" / "model.py").write_text(f"def f():\n{text}    return 1\n")
        digests.append(results.code_of(root))
    assert digests[0] == digests[1] == digests[2] != digests[3]


def test_jobs_are_those_of_a_multirun_or_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"neither results\.json nor metrics\.json"):
        results.jobs_in(tmp_path)
    (tmp_path / "metrics.json").write_text('{"acc": 0.5}')
    (tmp_path / "overrides.yaml").write_text("- model=mlb\n- seed=2\n")
    assert results.jobs_in(tmp_path) == [
        {"overrides": ["model=mlb", "seed=2"], "metrics": {"acc": 0.5}}
    ]
    (tmp_path / "results.json").write_text("[]")
    assert results.jobs_in(tmp_path) == []
