"""Every command of README.md and the guides exists and composes; `make docs-check` runs them."""

import sys
import tomllib
from pathlib import Path

import pytest

import documented_commands as documented
from command_checks import problem as problem_of
from command_checks import python_problem, yaml_problem
from documented_commands import PROJECT, Block, Command


@pytest.fixture
def written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    """The page, whose files are in the current folder and can be imported."""
    page: Path = request.param
    modules = []
    for name, text in documented.files(page).items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        modules += [file.stem] if file.suffix == ".py" else []
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for module in modules:
        monkeypatch.delitem(sys.modules, module, raising=False)
    return page


# The experiments of these are composed by tests/runs/test_experiments.py too.
RECORDED = ("results.md", "papers.md")


@pytest.mark.filterwarnings("ignore:provider=hydra.searchpath")
@pytest.mark.parametrize(
    "written",
    [
        pytest.param(page, marks=pytest.mark.slow if page.name in RECORDED else [], id=page.name)
        for page in documented.PAGES
    ],
    indirect=True,
)
def test_every_command_is_right(written: Path) -> None:
    found = {str(command): problem_of(command) for command in documented.commands(written)}
    assert not {command: problem for command, problem in found.items() if problem}


@pytest.mark.parametrize("page", documented.PAGES, ids=lambda page: page.name)
def test_every_block_of_code_is_right(page: Path) -> None:
    checks = {"python": python_problem, "yaml": yaml_problem}
    for block in documented.blocks(page):
        if block.language in checks:
            assert checks[block.language](block) is None, f"{page.name}:{block.line}"


@pytest.mark.parametrize("page", documented.PAGES, ids=lambda page: page.name)
def test_every_block_has_a_language(page: Path) -> None:
    assert [block.line for block in documented.blocks(page) if not block.language] == []


def test_the_badges_say_what_the_package_says() -> None:
    about = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    shown = {file.stem: file.read_text() for file in (PROJECT / "docs" / "assets").glob("*.svg")}
    assert shown.keys() == {"python", "licence", "types"}
    assert about["requires-python"] == ">=3.11"
    assert "python: 3.11 or later" in shown["python"]
    assert f"licence: {about['license']}" in shown["licence"]


def test_the_commands_of_the_guides_are_found() -> None:
    """A change of the pages' form must not hide their commands from the tests above."""
    found = documented.all_commands()
    assert {command.task for command in found} >= set(documented.TASKS)
    assert len(found) > 100
    texts = [command.text for command in found]
    assert "python diagnose.py vqa=mlb" in texts  # a fenced block
    assert any("outputs/policy/checkpoints/best.ckpt num_images=20" in text for text in texts)
    assert any(text.startswith("make mutate ONLY=") for text in texts)  # an indented block
    assert "make results" in texts  # inline


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("python train.py model=mlbb", "there is no model=mlbb; did you mean mlb"),
        ("python train.py modle=mlb", "there is no configuration key 'modle'"),
        ("python train.py -m model=mlb,mlbb seed=1,2", "there is no model=mlbb"),
        ("python evaluate.py predictions=FILE split=vall", "split=vall: must be one of"),
        ("python train.py model=mlb model.batch_size=0 ckpt=FILE", "'ckpt'"),
        ("python train.py data=vqa_v2", "data.root must be set"),
        ("python -m ivqa.nothing", "there is no module ivqa.nothing"),
        ("python -m benchmarks nothing", "there is no benchmark nothing"),
        ("python -m ivqa.data.download vqa_v3 --root DIR", "refuses its arguments"),
        ("make nothing", "the Makefile has no target nothing"),
        ("make mutate ONLYY=x", "the Makefile does not read ONLYY"),
        ("pip install 'ivqa[nothing]'", "there is no extra nothing"),
        ("wandb sweep conf/sweep/nothing.yaml", "conf/sweep/nothing.yaml does not exist"),
    ],
)
def test_a_wrong_command_is_found(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert problem in str(problem_of(Command(Path("page.md"), 1, text)))


def test_a_wrong_block_is_found() -> None:
    block = Block("python", 1, "from ivqa.data import VQADatasett")
    assert python_problem(block) == "ivqa.data has no VQADatasett"
    assert "mapping" in str(yaml_problem(Block("yaml", 1, "a: b: c")))


def test_lines_are_joined_and_output_is_no_command(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```\npython train.py \\\n    model=mlb   # why\nA=1 make demo\n```\n\n"
        "```\nmodel  accuracy\npython train.py\n```\n\nRun `python\nevaluate.py seed=2`.\n\n"
        "```bash\nivqa diagnose vqa=mlb\nivqa doctor\n```\n"
    )
    found = documented.commands(page)
    assert [(command.line, command.words) for command in found] == [
        (2, ["python", "train.py", "model=mlb"]),
        (4, ["make", "demo"]),
        (12, ["python", "evaluate.py", "seed=2"]),
        (16, ["ivqa", "diagnose", "vqa=mlb"]),
        (17, ["ivqa", "doctor"]),
    ]
    assert [command.inline for command in found] == [False, False, True, False, False]
    assert [command.task for command in found] == ["train", None, "evaluate", "diagnose", None]
    assert found[3].arguments == ["vqa=mlb"]
