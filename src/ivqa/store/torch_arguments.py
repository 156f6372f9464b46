"""Ranges of the arguments of PyTorch and Lightning, whose own annotations have none."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pytorch_lightning as pl
import torch
from pytorch_lightning.accelerators import AcceleratorRegistry
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.callbacks.progress import RichProgressBar
from pytorch_lightning.strategies import StrategyRegistry
from transformers import get_cosine_schedule_with_warmup

from ivqa.ranges import (
    CHANGEABLE,
    NO_EFFECT,
    AtLeastOne,
    Count,
    CountOrZero,
    LearningRate,
    NonNegative,
    Positive,
    PositiveShare,
    Share,
    ShareBelowOne,
    one_of,
)

_Batches = Count | PositiveShare | None  # a number of batches, or a share of all batches
_Momentum = ShareBelowOne
_NoResult = Annotated[Any, NO_EFFECT]
_Switch = Annotated[bool | None, NO_EFFECT]

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
            NO_EFFECT,
        ],
        "strategy": Annotated[
            str,
            one_of(
                lambda: {"auto", *StrategyRegistry.available_strategies()},
                "a strategy of Lightning",
            ),
            NO_EFFECT,
        ],
        "devices": Annotated[
            Literal["auto", -1] | Count | Annotated[Sequence[CountOrZero], AtLeastOne] | str,
            NO_EFFECT,
        ],
        "num_nodes": Annotated[Count, NO_EFFECT],
        "logger": _NoResult,
        "default_root_dir": Annotated[str | None, NO_EFFECT],
        "profiler": _NoResult,
        "enable_progress_bar": _Switch,
        "enable_model_summary": _Switch,
        "enable_checkpointing": _Switch,
        "precision": Literal[
            *("auto", "32-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true", "64-true"),
            *("transformer-engine", "transformer-engine-float16"),
            *("16", "32", "64", "bf16", 16, 32, 64),
        ],
        "max_epochs": Annotated[Count | None, CHANGEABLE],
        "min_epochs": CountOrZero | None,
        "max_steps": Annotated[Literal[-1] | Count, CHANGEABLE],
        "max_time": Annotated[str | Mapping[str, CountOrZero] | None, CHANGEABLE],
        "min_steps": CountOrZero | None,
        "fast_dev_run": bool | CountOrZero,
        "overfit_batches": CountOrZero | Share,
        "limit_train_batches": _Batches,
        "limit_val_batches": _Batches,
        "limit_test_batches": _Batches,
        "limit_predict_batches": _Batches,
        "val_check_interval": _Batches,
        "check_val_every_n_epoch": Count | None,
        "num_sanity_val_steps": Annotated[Literal[-1] | CountOrZero | None, NO_EFFECT],
        "log_every_n_steps": Annotated[CountOrZero | None, NO_EFFECT],
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
        "filename": Annotated[str, AtLeastOne] | None,
        "dirpath": Annotated[str, AtLeastOne] | None,
    },
    EarlyStopping: {
        "mode": Literal["min", "max"],
        "patience": CountOrZero,
        "min_delta": NonNegative,
    },
    RichProgressBar: {"refresh_rate": CountOrZero},
}
