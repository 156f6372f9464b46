"""A folder of runs, and the app that shows it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ivqa.data import VQASplit
from ivqa.data.images import ImageFiles
from ivqa.report.pages.annotation_page import ToAnnotate, write_annotation_page, write_study_page
from ivqa.store.files import write_json, write_text

ORIGIN = "http://127.0.0.1:8321"
HOSTILE = "Is </script><script>document.title='run'</script> there?"
ASKED = [
    ToAnnotate(1, "yes", "Is it red?", "Is it really red?", 1.0),
    ToAnnotate(2, "two", HOSTILE, "", 2.5),
    ToAnnotate(2, "no", "Is it old?", "", 1.0),
]


def write_run(folder: Path, metrics: dict[str, float], config: dict[str, Any]) -> None:
    write_json(folder / "metrics.json", metrics)
    write_text(folder / "config.yaml", json.dumps({"output_dir": str(folder), **config}))
    name = config["name"]
    origin = {"command": f"python evaluate.py model={name}", "model": name,
              "data": "toy data", "started": f"2026-01-0{config['seed']}T10:00:00"}  # fmt: skip
    write_json(folder / "provenance.json", origin)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs of a sweep, a diagnosis and a study, and a file beside the folder."""
    (tmp_path / "secret.html").write_text("secret")
    root = tmp_path / "runs"
    seeds = {"name": "mlb", "model": {"epochs": 3}}
    ends = {"vqa/accuracy_low": 0.4, "vqa/accuracy_high": 0.6}
    write_run(root / "sweep" / "0", {"vqa/accuracy": 0.5, **ends}, {**seeds, "seed": 1})
    write_run(root / "sweep" / "1", {"vqa/accuracy": 0.75, "cider": 2}, {**seeds, "seed": 2})
    write_run(root / "diagnosis", {"beliefs/count": 3}, {"name": "vanilla", "seed": 3})
    picture = tmp_path / "1.png"
    Image.new("RGB", (60, 40), "teal").save(picture)
    ids = np.arange(1, 3)
    split = VQASplit("val", ids, ids, ["Is it?"] * 2, [["yes"]] * 2, ["yes"] * 2, ["yes/no"] * 2,
                     ["is it"] * 2, images=ImageFiles(ids, [picture] * 2))  # fmt: skip
    write_annotation_page(root / "diagnosis" / "annotate.html", "Judge", ASKED, split)
    (root / "diagnosis" / "report.html").write_text("<title>the report</title>")
    write_text(root / "study" / "config.yaml", "name: study")
    items = [(f"item{n}", one) for n, one in enumerate(ASKED)]
    write_study_page(root / "study" / "annotate.html", "study-1", items, split)
    write_json(root / "study" / "key.json", {"models": "secret"})
    return root


@pytest.fixture
def client(folder: Path) -> Iterator[Any]:
    """The app without a token, as a browser on this machine uses it."""
    from starlette.testclient import TestClient

    from ivqa.view.app import create_app
    from ivqa.view.settings import Settings

    app = create_app(Settings(str(folder)), token="", port=8321)
    with TestClient(app, base_url=ORIGIN, headers={"origin": ORIGIN}) as opened:
        yield opened
