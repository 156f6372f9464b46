"""Goal: a GPU searches beliefs without a text, and starts few kernels for many questions.

What the hot paths of `cuda` ask of a device, counted on a CPU: the kernels that they start (every
operation that is no view), the bytes that these read and write, how often the processor waits for
a result, and the texts that it splits or writes. A start takes about 5 microseconds, so a thousand
kernels a batch are limits of their own; larger batches start no more.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.cuda import paths
from ivqa import device
from ivqa.diagnosis.legality import cnn
from ivqa.generators.decoding import strategies
from ivqa.text import vocabulary
from ivqa.vqa.networks import question_encoder

_VIEWS = {"detach", "expand", "select", "slice", "t", "transpose", "unsqueeze", "view", "permute"}
_VIEWS |= {"squeeze", "split", "split_with_sizes", "chunk", "alias", "_unsafe_view", "unbind"}
_WAITS = {"_local_scalar_dense", "nonzero", "_unique2", "equal", "is_nonzero", "masked_select"}


def run(scale: int = 8) -> list[dict[str, Any]]:
    """One row a hot path and size of batch: what its work asks of the device."""
    rows = []
    for name, (amount, make) in paths(scale).items():
        if "LASSO" in name or "images" in name:  # batches of products: nothing to count
            continue
        work = make("cpu")
        work()
        with _counted() as count:
            work()
        rows.append({"hot path": name, "questions": amount, **count.row(amount)})
    return rows


class _Count(TorchDispatchMode):
    """Counts kernels and bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = self.bytes = self.waits = self.texts = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name not in _VIEWS:
            self.kernels += 1
            tensors = [one for one in tree_leaves((args, kwargs, found)) if isinstance(one, Tensor)]
            self.bytes += sum(one.numel() * one.element_size() for one in tensors)
        self.waits += name in _WAITS
        return found

    def row(self, amount: int) -> dict[str, Any]:
        return {
            "kernels": self.kernels,
            "kernels a question": self.kernels / amount,
            "kB a question": self.bytes / amount / 1e3,
            "waits": self.waits,
            "texts": self.texts,
        }


@contextmanager
def _counted() -> Iterator[_Count]:
    """Counts inside, where a GPU's ways are taken instead of a CPU's."""
    count = _Count()

    def waiting(method: Any) -> Any:
        def wait(tensor: Tensor, *args: Any) -> Any:
            count.waits += 1
            return method(tensor, *args)

        return wait

    def reading(function: Any) -> Any:
        def read(text: Any) -> Any:
            count.texts += 1
            return function(text)

        return read

    with (
        patch.dict(device._ROWS, {"cpu": device._OF_A_GPU}),
        patch.object(strategies, "_decode_unfinished", strategies._decode_all),
        patch.object(cnn, "infers_on_cpu", lambda _: False),
        patch.object(question_encoder, "infers_on_cpu", lambda _: False),
        patch.object(device, "_tanh_by_sigmoid", lambda _: False),
        patch.object(Tensor, "cpu", waiting(Tensor.cpu)),
        patch.object(Tensor, "tolist", waiting(Tensor.tolist)),
        patch.object(vocabulary, "tokenise", reading(vocabulary.tokenise)),
        patch.object(vocabulary, "detokenise", reading(vocabulary.detokenise)),
        count,
    ):
        yield count
