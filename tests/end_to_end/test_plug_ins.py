"""A plug-in is built and installed as pip does it, into a folder that a process has on its path."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from ivqa.config import error_messages
from ivqa.config.choices import config_folders
from ivqa.errors import UserError
from ivqa.plug_ins import plug_ins
from ivqa.text.tokens import tokenise

from .conftest import PROJECT, Run

FILES = {
    "pyproject.toml": """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "shared-words"
version = "1.0"

[project.entry-points."ivqa.plugins"]
shared_words = "shared_words"

[tool.setuptools]
packages = ["shared_words"]
package-data = {shared_words = ["conf/**/*.yaml"]}
""",
    "shared_words/__init__.py": """
import os

import numpy as np

from ivqa.ranking import rank_by_scores
from shared_words.words import overlap


class SharedWords:
    def rank(self, questions, pool, k, exclude):
        def scores(part):
            return np.array([[overlap(main, basic) for basic in pool] for main in questions[part]])

        return rank_by_scores(scores, (len(questions), len(pool)), k, exclude)


class Short:
    def __call__(self, candidates):
        return (candidates.phi > 2).float()


def touch(path):
    os.close(os.open(path, os.O_CREAT))
""",
    "shared_words/words.py": """
from ivqa.text.tokens import tokenise


def overlap(main, basic):
    main, basic = set(tokenise(main)), set(tokenise(basic))
    return len(main & basic) / max(len(main | basic), 1)
""",
    "shared_words/conf/ranker/shared_words.yaml": "_target_: shared_words.SharedWords\n",
    "shared_words/conf/reward/short.yaml": "short: {_target_: shared_words.Short}\n",
    "shared_words/quiz.py": """
import csv

from ivqa.data.batches.columns import Entry


class Quiz:
    def __call__(self, path, split, problems):
        with path.open(newline="") as file:
            for number, row in enumerate(csv.DictReader(file)):
                answers = row["answers"].split("|")
                yield Entry(row["picture"], number, int(row["picture"]), row["question"], answers)
""",
    "shared_words/conf/data/quiz.yaml": """
_target_: ivqa.data.PublishedDataset
reader: {_target_: shared_words.quiz.Quiz}
root: ???
train: train
val: val
test: null
files:
  _target_: ivqa.data.FilePatterns
  question_file: quiz_{split}.csv
  image_pattern: null
""",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the plug-in is installed."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for name, text in FILES.items():
        file = source / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation"]
    pip += ["--no-index", "--quiet", "--target", str(target), str(source)]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return target


@pytest.fixture
def here(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same for this process."""
    monkeypatch.syspath_prepend(installed)
    plug_ins.cache_clear()
    yield installed
    plug_ins.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "shared_words"]:
        del sys.modules[name]


