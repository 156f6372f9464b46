"""The page docs/papers.md: what of the three papers stands where, `python -m tools.papers`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ivqa.store.files import read_yaml, write_text
from tools.claims import all_records, filled
from tools.experiments import Record

FILE = Path("tools", "papers.yaml")
PAGE = Path("docs", "papers.md")
PAPERS = {
    "iVQA": "Inverse visual question answering",
    "ROB": "Robustness analysis of VQA models",
    "IJCV": "Assessing the robustness of VQA models",
}


def papers_page(content: Mapping[str, Any], records: Mapping[str, Record]) -> str:
    """The page in Markdown.

    Args:
        content: The content of tools/papers.yaml.
        records: What was measured, by experiment. A finding without a record is left out.
    """
    parts = [
        "# The papers",
        "Each equation, table and figure of the three papers: the command that gives it, where it "
        "stands in the code (below `src/ivqa`), and what differs. The full references are in "
        "[bibliography.md](bibliography.md), all measured tables in [results.md](results.md). "
        "`python -m tools.papers` writes this page from `tools/papers.yaml`.",
    ]
    for tag, title in PAPERS.items():
        items = [one for one in content["items"] if one["paper"] == tag]
        parts += [f"## {title} [{tag}]", _table(_ITEMS, [_item(one) for one in items])]
    parts += [
        "## Findings that differ here",
        "What the papers find and the tables here do not, with the experiment that shows it.",
    ]
    for one in content["findings"]:
        if one["experiment"] in records:
            shown = f"Experiment `{one['experiment']}` in [results.md](results.md)."
            parts += [f"### {one['title']}", f"{filled(one['text'], records)} {shown}"]
    gaps = [
        [str(one["row"]), one["paper"], one["difference"], one["state"]] for one in content["gaps"]
    ]
    parts += [
        "## Differences of protocol",
        "A line-by-line audit compared the code with the papers; each difference and its state.",
        _table(("#", "paper", "in the paper", "here"), gaps),
    ]
    return "\n\n".join(parts) + "\n"


_ITEMS = ("in the paper", "command", "code", "what differs")


def _item(one: Mapping[str, Any]) -> list[str]:
    command = f"`{one['command']}`" if "command" in one else ""
    code = ", ".join(f"`{file}`" for file in one["code"])
    return [one["item"], command, code, one["differs"]]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    escaped = [[cell.replace(" | ", " \\| ") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in escaped)


def main() -> None:
    """Writes the page."""
    root = Path(__file__).parents[1]
    content = read_yaml(root / FILE, dict)
    write_text(root / PAGE, papers_page(content, all_records(root)))


if __name__ == "__main__":
    main()
