"""The app in Chromium, driven by Playwright: keyboard, picture, sandbox, and axe-core."""

import json
import shutil
import threading
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from browser import CHROMIUM, EXPORT, after, needs_chromium

pytest.importorskip("fastapi", reason="needs the extra view")
pytest.importorskip("playwright.sync_api", reason="needs playwright")
import uvicorn
from playwright.sync_api import sync_playwright

from ivqa.view.app import create_app
from ivqa.view.serve import listen
from ivqa.view.settings import Settings

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium of this machine; Playwright's own is never downloaded."""
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def _served(folder: Path, token: str = "") -> Iterator[str]:
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    app = create_app(Settings(str(folder)), token=token, port=port)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(20)


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    yield from _served(folder)


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page of the app. No script of it fails, and nothing is fetched elsewhere."""
    context = browser.new_context(base_url=address, viewport={"width": 1300, "height": 900})
    opened = context.new_page()
    failed: list[str] = []
    opened.on("pageerror", lambda error: failed.append(str(error)))
    opened.on(
        "request", lambda one: one.url.startswith((address, "data:")) or failed.append(one.url)
    )
    opened.set_default_timeout(30_000)
    yield opened
    context.close()
    assert failed == []


def _count(page: Any) -> str:
    return page.locator("#item [role=status]").inner_text()


def test_beliefs_are_judged_by_keyboard_as_on_the_page_itself(
    page: Any, folder: Path, tmp_path: Path
) -> None:
    """The same keys in annotate.html give the same file, but for its order of fields."""
    page.goto("/annotate?run=diagnosis")
    page.get_by_label("Your name").fill("Anna")
    page.keyboard.press("Enter")
    page.locator("#item").wait_for()
    steps = [("y", "1 of 3, 0 judged"), ("n", "1 of 3, 0 judged"), ("h", "1 of 3, 1 judged")]
    for key, shown in steps:
        before = page.locator("#item").get_attribute("hx-vals")
        with page.expect_response("**/annotate"):
            page.keyboard.press(key)
        page.locator("#item [role=status]", has_text=shown).wait_for()
        assert page.locator("#item").get_attribute("hx-vals") == before
    page.get_by_label("What is the right answer?").fill("no")
    page.keyboard.press("Enter")
    page.get_by_text("2 of 3, 1 judged").wait_for()
    page.keyboard.press("s")  # the image does not show it
    page.get_by_text("3 of 3, 2 judged").wait_for()
    page.keyboard.press("ArrowLeft")
    page.get_by_text("2 of 3, 2 judged").wait_for()
    assert page.locator("[aria-pressed=true]").inner_text().startswith("no")
    page.locator("#agreement li").get_by_text("Anna: 2 of 3").wait_for()
    with page.expect_download() as saved:
        page.get_by_role("link", name="export").click()
    ours = json.loads(Path(saved.value.path()).read_text())
    copy = tmp_path / "annotate.html"
    shutil.copy(folder / "diagnosis" / "annotate.html", copy)
    same = """
        const press = key => dispatchEvent(new KeyboardEvent("keydown", { key }));
        const set = (id, text) => { const box = document.getElementById(id); box.value = text;
          box.dispatchEvent(new Event("change")); };
        set("person", "Anna");
        press("y"); press("n"); press("h"); set("right", "no"); press("ArrowRight"); press("s");
    """
    (theirs,) = after(copy, same + EXPORT)["exported"]  # type: ignore[misc]
    assert ours == theirs
    assert len(ours) == 2


def test_keys_that_are_pressed_faster_than_the_server_answers_mean_what_the_next_page_shows(
    page: Any,
) -> None:
    """On the first page "n" would say that the first answer is no, and "h" would mean nothing."""
    page.goto("/annotate?run=diagnosis&person=Anna")
    page.evaluate(
        """
            const press = key => document.body.dispatchEvent(
                new KeyboardEvent("keydown", { key, bubbles: true }));
            press("y"); press("n"); press("h");
        """
    )
    page.locator("#item [role=status]", has_text="1 of 3, 1 judged").wait_for()
    pressed = page.locator("[aria-pressed=true]")  # each with its key
    assert pressed.all_inner_texts() == ["yesa", "nof", "noh"]


def test_a_key_after_an_arrow_judges_no_question_of_the_page_that_is_left(page: Any) -> None:
    page.goto("/annotate?run=diagnosis&person=Anna")
    page.evaluate(
        """
            const press = key => document.body.dispatchEvent(
                new KeyboardEvent("keydown", { key, bubbles: true }));
            press("ArrowRight"); press("y");
        """
    )
    page.get_by_text("2 of 3, 0 judged").wait_for()
    page.goto("/annotate?run=diagnosis&person=Anna&at=0")
    assert page.locator("[aria-pressed=true]").count() == 0


def test_keys_go_on_where_escape_stops_the_way_to_the_next_page(page: Any) -> None:
    page.goto("/annotate?run=diagnosis&person=Anna")
    page.evaluate(
        """
            document.addEventListener("click", event => event.preventDefault(), { once: true });
            const press = key => document.body.dispatchEvent(
                new KeyboardEvent("keydown", { key, bubbles: true }));
            press("ArrowRight"); press("n"); press("Escape"); press("y");
        """
    )
    page.locator("[aria-pressed=true]").wait_for()
    assert page.locator("[aria-pressed=true]").all_inner_texts() == ["yesa"]


def test_a_study_is_scored_by_keyboard(page: Any) -> None:
    page.goto("/annotate?run=study&person=Ben")
    for key, shown in (
        ("4", "2 of 3, 1 scored"),
        ("9", "2 of 3, 1 scored"),
        ("0", "3 of 3, 2 scored"),
    ):
        page.keyboard.press(key)
        page.get_by_text(shown).wait_for()
    page.keyboard.press("ArrowLeft")
    page.get_by_text("2 of 3, 2 scored").wait_for()
    page.keyboard.press("n")
    page.get_by_text("3 of 3, 2 scored").wait_for()
    page.keyboard.press("3")
    page.get_by_text("all are done").wait_for()


def test_letters_in_a_text_field_judge_nothing(page: Any) -> None:
    page.goto("/annotate?run=diagnosis&person=Anna")
    page.get_by_label("Your name").click()
    page.keyboard.type("y")
    page.goto("/annotate?run=diagnosis&person=Anna")
    assert _count(page) == "1 of 3, 0 judged"


def test_a_picture_is_chosen_and_an_error_keeps_the_page(page: Any, tmp_path: Path) -> None:
    page.goto("/ask")
    bad = tmp_path / "bad.png"
    bad.write_text("no picture")
    page.locator("input[type=file]").set_input_files(bad)
    page.get_by_role("alert").get_by_text("bad.png is no picture").wait_for()
    page.locator("input[type=file]").set_input_files(tmp_path / "1.png")
    page.get_by_alt_text("The picture that the model is asked about").wait_for()
    page.get_by_label("Question", exact=True).fill("Is it?")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("There is no VQA model yet").wait_for()


def test_the_list_is_searched_while_one_types(page: Any) -> None:
    page.goto("/?figure=cider")
    assert page.locator("tbody tr").count() == 4
    page.get_by_label("Find").press_sequentially("sweep")
    page.get_by_text("2 shown").wait_for()
    assert page.locator("tbody tr").count() == 2
    assert "find=sweep" in page.url
    for box in page.get_by_role("checkbox", name="compare").all():
        box.check()
    page.get_by_role("button", name="Compare ticked runs").click()
    page.get_by_role("heading", name="2 runs side by side").wait_for()


def test_the_script_of_a_report_cannot_use_the_app(page: Any, folder: Path) -> None:
    """A run may come from elsewhere; its page must neither read nor change anything."""
    (folder / "diagnosis" / "report.html").write_text("""<!doctype html><title>-</title><script>
        const form = new URLSearchParams(
          { run: "diagnosis", person: "Eve", at: 0, field: "relevant", value: 1 });
        Promise.allSettled([fetch("/annotate", { method: "POST", body: form }),
          fetch("/annotate/export?run=diagnosis").then(one => one.text())])
          .then(found => { document.title = found.map(one => one.status).join(" "); });
    </script>""")
    page.goto("/files/diagnosis/report.html")
    page.wait_for_function("document.title !== '-'")
    assert page.title() == "rejected rejected"
    page.goto("/annotate?run=diagnosis")
    page.get_by_text("Nobody has answered yet.").wait_for()


def test_the_link_with_the_token_opens_the_app(browser: Any, folder: Path) -> None:
    for address in _served(folder, token="the-token"):
        page = browser.new_page()
        assert page.goto(address).status == 401
        page.goto(f"{address}/?token=the-token")
        page.get_by_role("heading", name="Runs").wait_for()
        assert page.url == f"{address}/"
        assert page.evaluate("document.cookie") == ""
        page.close()


PAGES = {
    "runs": "/", "run": "/run?name=sweep/0", "compare": "/compare?run=sweep/0&run=sweep/1",
    "ask": "/ask", "runs to annotate": "/annotate", "name": "/annotate?run=diagnosis",
    "beliefs": "/annotate?run=diagnosis&person=Anna", "study": "/annotate?run=study&person=Anna",
    "message": "/compare", "picture": "",
}  # fmt: skip


@pytest.mark.parametrize(("width", "scheme"), [(1300, "light"), (400, "dark")])
def test_axe_finds_nothing(
    width: int, scheme: str, browser: Any, address: str, tmp_path: Path
) -> None:
    axe = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    context = browser.new_context(
        base_url=address, viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    found: dict[str, object] = {}
    for name, path in PAGES.items():
        page = context.new_page()
        page.goto(path or "/ask")
        if name == "picture":
            page.locator("input[type=file]").set_input_files(tmp_path / "1.png")
            page.locator("#asked").wait_for(state="attached")
        if "/annotate?" in path:
            page.locator("#people").wait_for()
        page.evaluate(axe)
        seen = page.evaluate("""async () => {
            const { violations, passes } = await axe.run();
            return { found: violations.map(one => [one.id, one.nodes[0].html]),
                     passes: passes.length,
                     dark: matchMedia("(prefers-color-scheme: dark)").matches,
                     wide: document.documentElement.scrollWidth - innerWidth };
        }""")
        assert seen["passes"] > 10
        assert seen["dark"] == (scheme == "dark")
        if seen["found"] or seen["wide"] > 0:
            found[name] = seen
        page.close()
    context.close()
    assert found == {}
