"""Fixtures of the exported questions."""

from pathlib import Path

import pytest
from toy_questions import QUESTIONS, levels_of, write_root

from ivqa.interchange import QuestionLevels


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_root(tmp_path / "root")


@pytest.fixture
def levels(root: Path) -> QuestionLevels:
    return levels_of(root, [f"{text} Why?" for text in QUESTIONS])
