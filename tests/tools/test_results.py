"""`make results`: which experiments run, what they keep, and what it refuses."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ivqa import provenance
from ivqa.errors import UserError
from tools import results


def runs_of(root: Path, name: str = "models") -> int:
    return len((root / f"runs_{name}.txt").read_text())


def write_multirun(directory: Path, jobs: list[dict[str, Any]]) -> Path:
    directory.mkdir(parents=True)
    (directory / "results.json").write_text(json.dumps(jobs))
    return directory


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


def test_a_finished_experiment_is_skipped_and_runs_again_where_its_keys_change(
    root: Path,
) -> None:
    results.main([], root=root)
    page = (root / "docs" / "results.md").read_text()
    assert "| mlb | 65.0 ± 7.1 |" in page
    assert "## Not measured\n\n- photographs; it needs data: set `IVQA_NO_SUCH_DATA`" in page
    results.main([], root=root)
    assert runs_of(root) == 1
    (root / "src" / "ivqa" / "tidied.py").write_text("x = 2\n")  # no key depends on it
    results.main([], root=root)
    assert runs_of(root) == 1
    (root / "src" / "ivqa" / "model.py").write_text("version 2")
    results.main(["--page"], root=root)
    assert "**Out of date**: mlb.\n" in (root / "docs" / "results.md").read_text()
    stale = root / "outputs" / "results" / "models" / "9" / "metrics.json"
    stale.parent.mkdir()
    stale.touch()
    results.main([], root=root)
    assert runs_of(root) == 2
    assert "Out of date" not in (root / "docs" / "results.md").read_text()
    assert not stale.exists()  # a job of an earlier command is no job of this one


def test_a_new_metric_of_a_table_runs_the_experiment_again(root: Path) -> None:
    results.main([], root=root)
    file = root / "conf" / "results.yaml"
    file.write_text(file.read_text().replace("{accuracy:", "{n: [n, .0f], accuracy:"))
    results.main(["--page"], root=root)
    assert "**Out of date**: `n` was not recorded.\n" in (root / "docs" / "results.md").read_text()
    with pytest.raises(SystemExit, match="models: no job measured n"):
        results.main([], root=root)
    assert runs_of(root) == 2


READS = """
    - name: second
      command: evaluate.py -m model=mlb questions={results}/models/0/challenge
      metrics: {accuracy: [acc, .1%]}
