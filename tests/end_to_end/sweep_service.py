"""A stand-in of W&B's sweep service: hands points to `wandb agent`, over HTTP on this machine.

It answers the four GraphQL calls of the agent, by the names of their operations, and notes what
the agent reports about its runs.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml


class SweepService(ThreadingHTTPServer):
    """The server.

    Args:
        sweep: The content of a sweep file.
        points: The parameters of each run, by its id.
    """

    def __init__(self, sweep: Mapping[str, Any], points: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sweep = sweep
        self.left = list(points.items())
        self.called: list[str] = []
        self.running: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, query: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The data of a GraphQL response."""
        if "createAgent" in query:
            self.called.append("createAgent")
            return {"createAgent": {"agent": {"id": "agent1"}}}
        if "agentHeartbeat" in query:
            self.called.append("agentHeartbeat")
            self.running = list(json.loads(variables["runState"]))
            commands = json.dumps(self._commands())
            return {"agentHeartbeat": {"agent": {"id": "agent1"}, "commands": commands}}
        if "SweepWithRuns" in query:
            self.called.append("sweep")
            sweep = {"config": yaml.safe_dump(dict(self.sweep)), "runs": {"edges": []}}
            return {"project": {"sweep": sweep}}
        self.called.append("viewer")
        viewer = {"id": "user1", "username": "someone", "entity": "someone", "flags": "{}"}
        return {"viewer": viewer, "serverInfo": {"features": []}}

    def _commands(self) -> Sequence[Mapping[str, Any]]:
        """The next point once the one before has ended, then the end of the sweep."""
        if self.running:
            return []
        if not self.left:
            return [{"type": "exit"}]
        run_id, point = self.left.pop(0)
        return [
            {
                "type": "run",
                "run_id": run_id,
                "program": self.sweep["program"],
                "args": {key: {"value": value} for key, value in point.items()},
            }
        ]


@contextmanager
def serving(
    sweep: Mapping[str, Any], points: Mapping[str, Mapping[str, Any]]
) -> Iterator[SweepService]:
    """Runs the service in a thread."""
    with SweepService(sweep, points) as service:
        thread = threading.Thread(target=service.serve_forever, daemon=True)
        thread.start()
        yield service
        service.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: SweepService

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = self.server.answer(asked["query"], asked.get("variables") or {})
        content = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass
