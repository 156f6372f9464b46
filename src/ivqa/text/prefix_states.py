"""The last states of recurrent layers over questions, many of which begin alike."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.device import fast_tanh, lstm_states
from ivqa.text.vocabulary import Tokens


@torch.no_grad()
def last_states(layers: nn.RNNBase, embed: Callable[[Tensor], Tensor], question: Tokens) -> Tensor:
    """Computes h_T of the last layer of a GRU or LSTM, (B, d), without gradients and dropout.

    The state after a few words depends on these words alone. It is computed once for all questions
    that begin with them: of 1,000 sampled questions of a search, 4 in 10 states are different.

    Args:
        layers: A GRU or LSTM, in one direction.
        embed: Embeds words (1, n) as vectors (1, n, d_e).
        question: (B, T) words; of an empty question, padding is read as one word.
    """
    ids, lengths = question.ids, question.lengths.clamp_min(1)
    used, ids = ids.unique(return_inverse=True)  # the words of these questions
    weights = [*layers.all_weights]  # of each layer: of its input, of its state, two biases
    table = F.linear(embed(used[None])[0], weights[0][0], weights[0][2])  # (V', gates)
    step = _gru if isinstance(layers, nn.GRU) else _lstm
    rows = torch.arange(len(ids), device=ids.device)  # the questions that go on
    node = torch.zeros_like(rows)  # the state that each of them has reached
    first = table.new_zeros(1, layers.hidden_size)
    states: list[tuple[Tensor, ...]] = [(first,) if step is _gru else (first, first)] * len(weights)
    found = table.new_empty(len(ids), layers.hidden_size)
    for position in range(int(lengths.max()) if len(lengths) else 0):
        # A state is the one before and a word.
        code, node = (node * len(used) + ids[rows, position]).unique(return_inverse=True)
        before, gates = code // len(used), table.index_select(0, code % len(used))
        for number, (_, state, _, bias) in enumerate(weights):
            if number:
                gates = F.linear(states[number - 1][0], weights[number][0], weights[number][2])
            old = tuple(part.index_select(0, before) for part in states[number])
            states[number] = step(gates, F.linear(old[0], state, bias), *old)
        ends = lengths[rows] == position + 1
        found[rows[ends]] = states[-1][0][node[ends]]
        rows, node = rows[~ends], node[~ends]
    return found


def _gru(of_input: Tensor, of_state: Tensor, hidden: Tensor) -> tuple[Tensor]:
    size = hidden.shape[1]
    both = (of_input[:, : 2 * size] + of_state[:, : 2 * size]).sigmoid_()
    reset, update = both.chunk(2, dim=1)
    new = torch.addcmul(of_input[:, 2 * size :], reset, of_state[:, 2 * size :])
    return (torch.lerp(fast_tanh(new), hidden, update),)


def _lstm(of_input: Tensor, of_state: Tensor, _: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    return lstm_states(of_input + of_state, cell)
