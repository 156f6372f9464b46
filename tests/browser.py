"""Pages in headless Chromium, for tests."""

import contextlib
import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")

# Presses the button Export, and returns what it would save and the counter of the page.
EXPORT = """
    const made = [], Plain = Blob;
    window.Blob = class extends Plain {
      constructor(parts, options) { super(parts, options); made.push(parts.join("")); }
    };
    document.getElementById("export").click();
    return { exported: made.map(text => JSON.parse(text)), shown: SHOWN };
""".replace("SHOWN", 'document.getElementById("count").textContent')


# Keeps the files that a page saves instead of saving them: {name: text}.
SAVED = """
    const files = {}, Plain = Blob; let text = "";
    window.Blob = class extends Plain {
      constructor(parts, options) { super(parts, options); text = parts.join(""); }
    };
    HTMLAnchorElement.prototype.click = function () { files[this.download] = text; };
"""


def after(page: Path, script: str, *flags: str, address: str = "") -> dict[str, object]:
    """The value that `script` returns when it runs inside the loaded page, which it changes.

    The script may await. `flags` are those of Chromium, `address` follows the path of the page.
    """
    # The content security policy of the page would refuse this script.
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    assert text != page.read_text()
    run = f"(async () => {{ {script} }})().then(found => document.title = JSON.stringify(found))"
    page.write_text(text.replace("</html>", f"<script>{run}</script></html>"))
    return json.loads(title(loaded(page, *flags, address=address)))


def title(dom: str) -> str:
    found = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
    assert found is not None
    return html.unescape(found[1])


def loaded(page: Path, *flags: str, address: str = "") -> str:
    """The page as it is after its scripts."""
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", *flags]
    for limit in (30, 30, 60):  # Chromium seldom hangs at its start
        # A profile of its own: two that start at once may wait for each other.
        with (
            contextlib.suppress(subprocess.TimeoutExpired),
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        ):
            own = [f"--user-data-dir={profile}", "--virtual-time-budget=2000"]
            own.append(page.as_uri() + address)
            return subprocess.run(
                command + own, capture_output=True, text=True, timeout=limit, check=True
            ).stdout
    pytest.fail(f"Chromium does not load {page}")
