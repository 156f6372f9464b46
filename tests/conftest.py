"""Fixtures of the whole suite."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --learning-seeds N: each learning test runs with N seeds."""
    parser.addoption("--learning-seeds", type=int, default=1, help="seeds of each learning test")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs tests with the argument `learning_seed` once for each seed."""
    if "learning_seed" in metafunc.fixturenames:
        metafunc.parametrize("learning_seed", range(metafunc.config.getoption("learning_seeds")))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data: IVQA_SHARED_DATA, or ../shared/data beside the checkout."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("IVQA_SHARED_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} does not exist; set IVQA_SHARED_DATA")
    return folder


@pytest.fixture(scope="module")
def on_cpu() -> Iterator[None]:
    """Hides a GPU from tests that compare with a plain pass of a library on the CPU.

    That the devices agree is the matter of the tests of devices, test_*_devices.py.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        yield


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _without_hydra() -> None:
    """Forgets the configuration of an earlier test: the checks of a configuration read it."""
    GlobalHydra.instance().clear()
    HydraConfig.instance().cfg = None
