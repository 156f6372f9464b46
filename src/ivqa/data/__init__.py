"""VQA data: official JSON formats, image folders, batches for Lightning."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ivqa.data.datamodule import VQADataModule, build_vocabularies
    from ivqa.data.dataset import VQADataset, official_vqa
    from ivqa.data.encoded_split import ImageFeatures
    from ivqa.data.images import ImageFiles
    from ivqa.data.validation import DataError
    from ivqa.data.vqa_json import VQASplit

__all__ = [
    "DataError",
    "ImageFeatures",
    "ImageFiles",
    "VQADataModule",
    "VQADataset",
    "VQASplit",
    "build_vocabularies",
    "official_vqa",
]

_HOME = {
    "DataError": "validation",
    "ImageFeatures": "encoded_split",
    "ImageFiles": "images",
    "VQADataModule": "datamodule",
    "VQADataset": "dataset",
    "VQASplit": "vqa_json",
    "build_vocabularies": "datamodule",
    "official_vqa": "dataset",
}


def __getattr__(name: str) -> Any:
    # On demand: the download command and the processes that draw scenes need no torch, whose
    # import takes longer than their work.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
