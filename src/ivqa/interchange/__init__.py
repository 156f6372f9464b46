"""Interchange with the tools that people already run: lmms-eval, VLMEvalKit, datasets.

`task=export` writes the questions of a split, at every level of noise, in the format of one of
these tools; an `Exporter` is one class and one file in conf/export. `ivqa.data.result_formats`
reads what the tools log, so that `predictions=` scores any of their models.
"""

from ivqa.interchange.hf_datasets import HuggingFaceDataset
from ivqa.interchange.lmms_eval import LmmsEvalTasks
from ivqa.interchange.question_levels import Exporter, QuestionLevels
from ivqa.interchange.vlmevalkit import VLMEvalKitTables

__all__ = [
    "Exporter",
    "HuggingFaceDataset",
    "LmmsEvalTasks",
    "QuestionLevels",
    "VLMEvalKitTables",
]
