"""Base class of all trained modules: optimiser, image encoder and checkpoint metadata."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from typing import Any, ClassVar

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from ivqa.errors import UserError

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]
SchedulerFactory = Callable[..., LRScheduler]

# Parts of `component` that must agree between a checkpoint and the module that loads it.
_INPUTS = {"question_words", "answer_words", "answers", "feature_sizes"}
_IMAGES_PER_PASS = 64  # in evaluation mode; bounds the memory of the first feature maps


class ImageEncoder(nn.Module):
    """Computes image features from pixels; the module that owns it trains it.

    Args:
        network: Takes RGB images (M, 3, H, W) in [0, 1]; returns features by name, each with M
            rows.
        settings: Describes the network in plain containers; a checkpoint stores it.
        learning_rate_scale: Learning rate of the network, as a multiple of the module's.
    """

    version: ClassVar[int] = 1

    def __init__(
        self, network: nn.Module, settings: Mapping[str, Any], learning_rate_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.network = network
        self.settings = dict(settings)
        self.learning_rate_scale = learning_rate_scale

    def forward(self, pixels: Tensor) -> dict[str, Tensor]:
        """Computes float32 features by name, with M rows each, of uint8 RGB images (M, 3, H, W)."""
        # In training, normalisation over a batch needs all of its images at once.
        parts = [pixels] if self.training else pixels.split(_IMAGES_PER_PASS)
        found = []
        for part in parts:
            images = part.contiguous(memory_format=torch.channels_last).float() / 255
            found.append(self.network(images))
        return {name: torch.cat([each[name] for each in found]).float() for name in found[0]}


class TrainedModule(pl.LightningModule):
    """A LightningModule whose checkpoints store the words, answers and features of its training.

    Args:
        optimizer: Called with the parameters to train; None for inference.
        scheduler: Called with the optimiser, and with num_training_steps if it has an argument of
            that name; stepped after each optimiser step. None keeps the learning rate constant.
        image_encoder: Computes the image features of a batch from its pixels, and is trained and
            stored with the module. None for features that batches carry.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        optimizer: OptimizerFactory | None = None,
        scheduler: SchedulerFactory | None = None,
        image_encoder: ImageEncoder | None = None,
    ) -> None:
        super().__init__()
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.image_encoder = image_encoder

    @abstractmethod
    def component(self) -> dict[str, Any]:
        """Returns the metadata that a checkpoint stores, in plain containers."""

    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """Returns the parameters that the optimiser updates; all of them by default."""
        return self.parameters()

    def configure_optimizers(self) -> Any:
        """Builds the optimiser and the scheduler.

        Raises:
            ValueError: The module was built without an optimiser.
        """
        if self.optimizer is None:
            raise ValueError("this module was built without an optimizer; pass one to train it")
        optimizer = self.optimizer(self._parameter_groups())
        if self.scheduler is None:
            return optimizer
        horizon = {}
        if "num_training_steps" in signature(self.scheduler).parameters:
            horizon["num_training_steps"] = int(self.trainer.estimated_stepping_batches)
        scheduler = {"scheduler": self.scheduler(optimizer, **horizon), "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": scheduler}

    def on_train_batch_end(self, *_: Any) -> None:
        """Logs the learning rate."""
        rate = self.trainer.optimizers[0].param_groups[0]["lr"]
        self.log("train/learning_rate", rate, batch_size=1)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Stores `component` in the checkpoint, and the settings of the image encoder."""
        checkpoint["component"] = self.component()
        if self.image_encoder is not None:
            checkpoint["component"]["image_encoder"] = self.image_encoder.settings

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Rejects a checkpoint of other inputs.

        Raises:
            UserError: The checkpoint has other words, answers or features than this module.
        """
        stored = checkpoint.get("component")
        check_same_inputs(stored, self.component())
        check_same_encoder(stored or {}, self.image_encoder, "the checkpoint")

    def _own_rates(self) -> list[tuple[nn.Module, float]]:
        """Parts with a learning rate of their own, as a multiple of the module's."""
        encoder = self.image_encoder
        if encoder is None or encoder.learning_rate_scale == 1:
            return []
        return [(encoder, encoder.learning_rate_scale)]

    def _parameter_groups(self) -> list[Any]:
        """The parameters to train; those of each part with a learning rate of its own apart."""
        parameters = list(self.trained_parameters())
        if self.optimizer is None or not (parts := self._own_rates()):
            return parameters
        # The factory alone knows the learning rate.
        rate = self.optimizer([nn.Parameter(torch.zeros(1))]).param_groups[0]["lr"]
        groups: list[Any] = []
        for part, scale in parts:
            own = {id(value) for value in part.parameters()}
            of_part = [value for value in parameters if id(value) in own]
            groups.append({"params": of_part, "lr": rate * scale})
            parameters = [value for value in parameters if id(value) not in own]
        return [{"params": parameters}, *groups]


