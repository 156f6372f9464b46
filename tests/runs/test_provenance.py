"""provenance.json, the line at the foot of pages, and the commits of models of the hub."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForImageTextToText

from ivqa import __version__, provenance
from ivqa.encoders.transformers_encoder import TransformersEncoder
from ivqa.errors import UserError
from ivqa.features import TransformersFeatures
from ivqa.report.pages.base import render
from ivqa.vlm.loading import load_pretrained

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    provenance.begin(["python", "evaluate.py", "model=mlb", "data.root=a b"], "mlb")


def test_a_record_says_what_was_run_where(tmp_path: Path) -> None:
    provenance.note_questions(30)
    provenance.note_questions(12)
    provenance.note_model("mlb", "abc")
    provenance.note_model("mlb")  # what is known stays
    provenance.note_model("gpt-x")
    provenance.write(tmp_path)
    found = json.loads((tmp_path / "provenance.json").read_text())
    assert found["command"] == "python evaluate.py model=mlb 'data.root=a b'"
    assert (found["ivqa"], found["model"]) == (__version__, "mlb")
    assert found["models"] == {"mlb": "abc", "gpt-x": None}
    assert found["questions_asked"] == 42
    assert found["seconds"] >= 0
    assert found["started"].endswith("+00:00")
    assert {"torch", "transformers", "python", "numpy"} <= found["packages"].keys()
    assert found["machine"].keys() == {"cpu", "cores", "gpu"}
    assert str(Path.home()) not in (tmp_path / "provenance.json").read_text()


def test_only_the_name_of_a_folder_is_kept(tmp_path: Path) -> None:
    (tmp_path / "my_model").mkdir()
    provenance.note_model(str(tmp_path / "my_model"))
    provenance.note_model(str(tmp_path / "models--a--b" / "snapshots" / COMMIT), COMMIT)
    line = provenance.line()
    assert f"my_model, a/b at {COMMIT[:12]}" in line
    assert str(tmp_path) not in line


def test_pages_show_their_origin() -> None:
    provenance.note_model("<b>", "12")
    provenance.note_data("VQA v2")
    page = render("table.html.j2", title="t", names=["a"], rows=[(["1"], [])], linked=False)
    command = "python evaluate.py model=mlb &#39;data.root=a b&#39;"
    assert f"<footer>&lt;b&gt; at 12; VQA v2; {command}; ivqa {__version__}, commit " in page


def test_the_commit_has_a_mark_when_the_tree_has_changes(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", *who, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, check=True, capture_output=True
        ).stdout.decode()

    git("init", "-q")
    file = tmp_path / "a.py"
    file.write_text("1")
    git("add", ".")
    git("commit", "-qm", "a")
    head = git("rev-parse", "HEAD")[:7]
    assert provenance.commit_of(tmp_path) == head
    file.write_text("2")
    assert provenance.commit_of(tmp_path) == f"{head}+"
    assert provenance.commit_of(tmp_path.parent / "nowhere") == "unknown"


@pytest.mark.parametrize("where", ["id", pytest.param("folder", marks=pytest.mark.slow)])
def test_the_commit_of_a_cached_model_is_resolved(where: str, tmp_path: Path) -> None:
    """A cache as the client of the hub writes it, with a branch and an older commit."""
    folder = tmp_path / "hub" / "models--maker--tiny"
    older = COMMIT[::-1]
    for commit, size in ((COMMIT, 8), (older, 12)):
        snapshot = folder / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text(
            json.dumps({"model_type": "bert", "hidden_size": size, "num_attention_heads": 2,
                        "vocab_size": 9, "num_hidden_layers": 1, "intermediate_size": 8})
        )  # fmt: skip
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "refs" / "v1").write_text(older)
    program = """
import sys
from ivqa import provenance
from ivqa.vqa import TransformersQuestionEncoder
for path, revision in zip(sys.argv[1::2], sys.argv[2::2]):
    provenance._current.models.clear()
    encoder = TransformersQuestionEncoder(num_words=5, path=path, revision=revision or None)
    print(encoder.size, provenance._current.models)
"""
    cases = [("maker/tiny", "", 8, COMMIT), ("maker/tiny", "v1", 12, older),
             ("maker/tiny", older, 12, older)]  # fmt: skip
    if where == "folder":
        cases = [(str(folder / "snapshots" / older), "", 12, older)]
    done = subprocess.run(
        [sys.executable, "-c", program, *(text for case in cases for text in case[:2])],
        env={"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1",
             "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    expected = [f"{size} {{'maker/tiny': '{commit}'}}" for _, _, size, commit in cases]
    assert done.stdout.splitlines() == expected, done.stderr


def test_a_revision_of_a_folder_is_refused(tmp_path: Path) -> None:
    message = f"revision=v1 names a version on the hub, but '{tmp_path}' is a folder"
    with pytest.raises(UserError, match=message):
        load_pretrained(str(tmp_path), AutoModelForImageTextToText, revision="v1")
    with pytest.raises(UserError, match=message):
        TransformersFeatures(path=str(tmp_path), revision="v1").load()
    with pytest.raises(UserError, match=message):
        TransformersEncoder(str(tmp_path), revision="v1")
