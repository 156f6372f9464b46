"""The embedded data set: generated scenes, questions about them, and an oracle."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ivqa.scenes.dataset import ScenesDataset
    from ivqa.scenes.generation import generate_scenes
    from ivqa.scenes.grammar import parse
    from ivqa.scenes.oracle import Judgement, Oracle, oracle_of
    from ivqa.scenes.world import Scene

__all__ = [
    "Judgement",
    "Oracle",
    "Scene",
    "ScenesDataset",
    "generate_scenes",
    "oracle_of",
    "parse",
]

_HOME = {
    "Judgement": "oracle",
    "Oracle": "oracle",
    "Scene": "world",
    "ScenesDataset": "dataset",
    "generate_scenes": "generation",
    "oracle_of": "oracle",
    "parse": "grammar",
}


def __getattr__(name: str) -> Any:
    # On demand: the processes that draw scenes need no torch, whose import takes longer than
    # their work.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
