"""N2NMN's policy, modules and losses against their equations (`plain`), question by question."""

from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from plain import (
    Drop,
    every_third,
    keep,
    linear,
    lstm,
    lstm_step,
    sigmoid,
    softmax,
    weighted,
    weights_of,
)
from test_equations import drawn, replace_dropout, tokens
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.vqa import N2NMN
from ivqa.vqa.networks.layouts import ANSWER_MODULES, MAP_MODULES

STEPS = 5
QUESTIONS = [[4, 5, 6, 4], [8], [5, 9, 4], [6, 6], [9, 8, 7, 5], [4, 9], [7, 4]]
LAYOUTS = [
    ["_Find", "_Describe"],
    ["_Scene"],
    ["_Find", "_Transform", "_Exist"],
    ["_Find", "_Find", "_MoreNum"],
    ["_Find", "_Find", "_And", "_Count"],
    ["_Find", "_Find", "_SameProperty"],
    ["_Find", "_Find", "_Or", "_Count"],
]
MODULES = [*MAP_MODULES, *ANSWER_MODULES]


def network_of(num_layers: int, word_keys: bool, **arguments: Any) -> N2NMN:
    torch.manual_seed(2)
    network = N2NMN(
        num_words=10, num_answers=4, feature_sizes={"grid": 3}, modules=MODULES, embedding_size=4,
        hidden_size=3, num_layers=num_layers, map_size=6, prior_size=5, max_layout=STEPS,
        word_keys=word_keys, **arguments,
    )  # fmt: skip
    drawn(network)
    return network


def batch_of(network: N2NMN, layouts: list[list[str]] | None) -> VQABatch:
    torch.manual_seed(3)
    grid = torch.randn(3, 4, 3, dtype=torch.float64)
    images = ImageBatch(torch.arange(3), torch.tensor([0, 2, 1, 1, 0, 2, 1]), grid=grid)
    question, target = tokens(QUESTIONS), torch.tensor([0, 1, 2, 3, 0, 1, 2])
    layout = None if layouts is None else network.encode_layouts(layouts)
    return VQABatch(torch.arange(7), images, question, question, target, target, None, layout)


def is_valid(layout: tuple[str, ...]) -> bool:
    """Whether a layout ends with one answer from all maps of the stack, followed by <eos>."""
    if not layout or layout[-1] != "<eos>":
        return False
    used = [name for name in layout if name != "<eos>"]
    if tuple(used) != layout[: len(used)] or not used:
        return False
    maps = 0
    for name in used[:-1]:
        if name not in MAP_MODULES or maps < MAP_MODULES[name]:
            return False
        maps += 1 - MAP_MODULES[name]
    return used[-1] in ANSWER_MODULES and ANSWER_MODULES[used[-1]] == maps


VALID = [
    layout
    for length in range(1, STEPS)
    for body in product(MODULES, repeat=length)
    if is_valid(layout := (*body, *["<eos>"] * (STEPS - length)))
]


def decode(
    policy: Any, words: list[int], layout: list[str], drop: Drop, limited: bool
) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
    """log p(l | q), its entropy, the text of each step, and the encoder's last states."""
    names = policy.grammar.tokens
    vectors = [policy.words.weight[word] for word in words]
    states, final = vectors, []
    for number in range(policy.encoder.num_layers):
        # PyTorch's LSTM applies its own dropout between layers, which cannot be replaced.
        states, cell = lstm(weights_of(policy.encoder, number), states)
        final.append((states[-1], cell))
    summary = torch.cat([h for h, _ in final])
    if len(final) == 1:
        states = [drop(state) for state in states]
    keys = [linear(policy.keys, state) for state in states]
    if policy.word_keys is not None:
        keys = [k + policy.word_keys.weight @ w for k, w in zip(keys, vectors, strict=True)]
    before, texts = len(names), []
    log_prob, entropy = vectors[0].new_zeros(()), vectors[0].new_zeros(())
    for step, name in enumerate(layout):
        given = policy.tokens.weight[before]
        for number, cell in enumerate(policy.decoder):
            given = drop(given) if number else given
            final[number] = lstm_step(weights_of(cell, None), given, *final[number])
            given = final[number][0]
        scores = [policy.score.weight[0] @ (linear(policy.query, given) + k).tanh() for k in keys]
        weights = softmax(scores)
        texts.append(weighted(weights, vectors))
        logits = linear(policy.output, torch.cat([given, weighted(weights, states)]))
        may = {full[step] for full in VALID if list(full[:step]) == layout[:step]}
        kept = [i for i, token in enumerate(names) if token in may or not limited]
        chances = dict(zip(kept, softmax([logits[i] for i in kept]), strict=True))
        before = names.index(name)
        log_prob = log_prob + chances[before].log()
        entropy = entropy - torch.stack([p * p.log() for p in chances.values()]).sum()
    return log_prob, entropy, texts, summary


