"""What determines the beliefs of a search, so that stored beliefs are not taken for others."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from ivqa.config.keys import command_keys, model_keys
from ivqa.data import VQADataset
from ivqa.ranges import NO_EFFECT, marks_of
from ivqa.store.digests import content_digest
from ivqa.store.identity import result_settings, to_plain


def search_origin(cfg: DictConfig, dataset: VQADataset, checkpoint: Path) -> dict[str, Any]:
    """Collects the settings, the data and the weights that determine beliefs."""
    counting = [key for key, hint in command_keys(cfg).items() if NO_EFFECT not in marks_of(hint)]
    settings = {key: to_plain(cfg[key]) for key in counting if key in cfg}
    return {
        **result_settings(settings, model_keys),
        "dataset": dataset.cache_key(),
        "weights": content_digest(checkpoint),
    }
