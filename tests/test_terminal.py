"""Texts of the user reach the terminal as they are."""

import re
from pathlib import Path

import pytest

from ivqa.report.tables import print_metrics
from ivqa.terminal import terminal

SOURCE = Path(__file__).parents[1] / "src"


@pytest.mark.parametrize("text", ["run[a]", "[/b]", "[bold]", ":car:", "a\\[b]", "[red]x[/red]"])
def test_a_text_is_printed_as_it_is(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    terminal().print(f"run: {text}", soft_wrap=True)
    assert capsys.readouterr().out == f"run: {text}\n"
    print_metrics({text: 1.0}, title=text, console=terminal())
    assert capsys.readouterr().out.count(text) == 2


def test_every_console_of_the_package_is_such_a_terminal() -> None:
    built = {
        str(file.relative_to(SOURCE)): len(re.findall(r"\bConsole\(", file.read_text()))
        for file in SOURCE.rglob("*.py")
    }
    # The error of a command is a rich.text.Text, which is no markup either.
    assert {file for file, number in built.items() if number} == {
        "ivqa/terminal.py",
        "ivqa/command_line.py",
    }
