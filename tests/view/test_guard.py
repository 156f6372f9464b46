"""Who may use the app: token, hosts, origins, sizes, and files outside of the folder."""

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra view")
from starlette.testclient import TestClient

from ivqa.view.app import create_app
from ivqa.view.guard import MOST_BYTES
from ivqa.view.settings import Settings

TOKEN = "a-token-of-this-test"
FAR = "http://192.168.1.5:8321"


@pytest.fixture
def far(folder: Path) -> TestClient:
    """The app as another machine uses it."""
    app = create_app(Settings(str(folder), host="0.0.0.0"), token=TOKEN, port=8321)
    return TestClient(app, base_url=FAR, headers={"origin": FAR})


ADDRESSES = ["/", "/run?name=diagnosis", "/files/diagnosis/report.html", "/ask", "/annotate",
             "/annotate/export?run=diagnosis", "/static/view.js", "/nothing"]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_address_needs_the_token(address: str, far: TestClient) -> None:
    answer = far.get(address)
    assert (answer.status_code, answer.text) == (
        401, "Open the link with the token that ivqa view printed.\n"
    )  # fmt: skip
    assert far.post(address).status_code == 401


@pytest.mark.parametrize("given", ["", "b", TOKEN[:-1], TOKEN + "x", "schlüssel"])
def test_a_wrong_token_opens_nothing(given: str, far: TestClient) -> None:
    assert far.get("/", params={"token": given}).status_code == 401
    assert not far.cookies
    far.cookies.set("ivqa_view_8321", given.encode("ascii", "ignore").decode())
    assert far.get("/").status_code == 401


def test_the_link_sets_a_cookie_that_scripts_and_other_sites_cannot_use(far: TestClient) -> None:
    answer = far.get("/", params={"token": TOKEN})
    assert answer.status_code == 200
    name, *flags = answer.headers["set-cookie"].split("; ")
    assert name == f"ivqa_view_8321={TOKEN}"
    assert {"HttpOnly", "SameSite=strict"} <= set(flags)
    assert "runs below" not in answer.text  # only a page that opens the app
    assert "4 runs below" in far.get("/").text


def test_names_of_other_sites_are_refused_on_this_machine(client: Any) -> None:
    """A page of another site whose name points to 127.0.0.1 (DNS rebinding)."""
    for host in ("127.0.0.1:8321", "localhost:8321", "[::1]:8321", "localhost"):
        assert client.get("/", headers={"host": host}).status_code == 200
    for host in ("evil.example:8321", "127.0.0.1.evil.example", "", "[", "localhost.evil.example"):
        assert client.get("/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "", None]
)
def test_changes_come_from_a_page_of_the_app(origin: str | None, client: Any) -> None:
    form = {"run": "diagnosis", "person": "Anna", "at": 0, "field": "relevant", "value": "1"}
    del client.headers["origin"]
    headers = {} if origin is None else {"origin": origin}
    answer = client.post("/annotate", data=form, headers=headers)
    assert answer.status_code == 403
    assert answer.text == "This request does not come from a page of ivqa view.\n"
    assert "Nobody has answered" in client.get("/annotate/agreement?run=diagnosis").text
    client.headers["origin"] = "http://127.0.0.1:8321"
    assert client.post("/annotate", data=form).status_code == 200


def test_a_request_has_a_length_and_is_not_too_long(client: Any) -> None:
    chunked = client.post("/ask/picture", content=iter([b"x"]))
    assert chunked.status_code == 411
    long = client.post("/ask/picture", headers={"content-length": str(MOST_BYTES + 1)})
    assert long.status_code == 413
    assert long.text == "This file has more than 25 MiB; choose another.\n"


@pytest.mark.parametrize(
    "path",
    ["../secret.html", "%2e%2e/secret.html", "diagnosis/../../secret.html", "..%2fsecret.html",
     "diagnosis/%2e%2e%2f%2e%2e%2fsecret.html", "/etc/passwd", "%2fetc%2fpasswd", "..\\secret.html",
     "linked.html", "linked/secret.html", ".hidden/report.html", "study/key.json", "diagnosis",
     "diagnosis/metrics.json", "diagnosis/config.yaml", "ivqa-view.sqlite3", "a%00.html",
     "x" * 5000 + ".html", "diagnosis/renamed.html"],
)  # fmt: skip
def test_only_pages_inside_the_folder_are_served(path: str, folder: Path, client: Any) -> None:
    os.symlink(folder.parent / "secret.html", folder / "linked.html")
    os.symlink(folder.parent, folder / "linked")
    os.symlink(folder / "study" / "key.json", folder / "diagnosis" / "renamed.html")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "report.html").write_text("secret")
    answer = client.get(f"/files/{path}")
    assert answer.status_code == 404
    assert "secret" not in answer.text


@pytest.mark.parametrize("name", ["..", "../", "/", "/etc", "diagnosis/..", "sweep", "\0", ""])
def test_runs_are_those_of_the_folder(name: str, client: Any) -> None:
    for address in ("/run?name=", "/annotate/export?run=", "/compare?run=diagnosis&run="):
        answer = client.get(address.replace("=diagnosis", "=sweep/0"), params=None)
        assert answer.status_code in (400, 422)
    answer = client.get("/run", params={"name": name})
    assert answer.status_code == 400
    assert "There is no run" in answer.text


def test_pages_of_runs_have_an_origin_of_their_own(client: Any) -> None:
    report = client.get("/files/diagnosis/report.html")
    assert report.text == "<title>the report</title>"
    policy = report.headers["content-security-policy"]
    assert "sandbox" in policy
    assert "allow-same-origin" not in policy
    own = client.get("/").headers
    assert "script-src 'self'" in own["content-security-policy"]
    assert "unsafe-eval" not in own["content-security-policy"]
    assert (own["x-content-type-options"], own["cache-control"]) == ("nosniff", "no-store")


def test_an_unknown_address_is_a_page(client: Any) -> None:
    answer = client.get("/nothing")
    assert (answer.status_code, "There is nothing at this address." in answer.text) == (404, True)
    message = client.get("/compare?run=diagnosis", headers={"hx-request": "true"})
    assert message.status_code == 400
    assert message.text == ("<p>Choose two to 6 runs in the list of runs, not 1.</p>")
