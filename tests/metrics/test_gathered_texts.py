"""A process sends the texts of all its batches in one message."""

import pytest
import torch
from torch import Tensor

from ivqa.metrics import QuestionDiversity


def test_the_texts_of_several_batches_are_sent_in_one_message() -> None:
    """Otherwise processes with different numbers of batches would wait for each other."""
    whole, first, second = QuestionDiversity(), QuestionDiversity(), QuestionDiversity()
    batches = [[["Is it red?", "Why?"]], [["Is it red?"]], [["Who?", ""]]]
    for metric, given in ((whole, batches), (first, batches[:2]), (second, batches[2:])):
        for batch in given:
            metric.update(batch)
    (theirs,) = second.metric_state.values()
    sent: list[Tensor] = []

    def all_gather(mine: Tensor, group: object) -> list[Tensor]:
        sent.append(mine)
        return [mine, torch.cat(theirs)]

    first.dist_sync_fn, first.distributed_available_fn = all_gather, lambda: True
    assert first.compute() == pytest.approx(whole.compute(), nan_ok=True)
    assert len(sent) == 1
