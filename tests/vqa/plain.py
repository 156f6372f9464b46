"""The papers' equations for one question, in loops and in float64, over a network's own weights."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Drop = Callable[[Tensor], Tensor]


def keep(values: Tensor) -> Tensor:
    """No dropout."""
    return values


def every_third(values: Tensor) -> Tensor:
    """Replaces dropout: always drops the same channels (the last axis)."""
    kept = torch.arange(values.shape[-1]) % 3 != 1
    return values * kept * 1.5


def linear(layer: nn.Module, values: Tensor) -> Tensor:
    """W x + b of one vector x."""
    return torch.stack([row @ values for row in layer.weight]) + layer.bias


def softmax(scores: Sequence[Tensor]) -> list[Tensor]:
    """e^s / sum e^s."""
    powers = [score.exp() for score in scores]
    return [power / torch.stack(powers).sum() for power in powers]


def weighted(weights: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """sum_n w_n x_n."""
    return torch.stack([w * x for w, x in zip(weights, values, strict=True)]).sum(dim=0)


def unit(values: Tensor) -> Tensor:
    """x / |x|."""
    return values / values.square().sum().sqrt()


def sigmoid(values: Tensor) -> Tensor:
    """1 / (1 + e^-x)."""
    return 1 / (1 + (-values).exp())


def weights_of(layer: nn.Module, number: int | None) -> list[Tensor]:
    """W, U, b, b' of a recurrent layer, or of a cell (number None)."""
    behind = "" if number is None else f"_l{number}"
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return [getattr(layer, name + behind) for name in names]


def lstm_step(weights: list[Tensor], x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """c' = f c + i g and h' = o tanh(c')."""
    w, u, b, other = weights
    i, f, g, o = (w @ x + u @ h + b + other).chunk(4)
    c = sigmoid(f) * c + sigmoid(i) * g.tanh()
    return sigmoid(o) * c.tanh(), c


def lstm(
    weights: list[Tensor], words: Sequence[Tensor], start: tuple[Tensor, Tensor] | None = None
) -> tuple[list[Tensor], Tensor]:
    """The states at all words, and the last cell state."""
    zero = words[0].new_zeros(weights[1].shape[1])
    h, c = start or (zero, zero)
    states = []
    for word in words:
        h, c = lstm_step(weights, word, h, c)
        states.append(h)
    return states, c


def gru(weights: list[Tensor], words: Sequence[Tensor]) -> list[Tensor]:
    """h' = (1 - z) n + z h, n = tanh(W x + b + r (U h + b'))."""
    w, u, b, other = weights
    h, states = words[0].new_zeros(u.shape[1]), []
    for word in words:
        r, z, n = (w @ word + b).chunk(3)
        own_r, own_z, own_n = (u @ h + other).chunk(3)
        r, z = sigmoid(r + own_r), sigmoid(z + own_z)
        h = (1 - z) * (n + r * own_n).tanh() + z * h
        states.append(h)
    return states


def convolved(first: Tensor, second: Tensor) -> Tensor:
    """The circular convolution sum_j x_j y_(k - j)."""
    size = len(first)
    return torch.stack(
        [sum(first[j] * second[(k - j) % size] for j in range(size)) for k in range(size)]  # type: ignore[misc]
    )


def sketched(layer: nn.Module, values: Tensor) -> Tensor:
    """Psi x [j] = sum_{i: h_i = j} s_i x_i."""
    sketch = [values.new_zeros(()) for _ in range(layer.size)]
    for value, place, sign in zip(values, layer.place.tolist(), layer.sign.tolist(), strict=True):
        sketch[place] = sketch[place] + sign * value
    return torch.stack(sketch)


def signed_root(values: Tensor) -> Tensor:
    """sign(x) sqrt(|x|) with unit norm; |x| + 1e-5 takes the place of |x| under a root."""
    sizes = values.abs() + 1e-5
    return values / sizes.sqrt() / sizes.sum().sqrt()