def run(network: Any, grid: Tensor, layout: list[str], texts: list[Tensor], summary: Tensor,
        drop: Drop) -> Tensor:  # fmt: skip
    """The answer scores of a layout on a grid of 2 x 2 positions, plus the question prior."""
    corners = [(-4.0, -4.0), (4.0, -4.0), (-4.0, 4.0), (4.0, 4.0)]  # x, y
    x = [torch.cat([place, place.new_tensor(at)]) for place, at in zip(grid, corners, strict=True)]
    modules: Any = network.modules_
    first, last = network.prior[1], network.prior[4]
    scores = linear(last, drop(linear(first, drop(summary)).clamp_min(0)))

    def norm(values: Tensor) -> Tensor:
        return values / values.square().sum().sqrt() * len(values) ** 0.5

    def attended(scores: list[Tensor]) -> Tensor:
        return weighted(softmax(scores), x)

    def summed(scores: list[Tensor]) -> Tensor:
        values = torch.stack(scores)
        return torch.stack([values.max(), values.mean(), values.min(), sigmoid(values).sum()])

    stack: list[list[Tensor]] = []
    for name, text in zip(layout, texts, strict=True):
        if name == "<eos>":
            break
        arity = {**MAP_MODULES, **ANSWER_MODULES}[name]
        maps = [stack.pop() for _ in range(arity)][::-1]
        if name == "_Find":
            guide = linear(modules.find_text, text)
            joint = [linear(modules.find_image, place) * guide for place in x]
            stack.append([linear(modules.find, norm(one))[0] for one in joint])
        elif name == "_Transform":
            guide = linear(modules.transform_text, text)
            guide = guide * linear(modules.transform_seen, attended(maps[0]))
            joint = [linear(modules.transform_image, place) * guide for place in x]
            stack.append([linear(modules.transform, norm(one))[0] for one in joint])
        elif name == "_And":
            stack.append([torch.minimum(one, other) for one, other in zip(*maps, strict=True)])
        elif name == "_Or":
            stack.append([torch.maximum(one, other) for one, other in zip(*maps, strict=True)])
        elif name in ("_Exist", "_Count", "_Answer"):
            scores = scores + linear(modules.counting[name], summed(maps[0]))
        elif name in ("_MoreNum", "_EqualNum"):
            inner, outer = modules.comparing[name][0], modules.comparing[name][2]
            both = torch.cat([summed(maps[0]), summed(maps[1])])
            scores = scores + linear(outer, linear(inner, both).clamp_min(0))
        else:
            joint_text = linear(modules.text[name], text)
            seen = [attended(one) for one in maps] or [torch.stack(x).mean(dim=0)]
            for vector in seen:
                joint_text = joint_text * linear(modules.seen[name], vector)
            scores = scores + linear(modules.answer[name], norm(joint_text))
    return scores


close = partial(torch.testing.assert_close, atol=2e-5, rtol=2e-5)


def named(network: N2NMN, layout: Tensor) -> list[list[str]]:
    return [[network.grammar.tokens[token] for token in row] for row in layout.tolist()]


