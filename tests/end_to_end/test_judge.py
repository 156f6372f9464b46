"""A VQA model judges the questions of generators, as a user runs it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ivqa.tasks import judge

from .conftest import TINY_BENCHMARK, TINY_MODEL, Run, metrics_of


def _answers(texts: list[str]) -> list[str]:
    """Answers that depend on the question; "Two." is "2" after normalisation."""
    return ["yes" if "is" in text.lower() else "Two." for text in texts]


def test_agreement_of_two_generators_with_their_answers(
    run: Run, tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [f"data.root={tiny_root}", "data=vqa_json", "data.test=null", "split=val"]
    sweep = tmp_path / "sweep"
    status, printed = run(
        "evaluate", "-m", "model=ivqa_answer_only,ivqa_prior", "features=none", *data,
        *TINY_MODEL, *TINY_BENCHMARK, "model.benchmark.pools=null", f"output_dir={sweep}",
    )  # fmt: skip
    assert status == 0, printed

    asked: list[tuple[int, str]] = []

    def answer_all(module: Any, data: Any, stage: str, ids: Any, texts: Any, *_: Any) -> Any:
        asked.extend(zip(ids.tolist(), texts, strict=True))
        return _answers(texts)

    monkeypatch.setattr(judge, "answer_all", answer_all)
    output = tmp_path / "judged"
    status, printed = run(
        "evaluate", "task=judge", "model=language_only", "features=none", *data,
        "model.epochs=1", f"runs=[{sweep}]", "resamples=2000", f"output_dir={output}",
    )  # fmt: skip
    assert status == 0, printed
    metrics = metrics_of(output)

    runs = {}
    for folder, name in ((sweep / "0", "ivqa_answer_only"), (sweep / "1", "ivqa_prior")):
        lines = (folder / "questions.jsonl").read_text().splitlines()
        runs[name] = [json.loads(line) for line in lines]
    texts = {
        (line["image_id"], text)
        for lines in runs.values()
        for line in lines
        for text in (line["best"]["text"], line["reference"])
    }
    assert len(asked) == len(texts)  # each once
    assert set(asked) == texts
    for name, lines in runs.items():
        given = _answers([line["best"]["text"] for line in lines])
        wanted = [line["answer"] for line in lines]
        fits = np.array([a.replace("Two.", "2") == b for a, b in zip(given, wanted, strict=True)])
        right = np.array([line["best"]["verdict"] == "consistent" for line in lines])
        assert metrics[f"{name}/agreement"] == pytest.approx(fits.mean())
        assert metrics[f"{name}/oracle_consistent"] == pytest.approx(right.mean())
        assert metrics[f"{name}/judge_is_right"] == pytest.approx((right == fits).mean())
        # Whole images are drawn: the means of ten images, weighted by their questions.
        images = np.array([line["image_id"] for line in lines])
        groups = [fits[images == image] for image in np.unique(images)]
        rng = np.random.default_rng(0)
        drawn = [
            np.concatenate([groups[at] for at in rng.integers(0, len(groups), len(groups))]).mean()
            for _ in range(4000)
        ]
        bounds = [metrics[f"{name}/agreement_{side}"] for side in ("low", "high")]
        assert bounds == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.02)
    lines = runs["ivqa_prior"]
    given = _answers([line["reference"] for line in lines])
    fits = [a.replace("Two.", "2") == line["answer"] for a, line in zip(given, lines, strict=True)]
    assert metrics["reference/agreement"] == pytest.approx(np.mean(fits))
    assert "reference/judge_is_right" not in metrics
    table = (output / "table.csv").read_text()
    assert table.startswith("questions of,number,agreement,consistent (oracle),judge is right\n")


def test_wrong_arguments_are_one_sentence(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    status, printed = run("evaluate", "task=judge", "model=ivqa_vae", f"runs=[{tmp_path}]")
    assert (status, printed.count("\n")) == (1, 1)
    assert "model=ivqa_vae answers no questions; choose a VQA model as the judge" in printed
    status, printed = run("evaluate", "task=judge")
    assert (status, printed.count("\n")) == (1, 1)
    assert "runs must be set" in printed
    (tmp_path / "metrics.json").write_text("{}")
    data = [f"data.root={tiny_root}", "data=vqa_json", "data.test=null", "split=val"]
    status, printed = run("evaluate", "task=judge", *data, f"runs=[{tmp_path}]")
    assert (status, printed.count("\n")) == (1, 1)
    assert "has no questions.jsonl; give the run directory of evaluate.py" in printed
