"""Diagnosis of visual question answering (VQA) models: their beliefs and their robustness.

`load` and `load_vqa` give trained models that ask and answer questions about a picture (`api`), and
`diagnose` finds what any model wrongly believes about pictures.
`implications` and `contradicting` say what follows from an answer in plain English (`logic`).
CONTRIBUTING.md says what is in each room.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ivqa.api import diagnose, load, load_vqa
    from ivqa.logic import contradicting, implications

__all__ = ["__version__", "contradicting", "diagnose", "implications", "load", "load_vqa"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in ("diagnose", "load", "load_vqa"):
        return getattr(import_module("ivqa.api"), name)  # PyTorch is imported on first use
    if name in ("contradicting", "implications"):
        return getattr(import_module("ivqa.logic"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
