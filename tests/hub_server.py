"""A stand-in for the Hugging Face hub: creates repositories and keeps what is committed."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class HubServer:
    """What a hub was told.

    Attributes:
        created: The bodies of requests for repositories.
        files: The committed files by repository and path, such as "datasets/me/runs".
        refuses: The status of an answer to each commit; 0 accepts it.
    """

    token: str = "secret"
    url: str = ""
    created: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refuses: int = 0


@contextmanager
def serving_hub() -> Iterator[HubServer]:
    """Runs a server in a thread of this process."""
    server = HubServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers["Authorization"] == f"Bearer {server.token}"
            body = {"name": "me", "type": "user"} if known else {"error": "bad token"}
            self._send(200 if known else 401, body)

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            _, _, *place, last = self.path.split("?")[0].split("/")
            if self.path == "/api/repos/create":
                server.created.append(json.loads(content))
                made = server.created[-1]
                kind = "datasets/" if made.get("type") == "dataset" else ""
                address = f"{server.url}/{kind}{made['organization']}/{made['name']}"
                self._send(200, {"url": address})
            elif "preupload" in place:
                paths = [one["path"] for one in json.loads(content)["files"]]
                regular = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
                self._send(200, {"files": [{"path": path, **regular} for path in paths]})
            elif "commit" in place and not server.refuses:
                kept = server.files.setdefault("/".join(place[:-1]), {})
                for line in map(json.loads, content.splitlines()):
                    if line["key"] == "file":
                        value = line["value"]
                        kept[value["path"]] = base64.b64decode(value["content"])
                address = f"{server.url}/me/runs/commit/1"
                self._send(200, {"commitUrl": address, "commitOid": "1"})
            elif "commit" in place:
                self._send(server.refuses, {"error": "storage is full"})
            else:
                self._send(200, {"errors": [], "warnings": [], "last": last})

        def _send(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
