"""What every trained module shares: optimiser, scheduler, and what its checkpoints say."""

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

_INPUTS = {"question_words", "answer_words", "answers", "feature_sizes"}


class TrainedModule(pl.LightningModule):
    """A LightningModule whose checkpoints name the words, answers and features it was trained with.

    Args:
        optimizer: Called with the parameters to train; None for inference.
        scheduler: Called with the optimiser, and with num_training_steps where it takes that;
            stepped with the optimiser. None keeps the learning rate.
    """

    def __init__(
        self, optimizer: OptimizerFactory | None = None, scheduler: SchedulerFactory | None = None
    ) -> None:
        super().__init__()
        self.optimizer = optimizer
        self.scheduler = scheduler

    @abstractmethod
    def component(self) -> dict[str, Any]:
        """What a checkpoint says about the module, in plain containers."""

    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """The parameters that the optimiser updates."""
        return self.parameters()

    def configure_optimizers(self) -> Any:
        """The optimiser, and the scheduler where there is one.

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
        """Stores `component` beside the weights."""
        checkpoint["component"] = self.component()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuses a checkpoint of another module.

        Raises:
            UserError: The checkpoint has other words, answers or features than this module.
        """
        check_same_inputs(checkpoint.get("component"), self.component())


def network_settings(network: Callable[..., Any]) -> dict[str, Any]:
    """Name and bound arguments of a network factory, in plain containers.

    Raises UserError where an argument is nothing that a checkpoint can hold.

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
    """Raises UserError where a stored component has other words, answers or features."""
    if stored is None:
        raise UserError("this checkpoint names no component: it was not written by ivqa")
    for key in _INPUTS & own.keys():
        if stored.get(key) != own[key]:
            raise UserError(
                f"the checkpoint was trained with other {key}: "
                f"{_difference(stored.get(key, ()), own[key])}; use its data and features"
            )


def check_same_network(stored: Mapping[str, Any], given: Mapping[str, Any], source: str) -> None:
    """Raises UserError where the network given is another one, or set otherwise, than stored."""
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
    """`value` as str, number, bool, None, list or dict; config containers become plain ones."""
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
    if isinstance(stored, dict):
        return f"{stored} there, {own} here"
    known = set(stored)
    strange = [word for word in own if word not in known][:3]
    hint = f", such as {strange} only here" if strange else ""
    return f"{len(stored)} words there, {len(own)} here{hint}"
