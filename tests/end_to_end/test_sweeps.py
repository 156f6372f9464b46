"""A sweep file from the command line: points, a failed one, table, plot, a second command."""

from pathlib import Path

from .conftest import Run, metrics_of

SWEEP = """
program: evaluate.py
method: grid
metric: {name: vqa/accuracy, goal: maximize}
parameters:
  model.module.optimizer.lr: {values: [0.01, 1.0e-08]}
  data.test: {values: [val, nothing]}
command: ["${env}", "${program}", model=language_only, logger=wandb, "${args_no_hyphens}"]
"""


def test_a_sweep_ends_with_table_and_plot(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    file, folder = tmp_path / "rates.yaml", tmp_path / "a sweep"
    file.write_text(SWEEP)
    command = [
        f"sweep={file}", "data=vqa_json", f"data.root={tiny_root}", "model.epochs=1",
        f"output_dir={folder}",
    ]  # fmt: skip
    status, printed = run("evaluate", *command)
    assert status == 0, printed
    assert "2 of 4 points" in printed
    assert printed.count("split 'nothing'") >= 2  # when it happens, and at the end
    accuracy = {name: metrics_of(folder / name)["vqa/accuracy"] for name in ("0", "2")}
    best = max(accuracy, key=lambda name: accuracy[name])
    assert f"best: point {best}, vqa/accuracy" in printed
    rate = {"0": "0.01", "2": "1e-08"}[best]
    assert f"python evaluate.py model=language_only data=vqa_json data.root={tiny_root}" in printed
    assert f"model.module.optimizer.lr={rate} data.test=val\n" in printed
    table = (folder / "table.md").read_text().splitlines()
    assert table[0] == "| point | vqa/accuracy | lr | test |"
    assert [row.split(" | ")[0] for row in table[2:]] == [
        f"| {best}", f"| {'2' if best == '0' else '0'}", "| 1", "| 3",
    ]  # fmt: skip
    assert "| failed | " in table[-1]
    assert table[-1].endswith("| nothing |")
    assert (folder / "sweep.png").stat().st_size > 10_000
    assert not list(folder.rglob("*.wandb"))

    # The same command tries the failed points alone; another one is refused.
    before = (folder / "0" / "metrics.json").stat().st_mtime_ns
    status, printed = run("evaluate", *command)
    assert status == 0, printed
    assert (folder / "0" / "metrics.json").stat().st_mtime_ns == before
    assert {path.name for path in folder.iterdir() if path.is_dir()} == set("012345")
    status, printed = run("evaluate", *command, "seed=2")
    assert status == 1
    assert "holds a sweep with other settings (overrides is" in printed


def test_a_wrong_value_is_refused_before_any_point_runs(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "rates.yaml"
    file.write_text(SWEEP.replace("1.0e-08", "fast"))
    command = [f"sweep={file}", "data=vqa_json", f"data.root={tiny_root}", "output_dir=wrong"]
    status, printed = run("evaluate", *command)
    assert status == 1
    assert "lr=fast" in printed
    assert not list((tmp_path / "wrong").glob("[0-9]*"))
