"""The whole reports of docs/gallery.md: `make gallery` writes them into outputs/gallery.

Three diagnoses with all defaults: MLB on scenes, as `make demo`; MLB on photographs, if IVQA_DAQUAR
names the folder of DAQUAR (docs/data.md); and a served model, for which MLB answers behind an
OpenAI-compatible endpoint of this process. docs/hooks.py adds the reports to the site.

    python -m tools.gallery             those that are not there yet
    python -m tools.gallery --record    and figures into docs/gallery.json, for tools/claims.py
"""

import argparse
import base64
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from PIL import Image

import ivqa
from ivqa.api import LoadedAnswerer
from ivqa.errors import UserError
from ivqa.scenes import generate_scenes
from ivqa.store.files import read_json, write_json
from tools.results import this_machine

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "docs" / "gallery.json"
SERVED_PICTURES = 24
# MLB as in the table of photographs of docs/results.md.
PHOTOGRAPHS = (
    "images={0}/images/val vqa=mlb data=vqa_json data.root={0} split=val "
    "features=pretrained_concepts features.backbone.image_size=256 vqa.epochs=12 vqa.batch_size=32 "
    "vqa.module.network.dropout=0.5 question_encoder.dropout=0.25 yes=true"
)


def main() -> None:
    """Runs the diagnoses whose reports are not there yet."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write docs/gallery.json")
    keep = parser.parse_args().record
    folder = ROOT / "outputs" / "gallery"
    _diagnose(folder / "scenes", ["vqa=mlb"])
    if daquar := os.environ.get("IVQA_DAQUAR"):
        _diagnose(folder / "daquar", PHOTOGRAPHS.format(daquar).split())
    else:
        print("no report about photographs: set IVQA_DAQUAR to the folder of DAQUAR")
    if not _report(folder / "served").is_file():
        _diagnose_served(folder)
    if keep:
        write_json(RECORD, {"gallery": _record(folder)})


def _diagnose_served(folder: Path) -> None:
    """Diagnoses MLB behind an endpoint, about new pictures of scenes."""
    root = generate_scenes(folder / "data", images={"train": 1, "val": SERVED_PICTURES}, seed=1)
    with serving(ivqa.load_vqa("mlb")) as url:
        model = ["vqa=openai", "vqa.path=mlb", f"vqa.base_url={url}"]
        _diagnose(folder / "served", [f"images={root}/images/val", *model, "yes=true"])


@contextmanager
def serving(model: LoadedAnswerer) -> Iterator[str]:
    """Serves a VQA model by the protocol of OpenAI's chat completions; gives its base URL.

    An answer is one token, with the 20 most probable answers as alternatives.
    """
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:  # /v1/models
            self._send({"data": [{"id": "mlb"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            picture, prompt = body["messages"][-1]["content"]
            image = base64.b64decode(picture["image_url"]["url"].partition(",")[2])
            question = prompt["text"].partition("\n")[0]
            with lock:
                shown = Image.open(io.BytesIO(image)).convert("RGB")
                best = model.log_scores(shown, [question])[0].topk(20)
            tokens = [
                {"token": (model.answers or [])[at], "logprob": value}
                for at, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ]
            self._send(_completion(tokens))

        def _send(self, content: dict[str, Any]) -> None:
            text = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()


def _completion(tokens: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = tokens[0]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": first["token"]},
        "finish_reason": "stop",
        "logprobs": {"content": [{**first, "top_logprobs": tokens}]},
    }
    return {"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 1}}


def _diagnose(folder: Path, arguments: Sequence[str]) -> None:
    """Runs diagnose.py into a folder, unless its report is there."""
    if not _report(folder).is_file():
        began = time.monotonic()
        command = [sys.executable, str(ROOT / "diagnose.py"), *arguments, f"output_dir={folder}"]
        subprocess.run(command, check=True, cwd=ROOT)
        print(f"{folder.name}: {time.monotonic() - began:.0f} s")


def _report(folder: Path) -> Path:
    return folder / "report.html"


def _record(folder: Path) -> dict[str, Any]:
    """The figures of the last two reports, in the form of tools.experiments.Record."""
    names = ("daquar", "served")
    if absent := [name for name in names if not _report(folder / name).is_file()]:
        raise UserError(
            f"outputs/gallery has no report of {', '.join(absent)}, so none is recorded"
        )
    origin = [read_json(folder / name / "provenance.json", dict) for name in names]
    commits = {str(one["commit"]) for one in origin}
    if len(commits) > 1 or min(commits).endswith("+"):
        raise UserError(f"the reports are of {', '.join(commits)}: make them anew by one commit")
    return {
        "commit": min(commits),
        "machine": this_machine(),
        "seconds": sum(one["seconds"] for one in origin),
        "settings": {name: [read_json(folder / name / "metrics.json", dict)] for name in names},
    }


if __name__ == "__main__":
    main()
