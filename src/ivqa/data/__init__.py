"""VQA data: readers of the official JSON formats and image folders, and a LightningDataModule."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ivqa.data.batches.batch_settings import BatchContents, BatchSettings
    from ivqa.data.batches.datamodule import VQADataModule, build_vocabularies
    from ivqa.data.batches.encoded_split import ImageFeatures
    from ivqa.data.dataset import VQADataset, custom_vqa, official_vqa
    from ivqa.data.file_patterns import FilePatterns
    from ivqa.data.formats.aokvqa import official_aokvqa
    from ivqa.data.formats.clevr import ClevrDataset
    from ivqa.data.formats.gqa import GQADataset
    from ivqa.data.formats.hf_datasets import HFDataset
    from ivqa.data.formats.published import PublishedDataset
    from ivqa.data.formats.visual7w import official_visual7w
    from ivqa.data.formats.vizwiz import official_vizwiz
    from ivqa.data.image_parts import DividedVQA
    from ivqa.data.images import ImageFiles
    from ivqa.data.validation import DataError
    from ivqa.data.vqa_json import VQASplit

__all__ = [
    "BatchContents",
    "BatchSettings",
    "ClevrDataset",
    "DataError",
    "DividedVQA",
    "FilePatterns",
    "GQADataset",
    "HFDataset",
    "ImageFeatures",
    "ImageFiles",
    "PublishedDataset",
    "VQADataModule",
    "VQADataset",
    "VQASplit",
    "build_vocabularies",
    "custom_vqa",
    "official_aokvqa",
    "official_visual7w",
    "official_vizwiz",
    "official_vqa",
]

_HOME = {
    "BatchContents": "batches.batch_settings",
    "BatchSettings": "batches.batch_settings",
    "ClevrDataset": "formats.clevr",
    "DataError": "validation",
    "DividedVQA": "image_parts",
    "FilePatterns": "file_patterns",
    "GQADataset": "formats.gqa",
    "HFDataset": "formats.hf_datasets",
    "ImageFeatures": "batches.encoded_split",
    "ImageFiles": "images",
    "PublishedDataset": "formats.published",
    "VQADataModule": "batches.datamodule",
    "VQADataset": "dataset",
    "VQASplit": "vqa_json",
    "build_vocabularies": "batches.datamodule",
    "custom_vqa": "dataset",
    "official_aokvqa": "formats.aokvqa",
    "official_visual7w": "formats.visual7w",
    "official_vizwiz": "formats.vizwiz",
    "official_vqa": "dataset",
}


def __getattr__(name: str) -> Any:
    # Exports are imported on first use: the download command and the processes that draw scenes do
    # not need torch, and its import takes longer than their work.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
