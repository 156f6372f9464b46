"""CONTRIBUTING's table of rooms is generated from the import contracts and the docstrings."""

import tomllib

from tools.rooms import table, written

from documented_commands import PROJECT


def test_the_table_of_rooms_is_that_of_the_import_contracts() -> None:
    page = (PROJECT / "CONTRIBUTING.md").read_text()
    assert table(PROJECT) in page, "run python -m tools.rooms"
    assert written(page, "other\n").replace("other\n", table(PROJECT)) == page


def test_every_room_has_a_floor() -> None:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    rooms = {name.removeprefix("ivqa.") for layer in layers for name in layer.split(" : ")}
    package = PROJECT / "src" / "ivqa"
    there = {path.stem for path in package.glob("[a-z]*") if path.is_dir() or path.suffix == ".py"}
    assert there - {"conf"} == rooms
    rows = [row.split(" | ") for row in table(PROJECT).splitlines()[2:]]
    assert len(rows) == len(rooms)
    floor = {room: int(number.removeprefix("| ")) for number, room, _ in rows}
    assert floor["`lasso/`"] == floor["`text/`"] < floor["`ranking/`"] < floor["`api.py`"]
    assert [
        "`lasso/`",
        "A certified solver for many LASSO problems over one large pool of columns. |",
    ] in [row[1:] for row in rows]
