"""Writes the floors of src/ivqa into CONTRIBUTING.md: `python -m tools.rooms`.

The floors are those that import-linter checks; a room is described by the first sentence of its
own docstring.
"""

import ast
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1]
_HEAD = "| floor | room | what is in it |\n|---:|---|---|\n"


def table(root: Path) -> str:
    """The table of rooms, the highest floor first.

    Args:
        root: The checkout.
    """
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = []
    for floor, layer in zip(range(len(layers), 0, -1), layers, strict=True):
        for module in layer.split(" : "):
            folder = root / "src" / Path(*module.split("."))
            file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
            said = str(ast.get_docstring(ast.parse(file.read_text()))).split("\n\n")[0]
            name = f"{folder.name}/" if folder.is_dir() else file.name
            text = " ".join(said.split()).replace("|", "\\|")  # a bar would end the cell
            rows.append(f"| {floor} | `{name}` | {text} |\n")
    return _HEAD + "".join(rows)


def written(page: str, rooms: str) -> str:
    """A page with its table of rooms replaced.

    Args:
        page: The text of CONTRIBUTING.md.
        rooms: The table.
    """
    before, head, rest = page.partition(_HEAD)
    return before + rooms + rest[rest.index("\n\n") + 1 :] if head else page


if __name__ == "__main__":
    file = PROJECT / "CONTRIBUTING.md"
    file.write_text(written(file.read_text(), table(PROJECT)))