"""


def test_an_experiment_that_is_read_runs_first_and_again_where_its_files_are_absent(
    root: Path,
) -> None:
    file = root / "conf" / "results.yaml"
    file.write_text(file.read_text() + READS[1:])
    results.main(["second"], root=root)
    assert (runs_of(root), runs_of(root, "second")) == (1, 1)
    page = (root / "docs" / "results.md").read_text()
    assert "questions=outputs/results/models/0/challenge\n" in page
    assert "seed=1,2 output_dir=outputs/results/models\n" in page  # so that a reader finds it
    results.main(["second"], root=root)
    assert (runs_of(root), runs_of(root, "second")) == (1, 1)
    (root / "src" / "ivqa" / "model.py").write_text("version 2")
    results.main(["--page"], root=root)
    assert "**Out of date**: mlb; results of models." in (root / "docs" / "results.md").read_text()
    results.main(["second"], root=root)
    assert (runs_of(root), runs_of(root, "second")) == (2, 2)
    shutil.rmtree(root / "outputs" / "results" / "models")
    results.main(["second"], root=root)
    assert (runs_of(root), runs_of(root, "second")) == (3, 2)
    file.write_text(file.read_text().replace("{results}/models", "{results}/photograph"))
    with pytest.raises(SystemExit, match="second reads the results of 'photograph', which must"):
        results.main([], root=root)


def test_uncommitted_changes_are_refused_or_keep_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "uncommitted", lambda _: "src/ivqa/model.py")
    with pytest.raises(SystemExit, match=r"src/ivqa/model\.py has uncommitted changes, so nobody"):
        results.main([], root=root)
    assert not (root / "runs_models.txt").exists()
    results.main(["--page"], root=root)
    results.main(["--allow-changes"], root=root)
    assert runs_of(root) == 1
    assert not (root / "docs" / "results.json").exists()


def test_what_git_would_commit_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(UserError, match="is no git repository"):
        results.uncommitted(root)

    def git(*words: str) -> None:
        author = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *author, *words], cwd=root, check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "all")
    (root / "docs" / "results.md").write_text("a page\n")
    (root / "conf" / "results.yaml").write_text("[]\n")
    assert results.uncommitted(root) == ""
    (root / "conf" / "new.yaml").write_text("a: 1\n")
    assert results.uncommitted(root) == "conf/new.yaml"
    git("add", ".")
    git("commit", "-m", "all")
    (root / "src" / "ivqa" / "model.py").write_text("version 2")
    assert results.uncommitted(root) == "src/ivqa/model.py"


def test_training_that_ended_before_a_run_is_counted_once(tmp_path: Path) -> None:
    for number, training in enumerate([{"a": [100.0, 5.0]}, {"a": [100.0, 5.0], "b": [7.0, 4.0]}]):
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps({"training": {**training, "c": [1000.0, 6.5]}}))
    files = sorted(tmp_path.iterdir())
    (tmp_path / "served.json").write_text("{}")  # a run without a trained model
    assert results.stored_training([*files, tmp_path / "served.json"], began=6.0) == 107.0


def test_a_failed_experiment_keeps_the_page_and_runs_again(root: Path) -> None:
    results.main([], root=root)
    before = (root / "docs" / "results.md").read_text()
    (root / "src" / "ivqa" / "model.py").write_text("version 3")
    (root / "fail").touch()
    with pytest.raises(SystemExit, match="failed, see its log in outputs/results: models"):
        results.main([], root=root)
    after = (root / "docs" / "results.md").read_text()
    assert after.replace("**Out of date**: mlb.\n\n", "") == before != after
    (root / "fail").unlink()
    results.main([], root=root)
    assert runs_of(root) == 3
    assert (root / "docs" / "results.md").read_text().partition(" s.")[0] != ""


def test_an_imported_multirun_keeps_its_commit_and_the_page_needs_no_run(
    root: Path, tmp_path: Path
) -> None:
    jobs = [
        {"overrides": [f"model={name}", "data.root=/a/b"], "metrics": {"acc": value, "more": 1.0}}
        for name, value in (("mlb", 0.8), ("mutan", 0.9))
    ]
    directory = write_multirun(tmp_path / "elsewhere", jobs)
    keys = results.keys_of_experiments(results.Project(root))["models"]
    (directory / "keys.json").write_text(json.dumps({"keys": keys.keys, "code": keys.code}))
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


def test_a_command_that_runs_before_is_no_setting_of_the_sweep_around_it(tmp_path: Path) -> None:
    names = ("first", "baseline", "0", "1")
    jobs = [{"directory": str(tmp_path / one), "overrides": [one], "metrics": {}} for one in names]
    write_multirun(tmp_path / "sweep", jobs)
    assert [job["overrides"] for job in results.jobs_in(tmp_path / "sweep")] == [["0"], ["1"]]


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
        (["--import=models=.", "--commit=abc+"], "neither results.json"),
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
        "commit": provenance.commit_of(noting).removesuffix("+"),
        "machine": results.this_machine(),
        "settings": {"baseline": measured, "models": measured},
        "versions": provenance.versions(),
        "seeds": [2, 5],
        "stored_training": 0,
        "keys": dict(results.keys_of_experiments(results.Project(noting))["models"].keys),
        "code": {"MLB": 1},
    }
    said = capsys.readouterr().out.splitlines()
    assert "models: python evaluate.py 'two words' x={dir}/first" in said
    results.main([], root=noting)
    assert "models: up to date" in capsys.readouterr().out


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
    assert "## Not measured\n\n- models; it needs" in (noting / "docs" / "results.md").read_text()
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
        "machine": results.this_machine(),
        "seconds": 0.0,
        "settings": {"mlb": [{"acc": pytest.approx(0.7)}, {"acc": pytest.approx(0.3)}]},
        "versions": "",
        "seeds": [3, 7],
        "stored_training": 0.0,
        "keys": {},
        "code": {},
    }
    assert stored == {"models": expected, "photographs": expected}
