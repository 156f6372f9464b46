"""VQA data: readers of the official JSON formats and image folders, and a LightningDataModule."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ivqa.data.batches.batch_settings import BatchContents as BatchContents
    from ivqa.data.batches.batch_settings import BatchSettings as BatchSettings
    from ivqa.data.batches.datamodule import VQADataModule as VQADataModule
    from ivqa.data.batches.datamodule import build_vocabularies as build_vocabularies
    from ivqa.data.batches.encoded_split import ImageFeatures as ImageFeatures
    from ivqa.data.dataset import VQADataset as VQADataset
    from ivqa.data.dataset import custom_vqa as custom_vqa
    from ivqa.data.dataset import official_vqa as official_vqa
    from ivqa.data.file_patterns import FilePatterns as FilePatterns
    from ivqa.data.formats.aokvqa import official_aokvqa as official_aokvqa
    from ivqa.data.formats.clevr import ClevrDataset as ClevrDataset
    from ivqa.data.formats.gqa import GQADataset as GQADataset
    from ivqa.data.formats.hf_datasets import HFDataset as HFDataset
    from ivqa.data.formats.published import PublishedDataset as PublishedDataset
    from ivqa.data.formats.visual7w import official_visual7w as official_visual7w
    from ivqa.data.formats.vizwiz import official_vizwiz as official_vizwiz
    from ivqa.data.image_parts import DividedVQA as DividedVQA
    from ivqa.data.images import ImageFiles as ImageFiles
    from ivqa.data.split import VQASplit as VQASplit
    from ivqa.data.validation import DataError as DataError

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
    "VQASplit": "split",
    "build_vocabularies": "batches.datamodule",
    "custom_vqa": "dataset",
    "official_aokvqa": "formats.aokvqa",
    "official_visual7w": "formats.visual7w",
    "official_vizwiz": "formats.vizwiz",
    "official_vqa": "dataset",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    # Exports are imported on first use: the download command and the processes that draw scenes do
    # not need torch, and its import takes longer than their work.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
