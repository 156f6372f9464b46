"""Every network computes its paper's equations (`plain`), without and with dropout.

Dropout is replaced by a fixed choice of channels, which the equations apply where the papers do.
All parameters are large random numbers, those of padding included, so that every term matters.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from plain import (
    Drop,
    convolved,
    every_third,
    gru,
    keep,
    linear,
    lstm,
    signed_root,
    sketched,
    softmax,
    unit,
    weighted,
    weights_of,
)
from torch import Tensor, nn

from ivqa.data.batches.batch import ImageBatch
from ivqa.text.vocabulary import Tokens
from ivqa.vqa import (
    LSTMQI,
    MCB,
    MLB,
    HieCoAtt,
    LanguageOnly,
    Mutan,
    MutanNoAttention,
    Prior,
    RecurrentEncoder,
    StackedLSTMEncoder,
    Vanilla,
)

GRU = partial(RecurrentEncoder, embedding_size=4, size=6)
STACKED = partial(StackedLSTMEncoder, embedding_size=4, vector_size=3, hidden_size=3)


def encoded(encoder: Any, words: list[int], drop: Drop) -> Tensor:
    """Encodes one question of at least one word."""
    vectors = [drop(encoder.embedding.weight[word]) for word in words]
    if isinstance(encoder, StackedLSTMEncoder):
        vectors = [encoder.embedding.weight[word].tanh() for word in words]
        read = [torch.cat([v, encoder.vectors[w]]) for v, w in zip(vectors, words, strict=True)]
        first = [drop(h) for h in lstm(weights_of(encoder.layers[0], 0), read)[0]]
        second = [drop(h) for h in lstm(weights_of(encoder.layers[1], 0), first)[0]]
        return torch.cat([first[-1], second[-1]])
    recurrence = encoder.recurrence
    for number in range(recurrence.num_layers):
        weights = weights_of(recurrence, number)
        is_gru = isinstance(recurrence, nn.GRU)
        vectors = gru(weights, vectors) if is_gru else lstm(weights, vectors)[0]
    return vectors[-1]


def prior(network: Any, image: dict[str, Tensor], words: list[int], drop: Drop) -> Tensor:
    return network.bias


def language_only(network: Any, image: dict[str, Tensor], words: list[int], drop: Drop) -> Tensor:
    asked = encoded(network.question_encoder, words, drop)
    return linear(network.output, drop(linear(network.question, drop(asked)).tanh()))


def _mean(image: dict[str, Tensor]) -> Tensor:
    return image["pooled"] if "pooled" in image else image["grid"].sum(0) / len(image["grid"])


def vanilla(network: Any, image: dict[str, Tensor], words: list[int], drop: Drop) -> Tensor:
    seen = linear(network.image, drop(unit(_mean(image)))).tanh()
    asked = linear(network.question, drop(encoded(network.question_encoder, words, drop))).tanh()
    return linear(network.output, drop(seen * asked))


def lstm_qi(network: Any, image: dict[str, Tensor], words: list[int], drop: Drop) -> Tensor:
    read = [drop(network.embedding.weight[word]).tanh() for word in words]
    first, first_cell = lstm(weights_of(network.lstm, 0), read)
    second, second_cell = lstm(weights_of(network.lstm, 1), first)
    question = torch.cat([first_cell, first[-1], second_cell, second[-1]])
    seen = linear(network.image, drop(unit(_mean(image)))).tanh()
    asked = linear(network.question, drop(question)).tanh()
    return linear(network.output, drop(seen * asked))


def mlb(network: Any, image: dict[str, Tensor], words: list[int], drop: Drop) -> Tensor:
    asked = encoded(network.question_encoder, words, drop)
    guide = linear(network.attention_question, drop(asked)).tanh()
    joint = [guide * linear(network.attention_image, drop(place)).tanh() for place in image["grid"]]
    scores = [linear(network.glimpses, place) for place in joint]  # L of (G,)
    seen = []
    for glimpse, project in enumerate(network.images):
        weights = softmax([score[glimpse] for score in scores])
        seen.append(linear(project, drop(weighted(weights, image["grid"]))).tanh())
    question = linear(network.question, drop(asked)).tanh()
    return linear(network.output, drop(question * torch.cat(seen)))


def _fused(fusion: Any, first: Tensor, second: Tensor) -> Tensor:
    """sum_r (M_r x + m_r) * (N_r y + n_r)."""
    factors = zip(
        linear(fusion.first, first).chunk(fusion.rank),
        linear(fusion.second, second).chunk(fusion.rank),
        strict=True,
    )
    return torch.stack([one * other for one, other in factors]).sum(dim=0)


def mutan_noatt(network: Any, image: dict[str, Tensor], words: list[int], drop: Drop) -> Tensor:
    asked = linear(network.question, drop(encoded(network.question_encoder, words, drop))).tanh()
    seen = linear(network.image, drop(_mean(image))).tanh()
    return linear(network.output, drop(_fused(network.fusion, asked, seen)))


def mutan(network: Any, image: dict[str, Tensor], words: list[int], drop: Drop) -> Tensor:
    asked = encoded(network.question_encoder, words, drop)
    guide = linear(network.attention_question, drop(asked)).tanh()
    places = [linear(network.attention_image, drop(place)).tanh() for place in image["grid"]]
    scores = [
        linear(network.glimpses, drop(_fused(network.attention_fusion, guide, place)))
        for place in places
    ]
    seen = []
    for glimpse, project in enumerate(network.images):
        weights = softmax([score[glimpse] for score in scores])
        seen.append(linear(project, drop(weighted(weights, image["grid"]))).tanh())
    question = linear(network.question, drop(asked)).tanh()
    return linear(network.output, drop(_fused(network.fusion, question, torch.cat(seen))))


def _compact(pooling: Any, first: Tensor, second: Tensor) -> Tensor:
    return convolved(sketched(pooling.first, first), sketched(pooling.second, second))


def mcb(network: Any, image: dict[str, Tensor], words: list[int], drop: Drop) -> Tensor:
    grid = image["grid"]
    if network.pool == 2:  # 4 x 4 positions
        rows = grid.view(4, 4, -1)
        grid = torch.stack(
            [rows[y : y + 2, x : x + 2].flatten(0, 1).amax(0) for y in (0, 2) for x in (0, 2)]
        )
    if network.standard is not None:
        deviation = (network.standard.running_var + 1e-5).sqrt()
        grid = (grid - network.standard.running_mean) / deviation
    grid = grid / grid.square().sum().sqrt()  # over all positions
    asked = encoded(network.question_encoder, words, drop)
    scores = []
    for place in grid:
        pooled = _compact(network.attention_pooling, asked, place)
        pooled = signed_root(pooled) if network.attention_root else unit(pooled)
        hidden = linear(network.hidden, drop(pooled)).clamp_min(0)
        scores.append(network.glimpses.weight @ hidden)
    seen = [
        weighted(softmax([score[glimpse] for score in scores]), grid)
        for glimpse in range(len(scores[0]))
    ]
    pooled = signed_root(_compact(network.pooling, asked, torch.cat(seen)))
    return linear(network.output, drop(pooled))


def _own(attention: Any, layer: nn.Module, level: int, values: Tensor) -> Tensor:
    """The rows of `layer` for one level."""
    return linear(layer, values).chunk(attention.num_levels)[level]


def _attended(
    attention: Any, level: int, values: list[Tensor], guide: Tensor | None, drop: Drop
) -> Tensor:
    """sum_n a_n X_n, a = softmax(w drop(tanh(W X_n + W' g)))."""
    scores = []
    for value in values:
        hidden = _own(attention, attention.values, level, value)
        if guide is not None:
            hidden = hidden + _own(attention, attention.guide, level, guide)
        scores.append(attention.score.weight[level] @ drop(hidden.tanh()))
    return weighted(softmax(scores), values)


def hiecoatt(network: Any, image: dict[str, Tensor], words: list[int], drop: Drop) -> Tensor:
    places = [drop(linear(network.image, place).tanh()) for place in image["grid"]]
    read = [drop(network.embedding.weight[word].tanh()) for word in words]
    nothing = torch.zeros_like(read[0])
    phrases = []
    for at, word in enumerate(read):
        before = read[at - 1] if at else nothing
        after = read[at + 1] if at + 1 < len(read) else nothing
        grams = [
            linear(network.n_grams[0], word),
            linear(network.n_grams[1], torch.cat([before, word])),
            linear(network.n_grams[2], torch.cat([before, word, after])),
        ]
        phrases.append(drop(torch.stack(grams).amax(dim=0).tanh()))
    states = phrases
    for number in range(network.lstm.num_layers):
        states = lstm(weights_of(network.lstm, number), states)[0]
    hidden: list[Tensor] = []
    heads = (network.word, network.phrase, network.sentence)
    levels = network.levels
    for level, values in enumerate((read, phrases, [drop(state) for state in states])):
        summary = _attended(levels.summary, level, values, None, drop)
        seen = _attended(levels.image, level, places, summary, drop)
        asked = _attended(levels.question, level, values, seen, drop)
        hidden.append(linear(heads[level], torch.cat([drop(asked + seen), *hidden[-1:]])).tanh())
    return linear(network.output, drop(hidden[-1]))


CASES: dict[str, tuple[Callable[..., Tensor], Callable[..., Any], str | None]] = {
    "prior": (prior, Prior, None),
    "language_only": (
        language_only, partial(LanguageOnly, question_encoder=GRU, joint_size=5), None,
    ),
    "lstm": (
        language_only,
        partial(LanguageOnly, question_encoder=partial(GRU, cell="lstm"), joint_size=5),
        None,
    ),
    "two layers": (
        language_only,
        partial(LanguageOnly, question_encoder=partial(GRU, num_layers=2), joint_size=5),
        None,
    ),
    "stacked": (
        language_only, partial(LanguageOnly, question_encoder=STACKED, joint_size=5), None,
    ),
    "vanilla": (vanilla, partial(Vanilla, question_encoder=GRU, joint_size=5), "pooled"),
    "vanilla of a grid": (vanilla, partial(Vanilla, question_encoder=GRU, joint_size=5), "grid"),
    "lstm_qi": (lstm_qi, partial(LSTMQI, embedding_size=4, hidden_size=3, joint_size=5), "pooled"),
    "lstm_qi of a grid": (
        lstm_qi, partial(LSTMQI, embedding_size=4, hidden_size=3, joint_size=5), "grid",
    ),
    "hiecoatt": (hiecoatt, partial(HieCoAtt, size=5, attention_size=4, sentence_size=6), "grid"),
    "mlb": (mlb, partial(MLB, question_encoder=GRU, joint_size=5, num_glimpses=3), "grid"),
    "mutan_noatt": (
        mutan_noatt, partial(MutanNoAttention, question_encoder=GRU, joint_size=5, rank=3),
        "pooled",
    ),
    "mutan_noatt of a grid": (
        mutan_noatt, partial(MutanNoAttention, question_encoder=GRU, joint_size=5, rank=3), "grid",
    ),
    "mutan": (
        mutan, partial(Mutan, question_encoder=GRU, hidden_size=4, fused_size=5, rank=3), "grid",
    ),
    "mcb": (
        mcb,
        partial(MCB, question_encoder=STACKED, size=11, attention_size=8, hidden_size=7),
        "grid",
    ),
    "mcb of scenes": (
        mcb,
        partial(
            MCB, question_encoder=GRU, size=12, attention_size=9, hidden_size=7, pool=2,
            standardise=True, attention_root=False,
        ),
        "grid",
    ),
}  # fmt: skip

QUESTIONS = [[4, 5, 6, 4, 7], [8], [5, 9, 4], [6, 6], [9, 8, 7, 5], [4, 9], [7, 5, 8]]


def drawn(network: nn.Module) -> nn.Module:
    """Moves `network` to float64 and evaluation mode, and draws large parameters and statistics."""
    network = network.double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.7)
        for name, buffer in network.named_buffers():
            if name.endswith(("vectors", "running_mean")):
                buffer.normal_()
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 2)
    return network


def replace_dropout(network: nn.Module, drop: Drop) -> None:
    """Replaces every dropout layer by `drop`."""
    for layer in network.modules():
        if isinstance(layer, nn.Dropout | nn.Dropout1d):
            layer.register_forward_hook(lambda _, given, output: drop(given[0]))


def tokens(questions: list[list[int]]) -> Tokens:
    lengths = torch.tensor([len(words) for words in questions])
    width = int(lengths.max())
    return Tokens(torch.tensor([[*w, *[0] * (width - len(w))] for w in questions]), lengths)


@pytest.mark.parametrize("drop", [keep, every_third])
@pytest.mark.parametrize("index", [[0, 2, 1, 1, 0], [2, 0, 1, 1, 0, 2, 0]])
@pytest.mark.parametrize("case", CASES)
def test_a_network_computes_the_equations(case: str, index: list[int], drop: Drop) -> None:
    equations, factory, feature = CASES[case]
    torch.manual_seed(1)
    sizes = {} if feature is None else {feature: 5}
    network = drawn(factory(num_words=10, num_answers=4, feature_sizes=sizes))
    replace_dropout(network, drop)
    num_places = 16 if "pool" in getattr(factory, "keywords", {}) else 6
    features = {"grid": torch.randn(3, num_places, 5), "pooled": torch.randn(3, 5)}
    shown = {name: value.double() for name, value in features.items() if name == feature}
    images = ImageBatch(torch.arange(3), torch.tensor(index), **shown)
    questions = QUESTIONS[: len(index)]
    expected = torch.stack(
        [
            equations(network, {n: v[image] for n, v in shown.items()}, words, drop)
            for image, words in zip(index, questions, strict=True)
        ]
    )
    tolerance = 2e-5  # attention and sketches are in float32
    found = network(images, tokens(questions))
    torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)
    with torch.no_grad():  # without gradients, encoders pack their sequences
        found = network(images, tokens(questions))
    torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)
    assert expected.std(dim=0).min() > 500 * tolerance or case == "prior"


@pytest.mark.parametrize("case", ["stacked", "language_only", "lstm_qi"])
def test_an_empty_question_is_encoded_as_zero(case: str) -> None:
    _, factory, feature = CASES[case]
    sizes = {} if feature is None else {feature: 5}
    network: Any = drawn(factory(num_words=10, num_answers=4, feature_sizes=sizes))
    read = network.encode if case == "lstm_qi" else network.question_encoder
    found = read(Tokens(torch.tensor([[4, 5], [0, 0]]), torch.tensor([2, 0])))
    assert found[0].any()
    assert not found[1].any()
