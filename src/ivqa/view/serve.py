"""The command `ivqa view`: its settings, its address, and the server."""

import errno
import ipaddress
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import TypeAdapter, ValidationError

from ivqa.config.words import description
from ivqa.errors import UserError
from ivqa.ranges import ExistingFolder, NonEmptyText, Place
from ivqa.terminal import terminal

_PACKAGES = ("fastapi", "uvicorn", "python_multipart")
USAGE = "usage: ivqa view [FOLDER] [host=ADDRESS] [port=NUMBER] [artifacts=DIR]"


@dataclass(frozen=True)
class Settings:
    """Settings of the app.

    Args:
        folder: The folder whose runs are shown; no file outside of it is served.
        host: The address to listen on. Every address but loopback requires a token.
        port: The port to listen on; 0 for any free one.
        artifacts: The artifact store with the trained models.
    """

    folder: ExistingFolder = "outputs"
    host: NonEmptyText = "127.0.0.1"
    port: Annotated[int, Interval(ge=0, le=65535)] = 8321
    artifacts: Place = "artifacts"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def main(arguments: Sequence[str]) -> int:
    """Serves the app until Ctrl-C; `arguments` are those after "view". Returns the exit status."""
    console = terminal(stderr=True)
    if {"-h", "--help"} & set(arguments):
        terminal().print(USAGE, soft_wrap=True)
        return 0
    try:
        settings = settings_of(arguments)
        listening = listen(settings.host, settings.port)
        with listening:
            _serve(settings, listening)
    except UserError as error:
        console.print(f"error: {error}", soft_wrap=True, highlight=False)
        return 1
    return 0


def settings_of(arguments: Sequence[str]) -> Settings:
    """Reads the settings from the command line: a folder and KEY=VALUE.

    Raises:
        UserError: Names all keys that do not exist and all invalid values.
    """
    given: dict[str, Any] = {"artifacts": os.environ.get("IVQA_ARTIFACTS", "artifacts")}
    faults = []
    known: dict[str, Any] = {field.name: field.type for field in fields(Settings)}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if key in known and equals:
            given[key] = int(value) if key == "port" and value.isdecimal() else value
        elif "folder" not in given and not argument.startswith("-"):
            given["folder"] = argument
        else:
            faults.append(f"{argument} is no setting of ivqa view")
    values = {"folder": Settings.folder, **given}
    for key, value in values.items():
        try:
            TypeAdapter(known[key]).validate_python(value, strict=True)
        except ValidationError as error:
            reason = error.errors()[0].get("ctx", {}).get("error")
            faults.append(f"{key}={value}: {reason or f'must be {description(known[key])}'}")
    if faults:
        raise UserError(f"{'; '.join(faults)}\n{USAGE}")
    return Settings(**given)


def listen(host: str, port: int) -> socket.socket:
    """Opens the port; raises UserError where it is in use or is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = f"port={port}: another program uses this port of {host}; pass another one, "
            raise UserError(f"{reason}or port=0 for any that is free") from None
        if error.errno == errno.EACCES:
            raise UserError(f"port={port}: only root may use it; pass one above 1023") from None
        raise UserError(
            f"host={host}: this machine has no such address ({error.strerror}); leave host= out "
            "for this machine alone, or pass host=0.0.0.0 for all its addresses"
        ) from None


def _serve(settings: Settings, listening: socket.socket) -> None:
    absent = [one for one in _PACKAGES if find_spec(one) is None]
    if absent:
        raise UserError(f"ivqa view needs {', '.join(absent)}: pip install 'ivqa[view]'")
    port = listening.getsockname()[1]
    token = "" if settings.is_loopback else secrets.token_urlsafe(32)
    # All addresses of the machine: other machines know it by its name.
    host = socket.gethostname() if settings.host in ("0.0.0.0", "::") else settings.host
    name = f"[{host}]" if ":" in host else host
    link = f"http://{name}:{port}/" + (f"?token={token}" if token else "")
    console = terminal()
    console.print(f"runs of {Path(settings.folder).resolve()}", soft_wrap=True, highlight=False)
    console.print(f"open {link}", soft_wrap=True, highlight=False)
    if token:
        console.print("This link is shown once; who has it can use the app.", soft_wrap=True)
    console.print("Ctrl-C ends it. The first page takes some seconds.")
    import uvicorn

    from ivqa.view.app import create_app  # imports PyTorch

    app = create_app(settings, token=token, port=port)
    # A page looks every few seconds: a connection that ends in between would break its request.
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=75)
    uvicorn.Server(config).run(sockets=[listening])
