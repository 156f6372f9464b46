"""The command `ivqa view`: its address, and the server."""

import errno
import secrets
import socket
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ivqa.errors import UserError
from ivqa.terminal import terminal
from ivqa.view.settings import USAGE, Settings, settings_of

_PACKAGES = ("fastapi", "uvicorn", "python_multipart")


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
