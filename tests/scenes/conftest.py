"""Small generated roots that the tests of this folder share."""

from pathlib import Path

import pytest

from ivqa.scenes import generate_scenes

SIZES = {"train": 120, "val": 40}


@pytest.fixture(scope="session")
def scenes_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scenes") / "plain"
    return generate_scenes(root, images=SIZES, seed=3, workers=1, progress=False)


@pytest.fixture(scope="session")
def balanced_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scenes") / "balanced"
    return generate_scenes(root, images=SIZES, seed=3, balanced=True, workers=1, progress=False)