@pytest.mark.parametrize("drop", [keep, every_third])
@pytest.mark.parametrize(("num_layers", "word_keys"), [(1, True), (2, False)])
def test_cloning_is_the_likelihood_of_the_experts_layouts(
    num_layers: int, word_keys: bool, drop: Drop
) -> None:
    network = network_of(num_layers, word_keys)
    replace_dropout(network, drop)
    batch = batch_of(network, LAYOUTS)
    assert batch.layout is not None
    output = network.train_forward(batch)
    likelihoods = []
    for row, layout in enumerate(named(network, batch.layout)):
        decoded = decode(network.policy, QUESTIONS[row], layout, drop, limited=False)
        likelihoods.append(decoded[0])
        grid = batch.images.grid[batch.images.index[row]]  # type: ignore[index]
        close(output.logits[row].double(), run(network, grid, layout, *decoded[2:], drop))
    further = output.further(torch.ones(6, dtype=torch.float64))
    assert further.keys() == {"layout"}
    close(further["layout"].double(), -torch.stack(likelihoods).mean())
    close(network.follow(batch), output.logits)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_search_is_reinforce_with_a_moving_baseline_and_entropy(num_layers: int) -> None:
    network = network_of(
        num_layers, False, search_after=0, entropy_weight=0.3, baseline_decay=0.9, dropout=0.0
    )
    network.baseline.fill_(0.7)
    batch = batch_of(network, None)
    torch.manual_seed(4)
    layouts = named(network, network.policy(batch.question, STEPS, sample=True).layout)
    torch.manual_seed(4)
    output = network.train_forward(batch)
    losses = torch.tensor([0.2, 1.5, 0.9, 3.0, 0.1, 0.6, 0.8], dtype=torch.float64).requires_grad_()
    found = output.further(losses)
    decoded = [
        decode(network.policy, words, layout, keep, limited=True)
        for words, layout in zip(QUESTIONS, layouts, strict=True)
    ]
    log_probs, entropies = (torch.stack([one[part] for one in decoded]) for part in (0, 1))
    policy = ((losses.detach() - 0.7) * log_probs).sum() / 7
    entropy = -0.3 * entropies.sum() / 7
    assert found.keys() == {"policy", "entropy"}
    close(found["policy"].double(), policy)
    close(found["entropy"].double(), entropy)
    close(network.baseline.double(), torch.tensor(0.9 * 0.7 + 0.1 * 7.1 / 7).double())
    for row, (layout, one) in enumerate(zip(layouts, decoded, strict=True)):
        assert tuple(layout) in VALID
        grid = batch.images.grid[batch.images.index[row]]  # type: ignore[index]
        close(output.logits[row].double(), run(network, grid, layout, *one[2:], keep))
    parameters = list(network.policy.parameters())
    theirs = torch.autograd.grad(policy + entropy, parameters, allow_unused=True)
    ours = torch.autograd.grad(sum(found.values()), [*parameters, losses], allow_unused=True)  # type: ignore[type-var]
    assert ours[-1] is None  # the answer loss is only a reward here, without gradient
    for one, other in zip(ours[:-1], theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            close(one, other)
    assert len({tuple(layout) for layout in layouts}) > 2
    assert log_probs.std() > 0.1


@pytest.mark.parametrize("num_layers", [1, 2])
def test_forward_takes_the_most_probable_tokens_that_lead_to_a_layout(num_layers: int) -> None:
    network = network_of(num_layers, num_layers == 1)
    batch = batch_of(network, None)
    logits = network(batch.images, batch.question)
    assert network.plan(batch.question) == [
        [name for name in layout if name != "<eos>"]
        for layout in named(network, network.policy(batch.question, STEPS).layout)
    ]
    for row, layout in enumerate(named(network, network.policy(batch.question, STEPS).layout)):
        *_, texts, summary = decode(network.policy, QUESTIONS[row], layout, keep, limited=True)
        for step in range(STEPS):  # every other allowed token is less probable
            others = {full[step] for full in VALID if list(full[:step]) == layout[:step]}
            chances = {
                name: decode(
                    network.policy, QUESTIONS[row], [*layout[:step], name], keep, limited=True
                )[0]
                for name in others
            }
            likely = {name: chance.item() for name, chance in chances.items()}
            assert max(likely, key=lambda name: likely[name]) == layout[step]
        grid = batch.images.grid[batch.images.index[row]]  # type: ignore[index]
        close(logits[row].double(), run(network, grid, layout, texts, summary, keep))


@pytest.mark.parametrize("name", ["_EqualNum", "_Answer", "_SameProperty", "_MoreNum", "_Scene"])
def test_other_layouts_are_executed_too(name: str) -> None:
    network = network_of(1, True)
    maps = ANSWER_MODULES[name]
    layout = [*["_Find", "_Transform", "_Find"][: 3 if maps == 2 else 2 * maps], name]
    batch = batch_of(network, [layout] * len(QUESTIONS))
    output = network.follow(batch)
    for row, words in enumerate(QUESTIONS):
        full = [*layout, *["<eos>"] * (STEPS - len(layout))]
        *_, texts, summary = decode(network.policy, words, full, keep, limited=False)
        grid = batch.images.grid[batch.images.index[row]]  # type: ignore[index]
        close(output[row].double(), run(network, grid, full, texts, summary, keep))
