"""Lists of texts as byte tensors: the form in which processes can exchange them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric

# These bytes occur in no UTF-8 text, whatever a generator writes.
_TEXT_END, _GROUP_END = b"\xfe", b"\xff"


def pack_texts(groups: Sequence[Sequence[str]]) -> Tensor:
    """The texts of all groups as one (bytes,) uint8 tensor; tensors of several calls concatenate.

    >>> unpack_texts(torch.cat([pack_texts([["a", ""], []]), pack_texts([["é"]])]))
    [['a', ''], [], ['é']]
    """
    data = bytearray()
    for texts in groups:
        for text in texts:
            data += text.encode() + _TEXT_END
        data += _GROUP_END
    # An empty buffer has no address to wrap.
    return torch.frombuffer(data, dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)


def unpack_texts(packed: Tensor) -> list[list[str]]:
    """The groups of texts that `pack_texts` packed, in their order."""
    groups = packed.cpu().numpy().tobytes().split(_GROUP_END)[:-1]
    return [[text.decode() for text in group.split(_TEXT_END)[:-1]] for group in groups]


class TextMetric(Metric):
    """A metric of all texts seen: its state is the groups of texts of every update, packed."""

    full_state_update = False
    texts: list[Tensor] | Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("texts", [], dist_reduce_fx="cat")

    def sync(self, *args: Any, **kwargs: Any) -> None:
        """Gathers the texts of all processes; see torchmetrics."""
        # torchmetrics would send an empty float tensor for a process without a batch, which the
        # others, who expect bytes, would read wrongly.
        if isinstance(self.texts, list) and not self.texts:
            self.texts = [pack_texts([]).to(self.device)]
        super().sync(*args, **kwargs)

    def _add(self, groups: Sequence[Sequence[str]]) -> None:
        self.texts = [*self.texts, pack_texts(groups).to(self.device)]

    def _groups(self) -> list[list[str]]:
        """The groups of all updates; after a synchronisation, of all processes."""
        if isinstance(self.texts, Tensor):
            return unpack_texts(self.texts)
        return [group for packed in self.texts for group in unpack_texts(packed)]
