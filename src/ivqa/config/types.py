"""Types and ranges of configuration values that are not arguments of this package's functions.

Three kinds: keys at the top of a configuration (conf/*.yaml, conf/task), keys of a model beside
its module, and arguments of PyTorch and Lightning, whose own annotations have no ranges.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypedDict, get_type_hints

import pytorch_lightning as pl
import torch
from annotated_types import Interval
from omegaconf import DictConfig
from pydantic import AfterValidator
from pytorch_lightning.accelerators import AcceleratorRegistry
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.callbacks.progress import RichProgressBar
from pytorch_lightning.strategies import StrategyRegistry
from transformers import get_cosine_schedule_with_warmup

from ivqa.ranges import (
    LARGEST,
    AtLeastOne,
    Count,
    CountOrZero,
    ExistingFile,
    ExistingFolder,
    LearningRate,
    NonNegative,
    Positive,
    PositiveShare,
    Seed,
    Share,
    ShareBelowOne,
    existing_file,
    one_of,
)


def _weights(ckpt: str) -> str:
    """Validates ckpt=: a file, or "auto" for the artifact store, which trains an absent model."""
    try:
        return ckpt if ckpt == "auto" else existing_file(ckpt)
    except ValueError as error:
        reason = str(error).replace("no such file", "no such checkpoint")
        raise ValueError(f"{reason}; pass a file, or auto, which trains one") from None


Checkpoint = Annotated[str, AfterValidator(_weights)]
Text = Annotated[str, AtLeastOne]
Resamples = Annotated[int, Interval(ge=100, le=LARGEST)]  # fewer give no interval of 95 percent
Component = Mapping[str, Any]


class RunSettings(TypedDict, total=False):
    """Keys at the top of the configuration of any command."""

    # every command
    task: Text
    command: Component
    short_form: Text
    name: Text
    data: Component
    trainer: Component
    seed: Seed
    max_question_length: Count
    min_word_count: Count
    num_workers: CountOrZero
    output_dir: Text
    artifacts: Text
    pretrained: bool
    resume: ExistingFolder | None
    trust: Sequence[Text]
    r_score: Component
    # evaluate.py
    split: Text
    predictions: ExistingFile | Annotated[Sequence[ExistingFile], AtLeastOne] | None
    compare: Sequence[ExistingFolder] | None
    write_noisy_questions: bool
    # evaluate.py task=human_study, task=correlate, task=judge and task=challenge
    runs: Annotated[Sequence[ExistingFolder], AtLeastOne] | None
    human: ExistingFile | Annotated[Sequence[ExistingFile], AtLeastOne] | None
    study: ExistingFolder | None
    metrics: Mapping[str, Text]
    targets: Annotated[Sequence[Text], AtLeastOne]
    resamples: Resamples
    questions: ExistingFolder | None
    questions_split: Text
    ckpt: Checkpoint
    # evaluate.py task=ask
    vqa_ckpt: Checkpoint
    likelihood_samples: Count
    # evaluate.py task=polls
    instances: ExistingFile | None
    num_objects: Count
    # evaluate.py task=rank and task=merge
    num_questions: Count | None
    k: Count
    exclude_duplicates: bool
    keep_answers: bool
    part_size: Count
    num_shards: Count
    shard: CountOrZero
    shards: ExistingFolder
    # diagnose.py
    num_images: Count | None
    pool: Literal["ground_truth", "top", "all"]
    num_top_answers: Count
    num_latents: Count
    distinct: Count
    recall: bool
    legality: Share | None
    annotations: ExistingFile | None
    num_noisy_questions: Count | None


class ModelSettings(TypedDict, total=False):
    """Keys of a model that ivqa trains."""

    name: Text
    image_features: Sequence[Text]
    num_answers: Count | None
    batch_size: Count
    length_window: Count
    epochs: Count
    epoch_steps: Count | PositiveShare
    val_batches: Count | PositiveShare
    gradient_clip: NonNegative | None
    monitor: Text
    monitor_mode: Literal["min", "max"]
    part_ckpt: Mapping[str, Checkpoint]
    module: Component
    benchmark: Component


class PretrainedSettings(TypedDict, total=False):
    """Keys of a trained model of another library."""

    name: Text
    path: Text
    image_features: Sequence[Text]
    pretrained: Literal[True]
    num_answers: Count | None
    candidates: ExistingFile | None
    pool_answers: Count
    batch_size: Count
    epochs: None
    gradient_clip: None
    monitor: None
    module: Component
    benchmark: Component


class UntrainedSettings(TypedDict, total=False):
    """Keys of a question generator that is not trained."""

    name: Text
    image_features: Sequence[Text]
    untrained: Literal[True]
    num_answers: Count | None
    batch_size: Count
    epochs: None
    gradient_clip: None
    monitor: None
    part_ckpt: Mapping[str, Checkpoint]
    module: Component
    benchmark: Component


_Batches = Count | PositiveShare | None  # a number of batches, or a share of all batches
_Momentum = ShareBelowOne

# Annotations by argument. Those of a class hold for its subclasses too.
LIBRARY_ARGUMENTS: dict[Any, dict[str, Any]] = {
    torch.optim.Optimizer: {
        "lr": LearningRate,
        "betas": tuple[_Momentum, _Momentum],
        "momentum": _Momentum,
        "dampening": _Momentum,
        "alpha": _Momentum,
        "eps": NonNegative,
        "weight_decay": NonNegative,
    },
    get_cosine_schedule_with_warmup: {"num_warmup_steps": CountOrZero, "num_cycles": Positive},
    pl.Trainer: {
        "accelerator": Annotated[
            str,
            one_of(
                lambda: {"auto", "gpu", *AcceleratorRegistry.available_accelerators()},
                "an accelerator of Lightning",
            ),
        ],
        "strategy": Annotated[
            str,
            one_of(
                lambda: {"auto", *StrategyRegistry.available_strategies()},
                "a strategy of Lightning",
            ),
        ],
        "devices": Literal["auto", -1] | Count | Annotated[Sequence[CountOrZero], AtLeastOne] | str,
        "num_nodes": Count,
        "precision": Literal[
            *("auto", "32-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true", "64-true"),
            *("transformer-engine", "transformer-engine-float16"),
            *("16", "32", "64", "bf16", 16, 32, 64),
        ],
        "max_epochs": Count | None,
        "min_epochs": CountOrZero | None,
        "max_steps": Literal[-1] | Count,
        "min_steps": CountOrZero | None,
        "fast_dev_run": bool | CountOrZero,
        "overfit_batches": CountOrZero | Share,
        "limit_train_batches": _Batches,
        "limit_val_batches": _Batches,
        "limit_test_batches": _Batches,
        "limit_predict_batches": _Batches,
        "val_check_interval": _Batches,
        "check_val_every_n_epoch": Count | None,
        "num_sanity_val_steps": Literal[-1] | CountOrZero | None,
        "log_every_n_steps": CountOrZero | None,
        "accumulate_grad_batches": Count,
        "gradient_clip_val": NonNegative | None,
        "gradient_clip_algorithm": Literal["norm", "value"] | None,
        "reload_dataloaders_every_n_epochs": CountOrZero,
    },
    ModelCheckpoint: {
        "mode": Literal["min", "max"],
        "save_top_k": Literal[-1] | CountOrZero,
        "every_n_epochs": Count | None,
        "every_n_train_steps": Count | None,
        "filename": Text | None,
        "dirpath": Text | None,
    },
    EarlyStopping: {
        "mode": Literal["min", "max"],
        "patience": CountOrZero,
        "min_delta": NonNegative,
    },
    RichProgressBar: {"refresh_rate": CountOrZero},
}


@cache
def _keys(schema: Any) -> dict[str, Any]:
    """Keys of a TypedDict with their annotations."""
    return get_type_hints(schema, include_extras=True)


def settings_of(node: DictConfig, path: str) -> Mapping[str, Any]:
    """Annotations of the keys of a node without `_target_`.

    Args:
        node: The node.
        path: Its dotted path: "" for the top, a model or a part; other nodes have no annotations.

    Returns:
        Annotation by key.
    """
    if not path:
        return _keys(RunSettings)
    is_part = path.split(".")[-2:-1] == ["parts"] and "module" in node
    if path in ("model", "vqa") or is_part:
        if node.get("untrained"):
            return _keys(UntrainedSettings)
        return _keys(PretrainedSettings if node.get("pretrained") else ModelSettings)
    return {}
