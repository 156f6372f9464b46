"""The command line of ivqa view: settings, the port, and an absent package."""

import socket
from pathlib import Path

import pytest

from ivqa.errors import UserError
from ivqa.view import serve
from ivqa.view.serve import listen, main
from ivqa.view.settings import Settings, settings_of


def test_a_folder_and_values_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IVQA_ARTIFACTS", "store")
    assert settings_of([str(tmp_path), "port=0"]) == Settings(
        str(tmp_path), port=0, artifacts="store"
    )
    assert settings_of([f"folder={tmp_path}", "host=0.0.0.0", "artifacts=a=b"]) == Settings(
        str(tmp_path), "0.0.0.0", artifacts="a=b"
    )


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        settings_of([str(tmp_path / "none"), "port=70000", "colour=red", "host="])
    first, usage = str(caught.value).split("\n")
    assert first.split("; ") == [
        "colour=red is no setting of ivqa view",
        f"folder={tmp_path}/none: there is no such folder",
        "port=70000: must be an integer from 0 to 65,535",
        "host=: must be text that is not empty",
    ]
    assert usage.startswith("usage: ivqa view [FOLDER]")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("192.168.1.5", False), ("::", False), ("my.machine", False)],
)  # fmt: skip
def test_only_loopback_needs_no_token(host: str, expected: bool) -> None:
    assert Settings(host=host).is_loopback is expected


def test_a_busy_port_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main([str(tmp_path), f"port={port}"]) == 1
    assert capsys.readouterr().err.split("\n")[0] == (
        f"error: port={port}: another program uses this port of 127.0.0.1; pass another one, or "
        "port=0 for any that is free"
    )


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(UserError, match=r"^host=192\.0\.2\.1: this machine has no such address"):
        listen("192.0.2.1", 0)  # reserved for documentation [RFC 5737]


def test_an_absent_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "_PACKAGES", ("json", "no_such_package"))
    assert main([str(tmp_path), "port=0"]) == 1
    expected = "error: ivqa view needs no_such_package: pip install 'ivqa[view]'\n"
    assert capsys.readouterr().err == expected
