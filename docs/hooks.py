"""Pages of the site that are not below docs/: README and others, reports, the API reference."""

import ast
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "ivqa"
# Files of the project's root, and the page that each becomes.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
}
COPIES = ("LICENSE", "CITATION.cff")
# What most people use, and what these functions return.
PUBLIC = {
    "ivqa": ("diagnose", "load", "load_vqa", "contradicting", "implications"),
    "ivqa.api": ("Diagnosis", "LoadedGenerator", "LoadedAnswerer"),
    "ivqa.ranking": ("LassoRanker",),
    "ivqa.metrics": ("r_score",),
}
# Objects that components of one's own need, and that no room exports.
ALSO = {
    "data": {"ImageBatch": "ivqa.data.batches.batch"},
    "text": {"Tokens": "ivqa.text.vocabulary", "tokenise": "ivqa.text.tokens"},
    "scenes": {"SceneOracle": "ivqa.scenes.oracle"},
}
REPORTS = ("scenes", "daquar", "served")  # those of tools/gallery.py
# Pages without a menu beside them: where one begins, and where tables are wide.
ALONE = ("index.md", "tutorial.md", "gallery.md", "papers.md", "results.md")


class Examples(griffe.Extension):
    """Shows a section "Example" as code; griffe knows "Examples" only."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the section in a docstring."""
        if obj.docstring:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.M)
            obj.docstring.value = text


def on_config(config: Any) -> Any:
    """Puts the API reference into the navigation; only mike's copies have a menu of versions."""
    if "MIKE_DOCS_VERSION" not in os.environ:
        config.extra.pop("version", None)
    if not config.repo_url:
        config.edit_uri = None
    reference = next(part["Reference"] for part in config.nav if "Reference" in part)
    public = [{"Overview": "api/index.md"}, *(f"api/{name}.md" for name in _public())]
    rooms = [f"api/ivqa.{room}.md" for room in _rooms()]
    reference[:] = [{"Python": public}, *reference, {"Rooms": rooms}]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the generated pages before MkDocs reads any."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=_relinked((ROOT / source).read_text())))
    for name in COPIES:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    for name in REPORTS:
        if (report := _report(name)).is_file():
            page = f"gallery/{name}.html"
            files.append(File.generated(config, page, abs_src_path=str(report)))
    for page, text in _reference().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_pre_page(page: Any, config: Any, **_: Any) -> Any:
    """Links of the pages of the root to the files that they are made of."""
    sources = [source for source, name in PAGES.items() if name == page.file.src_uri]
    if sources and config.repo_url:
        page.edit_url = f"{config.repo_url.rstrip('/')}/edit/main/{sources[0]}"
    return page


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links that work in the repository, as links of the site; reports that were not made."""
    if page.file.src_uri in ALONE:
        page.meta["hide"] = ["navigation"]
    if page.file.src_uri == "gallery.md":
        for name in REPORTS:
            if not _report(name).is_file():
                link = rf"\[([^\]]*)\]\(gallery/{name}\.html\)"
                markdown = re.sub(link, r"\1 (not made here)", markdown)
    return _relinked(markdown)


def _relinked(text: str) -> str:
    for source, page in PAGES.items():
        text = re.sub(rf"\]\((\.\./)?{re.escape(source)}", f"]({page}", text)
    return re.sub(r"\]\(docs/", "](", text)


def _report(name: str) -> Path:
    return ROOT / "outputs" / "gallery" / name / "report.html"


def _public() -> list[str]:
    return [f"{module}.{name}" for module, names in PUBLIC.items() for name in names]


def _rooms() -> dict[str, dict[str, str]]:
    """The rooms that export objects: the module of each object, by name."""
    found = {}
    for room in sorted(path.parent for path in PACKAGE.glob("*/__init__.py")):
        if objects := dict(sorted({**_exports(room), **ALSO.get(room.name, {})}.items())):
            found[room.name] = objects
    return found


def _exports(room: Path) -> dict[str, str]:
    """The classes and functions that an __init__.py imports and names in __all__."""
    tree = ast.parse((room / "__init__.py").read_text())
    listed = re.search(r"^__all__ = \[(.*?)\]$", (room / "__init__.py").read_text(), re.M | re.S)
    names = set(ast.literal_eval(f"[{listed[1]}]")) if listed else None
    return {
        alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ivqa.")
        for alias in node.names
        if (names is None or alias.name in names) and _definition(str(node.module), alias.name)
    }


def _definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef | None:
    """The class or function in the module that defines it; None for a constant."""
    path = PACKAGE.parent / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            if "overload" not in [ast.unparse(one) for one in node.decorator_list]:
                return node
        elif isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return _definition(str(node.module), name)
    return None


def _reference() -> dict[str, str]:
    """The pages of the API reference: Python's names, the rooms, one page an object."""
    pages = {f"api/{name}.md": f"{_title(name)}::: {name}\n" for name in _public()}
    public = [
        _row(f"{module}.{name}", module, name) for module, names in PUBLIC.items() for name in names
    ]
    rooms = [
        (f"[ivqa.{room}](ivqa.{room}.md)", _sentence(PACKAGE / room / "__init__.py"))
        for room in _rooms()
    ]
    pages["api/index.md"] = (
        f"# Python\n\nWhat most people use, and what it returns:\n\n{_table(public)}\n"
        f"The rooms, with the objects that each exports:\n\n{_table(rooms)}"
    )
    for room, objects in _rooms().items():
        name = f"ivqa.{room}"
        listed = _table(_row(f"{name}.{one}", home, one) for one, home in objects.items())
        pages[f"api/{name}.md"] = (
            f"{_title(name)}::: {name}\n    options: {{members: false}}\n\n{listed}\n"
            f"## Modules\n\n{_table(_modules(room))}"
        )
        for one, home in objects.items():
            place = f"{home if one in ALSO.get(room, {}) else name}.{one}"
            text = f"{_title(place)}[{name}]({name}.md)\n\n::: {place}\n"
            pages.setdefault(f"api/{name}.{one}.md", text)
    return pages


def _title(name: str) -> str:
    return f"---\ntitle: {name}\n---\n\n"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return "| | |\n|---|---|\n" + "".join(f"| {left} | {right} |\n" for left, right in rows)


def _row(page: str, module: str, name: str) -> tuple[str, str]:
    node = _definition(module, name)
    return f"[{name}]({page}.md)", _first((node and ast.get_docstring(node)) or "")


def _modules(room: str) -> Iterator[tuple[str, str]]:
    for file in sorted((PACKAGE / room).rglob("*.py")):
        if file.name != "__init__.py":
            name = ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
            yield f"`{name}`", _sentence(file)


def _sentence(file: Path) -> str:
    return _first(ast.get_docstring(ast.parse(file.read_text())) or "")


def _first(text: str) -> str:
    """The first sentence of a docstring, as a cell of a table."""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")
