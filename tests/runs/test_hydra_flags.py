"""Hydra's flags: at any place among the overrides, and with the output of a closed pipe."""

import subprocess
import sys
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra

from ivqa.command_line import entry_point, with_multirun
from ivqa.config.hydra_flags import joined_flags
from ivqa.errors import UserError

PROJECT = Path(__file__).parents[2]


def _printed(command: str, capfd: pytest.CaptureFixture[str]) -> str:
    """What evaluate.py prints, in this process."""
    GlobalHydra.instance().clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["evaluate.py", *command.split()])
        with suppress(SystemExit):  # Hydra exits after --help
            entry_point(PROJECT / "conf", "evaluate")
    return capfd.readouterr().out


# Short forms that add task= at the end of the overrides, an alias and an experiment that adds -m.
OVERRIDES = (
    "predictions=a.json data=vqa_json",
    "export=lmms_eval seed=2",
    "image=a.jpg vqa=mlb",
    "human=a.json runs=[a]",
    "compare=[a,b] seed=2",
    "model=mlb seed=2",
)
FLAGS = (
    "--cfg job",
    "--cfg=job",
    "-c job",
    "--cfg job --package task",
    "-c hydra -p hydra.run",
    "--help",
    "--config-dir {folder} --cfg job",
    "-cd={folder} --cfg job",
)


@pytest.mark.parametrize(
    ("overrides", "flags"),
    [*product(OVERRIDES, FLAGS[:1]), *product(OVERRIDES[:1], FLAGS[1:])],
)
def test_flags_may_stand_at_any_place(
    overrides: str, flags: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    flags, (first, second) = flags.format(folder=tmp_path), overrides.split()
    in_front = _printed(f"{flags} {overrides}", capfd)
    assert in_front.strip()  # an error prints nothing on stdout
    assert _printed(f"{overrides} {flags}", capfd) == in_front
    assert _printed(f"{first} {flags} {second}", capfd) == in_front


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        ("--info model=mlb", "model=mlb --info=all"),
        ("model=mlb -i", "model=mlb --info=all"),
        ("-i searchpath model=mlb", "model=mlb --info=searchpath"),
        ("a=1 --multi b=2 --config-dir x", "a=1 b=2 --multirun --config-dir=x"),
        ("", ""),
    ],
)
def test_flags_are_one_word_behind_the_overrides(given: str, joined: str) -> None:
    assert joined_flags(given.split()) == joined.split()


def test_an_experiment_is_swept_beside_a_folder_of_ones_own(tmp_path: Path) -> None:
    given = joined_flags(["experiment=table_models", "--config-dir", str(tmp_path)])
    assert with_multirun(given, PROJECT / "conf") == ["-m", *given]
    shown = joined_flags(["experiment=table_models", "--cfg", "job"])
    assert with_multirun(shown, PROJECT / "conf") == shown


@pytest.mark.parametrize("flags", ["-m --cfg job", "--info -m", "--run -m"])
def test_flags_that_exclude_each_other_are_named(flags: str) -> None:
    with pytest.raises(UserError, match="exclude each other; leave one out"):
        joined_flags(["model=mlb", *flags.split()])


@pytest.mark.parametrize(
    "command",
    [
        "{python} train.py --help",
        "{python} train.py model=mlb --cfg job",
        "{python} train.py -sc install=bash",
        "{python} -m ivqa doctor",
    ],
)
def test_a_closed_pipe_ends_the_output_without_a_message(command: str) -> None:
    line = f"{command.format(python=sys.executable)} | true; exit ${{PIPESTATUS[0]}}"
    found = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=PROJECT)
    assert found.stderr == ""
    assert found.returncode in (0, 141)
