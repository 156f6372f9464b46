"""Reads and writes PyTorch weights; damaged or non-finite ones raise a one-sentence error."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ivqa.errors import reason_of
from ivqa.store.digests import bytes_digest, digest
from ivqa.store.files import FileError, atomic_write, check_regular

_CONTENTS = "contents"  # key of the list of contents in a checkpoint
_CHECKED_ELSEWHERE = ("state_dict", "component", _CONTENTS)


def write_weights(path: str | Path, content: Mapping[str, Any]) -> None:
    """Writes tensors and plain containers atomically, for `read_weights`.

    Raises:
        OSError: The file cannot be written; the message names it.
    """
    file = Path(path)
    # An open file, because torch.save would store the name of the draft.
    with atomic_write(file) as draft, draft.open("wb") as stream:
        try:
            torch.save(content, stream)
        except RuntimeError as error:
            # PyTorch hides what stopped the stream: a full disk, Ctrl-C or SIGTERM.
            stopped = error.__context__
            if stopped is None:
                raise
            if isinstance(stopped, OSError):
                stopped.add_note(f"it needs about {_size(content) / 1e6:,.1f} MB")
            raise stopped from None


def read_weights(path: str | Path, what: str = "a file of weights") -> dict[str, Any]:
    """Loads a dict that `torch.save` wrote, with `weights_only=True` and tensors on the CPU.

    `what` names the expected content in error messages.

    Raises:
        FileError: The file is missing, empty, cut off or damaged, or does not hold a dict.
    """
    file = check_regular(path)
    if not file.stat().st_size:
        raise FileError(f"{file} is not a readable checkpoint: the file is empty; restore it")
    try:
        _check_sums(file)
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling raises whatever the bytes lead to
        raise FileError(f"{file} is not a readable checkpoint ({_reason(error)}") from error
    if not isinstance(content, dict):
        raise FileError(f"{file} holds a {type(content).__name__}, which is not {what}")
    return content


def state_dict_of(content: Mapping[str, Any], path: str | Path) -> dict[str, Tensor]:
    """Returns the weights of the Lightning checkpoint in the file `path`, by name.

    Raises:
        FileError: The entry is missing or is not a dict of tensors, or a tensor is not finite.
    """
    state = content.get("state_dict")
    if not isinstance(state, dict) or not all(isinstance(v, Tensor) for v in state.values()):
        raise FileError(f"{path} is not a Lightning checkpoint: it has no 'state_dict'")
    check_finite(state, path)
    return state


def with_contents(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Adds a list of its contents to a checkpoint, by which `training_state` finds what is missing.

    Lightning continues without the state of a parameter, a scheduler or a callback that the
    checkpoint does not have, and so with other results. The list has names, numbers and texts, and
    the type and shape of tensors.
    """
    return {**checkpoint, _CONTENTS: _outline(_listed(checkpoint))}


def training_state(path: str | Path) -> dict[str, Any]:
    """Loads a Lightning checkpoint from which training can continue.

    Raises:
        FileError: The weights, the optimiser state or the progress of training is missing, in
            whole or in part, or was changed, or a value is not finite.
    """
    content = read_weights(path, "a Lightning checkpoint")
    state_dict_of(content, path)
    kinds = {"global_step": int, "epoch": int, "loops": dict}
    kinds |= {"optimizer_states": list, "lr_schedulers": list}
    absent = [name for name, kind in kinds.items() if not isinstance(content.get(name), kind)]
    if not absent and not content["optimizer_states"]:
        absent = ["optimizer_states"]
    if absent:
        raise FileError(
            f"{path} has no '{absent[0]}', so training cannot continue from it; start the run "
            "again without resume="
        )
    if fault := _change(content.get(_CONTENTS), _outline(_listed(content))):
        raise FileError(
            f"{path} {fault}, so training cannot continue exactly from it; restore the file, or "
            "start the run again without resume="
        )
    check_finite({"optimizer_states": content["optimizer_states"]}, path)
    return content


def weights_digest(state: Mapping[str, Tensor]) -> str:
    """A digest of weights alone, equal wherever a training ended with the same weights.

    Files of checkpoints also hold paths, so their digests differ between folders.

    Example:
        >>> one, other = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])
        >>> weights_digest({"w": one}) == weights_digest({"w": one.clone()})
        True
        >>> weights_digest({"w": one}) == weights_digest({"w": other})
        False
    """
    contents = {
        name: [str(value.dtype), list(value.shape), bytes_digest(_bytes(value))]
        for name, value in sorted(state.items())
    }
    return digest(contents)