def _ivqa(words: Sequence[str], cwd: Path, *packages: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, [*packages, PROJECT / "src"]))
    return subprocess.run(
        [sys.executable, "-m", "ivqa", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "80"},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_a_ranking_by_a_plug_in_runs_and_resumes(
    installed: Path, tmp_path: Path, tiny_root: Path
) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", "split=val", "num_questions=30"]
    words = ["evaluate", "task=rank", "ranker=shared_words", *data, "output_dir=run"]
    done = _ivqa(words, tmp_path, installed)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = pq.read_table(tmp_path / "run" / "bqd.parquet").to_pylist()
    assert len(rows) == 30
    for row in rows:
        main = set(tokenise(row["question"]))
        asked = [set(tokenise(text)) for text in row["basic_questions"]]
        shares = [len(main & words) / len(main | words) for words in asked]
        assert row["scores"] == pytest.approx(shares, rel=1e-6)
        assert shares == sorted(shares, reverse=True)

    whole = (tmp_path / "run" / "bqd.parquet").read_bytes()
    (tmp_path / "run" / "bqd.parquet").unlink()
    done = _ivqa(["evaluate", "resume=run"], tmp_path)
    assert done.returncode == 1
    assert " ".join(done.stderr.split()) == (
        "error: resume=run: ranker is shared_words.SharedWords, and the package shared_words is "
        "not installed here; install it, or put its folder on PYTHONPATH"
    )
    done = _ivqa(["evaluate", "resume=run"], tmp_path, installed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "run" / "bqd.parquet").read_bytes() == whole


def test_the_choices_of_a_plug_in_are_those_of_a_command(run: Run, here: Path) -> None:
    status, printed = run("diagnose", "vqa=mlb", "reward=short", "--cfg", "job")
    assert status == 0
    rewards = yaml.safe_load(printed)["model"]["module"]["rewards"]
    assert rewards == {"short": {"_target_": "shared_words.Short"}}
    assert "rouge_l, shared_words" in " ".join(run("evaluate", "--help")[1].split())
    assert (
        "there is no ranker=shared_wrds; did you mean shared_words"
        in (run("evaluate", "task=rank", "ranker=shared_wrds")[1])
    )


def test_a_reader_of_csv_files_is_a_class_and_a_yaml(run: Run, here: Path, tmp_path: Path) -> None:
    rows = ["picture,question,answers", '7,"Red, or not?",yes|yes|no', "8,What is it?,cat|dog|cat"]
    (tmp_path / "quiz_val.csv").write_text("\n".join(rows))
    answers = [{"question_id": 0, "answer": "yes"}, {"question_id": 1, "answer": "dog"}]
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    files = [f"predictions={tmp_path / 'answers.json'}", f"data.root={tmp_path}"]
    words = ["evaluate", *files, "data=quiz", "split=val", "data.train=null"]
    status, printed = run(*words, f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    found = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert found["vqa/accuracy"] == pytest.approx((2 / 3 + 1 / 3) / 2)

    (tmp_path / "quiz_val.csv").rename(tmp_path / "quiz_dev.csv")
    status, printed = run(*words)
    missing = f"none of quiz_val.csv exists in {tmp_path}; splits there: dev"
    assert status == 1
    assert missing in " ".join(printed.split())
    (tmp_path / "quiz_val.csv").mkdir()
    status, printed = run(*words)
    assert status == 1
    assert f"{tmp_path / 'quiz_val.csv'} is a folder; give a file" in " ".join(printed.split())


@pytest.mark.parametrize("attack", ["shared_words.touch", "shared_words.os.mkdir"])
def test_a_run_from_elsewhere_names_only_what_its_conf_does(
    run: Run, here: Path, tmp_path: Path, attack: str
) -> None:
    witness, folder = tmp_path / "witness", tmp_path / "run"
    folder.mkdir()
    (folder / "config.yaml").write_text("name: mlb\n")
    (folder / "progress.json").write_text(json.dumps({}))
    node = f"{{_target_:{attack},path:{witness}}}"
    (folder / "overrides.yaml").write_text(yaml.safe_dump([f"+callbacks.x={node}"]))
    status, printed = run("train", f"resume={folder}")
    assert status == 1
    assert "was not run; if you wrote it, add trust=[shared_words]" in " ".join(printed.split())
    assert not witness.exists()


def test_the_code_of_a_plug_in_counts_for_stored_results(installed: Path, tmp_path: Path) -> None:
    program = (
        "from ivqa.store.versions import code_version; import shared_words, numpy;"
        "print(code_version([shared_words.SharedWords, numpy.poly1d]))"
    )

    def version() -> dict[str, str]:
        path = os.pathsep.join([str(installed), str(PROJECT / "src")])
        environment = {**os.environ, "PYTHONPATH": path}
        found = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )
        return dict(yaml.safe_load(found.stdout))

    before, file = version(), installed / "shared_words" / "words.py"
    assert set(before) == {"shared_words", "shared_words.words"}
    text = file.read_text()
    file.write_text(text.replace("max(len(main | basic), 1)", "max(len(main), 1)"))
    after = version()
    file.write_text(text)
    assert [before[name] == after[name] for name in sorted(before)] == [True, False]


def test_two_files_of_one_name_are_refused(here: Path, tmp_path: Path) -> None:
    (tmp_path / "ranker").mkdir()
    (tmp_path / "ranker" / "shared_words.yaml").write_text("_target_: mine.Ranker\n")
    own = f"--config-dir={tmp_path}"
    with pytest.raises(
        UserError, match=r"shared_words/conf/ranker/shared_words\.yaml would not be"
    ):
        config_folders(PROJECT / "conf", [own])
    (tmp_path / "ranker" / "shared_words.yaml").rename(tmp_path / "ranker" / "lasso.yaml")
    with pytest.raises(UserError, match=r"because .*conf/ranker/lasso\.yaml has the same name"):
        config_folders(PROJECT / "conf", [own])


@pytest.mark.parametrize(
    ("package", "fault"), [("absent_plug_in", "is not there"), ("json", "has no folder conf/")]
)
def test_a_broken_plug_in_is_named(
    run: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, fault: str
) -> None:
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[ivqa.plugins]\nmine = {package}\n")
    monkeypatch.syspath_prepend(tmp_path)
    plug_ins.cache_clear()
    status, printed = run("evaluate", "model=mlb")
    assert status == 1
    wanted = f"error: the plug-in mine of broken names the package '{package}', which {fault}; "
    assert wanted in " ".join(printed.split())
    assert "Traceback" not in printed


def test_an_error_of_a_plug_in_is_not_one_of_ivqa(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_messages, "_INSTALLED", [str(here)])
    ranker = importlib.import_module("shared_words").SharedWords()
    with pytest.raises(AttributeError) as raised:
        ranker.rank([1], ["Why?"], 1, [[]])
    place = error_messages.place_in_own_code(raised.value)
    assert str(place).startswith("shared_words.words.overlap (")
