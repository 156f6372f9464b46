"""A human study from the evaluation of models to its tables, as a user runs it."""

import json
from pathlib import Path

from .conftest import TINY_BENCHMARK, TINY_MODEL, Run, metrics_of


def test_a_study_of_a_multirun(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", "data.test=null", "split=val"]
    sweep = tmp_path / "a sweep"
    status, printed = run(
        "evaluate", "-m", "model=ivqa_answer_only,ivqa_prior", "seed=1,2", "features=none", *data,
        *TINY_MODEL, *TINY_BENCHMARK, "model.benchmark.pools=null", f"output_dir={sweep}",
    )  # fmt: skip
    assert status == 0, printed

    study = tmp_path / "study=1"
    command = ["task=human_study", f"runs=['{sweep}']", *data, f"output_dir={study}"]
    status, printed = run("evaluate", *command, "num_images=8")
    assert status == 0, printed
    assert "questions of 4 models about 8 images" in printed

    key = json.loads((study / "key.json").read_text())
    assert list(key["runs"]) == [
        f"ivqa_{name}, seed {seed}" for name in ("answer_only", "prior") for seed in (1, 2)
    ]
    for shift, person in enumerate(("anna", "ben")):
        scores = {item["id"]: (n + shift) % 5 for n, item in enumerate(key["items"])}
        content = {"study": key["id"], "person": person, "ratings": scores}
        (study / f"{person}.json").write_text(json.dumps(content))
    output = tmp_path / "results"
    files = [f"'{study / name}.json'" for name in ("anna", "ben")]
    status, printed = run("evaluate", f"human=[{','.join(files)}]", f"output_dir={output}")
    assert status == 0, printed
    metrics = metrics_of(output)
    assert metrics["agreement/people"] == 2
    assert {f"human/{name}" for name in key["runs"]} <= metrics.keys()
    status, printed = run("evaluate", f"human={study / 'anna.json'}", f"output_dir={output}")
    assert status == 0, printed
    assert metrics_of(output)["agreement/people"] == 1


def test_wrong_arguments_are_one_sentence(run: Run, tmp_path: Path) -> None:
    status, printed = run("evaluate", "task=human_study")
    assert (status, printed.count("\n")) == (1, 1)
    assert printed.startswith("error: pass either runs=[RUN,...]")
    status, printed = run("evaluate", "task=correlate", f"runs=[{tmp_path}]")
    assert (status, printed.count("\n")) == (1, 1)
    assert "has no metrics.json; give the directory of a finished run" in printed
    status, printed = run("evaluate", "task=correlate")
    assert (status, printed.count("\n")) == (1, 1)
    assert "runs must be set" in printed
