"""Each fast kernel equals its reference, alone and in every network of the zoo."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from test_networks import NUM_WORDS
from torch import Tensor, nn
from toy_zoo import ZOO, feature_sizes

from ivqa.data.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Tokens, Vocabulary
from ivqa.vqa import N2NMN, VQAModule
from ivqa.vqa import kernels as k

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
        partial(product, k.matmul_by_image), partial(product, k.matmul_by_image_reference), *inputs
    )


@pytest.mark.parametrize("index", INDICES)
def test_repeated_images_and_their_index_are_those_of_each_question(index: list[int]) -> None:
    values, chosen = torch.randn(M, L, 5), torch.tensor(index)
    (found, own), (expected, none) = (
        kernel(values, chosen) for kernel in (k.repeat_images, k.repeat_images_reference)
    )
    assert none is None
    assert torch.equal(found if own is None else found[own], expected)
    assert (own is None) == (len(index) < 2 * M)


@pytest.mark.parametrize("index", [*INDICES, None])
def test_fusion_scores(index: list[int] | None) -> None:
    chosen, questions = _chosen(index)
    inputs = _leaf(questions, 3, 5), _leaf(2, 5), nn.Linear(7, 15), _leaf(M, L, 7), chosen
    _assert_equal(k.fusion_scores, k.fusion_scores_reference, *inputs)


@pytest.mark.parametrize("index", [*INDICES, None])
@pytest.mark.parametrize("num", [1, 4])
def test_normalised_scores(index: list[int] | None, num: int) -> None:
    chosen, questions = _chosen(index)
    inputs = _leaf(questions, num, 11), nn.Linear(7, 11), nn.Linear(11, 1), _leaf(M, L, 7), chosen
    _assert_equal(k.normalised_scores, k.normalised_scores_reference, *inputs)


@pytest.mark.parametrize("kernels", [k.FAST, k.REFERENCE])
def test_a_guide_of_zeros_gives_the_bias(kernels: k.Kernels) -> None:
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
def test_networks_are_equal_with_fast_and_reference_kernels(name: str, index: list[int]) -> None:
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
    for kernels in (k.FAST, k.REFERENCE):
        k.use_kernels(network, kernels)
        if isinstance(network, N2NMN):  # layouts that use every module
            layouts = [["_Find", "_Describe"], ["_Find", "_Find", "_Transform", "_And"]]
            expert = network.encode_layouts([layouts[row % 2] for row in range(len(index))])
            expert[1::2, 4] = network.grammar.tokens.index("_Count")
            plan = network.policy(question, network.max_layout, expert=expert)
            logits = network.execute(images, plan)
        else:
            logits = network(images, question)
        loss = (logits * torch.linspace(-1, 1, 4)).square().sum()
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        results.append((logits, [value for value in gradients if value is not None]))
    torch.testing.assert_close(*results, **CLOSE)


def _module(**arguments: Any) -> VQAModule:
    return VQAModule(
        network=NETWORKS["mutan"],
        question_vocabulary=Vocabulary(["what"]),
        answers=AnswerVocabulary(["yes", "no"]),
        feature_sizes={"grid": 5},
        **arguments,
    )


def test_the_setting_belongs_to_one_module() -> None:
    plain, other = _module(kernels="reference"), _module()
    assert plain.network.kernels is k.REFERENCE
    assert other.network.kernels is k.FAST
    assert k.KernelModule.kernels is k.FAST
    assert plain.component() == other.component()  # checkpoints fit either


def test_unknown_kernels_are_refused() -> None:
    with pytest.raises(UserError, match="kernels must be one of fast, reference, not quick"):
        _module(kernels="quick")


def test_all_parts_of_a_network_use_them() -> None:
    network = NETWORKS["n2nmn"](num_words=9, num_answers=2, feature_sizes={"grid": 5})
    k.use_kernels(network, k.REFERENCE)
    found = [part.kernels for part in network.modules() if isinstance(part, k.KernelModule)]
    assert found == [k.REFERENCE, k.REFERENCE]  # the network and its modules
