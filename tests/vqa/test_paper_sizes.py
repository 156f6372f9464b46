"""Numbers of parameters with default arguments, against counts from the papers' equations.

A layer from n to m has (n + 1) m of them: m n weights and m biases. PyTorch's LSTM and GRU have two
vectors of biases where the papers have one.
"""

from typing import Any

import pytest
import torch
from torch import nn

from ivqa.vqa import (
    LSTMQI,
    MCB,
    MLB,
    N2NMN,
    HieCoAtt,
    Mutan,
    MutanNoAttention,
    RecurrentEncoder,
    StackedLSTMEncoder,
    Vanilla,
)

V = 1004  # words


def _parameters(network: nn.Module) -> int:
    return sum(value.numel() for value in network.parameters())


def _built(factory: Any, num_answers: int, feature: str, size: int, **arguments: Any) -> Any:
    """Builds a network on the meta device, where weights take no memory."""
    with torch.device("meta"):
        return factory(
            num_words=V, num_answers=num_answers, feature_sizes={feature: size}, **arguments
        )


def _lstm(read: int, states: int) -> int:
    """Four gates W x + U h + b, and PyTorch's second b."""
    return 4 * (states * read + states * states + 2 * states)


UNI_SKIP = 3 * (2400 * 620 + 2400 * 2400 + 2400)  # three gates W x + U h + b
QUESTION = V * 620 + UNI_SKIP + 3 * 2400  # with PyTorch's second b


def test_uni_skip() -> None:
    assert UNI_SKIP == 21_751_200  # published
    with torch.device("meta"):
        assert _parameters(RecurrentEncoder(num_words=V)) == QUESTION


def test_vanilla_and_mlb_without_attention() -> None:
    head = (2400 + 1) * 1024 + (2048 + 1) * 1024 + (1024 + 1) * 2000
    assert _parameters(_built(Vanilla, 2000, "pooled", 2048)) == QUESTION + head
    head = (2400 + 1) * 1200 + (2048 + 1) * 1200 + (1200 + 1) * 2000
    assert head == 7_742_000  # published, of the product of two vectors of 1200
    assert _parameters(_built(Vanilla, 2000, "pooled", 2048, joint_size=1200)) == QUESTION + head


def test_lstm_qi() -> None:
    expected = V * 200 + _lstm(200, 512) + _lstm(512, 512)
    expected += (4 * 512 + 1) * 1024 + (4096 + 1) * 1024 + (1024 + 1) * 1000  # [c1; h1; c2; h2]
    assert _parameters(_built(LSTMQI, 1000, "pooled", 4096)) == expected


def test_hiecoatt() -> None:
    expected = (512 + 1) * 512 + V * 512  # image, words
    expected += (1 * 512 + 1) * 512 + (2 * 512 + 1) * 512 + (3 * 512 + 1) * 512  # n-grams
    expected += 2 * _lstm(512, 512)
    first = (512 + 1) * 512 + 512  # W Q, w
    guided = 2 * (512 + 1) * 512 + 512  # W X, W' g, w
    expected += 3 * (first + guided + guided)
    expected += (512 + 1) * 512 + (1024 + 1) * 512 + (1024 + 1) * 1024 + (1024 + 1) * 1000
    assert _parameters(_built(HieCoAtt, 1000, "grid", 512)) == expected


def test_mlb() -> None:
    attention = (2400 + 1) * 1200 + (2048 + 1) * 1200 + (1200 + 1) * 2
    head = attention + 2 * (2048 + 1) * 1200 + (2400 + 1) * 2400 + (2400 + 1) * 2000
    assert head == 20_824_402  # published
    assert _parameters(_built(MLB, 2000, "grid", 2048)) == QUESTION + head


def test_mutan_without_attention() -> None:
    head = (2400 + 1) * 360 + (2048 + 1) * 360 + 2 * 10 * (360 + 1) * 360 + (360 + 1) * 2000
    assert head == 4_923_200  # published
    assert _parameters(_built(MutanNoAttention, 2000, "pooled", 2048)) == QUESTION + head


def test_mutan() -> None:
    attention = (2400 + 1) * 310 + (2048 + 1) * 310 + 2 * 5 * (310 + 1) * 510 + (510 + 1) * 2
    head = attention + 2 * (2048 + 1) * 310 + (2400 + 1) * 310
    head += 5 * (310 + 1) * 510 + 5 * (620 + 1) * 510 + (510 + 1) * 2000
    assert head == 8_379_912  # published
    assert _parameters(_built(Mutan, 2000, "grid", 2048)) == QUESTION + head


def test_mcb() -> None:
    question = V * 300 + _lstm(600, 1024) + _lstm(1024, 1024)  # GloVe's vectors are not trained
    assert 3000 * 16_000 == 48_000_000  # published, of the last layer's weights
    head = (16_000 + 1) * 512 + 512 * 2 + (16_000 + 1) * 3000
    network = _built(MCB, 3000, "grid", 2048)
    assert _parameters(network) == question + head
    encoder = network.question_encoder
    assert isinstance(encoder, StackedLSTMEncoder)
    assert encoder.size == 2048
    assert encoder.vectors.shape == (V, 300)
    sketches = {name: len(value) for name, value in network.named_buffers() if "sign" in name}
    assert sketches == {
        "attention_pooling.first.sign": 2048,
        "attention_pooling.second.sign": 2048,
        "pooling.first.sign": 2048,
        "pooling.second.sign": 4096,
    }


def test_n2nmn() -> None:
    lstm = _lstm(300, 1000) + _lstm(1000, 1000)
    policy = V * 300 + 6 * 300 + 2 * lstm  # words; <eos>, 4 modules, <go>; encoder, decoder
    policy += 2 * (1000 + 1) * 1000 + 1000 + (2000 + 1) * 5  # W_a h', K h, v, W_y [h'; c]
    text, seen = (300 + 1) * 1024, (2050 + 1) * 1024  # 2048 channels and two coordinates
    modules = (seen + text + 1024 + 1) + (seen + text + seen + 1024 + 1)  # _Find, _Transform
    modules += text + seen + (1024 + 1) * 3001  # _Describe
    prior = (2000 + 1) * 500 + (500 + 1) * 3001
    network = _built(N2NMN, 3001, "grid", 2048)
    assert _parameters(network) == policy + modules + prior
    assert network.max_layout == 13


@pytest.mark.parametrize(
    ("factory", "shares"),
    [
        (Vanilla, {0.25, 0.5}),
        (LSTMQI, {0.5}),
        (HieCoAtt, {0.5}),
        (MLB, {0.25, 0.5}),
        (Mutan, {0.25, 0.5}),
        (MutanNoAttention, {0.25, 0.5}),
        (MCB, {0.1, 0.3}),
        (N2NMN, {0.5}),
    ],
)
def test_dropout(factory: Any, shares: set[float]) -> None:
    """Rates of the papers; 0.25 in the GRU of skip-thoughts, 0.3 in MCB's LSTM."""
    feature = "pooled" if factory in (Vanilla, LSTMQI, MutanNoAttention) else "grid"
    network = _built(factory, 10, feature, 16)
    found = {layer.p for layer in network.modules() if isinstance(layer, nn.Dropout | nn.Dropout1d)}
    found |= {layer.dropout for layer in network.modules() if isinstance(layer, nn.LSTM)}
    assert found - {0.0} == shares
