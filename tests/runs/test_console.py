"""The console scripts of pyproject.toml, and the configurations that a wheel holds."""

import importlib
import tomllib
from pathlib import Path

import pytest

from ivqa import console

PROJECT = Path(__file__).parents[2]
SCRIPTS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_starts_the_command_of_its_name(
    script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[Path, str]] = []
    monkeypatch.setattr(console, "entry_point", lambda *arguments: started.append(arguments))
    module, _, function = SCRIPTS[script].partition(":")
    getattr(importlib.import_module(module), function)()
    command = script.removeprefix("ivqa-")
    assert [name for _, name in started] == [command]
    assert (started[0][0] / f"{command}.yaml").is_file()
    assert (PROJECT / f"{command}.py").is_file()


def test_the_package_and_the_checkout_have_the_same_configurations() -> None:
    assert console.conf_dir().resolve() == (PROJECT / "conf").resolve()
