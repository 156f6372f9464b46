"""Which changes of the source code change the digest."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import ivqa.vqa
from ivqa.code_digest import _file_of, _holds_libraries, code_digest

SOURCE = '''"""A network."""

import torch
from torch import nn

from toy_layers import half


class Toy(nn.Module):
    """Doubles."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Twice the images."""
        if images.ndim != 2:
            raise ValueError("images must have two dimensions")
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
    for name in ("toy_network", "toy_layers"):
        sys.modules.pop(name, None)


def _digest() -> str:
    importlib.invalidate_caches()
    return code_digest([importlib.import_module("toy_network").Toy])


def _changed(folder: Path, old: str, new: str, file: str = "toy_network.py") -> str:
    text = (folder / file).read_text()
    assert text.count(old) == 1
    (folder / file).write_text(text.replace(old, new))
    found = _digest()
    (folder / file).write_text(text)
    return found


def test_the_digest_depends_on_the_code_and_not_on_its_formatting(folder: Path) -> None:
    before = _digest()
    for old, new in (
        ("  # twice", "  # two times"),
        ('"""Twice the images."""', '"""Returns the images, twice."""'),
        ('    """Doubles."""\n\n', ""),
        ("half(images) * 4", "(\n            half(images)\n            * 4\n        )"),
        (": torch.Tensor)", ")"),
        ("must have two dimensions", "must be (B, d)"),
        ("import torch\nfrom torch import nn\n", "from torch import nn\nimport torch\n"),
    ):
        assert _changed(folder, old, new) == before, new
    assert _changed(folder, "half(images) * 4", "half(images) * 8") != before
    assert _changed(folder, "images.ndim != 2", "images.ndim > 2") != before
    assert _changed(folder, "from toy_layers import half", "from operator import neg as half") != (
        before
    )
    # The same holds for imported modules.
    assert _changed(folder, "value / 2", "value / 3", "toy_layers.py") != before
    assert _changed(folder, '"""Layers."""', '"""Small layers."""', "toy_layers.py") == before
    assert _digest() == before


def test_other_models_of_a_package_do_not_count(tmp_path: Path) -> None:
    """MLB and MCB are exported by one package, but neither imports the other."""
    mlb, mcb, both = (
        code_digest(roots)
        for roots in ([ivqa.vqa.MLB], [ivqa.vqa.MCB], [ivqa.vqa.MLB, ivqa.vqa.MCB])
    )
    assert len({mlb, mcb, both}) == 3
    assert code_digest([ivqa.vqa.MCB, ivqa.vqa.MLB]) == both


def test_installed_libraries_do_not_count() -> None:
    assert code_digest([torch.optim.Adam, len, "json"]) == code_digest([])


@pytest.mark.parametrize("kind", ["a module", "a package"])
def test_libraries_in_another_folder_do_not_count(folder: Path, kind: str) -> None:
    """`pip install --user` and --target write into folders that sysconfig does not name."""

    def counts() -> bool:
        for looked_up in (_file_of, _holds_libraries):
            looked_up.cache_clear()
        importlib.invalidate_caches()
        return code_digest(["toy_layers"]) != code_digest([])

    if kind == "a package":
        (folder / "toy_layers").mkdir()
        (folder / "toy_layers.py").rename(folder / "toy_layers" / "__init__.py")
    assert counts()
    (folder / "toy_layers-1.0.dist-info").mkdir()
    assert not counts()


def test_the_digest_covers_the_modules_that_a_module_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses a copy of the package; the policy imports generators through their package."""
    import shutil
    import subprocess

    package = Path(ivqa.__file__).parent
    copy = tmp_path / "src" / "ivqa"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    program = (
        "from ivqa.code_digest import code_digest\n"
        "print(code_digest(['ivqa.vqa.mlb']), code_digest(['ivqa.diagnosis.policy']))"
    )

    def digests() -> list[str]:
        command = [sys.executable, "-c", program]
        found = subprocess.run(
            command, env={"PYTHONPATH": str(copy.parent)}, capture_output=True, text=True
        )
        assert not found.returncode, found.stderr
        return found.stdout.split()

    before = digests()
    for file, *counts in (
        ("vqa/mlb.py", True, False),
        ("text/tokens.py", True, True),
        ("generators/decoder.py", False, True),
        ("generators/image_only.py", False, False),
        ("vqa/mcb.py", False, False),
        ("report/tables.py", False, False),
        ("runs/fitting.py", False, False),
        ("data/json_files.py", False, False),
    ):
        text = (copy / file).read_text()
        (copy / file).write_text(text + "\n\nAPPENDED = 1\n")
        changed = [one != other for one, other in zip(digests(), before, strict=True)]
        assert changed == counts, file
        (copy / file).write_text(text)
    assert digests() == before
