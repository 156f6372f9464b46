"""Base class of all trained modules: optimiser, scheduler and checkpoint metadata."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any

import pytorch_lightning as pl
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from ivqa.errors import UserError

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]
SchedulerFactory = Callable[..., LRScheduler]

# Parts of `component` that must agree between a checkpoint and the module that loads it.
_INPUTS = {"question_words", "answer_words", "answers", "feature_sizes"}


class TrainedModule(pl.LightningModule):
    """A LightningModule whose checkpoints store the words, answers and features of its training.

    Args:
        optimizer: Called with the parameters to train; None for inference.
        scheduler: Called with the optimiser, and with num_training_steps if it has an argument of
            that name; stepped after each optimiser step. None keeps the learning rate constant.
    """

    def __init__(
        self, optimizer: OptimizerFactory | None = None, scheduler: SchedulerFactory | None = None
    ) -> None:
        super().__init__()
        self.optimizer = optimizer
        self.scheduler = scheduler

    @abstractmethod
    def component(self) -> dict[str, Any]:
        """Returns the metadata that a checkpoint stores, in plain containers."""

    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """Returns the parameters that the optimiser updates; all of them by default."""
        return self.parameters()

    def configure_optimizers(self) -> Any:
        """Builds the optimiser and the scheduler.

        Returns:
            The optimiser alone if there is no scheduler, else both as Lightning expects them.

        Raises:
            ValueError: The module was built without an optimiser.
        """
        if self.optimizer is None:
            raise ValueError("this module was built without an optimizer; pass one to train it")
        optimizer = self.optimizer(self.trained_parameters())
        if self.scheduler is None:
            return optimizer
        horizon = {}
        if "num_training_steps" in signature(self.scheduler).parameters:
            horizon["num_training_steps"] = int(self.trainer.estimated_stepping_batches)
        scheduler = {"scheduler": self.scheduler(optimizer, **horizon), "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": scheduler}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Stores `component` in the checkpoint."""
        checkpoint["component"] = self.component()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Rejects a checkpoint of other inputs.

        Raises:
            UserError: The checkpoint has other words, answers or features than this module.
        """
        check_same_inputs(checkpoint.get("component"), self.component())


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

    Args:
        stored: `component` of the checkpoint; None if it has none.
        own: `component` of the module.

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


def check_same_network(stored: Mapping[str, Any], given: Mapping[str, Any], source: str) -> None:
    """Checks that a network factory agrees with the network of a checkpoint.

    Args:
        stored: `network_settings` of the trained network.
        given: `network_settings` of the factory; its arguments may be a part of the stored ones.
        source: Path of the checkpoint, for messages.

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
