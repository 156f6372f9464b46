"""Pages of the site that are not files below docs/: README and others, and the API reference."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# Files of the project's root, and the page that each becomes.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
}
COPIES = ("LICENSE", "CITATION.cff")


def on_files(files: Files, config: Any) -> Files:
    """Adds the generated pages before MkDocs reads any."""
    for source, page in PAGES.items():
        text = _relinked((ROOT / source).read_text())
        files.append(File.generated(config, page, content=text))
    for name in COPIES:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    for room in sorted((ROOT / "src" / "ivqa").iterdir()):
        if (room / "__init__.py").is_file() and room.name != "released":
            text = f"# ivqa.{room.name}\n\n::: ivqa.{room.name}\n"
            files.append(File.generated(config, f"api/{room.name}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links that work in the repository, as links of the site."""
    return _relinked(markdown)


def _relinked(text: str) -> str:
    for source, page in PAGES.items():
        text = re.sub(rf"\]\((\.\./)?{re.escape(source)}", f"]({page}", text)
    return re.sub(r"\]\(docs/", "](", text)
