"""Versions of components: what they stand for, and that they are raised when behaviour changes."""

import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.utils import get_object

import ivqa
from fingerprints import FILE, PROJECT, Entry, defaults, differences, entries
from ivqa.store.identity import result_settings
from ivqa.store.versions import _file_of, _holds_libraries, code_version
from ivqa.vqa import MLB

RECORDED = json.loads(FILE.read_text())


@pytest.mark.parametrize(("name", "compute"), [pytest.param(*one, id=one[0]) for one in entries()])
def test_a_component_behaves_as_its_version_says(name: str, compute: Callable[[], Entry]) -> None:
    code, numbers = compute()
    recorded = RECORDED.get(name, {"code": {}, "numbers": {}})
    changed = differences(recorded["numbers"], numbers)
    raised = code != recorded["code"]
    assert raised or not changed, (
        f"{name} computes something else than before ({'; '.join(changed)}): raise `version` in "
        f"one of {', '.join(code)}, so that stored models are trained again; then run "
        f"python tests/fingerprints.py {name}"
    )
    assert not raised, f"{name} has other versions: run python tests/fingerprints.py {name}"


def test_a_changed_default_raises_the_version() -> None:
    """Identities leave defaults out: without a version, old results would count as new ones."""
    recorded = RECORDED["defaults"]
    for target, found in (current := defaults()).items():
        before = recorded.get(target, found)
        changed = [name for name in before if name in found and before[name] != found[name]]
        assert not changed or "version" in changed, (
            f"{target} has another default of {', '.join(changed)}: raise its `version`, so that "
            "stored results are made again; then run python tests/fingerprints.py defaults"
        )
    assert recorded == current, "run python tests/fingerprints.py defaults"


def test_every_component_whose_results_are_stored_has_a_version() -> None:
    groups = ("model", "question_encoder", "answer_network", "features", "encoder", "ranker")
    for file in (file for group in groups for file in (PROJECT / "conf" / group).rglob("*.yaml")):
        for target in re.findall(r"(?:_target_|path): *(ivqa\.[\w.]+)", file.read_text()):
            found = get_object(target)
            found = found.__self__ if inspect.ismethod(found) else found
            # A benchmark measures; what it stores has keys of its own.
            if not re.search("Benchmark|Pages|PoolRanking|Callback", found.__name__):
                assert isinstance(vars(found).get("version"), int), f"{target} has no version"


def test_a_version_is_that_of_the_class_and_its_bases() -> None:
    class Base:
        version = 3

    class Derived(Base):
        version = 1

    class Silent(Base):
        pass

    for one in (Base, Derived, Silent):
        one.__module__, one.__qualname__ = "ivqa.vqa.base", one.__name__
    assert code_version([Derived, len, torch.optim.Adam]) == {"Base": 3, "Derived": 1}
    assert code_version([Silent]) == {"Base": 3}


def test_a_module_moves_and_its_keys_stay(tmp_path: Path) -> None:
    """In a copy of the package, mlb.py gets another name and another text, but no new version."""
    copy = tmp_path / "src" / "ivqa"
    shutil.copytree(
        Path(ivqa.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__", "conf")
    )
    (copy / "vqa" / "networks" / "mlb.py").rename(copy / "vqa" / "low_rank.py")
    text = (copy / "vqa" / "low_rank.py").read_text()
    (copy / "vqa" / "low_rank.py").write_text(text.replace("glimpses", "glances"))
    for file in copy.rglob("*.py"):
        file.write_text(file.read_text().replace("ivqa.vqa.networks.mlb", "ivqa.vqa.low_rank"))
    target = {"_target_": "ivqa.vqa.MLB", "_partial_": True}
    program = (
        "from ivqa.store.identity import code_of, result_settings\n"
        "import ivqa.vqa.low_rank, json\n"
        f"print(json.dumps([code_of({target}), result_settings({target})]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(copy.parent)},
        capture_output=True,
        text=True,
    )
    assert not found.returncode, found.stderr
    assert json.loads(found.stdout) == [code_version([MLB]), result_settings(target)]
    assert result_settings(target) == result_settings(
        {**target, "_target_": "ivqa.vqa.networks.mlb.MLB"}
    )


SOURCE = '''"""A network."""

import torch
from torch import nn

from toy_layers import half
from ivqa.vqa import MLB


class Toy(nn.Module):
    """Doubles."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Twice the images."""
        return half(images) * 4  # twice
'''
LAYERS = '''"""Layers."""


def half(value):
    return value / 2
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "toy_network.py").write_text(SOURCE)
    (tmp_path / "toy_layers.py").write_text(LAYERS)
    yield tmp_path
    _forget()


def _forget() -> None:
    for name in ("toy_network", "toy_layers"):
        sys.modules.pop(name, None)
    for looked_up in (_file_of, _holds_libraries):
        looked_up.cache_clear()
    importlib.invalidate_caches()


def _version() -> dict[str, Any]:
    _forget()
    return code_version([importlib.import_module("toy_network").Toy])


@pytest.mark.parametrize(
    ("old", "new", "file", "counts"),
    [
        ("  # twice", "  # two times", "toy_network.py", False),
        ('"""Twice the images."""', '"""Returns the images, twice."""', "toy_network.py", False),
        ('    """Doubles."""\n\n', "", "toy_network.py", False),
        ("half(images) * 4", "(\n    half(images) * 4\n)", "toy_network.py", False),
        ("half(images) * 4", "half(images) * 8", "toy_network.py", True),
        ("value / 2", "value / 3", "toy_layers.py", True),
        ('"""Layers."""', '"""Small layers."""', "toy_layers.py", False),
    ],
)
def test_the_code_of_a_users_component_counts_and_its_format_does_not(
    folder: Path, old: str, new: str, file: str, counts: bool
) -> None:
    before, text = _version(), (folder / file).read_text()
    assert text.count(old) == 1
    assert before.keys() == {"MLB", "toy_layers", "toy_network"}
    (folder / file).write_text(text.replace(old, new))
    assert (_version() != before) == counts


@pytest.mark.parametrize("kind", ["a module", "a package"])
def test_libraries_in_another_folder_do_not_count(folder: Path, kind: str) -> None:
    """`pip install --user` and --target write into folders that sysconfig does not name."""
    if kind == "a package":
        (folder / "toy_layers").mkdir()
        (folder / "toy_layers.py").rename(folder / "toy_layers" / "__init__.py")
    assert "toy_layers" in _version()
    (folder / "toy_layers-1.0.dist-info").mkdir()
    assert "toy_layers" not in _version()
