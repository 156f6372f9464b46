"""Each fast kernel equals its plain equation, alone and in every network of the zoo."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from benchmarks import plain_kernels as plain
from test_networks import NUM_WORDS
from torch import Tensor, nn
from toy_zoo import ZOO, feature_sizes

from ivqa.data.batches.batch import ImageBatch
from ivqa.text.vocabulary import Tokens
from ivqa.vqa import N2NMN
from ivqa.vqa.networks import kernels as k

# Sums of up to 40 float32 products in another order: a few units of the last of 24 bits, more in
# gradients, which are sums over all positions and questions.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
M, L = 3, 9  # a square, for N2NMN

# Images of the questions: shared evenly, by one image, unevenly, some unused, hardly shared.
INDICES = [
    [0, 2, 1, 0, 2, 2, 0, 1],
    [1, 1, 1, 1, 1, 1, 1, 1],
    [0, 0, 0, 0, 0, 0, 0, 2],
    [2, 0, 1],
    [0, 1, 2, 2],
    [2],
]


def _assert_equal(
    fast: Callable[..., Tensor], reference: Callable[..., Tensor], *inputs: Any
) -> None:
    """Compares results, and gradients of all tensors and layers that have one."""
    leaves = [value for value in inputs if isinstance(value, Tensor) and value.requires_grad]
    for layer in inputs:
        leaves += list(layer.parameters()) if isinstance(layer, nn.Module) else []
    found, expected = fast(*inputs), reference(*inputs)
    torch.testing.assert_close(found, expected, **CLOSE)
    weights = torch.randn_like(expected)
    gradients = [
        torch.autograd.grad((result * weights).sum(), leaves) for result in (found, expected)
    ]
    torch.testing.assert_close(*gradients, **CLOSE)


def _leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def _chosen(index: list[int] | None) -> tuple[Tensor | None, int]:
    """The index as a tensor, and the number of questions."""
    return (None, M) if index is None else (torch.tensor(index), len(index))


@pytest.mark.parametrize("index", [*INDICES, None])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("num", [1, 3])
def test_matmul_by_image(index: list[int] | None, transposed: bool, num: int) -> None:
    chosen, questions = _chosen(index)
    inputs = _leaf(questions, num, 7), _leaf(M, 5, 7) if transposed else _leaf(M, 7, 5), chosen

    def product(kernel: Callable[..., Tensor], left: Tensor, right: Tensor, at: Any) -> Tensor:
        return kernel(left, right.mT if transposed else right, at)

    _assert_equal(
        partial(product, k.matmul_by_image), partial(product, plain.matmul_by_image), *inputs
    )


@pytest.mark.parametrize("questions_of_the_first", [20, 2000])
def test_one_image_with_most_questions(questions_of_the_first: int) -> None:
    """Padding is cheaper up to a bound, beyond which the images are repeated."""
    index = torch.tensor([*range(20)] * 3 + [0] * questions_of_the_first)
    inputs = _leaf(len(index), 2, 7), _leaf(20, 7, 5), index
    _assert_equal(k.matmul_by_image, plain.matmul_by_image, *inputs)


@pytest.mark.parametrize("index", INDICES)
def test_repeated_images_and_their_index_are_those_of_each_question(index: list[int]) -> None:
    values, chosen = torch.randn(M, L, 5), torch.tensor(index)
    (found, own), (expected, none) = (
        kernel(values, chosen) for kernel in (k.repeat_images, plain.repeat_images)
    )
    assert none is None
    assert torch.equal(found if own is None else found[own], expected)
    assert (own is None) == (len(index) < 2 * M)


@pytest.mark.parametrize("index", [*INDICES, None])
def test_fusion_scores(index: list[int] | None) -> None:
    chosen, questions = _chosen(index)
    inputs = _leaf(questions, 3, 5), _leaf(2, 5), nn.Linear(7, 15), _leaf(M, L, 7), chosen
    _assert_equal(k.fusion_scores, plain.fusion_scores, *inputs)


@pytest.mark.parametrize("index", [*INDICES, None])
@pytest.mark.parametrize("num", [1, 4])
def test_normalised_scores(index: list[int] | None, num: int) -> None:
    chosen, questions = _chosen(index)
    inputs = _leaf(questions, num, 11), nn.Linear(7, 11), nn.Linear(11, 1), _leaf(M, L, 7), chosen
    _assert_equal(k.normalised_scores, plain.normalised_scores, *inputs)


@pytest.mark.parametrize("kernels", [k, plain])
def test_a_guide_of_zeros_gives_the_bias(kernels: Any) -> None:
    """w^T norm(0) + b = b: the product that is normalised is 0."""
    project, score = nn.Linear(3, 4), nn.Linear(4, 1)
    scores = kernels.normalised_scores(
        torch.zeros(1, 1, 4), project, score, torch.ones(1, 2, 3), None
    )
    assert torch.equal(scores, score.bias.expand(1, 1, 2))


N2NMN_SIZES: dict[str, Any] = {
    "modules": ["_Find", "_Transform", "_And", "_Describe", "_Count"],
    "embedding_size": 6,
    "hidden_size": 7,
    "map_size": 11,
    "prior_size": 5,
    "max_layout": 5,
}
NETWORKS = {name: factory for name, (factory, _) in ZOO.items()} | {
    "n2nmn": partial(N2NMN, **N2NMN_SIZES)
}


@pytest.mark.parametrize("index", [INDICES[0], INDICES[3]])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_equal_with_fast_and_plain_kernels(name: str, index: list[int]) -> None:
    """Logits and gradients of all parameters, without dropout, whose masks would differ."""
    torch.manual_seed(0)
    features = {"grid": 5} if name == "n2nmn" else feature_sizes(name)
    network = NETWORKS[name](num_words=NUM_WORDS, num_answers=4, feature_sizes=features).eval()
    images = ImageBatch(
        torch.arange(M), torch.tensor(index), grid=torch.rand(M, L, 5), pooled=torch.rand(M, 4)
    )
    lengths = torch.arange(len(index)) % 4 + 1
    ids = torch.randint(4, NUM_WORDS, (len(index), 4)) * (torch.arange(4) < lengths[:, None])
    question = Tokens(ids, lengths)
    parameters = list(network.parameters())
    results = []
    for replaced in ((), plain.NAMES):
        with plain.plain_kernels(*replaced):
            results.append(_results(network, images, question, index, parameters))
    torch.testing.assert_close(*results, **CLOSE)


def _results(
    network: Any, images: ImageBatch, question: Tokens, index: list[int], parameters: list[Any]
) -> tuple[Tensor, list[Tensor]]:
    if isinstance(network, N2NMN):  # layouts that use every module
        layouts = [["_Find", "_Describe"], ["_Find", "_Find", "_Transform", "_And"]]
        expert = network.encode_layouts([layouts[row % 2] for row in range(len(index))])
        expert[1::2, 4] = network.grammar.tokens.index("_Count")
        plan = network.policy(question, network.max_layout, expert=expert)
        logits, _ = network.execute(images, plan)
    else:
        logits = network(images, question)
    loss = (logits * torch.linspace(-1, 1, 4)).square().sum()
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    return logits, [value for value in gradients if value is not None]
