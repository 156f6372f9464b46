"""Last states of recurrent layers, against the layers one question at a time."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ivqa.text import prefix_states
from ivqa.text.vocabulary import padded

# Questions that are equal, that begin alike, that begin another one, and that are empty.
ROWS = [[4, 5, 6], [4, 5], [7], [4, 5, 6], [], [4, 8, 6, 6, 5], [5, 4], [4, 5, 7]]


@pytest.mark.parametrize(("cell", "layers"), [(nn.GRU, 1), (nn.GRU, 3), (nn.LSTM, 1), (nn.LSTM, 2)])
def test_states_are_those_of_each_question_alone(cell: Any, layers: int) -> None:
    torch.manual_seed(0)
    recurrence, embed = cell(5, 7, layers, batch_first=True), nn.Embedding(9, 5)
    found = prefix_states.last_states(recurrence, embed, padded(ROWS))
    for row, state in zip(ROWS, found, strict=True):
        outputs, _ = recurrence(embed(torch.tensor([row or [0]])))
        torch.testing.assert_close(state, outputs[0, -1].detach())


def test_no_questions_have_no_states() -> None:
    recurrence = nn.GRU(5, 7, batch_first=True)
    assert prefix_states.last_states(recurrence, nn.Embedding(9, 5), padded([])).shape == (0, 7)


def test_a_state_is_computed_once_for_questions_that_begin_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed = []
    step = prefix_states._gru

    def counted(of_input: Tensor, *others: Tensor) -> tuple[Tensor, Tensor]:
        computed.append(len(of_input))
        return step(of_input, *others)

    monkeypatch.setattr(prefix_states, "_gru", counted)
    recurrence = nn.GRU(5, 7, batch_first=True)
    prefix_states.last_states(recurrence, nn.Embedding(9, 5), padded(ROWS))
    read = [tuple(row or [0]) for row in ROWS]
    for words, number in enumerate(computed, start=1):
        assert number == len({row[:words] for row in read if len(row) >= words})
    assert len(computed) == 5
