"""lmms-eval itself runs an exported set, and its accuracy is the one of predictions=."""

import json
import os
import subprocess
import sys
import threading
import venv
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ivqa.scenes import generate_scenes
from ivqa.store.files import read_json

PROJECT = Path(__file__).parents[2]
_WORDS = ("yes", "no", "2", "Red.", "a star")


class _Endpoint(BaseHTTPRequestHandler):
    """Speaks the OpenAI protocol; the answer is a function of the prompt's text alone."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = request["messages"][-1]["content"]
        assert any(part["type"] == "image_url" for part in parts)
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        answer = _WORDS[zlib.crc32(text.encode()) % len(_WORDS)]
        message = {"role": "assistant", "content": answer}
        reply = {
            "id": "1", "object": "chat.completion", "created": 0, "model": "tiny",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }  # fmt: skip
        content = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        """Prints nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


@pytest.fixture(scope="module")
def lmms_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Python of an environment with lmms-eval: IVQA_LMMS_PYTHON, or one that is made now.

    It sees the packages of this environment, such as torch, and has its own versions of others.
    """
    if given := os.environ.get("IVQA_LMMS_PYTHON"):
        return given
    folder = tmp_path_factory.mktemp("lmms")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    (packages / "outer.pth").write_text("\n".join(p for p in sys.path if "site-packages" in p))
    install = [str(python), "-m", "pip", "install", "-q", "lmms-eval>=0.7,<0.8"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"lmms-eval cannot be installed here: {done.stderr[-200:]}")
    return str(python)


def _evaluate(cwd: Path, *overrides: str) -> None:
    command = [sys.executable, str(PROJECT / "evaluate.py"), *overrides]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_lmms_eval_computes_our_accuracy(tmp_path: Path, endpoint: str, lmms_python: str) -> None:
    sizes = {"train": 10, "val": 4, "test": 6}
    root = generate_scenes(tmp_path / "scenes", images=sizes, workers=1, progress=False)
    data = ["data=vqa_json", f"data.root={root}", "data.test=test"]
    exported = tmp_path / "out" / "export"
    noise = ["noise=word_shuffling", "noise.levels=2"]
    _evaluate(
        tmp_path, "export=lmms_eval", *data, *noise, f"output_dir={exported.parent}", "name=tiny"
    )
    # The folder is moved first: its files must not name their place.
    moved = exported.rename(tmp_path / "moved")
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "WANDB_MODE")
    }
    environment |= {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(tmp_path / "hf"),
        "OPENAI_API_KEY": "none",
        "PYTHONNOUSERSITE": "1",
    }
    command = [
        lmms_python, "-m", "lmms_eval", "--model", "openai",
        "--model_args", f"model=tiny,base_url={endpoint},api_key=none,num_concurrent=4",
        "--include_path", str(moved), "--tasks", "ivqa_tiny_test", "--log_samples",
        "--output_path", str(tmp_path / "logs"), "--batch_size", "1",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    results = read_json(next((tmp_path / "logs").rglob("*_results.json")), dict)["results"]
    theirs = [results[f"ivqa_tiny_test_level_{level}"]["vqa_accuracy,none"] for level in range(3)]
    files = [
        str(next((tmp_path / "logs").rglob(f"*_samples_ivqa_tiny_test_level_{level}.jsonl")))
        for level in range(3)
    ]
    for scored in (data, ["data=vqa_json", f"data.root={moved / 'answer_key'}", "data.test=test"]):
        listed = "predictions=[" + ",".join(f"'{file}'" for file in files) + "]"
        run_dir = tmp_path / f"scored_{len(scored[1])}"
        _evaluate(tmp_path, listed, *scored, f"output_dir={run_dir}")
        metrics = read_json(run_dir / "metrics.json", dict)
        ours = [metrics[f"robustness/partition_{level}/accuracy"] for level in range(3)]
        print(f"lmms-eval: {theirs}\nivqa:      {ours}")
        assert ours == pytest.approx(theirs, abs=1e-6)
        assert 0.05 < ours[0] < 0.95
        assert {"robustness/r_score", "robustness/partition_1/flips"} <= metrics.keys()
        print({name: metrics[name] for name in metrics if "r_score" in name or "flips" in name})
