"""--help: commands that compose, choices that exist, lines that fit a terminal."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from command_checks import problem
from documented_commands import TASKS, Command
from ivqa.command_line import entry_point
from ivqa.config.choices import choices_of, groups_of

CONF = Path(__file__).parents[2] / "conf"


def _print(task: str, *arguments: str) -> None:
    """Runs a command with --help in this process."""
    GlobalHydra.instance().clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [f"{task}.py", "--help", *arguments])
        with pytest.raises(SystemExit) as stopped:
            entry_point(CONF, task)
    assert stopped.value.code == 0


@pytest.fixture(params=TASKS)
def task(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def page(task: str, capsys: pytest.CaptureFixture[str]) -> str:
    _print(task)
    return capsys.readouterr().out


def _choices(page: str) -> dict[str, list[str]]:
    """The choices that a page lists, by group."""
    text = page.split("Choices, ")[1].split("Options\n")[0]
    joined = re.sub(r"\n {10,}", " ", text)
    lines = re.findall(r"^  (\w+)= *(.+)$", joined, re.MULTILINE)
    return {group: names.split(", ") for group, names in lines}


def test_no_line_is_wider_than_a_terminal(page: str) -> None:
    assert max(map(len, page.split("\n"))) <= 80


def test_examples_come_first_and_compose(
    task: str, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a FILE that a command names is made here
    found = re.findall(rf"^  (python {task}\.py .*)$", page.split("Choices, ")[0], re.MULTILINE)
    assert 5 <= len(found) <= 9
    wrong = {text: problem(Command(Path(task), 1, text)) for text in found}
    assert not {text: reason for text, reason in wrong.items() if reason}


def test_exactly_the_files_are_listed(task: str, page: str) -> None:
    listed = _choices(page)
    assert list(listed)[:2] == ["model", "vqa"]
    assert listed["model"].pop() == "and those of vqa="
    assert not set(listed["model"]) & set(listed["vqa"])
    listed["model"] += listed["vqa"]
    folders = {"vqa": "model"}
    for group, names in listed.items():
        files = {file.stem for file in (CONF / folders.get(group, group)).glob("*.yaml")}
        assert len(set(names)) == len(names)
        # vqa= takes models that answer; an experiment, a task or a sweep belongs to one command.
        some = group in ("vqa", "experiment", "task", "sweep")
        assert set(names) <= files if some else set(names) == files
    # Groups with less than two choices: no experiment runs train.py.
    few = {"trainer", "experiment"} if task == "train" else {"trainer"}
    assert set(groups_of(CONF, task)) - set(listed) == few


@pytest.mark.parametrize(
    ("group", "of_diagnose"), [("experiment", "photographs"), ("task", "diagnose_pictures")]
)
def test_a_choice_is_listed_by_its_command_alone(group: str, of_diagnose: str) -> None:
    by_command = [choices_of(group, [CONF], command) for command in TASKS]
    files = sorted(file.stem for file in (CONF / group).glob("*.yaml"))
    assert sorted(name for names in by_command for name in names) == files
    assert of_diagnose in by_command[TASKS.index("diagnose")]


def test_choices_of_the_user_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "reward").mkdir()
    (tmp_path / "reward" / "mine.yaml").write_text("defaults: [full]\n")
    _print("diagnose", "--config-dir", str(tmp_path))
    own = [file.stem for file in (CONF / "reward").glob("*.yaml")]
    assert _choices(capsys.readouterr().out)["reward"] == sorted([*own, "mine"])


def test_help_needs_no_heavy_packages() -> None:
    """--help and completion answer in about a second."""
    code = (
        "import sys; import ivqa.command_line; "
        "print(*({'torch', 'pytorch_lightning', 'transformers', 'wandb'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
