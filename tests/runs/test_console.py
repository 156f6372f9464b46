"""The command `ivqa`, and the configurations that a wheel holds."""

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

from ivqa import console

PROJECT = Path(__file__).parents[2]
SCRIPTS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["scripts"]


@pytest.mark.parametrize("command", console.COMMANDS)
def test_the_command_starts_what_its_first_argument_names(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[Path, str, list[str]]] = []
    monkeypatch.setenv("IVQA_COMMAND", "")
    monkeypatch.setattr(
        console, "entry_point", lambda *given: started.append((*given, sys.argv[1:]))
    )
    module, _, function = SCRIPTS["ivqa"].partition(":")
    main = getattr(importlib.import_module(module), function)
    monkeypatch.setattr(sys, "argv", ["/bin/ivqa", command, "seed=1"])
    main()
    # Lightning starts further processes with the arguments that are left.
    monkeypatch.setattr(sys, "argv", ["/bin/ivqa", "seed=1"])
    main()
    assert started == [(started[0][0], command, ["seed=1"])] * 2
    assert (started[0][0] / f"{command}.yaml").is_file()
    assert (PROJECT / f"{command}.py").is_file()


@pytest.mark.parametrize("given", [[], ["training"], ["model=mlb"]])
def test_another_first_argument_prints_the_usage(
    given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IVQA_COMMAND", raising=False)
    monkeypatch.setattr(sys, "argv", ["/bin/ivqa", *given])
    with pytest.raises(SystemExit, match=r"usage: ivqa train\|evaluate\|diagnose"):
        console.main()


def test_the_package_and_the_checkout_have_the_same_configurations() -> None:
    assert console.conf_dir().resolve() == (PROJECT / "conf").resolve()