@contextmanager
def evaluation_mode(*networks: nn.Module | None) -> Iterator[None]:
    """Switches networks to evaluation mode, without dropout; restores their modes afterwards."""
    present = [network for network in networks if network is not None]
    modes = [network.training for network in present]
    for network in present:
        network.eval()
    try:
        yield
    finally:
        for network, mode in zip(present, modes, strict=True):
            network.train(mode)


def network_settings(network: Callable[..., Any]) -> dict[str, Any]:
    """Returns the name and the bound arguments of a network factory, in plain containers.

    Args:
        network: A class or function, or a partial of one (also of another partial).

    Returns:
        {"name": ..., "arguments": {...}}, of str, numbers, bool, None, lists and dicts.

    Raises:
        ValueError: An argument has a type that a checkpoint cannot hold.

    Example:
        >>> network_settings(partial(dict, hidden_size=8))
        {'name': 'dict', 'arguments': {'hidden_size': 8}}
    """
    arguments: dict[str, Any] = {}
    while isinstance(network, partial):
        arguments = {**network.keywords, **arguments}
        network = network.func
    name = getattr(network, "__qualname__", type(network).__qualname__)
    return {"name": name, "arguments": {key: _plain(value) for key, value in arguments.items()}}


def check_same_inputs(stored: Mapping[str, Any] | None, own: Mapping[str, Any]) -> None:
    """Checks that a checkpoint was trained with the words, answers and features of a module.

    `stored` is `component` of the checkpoint, `own` that of the module.

    Raises:
        UserError: They differ, or `stored` is None.
    """
    if stored is None:
        raise UserError("this checkpoint names no component: it was not written by ivqa")
    for key in _INPUTS & own.keys():
        if stored.get(key) != own[key]:
            raise UserError(
                f"the checkpoint was trained with other {key}: "
                f"{_difference(stored.get(key, ()), own[key])}; use its data and features"
            )


def check_same_encoder(
    component: Mapping[str, Any], encoder: ImageEncoder | None, source: str
) -> None:
    """Checks that a checkpoint was trained with the image encoder of a module; None is no encoder.

    `component` describes the trained module, and `source` names the checkpoint in messages.

    Raises:
        UserError: One of the two has no encoder, or their settings differ.
    """
    stored, own = component.get("image_encoder"), None if encoder is None else encoder.settings
    if stored == own:
        return
    if stored is None:
        raise UserError(
            f"{source} was trained on stored image features, but this features= trains an image "
            "encoder; pass the features= it was trained with"
        )
    here = "stored image features" if own is None else f"the image encoder {own}"
    raise UserError(
        f"{source} was trained with the image encoder {stored}, but this run has {here}; pass the "
        "features= it was trained with"
    )


def check_same_network(stored: Mapping[str, Any], given: Mapping[str, Any], source: str) -> None:
    """Checks that a network factory agrees with the network of a checkpoint.

    Both are `network_settings`; the arguments that are given may be a part of the stored ones.

    Raises:
        UserError: The class or an argument differs.
    """
    if stored["name"] != given["name"]:
        raise UserError(
            f"{source} holds a {stored['name']}, not a {given['name']}; pass that class"
        )
    for key, value in given["arguments"].items():
        if stored["arguments"].get(key, value) != value:
            raise UserError(
                f"{source} was trained with {key}={stored['arguments'][key]}, not {value}; "
                "leave the network's settings to the checkpoint"
            )


def _plain(value: Any) -> Any:
    """Converts to str, number, bool, None, list or dict; config containers become plain ones."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    if isinstance(value, partial | type):
        return network_settings(value)
    raise ValueError(
        f"a network setting is a {type(value).__name__}, which a checkpoint cannot hold; "
        "pass numbers, strings, lists, dicts and factories only"
    )


def _difference(stored: Any, own: Any) -> str:
    """Describes how two inputs differ; "there" is the checkpoint, "here" the module."""
    if isinstance(stored, dict):
        return f"{stored} there, {own} here"
    known = set(stored)
    unknown = [word for word in own if word not in known][:3]
    hint = f", such as {unknown} only here" if unknown else ""
    return f"{len(stored)} words there, {len(own)} here{hint}"
