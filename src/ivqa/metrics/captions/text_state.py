"""Lists of texts as byte tensors, which processes can exchange."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from typing_extensions import override

# UTF-8 never uses these bytes.
_TEXT_END, _GROUP_END = b"\xfe", b"\xff"


def _pack_texts(groups: Sequence[Sequence[str]]) -> Tensor:
    """Packs groups of texts into one tensor. Concatenated tensors hold all their groups.

    Example:
        >>> _unpack_texts(torch.cat([_pack_texts([["a", ""], []]), _pack_texts([["é"]])]))
        [['a', ''], [], ['é']]
    """
    data = bytearray()
    for texts in groups:
        for text in texts:
            data += text.encode() + _TEXT_END
        data += _GROUP_END
    # torch.frombuffer refuses an empty buffer.
    return torch.frombuffer(data, dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)


def _unpack_texts(packed: Tensor) -> list[list[str]]:
    """Unpacks groups of texts."""
    # The piece behind the last end byte is empty.
    groups = packed.cpu().numpy().tobytes().split(_GROUP_END)[:-1]
    return [[text.decode() for text in group.split(_TEXT_END)[:-1]] for group in groups]


class TextMetric(Metric):
    """Base of metrics that need all texts: the state is the packed texts of all updates."""

    full_state_update = False
    texts: list[Tensor] | Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("texts", [], dist_reduce_fx="cat")

    @override
    def sync(self, *args: Any, **kwargs: Any) -> None:
        # For a process without a batch, torchmetrics would send an empty float tensor, and the
        # other processes expect uint8.
        if isinstance(self.texts, list) and not self.texts:
            self.texts = [_pack_texts([]).to(self.device)]
        super().sync(*args, **kwargs)

    def _add(self, groups: Sequence[Sequence[str]]) -> None:
        """Adds the groups of one update."""
        self.texts = [*self.texts, _pack_texts(groups).to(self.device)]

    def _groups(self) -> list[list[str]]:
        """The groups of all updates; after `sync`, those of all processes."""
        # The "cat" reduction leaves one tensor.
        if isinstance(self.texts, Tensor):
            return _unpack_texts(self.texts)
        return [group for packed in self.texts for group in _unpack_texts(packed)]
