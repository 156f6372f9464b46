"""CONTRIBUTING's table of rooms is that of the import contracts."""

import re
import tomllib

from documented_commands import PROJECT


def test_the_table_of_rooms_has_the_floors_that_imports_are_checked_by() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    floors = [[name.strip().removeprefix("ivqa.") for name in one.split(":")] for one in layers]
    text = (PROJECT / "CONTRIBUTING.md").read_text().partition("| room |")[2].partition("\n\n")[0]
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    assert [re.findall(r"`(\w+)(?:/|\.py)`", row) for row in rows] == floors
    package = PROJECT / "src" / "ivqa"
    there = {path.stem for path in package.glob("[a-z]*") if path.is_dir() or path.suffix == ".py"}
    assert there - {"conf"} == {name for floor in floors for name in floor}