def check_finite(state: Mapping[str, Any], path: str | Path) -> None:
    """Checks that all tensors, in nested dicts and lists, are finite.

    Tensors that contain only zeros and infinities are accepted: these are attention masks, not
    weights.

    Raises:
        FileError: A tensor holds NaN or an infinity; the message names the file and the tensor.
    """
    if name := _not_finite(state):
        raise FileError(
            f"{path}: '{name}' holds values that are not finite; the training that wrote it "
            "diverged or the file is damaged: train again with a lower learning rate, or restore it"
        )


def load_into(module: nn.Module, state: Mapping[str, Any], path: str | Path, what: str) -> None:
    """Loads weights by name into a module, in place of all its parameters and buffers.

    `path` is their file, and `what` describes the module in the error message.

    Raises:
        FileError: Names or shapes of the weights differ from those of the module.
    """
    try:
        module.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        reason = reason_of(error)
        raise FileError(
            f"{path} does not hold the weights of {what} ({reason}); pass the model= and sizes it "
            "was trained with"
        ) from error


def _bytes(value: Tensor) -> bytes:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _size(value: Any) -> int:
    """The bytes of all tensors in nested dicts and lists."""
    if isinstance(value, Tensor):
        return value.nbytes
    inner = value.values() if isinstance(value, Mapping) else value
    return sum(map(_size, inner)) if isinstance(value, Mapping | list | tuple) else 0


def _listed(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in checkpoint.items() if key not in _CHECKED_ELSEWHERE}


def _outline(value: Any) -> Any:
    """Nested dicts with the values of `value` at their ends; type and shape stand for a tensor."""
    if isinstance(value, Tensor):
        return f"{value.dtype} {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return {str(key): _outline(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return {str(index): _outline(item) for index, item in enumerate(value)}
    return repr(value)


def _change(written: Any, found: Any, name: str = "") -> str | None:
    """What a checkpoint lacks, or has otherwise, than its list of contents says; None: nothing."""
    if not name and written is None:
        return "does not list its contents, as checkpoints of this version of ivqa do"
    if isinstance(written, dict) and isinstance(found, dict):
        for key in dict.fromkeys([*written, *found]):
            path = f"{name}.{key}".lstrip(".")
            if key not in found:
                return f"lacks '{path}', which was written with it"
            if key not in written:
                return f"has '{path}', which was not written with it"
            if fault := _change(written[key], found[key], path):
                return fault
        return None
    return None if written == found else f"has another '{name}' than was written"


def _reason(error: Exception) -> str:
    """Why a file could not be read, and what to do; without PyTorch's advice to run its code."""
    text = str(error)
    if "weights_only" in text:
        return f"{reason_of(error)}); store its weights alone, as a state_dict"
    first = (text.splitlines() or [type(error).__name__])[0].rstrip(".")
    return f"{first}); restore it"


def _check_sums(file: Path) -> None:
    """Raises BadZipFile if a checksum of the zip file is wrong; torch.load does not verify them."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as parts:
            if (damaged := parts.testzip()) is not None:
                raise zipfile.BadZipFile(f"its part {damaged} was changed after it was written")


def _not_finite(value: Any) -> str | None:
    """The dotted name of the first tensor in `value` that is not finite; None if all are.

    The name of `value` itself is "".
    """
    if isinstance(value, Tensor):
        return "" if value.is_floating_point() and _diverged(value) else None
    items = value.items() if isinstance(value, Mapping) else enumerate(
        value if isinstance(value, list | tuple) else ()
    )  # fmt: skip
    for key, item in items:
        if (name := _not_finite(item)) is not None:
            return f"{key}.{name}".rstrip(".")
    return None


def _diverged(value: Tensor) -> bool:
    if value.element_size() == 1 or torch.isfinite(value.sum(dtype=torch.float64)):
        return False  # float8 is not checked; NaN and infinities would appear in the sum
    finite = torch.isfinite(value)
    if finite.all():
        return False
    return bool(torch.isnan(value).any() or not finite.any() or value[finite].any())
