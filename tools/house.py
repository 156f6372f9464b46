"""Counts the house: `python -m tools.house`, lines, files and keys beside their targets."""

from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import grimp
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from rich.console import Console

from ivqa.report.tables import print_table

PROJECT = Path(__file__).parents[1]
LINES, FILES_IN_A_FOLDER, LINES_OF_A_FILE, CONFIGURATIONS, KEYS = 44_000, 18, 350, 120, 180


def counts(root: Path) -> list[dict[str, Any]]:
    """Counts what the targets limit.

    Args:
        root: The checkout.

    Returns:
        One row a target: "what", "is", "target" and "over", the files or folders over it.
    """
    sources = sorted((root / "src").rglob("*.py"))
    lines = {file.relative_to(root / "src"): len(file.read_text().splitlines()) for file in sources}
    folders = Counter(file.parent for file in lines)
    found = circle()
    return [
        _row("lines under src", sum(lines.values()), LINES),
        _row("files in a folder", max(folders.values()), FILES_IN_A_FOLDER, folders),
        _row("lines of a file", max(lines.values()), LINES_OF_A_FILE, lines),
        _row("YAML files in conf", len([*(root / "conf").rglob("*.yaml")]), CONFIGURATIONS),
        _row("leaf keys of diagnose.py", len([*_leaves(_composed(root))]), KEYS),
        {
            "what": "circle of imports",
            "is": int(bool(found)),
            "target": 0,
            "over": found,
        },
    ]


def circle() -> str:
    """Files of ivqa that import each other, also for their types alone; "" where none do."""
    graph = grimp.build_graph("ivqa", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return " -> ".join(error.args[1])
    return ""


def _row(what: str, found: int, target: int, by: dict[Path, int] | None = None) -> dict[str, Any]:
    over = [f"{path} {number}" for path, number in (by or {}).items() if number > target]
    return {"what": what, "is": found, "target": target, "over": ", ".join(over)}


def _composed(root: Path) -> Any:
    with initialize_config_dir(str(root / "conf"), version_base="1.3"):
        return OmegaConf.to_container(compose("diagnose"), resolve=False)


def _leaves(node: Any) -> Iterator[Any]:
    if isinstance(node, dict) and node:
        for value in node.values():
            yield from _leaves(value)
    else:
        yield node


if __name__ == "__main__":
    print_table(counts(PROJECT), title="the house", console=Console())
