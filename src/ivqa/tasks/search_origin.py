"""What determines the beliefs of a search, so that stored beliefs are not taken for others."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ivqa.data import VQADataset
from ivqa.store.digests import content_digest
from ivqa.store.identity import result_settings, to_plain

# The settings of diagnose.py that determine beliefs, beside the data and the weights themselves.
_DECISIVE = (
    *("seed", "split", "num_images", "pool", "num_top_answers", "num_latents", "distinct"),
    *("legality", "recall", "features", "question_encoder", "vqa", "model"),
    *("max_question_length", "min_word_count"),
)


def search_origin(cfg: DictConfig, dataset: VQADataset, checkpoint: Path) -> dict[str, Any]:
    """Collects the settings, the data and the weights that determine beliefs."""
    return {
        **result_settings({key: to_plain(cfg[key]) for key in _DECISIVE}),
        "dataset": dataset.fingerprint(),
        "weights": content_digest(checkpoint),
    }
