"""All pages of ivqa in Chromium: faults and screenshots. `make pages` writes outputs/pages/.

Playwright drives the Chromium of the system; axe-core checks accessibility.
"""

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from browser import CHROMIUM
from small_pages import write_pages

SCREENS = [(width, scheme) for width in (1300, 400) for scheme in ("light", "dark")]

# Each fault as [kind, what is wrong].
_FAULTS = r"""async () => {
  const found = [], visible = e => e.checkVisibility() && e.getClientRects().length;
  const fault = (kind, e) => found.push([kind, e.outerHTML.slice(0, 200)]);
  const all = selector => [...document.querySelectorAll(selector)].filter(visible);
  for (const one of (await axe.run()).violations) found.push([one.id, one.nodes[0].html]);
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) found.push(["scrolls sideways", `${width} px`]);
  // axe takes a placeholder for a name, although it vanishes with the first letter.
  for (const e of all("input, select, textarea"))
    if (!e.labels.length && !e.ariaLabel && !e.matches("[aria-labelledby]")) fault("no label", e);
  for (const e of all("img")) if (!e.naturalWidth) fault("no picture", e);
  for (const e of all("body *")) {
    const own = [...e.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    const hides = getComputedStyle(e).overflowX === "hidden";
    if (own && hides && e.scrollWidth > e.clientWidth + 1) fault("cut text", e);
  }
  for (const e of all("td, th")) {
    const text = document.createRange();
    text.selectNodeContents(e);
    const parts = [...text.getClientRects()].filter(part => part.width);
    const end = Math.min(...parts.map(part => part.bottom));
    const broken = parts.some(part => part.top > end - 1) && !/\s/.test(e.innerText.trim());
    if (broken) fault("broken word", e);
  }
  for (const e of all("h1, h2, h3, p, small"))
    if (/\b([a-z]+),? \1\b/i.test(e.innerText)) fault("repeated word", e);
  return found;
}"""


@contextmanager
def browser() -> Iterator[Any]:
    """The Chromium of the system, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def look_at(chromium: Any, page: Path, screens: Sequence[tuple[int, str]] = SCREENS) -> list[str]:
    """Opens a page on each screen, takes screenshots beside it, and returns its faults."""
    axe = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    faults = []
    for width, scheme in screens:
        # The content security policy of the page refuses the scripts of others.
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
        )
        tab = context.new_page()
        tab.on("pageerror", lambda error: faults.append(f"{page.name}: script: {error}"))
        tab.goto(page.as_uri())
        tab.screenshot(path=page.with_name(f"{page.stem}_{width}_{scheme}.png"), full_page=True)
        tab.evaluate(axe)
        for kind, fault in tab.evaluate(_FAULTS):
            faults.append(f"{page.name} at {width} px, {scheme}: {kind}: {fault}")
        if (width, scheme) == screens[0]:
            tab.emulate_media(media="print")
            tab.set_viewport_size({"width": 794, "height": 1123})  # A4
            tab.screenshot(path=page.with_name(f"{page.stem}_print.png"), full_page=True)
        context.close()
    return faults


def write_index(folder: Path, pages: Sequence[Path]) -> Path:
    """Writes index.html, which shows each page and its screenshots."""
    rows = "".join(
        f'<h2><a href="{page.name}">{escape(page.stem)}</a></h2><p>'
        + "".join(
            f'<a href="{shot.name}"><img src="{shot.name}" alt="{shot.stem}" loading="lazy"></a>'
            for shot in sorted(page.parent.glob(f"{page.stem}_[0-9p]*.png"))
            if re.fullmatch(rf"{page.stem}_(\d+_\w+|print)", shot.stem)
        )
        for page in pages
    )
    style = (
        "body{font-family:sans-serif} img{width:15rem; height:20rem; object-fit:cover; "
        "object-position:top; margin:.3rem; border:1px solid}"
    )
    index = folder / "index.html"
    index.write_text(f"<!doctype html><title>Pages</title><style>{style}</style>{rows}")
    return index


def main(folder: Path) -> int:
    """Writes and opens all pages; returns the number of faults."""
    if CHROMIUM is None:
        sys.exit("error: there is no Chromium; install it, as by apt-get install chromium")
    begun = time.monotonic()
    pages = write_pages(folder.resolve())
    with browser() as chromium:
        faults = [fault for page in pages for fault in look_at(chromium, page)]
    print("\n".join([*faults, f"{len(faults)} faults of {len(pages)} pages"]))
    print(f"screenshots: {write_index(folder, pages)}, after {time.monotonic() - begun:.0f} s")
    return len(faults)


if __name__ == "__main__":
    sys.exit(bool(main(Path("outputs/pages"))))
