"""features=transformers: vision models of transformers, such as CLIP, SigLIP 2, DINOv3 and ViT."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor, nn
from transformers import AutoConfig, AutoImageProcessor, AutoModel
from typing_extensions import override

from ivqa.errors import UserError, reason_of
from ivqa.features.pictures import Resize
from ivqa.features.pretrained.base import PretrainedFeatures
from ivqa.hub import check_hub_id, check_revision, errors_only, hub_answers, note_commit
from ivqa.ranges import ImageSize, Weights
from ivqa.store.weights import check_finite


class VisionModel(nn.Module):
    """The last feature map of a vision model of transformers, and its pooled features.

    Args:
        model: The model, of vision or of vision and text.
        has_pooler: Whether the weights of its pooler were stored. Without them, "pooled" is the
            class token, or the mean of the grid where there is none.
    """

    def __init__(self, model: Any, *, has_pooler: bool = True) -> None:
        super().__init__()
        self.model, self.has_pooler = model, has_pooler
        # Models of vision and text have a method for the image alone.
        self._compute = getattr(model, "get_image_features", model)
        self._config = getattr(model.config, "vision_config", None) or model.config
        called = self._compute.forward if self._compute is model else self._compute
        known = inspect.signature(called).parameters
        self._interpolates = "interpolate_pos_encoding" in known

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Computes the features of images (B, 3, H, W), as the processor returns them.

        Returns:
            "grid" (B, L, d): the last map by rows, or the tokens of the patches without class and
            register tokens; "pooled" (B, d_pooled): the model's `pooler_output`.

        Raises:
            UserError: The model gives neither a map nor a token for each patch.
        """
        arguments = {}
        if self._interpolates and images.shape[-1] != getattr(self._config, "image_size", None):
            arguments["interpolate_pos_encoding"] = True
        output = self._compute(pixel_values=images, **arguments)
        hidden = getattr(output, "last_hidden_state", None)
        if not isinstance(hidden, Tensor) or hidden.dim() not in (3, 4):
            raise self._no_map()
        if hidden.dim() == 4:
            tokens = grid = hidden.flatten(2).transpose(1, 2)  # (B, L, d)
        else:
            tokens, grid = hidden, self._patches(hidden, images.shape[-1])
        pooled = output.pooler_output if self.has_pooler else None
        if pooled is None:
            has_class_token = grid.shape[1] < tokens.shape[1]
            pooled = tokens[:, 0] if has_class_token else grid.mean(dim=1)
        return {"grid": grid, "pooled": pooled.flatten(1)}

    def _patches(self, tokens: Tensor, size: int) -> Tensor:
        """Removes class, distillation and register tokens, which come before the patches."""
        side = getattr(self._config, "patch_size", size)
        side = side if isinstance(side, int) else side[0]
        # Models that merge patches have fewer tokens than patches, and no other tokens.
        prefix = max(tokens.shape[1] - (size // side) ** 2, 0)
        patches = tokens[:, prefix:]
        # At most a class token, a distillation token and the registers.
        known = prefix <= 2 + (getattr(self._config, "num_register_tokens", 0) or 0)
        if not known or math.isqrt(patches.shape[1]) ** 2 != patches.shape[1]:
            raise self._no_map()
        return patches

    def _no_map(self) -> UserError:
        return UserError(
            f"features.path: {type(self.model).__name__} has no map of features of a square image; "
            "choose a model such as SigLIP 2, DINOv2 or ViT"
        )


@dataclass(frozen=True)
class ProcessorInput:
    """Prepares pictures with a processor of transformers, which scales and normalises them.

    `resize` comes first: the processor's own cut or padding would lose the picture's border.
    """

    processor: Any
    resize: Resize

    def __call__(self, picture: Image.Image) -> Tensor:
        """Returns the pixel values (3, H, W) of an RGB picture, float32."""
        square = Image.fromarray(self.resize(picture).permute(1, 2, 0).numpy())
        off = dict.fromkeys(("do_resize", "do_center_crop", "do_pad"), False)
        return self.processor(square, return_tensors="pt", **off)["pixel_values"][0]


@dataclass(frozen=True, kw_only=True)
class TransformersFeatures(PretrainedFeatures):
    """Grid and pooled features of a vision model of transformers.

    Args:
        path: A folder with model and image processor, as save_pretrained writes them; it is read
            offline. Or a hub id.
        revision: The branch, tag or commit of a hub id; None for "main".
        image_size: Pixels of a side; None for the size in the processor's configuration.
    """

    version: ClassVar[int] = 1

    path: Weights = "google/siglip2-base-patch16-224"
    revision: str | None = None
    image_size: ImageSize | None = None

    @property
    @override
    def name(self) -> str:
        return f"transformers_{Path(self.path).name}"

    @override
    def places(self) -> Mapping[str, int | None] | None:
        # From a model without memory for its weights.
        if not Path(self.path).is_dir():
            return None
        try:
            with errors_only(), torch.device("meta"), torch.inference_mode():
                config = AutoConfig.from_pretrained(self.path, local_files_only=True)
                model = VisionModel(AutoModel.from_config(config).eval())
                size = self._size(self._processor(local=True), config)
                grid = model(torch.zeros(1, 3, size, size))["grid"]
        except Exception:  # `load` reports faults; some models need memory
            return None
        return {"grid": grid.shape[1], "pooled": None}

    @override
    def load(self) -> tuple[nn.Module, Callable[[Image.Image], Tensor]]:
        local = Path(self.path).is_dir()
        check_revision(self.path, self.revision)
        if not local:
            check_hub_id(self.path, "facebook/dinov2-base")
            local = not hub_answers(self.path)
        try:
            with errors_only():
                processor = self._processor(local=local)
                model, report = AutoModel.from_pretrained(
                    self.path,
                    revision=self.revision or "main",
                    dtype="float32",
                    output_loading_info=True,
                    local_files_only=local,
                )
                note_commit(self.path, self.revision)
        except Exception as error:  # transformers raises many kinds
            raise self._unusable(error) from error
        missing = sorted(report["missing_keys"])
        if others := [key for key in missing if "pooler." not in key]:
            raise UserError(
                f"features.path={self.path} lacks {len(others)} weights of "
                f"{type(model).__name__}, such as {others[0]}; save the whole model there with "
                "save_pretrained"
            )
        check_finite(model.state_dict(), self.path)
        size = self._size(processor, model.config)
        resampling = Image.Resampling(int(getattr(processor, "resample", None) or 2))
        prepare = ProcessorInput(processor, Resize(size, resampling))
        return VisionModel(model, has_pooler=not missing), prepare

    def _processor(self, *, local: bool) -> Any:
        return AutoImageProcessor.from_pretrained(
            self.path, revision=self.revision or "main", local_files_only=local
        )

    def _unusable(self, error: Exception) -> UserError:
        reason = reason_of(error)
        remedy = "download it where there is a network, and pass features.path=FOLDER"
        if Path(self.path).is_dir():
            remedy = "write model and image processor there with save_pretrained"
        return UserError(f"features.path={self.path} cannot be loaded: {reason}; {remedy}")

    def _size(self, processor: Any, config: Any) -> int:
        """Pixels of a side: the setting, or what the processor's images have after its crop."""
        if self.image_size is not None:
            return self.image_size
        crops = getattr(processor, "do_center_crop", False)
        stated = getattr(processor, "crop_size" if crops else "size", None) or {}
        stated = stated if isinstance(stated, Mapping) else vars(stated)
        config = getattr(config, "vision_config", None) or config
        for size in (
            stated.get("height"), stated.get("shortest_edge"), getattr(config, "image_size", None)
        ):  # fmt: skip
            if isinstance(size, int):
                return size
        raise UserError(
            f"features.path={self.path}: its image processor has no size; set features.image_size"
        )
