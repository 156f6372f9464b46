"""Networks that `TrainableFeatures` trains: a compact CNN, or a model of timm."""

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ivqa.errors import UserError, reason_of
from ivqa.features.compact_cnn import CompactCNN
from ivqa.features.pretrained.base import optional_package
from ivqa.features.pretrained.timm_models import timm_grid
from ivqa.ranges import Count, Weights
from ivqa.store.weights import check_finite

_WHAT = "features=trainable_timm"
_NAMED_WEIGHTS = ("random", "pretrained")


class CompactNetwork(nn.Module):
    """The compact CNN of `features=concepts`, from random weights.

    "concepts" are detectors: each is a probability that something is anywhere in the image. The
    module that is trained decides what they detect; they have no names.

    Args:
        names: The features that are read: "grid", "pooled", "concepts".
        image_size: Pixels of a side; any size is possible.
        width: The number d of channels of the grid, a multiple of 4.
        num_concepts: The number C of detectors.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        names: Collection[str],
        image_size: int,
        width: Count = 128,
        num_concepts: Count = 256,
    ) -> None:
        super().__init__()
        self.names = tuple(names)
        reads_concepts = "concepts" in names
        self.cnn = CompactCNN(num_concepts=num_concepts if reads_concepts else 1, width=width)
        # A weight without a gradient must not be trained: several GPUs would wait for it.
        self.cnn.local.requires_grad_(reads_concepts)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Computes the features of RGB images (M, 3, H, W) in [0, 1] that are read.

        They are of "grid" (M, L, d), "pooled" (M, 2 d) and "concepts" (M, C).
        """
        grid, pooled, logits = self.cnn(images)
        found = {"grid": grid, "pooled": pooled, "concepts": logits.sigmoid()}
        return {name: found[name] for name in self.names}


class TimmNetwork(nn.Module):
    """A model of timm, convolutional or of tokens.

    Args:
        names: The features that are read: "grid", "pooled", "concepts".
        image_size: Pixels of a side. Models with a fixed number of patches are built for it.
        arch: Name of the model in timm.
        weights: The weights that training starts from: "random"; "pretrained" for those of the
            hub; or a file that timm reads (safetensors or torch.save).
        num_concepts: The number C of detectors; see `CompactNetwork`.

    Raises:
        UserError: timm is not installed or has no such model, its weights cannot be read, or it
            gives no grid.
    """

    version: ClassVar[int] = 1

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        *,
        names: Collection[str],
        image_size: int,
        arch: str = "resnet18",
        weights: Weights = "random",
        num_concepts: Count = 256,
    ) -> None:
        super().__init__()
        self.names = tuple(names)
        self.check_arguments({"arch": arch, "weights": weights})
        timm = optional_package("timm", "timm", _WHAT)
        self.network = _created(timm, arch, image_size, weights)
        config = timm.data.resolve_model_data_config(self.network)
        # Not stored in a checkpoint: they belong to the model's own configuration.
        self.register_buffer("mean", torch.tensor(config["mean"]).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config["std"]).view(3, 1, 1), persistent=False)
        self.local = None
        if "concepts" in names:
            self.local = nn.Linear(self.network.num_features, num_concepts)

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks model and weights; every command calls this before it starts.

        Raises:
            UserError: timm is not installed or has no such model, or there is no file of weights.
        """
        arch, weights = str(arguments["arch"]), str(arguments["weights"])
        if not optional_package("timm", "timm", _WHAT).is_model(arch):
            raise UserError(f"arch={arch} is not a model of timm; timm.list_models() has them all")
        if weights not in _NAMED_WEIGHTS and not Path(weights).is_file():
            raise UserError(
                f"weights={weights} is not a file; give a state_dict of {arch}, "
                "random or pretrained"
            )

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Computes the features of RGB images (M, 3, H, W) in [0, 1].

        Returns:
            Those that are read: "grid" (M, L, d), the last map by rows or the tokens of the
            patches; "pooled" (M, d_pooled), the input of the model's classifier; "concepts"
            (M, C), as in `CompactCNN`.
        """
        last = self.network.forward_features((images - self.mean) / self.std)
        found = {}
        if {"grid", "concepts"} & set(self.names):
            grid = timm_grid(self.network, last)
            if grid is None:
                raise UserError(
                    f"features.network: {type(self.network).__name__} of timm gives no map of "
                    "features; choose another arch"
                )
            found["grid"] = grid
        if "pooled" in self.names:
            found["pooled"] = self.network.forward_head(last, pre_logits=True).flatten(1)
        if self.local is not None:
            scores = self.local(found["grid"])  # (M, L, C)
            found["concepts"] = (scores.logsumexp(dim=1) - math.log(scores.shape[1])).sigmoid()
        return {name: found[name] for name in self.names}


def _created(timm: Any, arch: str, image_size: int, weights: str) -> Any:
    config = timm.get_pretrained_cfg(arch)
    # Only models with a position for each patch take the size when they are built.
    fixed = {"img_size": image_size} if config and config.fixed_input_size else {}
    try:
        if weights in _NAMED_WEIGHTS:
            given: dict[str, Any] = {"pretrained": weights == "pretrained"}
        else:
            given = {"pretrained": True, "pretrained_cfg_overlay": {"file": weights}}
        network = timm.create_model(arch, num_classes=0, **given, **fixed)
    except Exception as error:
        raise UserError(
            f"features.network.weights={weights}: the weights of {arch} cannot be loaded "
            f"({reason_of(error)}); give a file of its state_dict, or random"
        ) from error
    check_finite(network.state_dict(), weights)
    return network
