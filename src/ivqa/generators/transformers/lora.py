"""Low-rank adapters of a transformers model (Hu et al. 2022, LoRA), by the library peft.

A checkpoint holds the adapters alone; a checksum verifies the frozen weights at loading.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Annotated, Any

import torch
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from torch import nn

from ivqa.errors import UserError
from ivqa.ranges import AtLeastOne, Count, Positive, ShareBelowOne
from ivqa.store.identity import to_plain

_SHOWN = 8  # names in a message


@dataclass(frozen=True, kw_only=True)
class LowRank:
    """Settings of LoRA: W x + (alpha / rank) B A x, where only A and B are trained.

    Args:
        rank: Rank of B A.
        alpha: Scale of the adapters.
        target_modules: Names of the linear layers that are adapted, such as q_proj, wherever they
            are in the model; or one regular expression for whole names; or "all-linear".
        dropout: On the input of the adapters.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    rank: Count = 8
    alpha: Positive = 16.0
    target_modules: str | Annotated[Sequence[str], AtLeastOne] = ("q_proj", "v_proj")
    dropout: ShareBelowOne = 0.0


def low_rank(settings: Mapping[str, Any]) -> LowRank:
    """Reads settings of a configuration, the arguments of `LowRank` by name.

    Raises:
        UserError: A name is unknown, or a value is invalid.
    """
    try:
        return TypeAdapter(LowRank).validate_python(to_plain(settings))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0])
        if name not in LowRank.__dataclass_fields__:
            known = ", ".join(LowRank.__dataclass_fields__)
            raise UserError(f"lora has no setting {name}; it has {known}") from None
        raise UserError(f"lora.{name}={settings[name]}: {first['msg']}") from None


def _checked(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    low_rank(settings)
    return settings


LowRankSettings = Annotated[Mapping[str, Any], AfterValidator(_checked)]
"""Arguments of `LowRank` as a mapping, which a checkpoint can hold."""


def require_peft() -> Any:
    """Returns the package peft.

    Raises:
        UserError: It is not installed.
    """
    try:
        import peft
    except ImportError:
        raise UserError(
            "lora needs the package peft: pip install 'ivqa[lora]', or set "
            "model.module.network.lora=null to train all weights"
        ) from None
    return peft


def add_adapters(model: Any, lora: LowRank) -> None:
    """Adds adapters to linear layers of a transformers model, and freezes all other weights.

    The adapters are float32 whatever the type of the model's weights is; without training they
    change nothing, since B is zero.

    Raises:
        UserError: peft is absent, or a target module does not exist or cannot be adapted.
    """
    peft = require_peft()
    targets = lora.target_modules
    names = [] if isinstance(targets, str) else list(targets)
    modules = [name for name, _ in model.named_modules()]
    for target in names:
        if not any(name == target or name.endswith(f".{target}") for name in modules):
            raise UserError(
                f"lora.target_modules: the model has no module '{target}'; it has {_linear(model)}"
            )
    config = peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=targets if isinstance(targets, str) else names,
        lora_dropout=lora.dropout,
    )
    try:
        peft.inject_adapter_in_model(config, model)
    except ValueError as error:  # no module fits the expression, or one is not linear
        reason = str(error).split(". ")[0]
        raise UserError(
            f"lora.target_modules={targets}: {reason}; the model has {_linear(model)}"
        ) from error
    for value in model.parameters():
        if value.requires_grad:
            value.data = value.data.float()


def checksum(model: nn.Module) -> int:
    """Computes a checksum of all weights of a model on the CPU.

    Its 32 bits depend on values, types and order of the weights.
    """
    total = 0
    for value in model.parameters():
        data = value.detach().contiguous().flatten().view(torch.uint8)
        total = zlib.crc32(data.numpy().tobytes(), total)
    return total


def leave_out_frozen(network: nn.Module, base: str) -> None:
    """Makes `state_dict` leave out what is frozen now, and `load_state_dict` keep it as it is.

    `base` names a buffer with the `checksum` of the frozen weights. It is stored, and a state with
    another checksum is refused.
    """
    state = network.state_dict(keep_vars=True)
    names = [name for name, value in state.items() if name != base and not value.requires_grad]
    network.register_state_dict_post_hook(partial(_remove, names))
    network.register_load_state_dict_pre_hook(partial(_add, names, base))


def _remove(
    names: Sequence[str],
    network: nn.Module,
    state: dict[str, Any],
    prefix: str,
    metadata: dict[str, Any],
) -> None:
    for name in names:
        state.pop(f"{prefix}{name}", None)


def _add(
    names: Sequence[str],
    base: str,
    network: nn.Module,
    state: dict[str, Any],
    prefix: str,
    metadata: dict[str, Any],
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    """Adds the network's own weights to a state to be loaded; the caller's dict is a copy."""
    stored = state.get(f"{prefix}{base}")
    if stored is not None and int(stored) != int(network.get_buffer(base)):
        errors.append("its adapters were trained with other weights than those of model.path")
    for name in names:
        state.setdefault(f"{prefix}{name}", attrgetter(name)(network))


def _linear(model: nn.Module) -> str:
    """The last names of the linear layers of a model."""
    found = [
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
    ]
    names = list(dict.fromkeys(found))
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
