"""The endpoint of the gallery, and its record of one commit."""

import base64
import io
import json
import math
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import torch
from PIL import Image

from ivqa.errors import UserError
from tools import gallery


class Colors:
    """Answers with the color of the picture: (1, 3) log-probabilities of .7, .2 and .1."""

    answers = ("red", "green", "blue", *(f"other {number}" for number in range(20)))

    def log_scores(self, image: Image.Image, questions: list[str]) -> torch.Tensor:
        assert questions == ["What color is it?"]
        found = max(range(3), key=lambda channel: image.getpixel((0, 0))[channel])  # type: ignore[index]
        scores = torch.full((1, 23), 0.001)
        scores[0, found], scores[0, (found + 1) % 3] = 0.7, 0.2
        return scores.log()


def test_the_endpoint_answers_with_the_most_probable_answers() -> None:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (0, 0, 200)).save(file, "PNG")
    picture = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    content = [
        {"type": "image_url", "image_url": {"url": picture}},
        {"type": "text", "text": "What color is it?\nAnswer with one word."},
    ]
    body = {"model": "mlb", "messages": [{"role": "user", "content": content}]}
    with gallery.serving(Colors()) as url:  # type: ignore[arg-type]
        assert json.load(urlopen(f"{url}/models"))["data"] == [{"id": "mlb"}]
        found = json.load(urlopen(Request(f"{url}/chat/completions", json.dumps(body).encode())))
    (choice,) = found["choices"]
    assert choice["message"]["content"] == "blue"
    (token,) = choice["logprobs"]["content"]
    assert [one["token"] for one in token["top_logprobs"][:2]] == ["blue", "red"]
    assert math.exp(token["logprob"]) == pytest.approx(0.7)
    assert len(token["top_logprobs"]) == 20


def _written(folder: Path, commits: dict[str, str]) -> Path:
    for name, commit in commits.items():
        files: dict[str, Any] = {
            "report.html": "",
            "provenance.json": json.dumps({"commit": commit, "seconds": 20.0}),
            "metrics.json": json.dumps({"search/questions": 1000.0}),
        }
        (folder / name).mkdir()
        for file, text in files.items():
            (folder / name / file).write_text(text)
    return folder


def test_the_record_is_of_one_clean_commit(tmp_path: Path) -> None:
    record = gallery._record(_written(tmp_path, {"daquar": "abc1234", "served": "abc1234"}))
    assert (record["commit"], record["seconds"]) == ("abc1234", 40.0)
    assert record["settings"]["served"] == [{"search/questions": 1000.0}]


@pytest.mark.parametrize(
    ("commits", "message"),
    [
        ({"daquar": "abc1234"}, "no report of served"),
        ({"daquar": "abc1234", "served": "def5678"}, "one commit"),
        ({"daquar": "abc1234+", "served": "abc1234+"}, "one commit"),
    ],
)
def test_other_records_are_refused(tmp_path: Path, commits: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        gallery._record(_written(tmp_path, commits))
