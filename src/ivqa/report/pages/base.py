"""Self-contained HTML pages: everything is escaped, and only the page's own script can run."""

import base64
import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ivqa import provenance
from ivqa.store.files import write_bytes

# Scripts without attributes; <script type="application/json"> holds data and does not run.
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def render(template: str, **values: Any) -> str:
    """Renders a file of `templates/` with values, which are escaped.

    The content security policy of the page allows no network and no script except those of the
    template, which it names by their SHA-256. So a question that escaping missed could still not
    run. The scripts use no values. A template may show `provenance`, one line about the origin of
    the figures.
    """
    environment = _environment()
    page = environment.get_template(template).render(provenance=provenance.line(), **values)
    charset = '<meta charset="utf-8">'
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_policy(template)}">'
    marked = page.replace(charset, f"{charset}\n{policy}", 1)
    assert marked != page, f"{template} has no <meta charset>"
    return marked


def write_page(path: Path, template: str, **values: Any) -> None:
    """Writes a page as `render` gives it."""
    write_bytes(path, render(template, **values).encode())


def script_json(value: Any) -> Markup:
    """JSON that is safe inside <script>: text of the data set cannot close the element."""
    text = json.dumps(value, ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028"))


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("ivqa.report"), autoescape=True, undefined=StrictUndefined
    )


@cache
def _policy(template: str) -> str:
    loader = _environment().loader
    assert loader is not None
    source = loader.get_source(_environment(), template)[0]
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in _SCRIPT.findall(source)
    ]
    scripts = " ".join(f"'sha256-{value}'" for value in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
