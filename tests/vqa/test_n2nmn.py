from dataclasses import replace

import pytest
import torch

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.text.vocabulary import Tokens
from ivqa.vqa import N2NMN
from ivqa.vqa.networks.layouts import LayoutGrammar
from ivqa.vqa.networks.n2nmn import _COORDINATES

MODULES = (
    "_Find",
    "_Transform",
    "_And",
    "_Scene",
    "_Exist",
    "_Count",
    "_Describe",
    "_MoreNum",
    "_EqualNum",
    "_SameProperty",
)
GRAMMAR = LayoutGrammar(MODULES)
LAYOUTS = [
    ["_Find", "_Describe"],
    ["_Scene"],
    ["_Find", "_Transform", "_Find", "_And", "_Exist"],
    ["_Find", "_Find", "_MoreNum"],
    ["_Find", "_Transform", "_Count"],
]


def _network(seed: int = 0, **arguments: float | None) -> N2NMN:
    torch.manual_seed(seed)
    return N2NMN(
        modules=MODULES,
        num_words=12,
        num_answers=4,
        feature_sizes={"grid": 5},
        embedding_size=6,
        hidden_size=7,
        num_layers=1,
        map_size=8,
        prior_size=9,
        max_layout=6,
        **arguments,  # type: ignore[arg-type]
    )


def _batch(images: ImageBatch, layout: torch.Tensor | None) -> VQABatch:
    ids = torch.randint(4, 12, (5, 4), generator=torch.Generator().manual_seed(0))
    question = Tokens(ids, torch.tensor([4, 4, 3, 2, 4]))
    question = Tokens(ids * question.mask, question.lengths)
    target = torch.tensor([0, 1, 2, 3, 0])
    return VQABatch(torch.arange(5), images, question, question, target, target, None, layout)


@pytest.fixture
def square(images: ImageBatch) -> ImageBatch:
    return replace(images, grid=torch.randn(3, 9, 5, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize(
    ("layout", "valid"),
    [
        (["_Scene"], True),
        (["_Find", "_Find", "_And", "_Describe"], True),
        (["_Find", "_Transform", "_Exist"], True),
        (["_Find", "_Find", "_EqualNum"], True),
        (["_And"], False),
        (["_Find"], False),
        (["_Find", "_Find", "_Describe"], False),
        (["_Find", "_Scene"], False),
        (["_Scene", "_Scene"], False),
        (["_Exist"], False),
        ([], False),
    ],
)
def test_validity(layout: list[str], valid: bool) -> None:
    assert GRAMMAR.valid(GRAMMAR.encode([layout], 7)).item() == valid


@pytest.mark.parametrize("steps", [2, 3, 5, 9])
@pytest.mark.parametrize("modules", [MODULES, ("_Find", "_Transform", "_And", "_Answer")])
def test_random_walks_through_allowed_tokens_always_end_in_valid_layouts(
    steps: int, modules: tuple[str, ...]
) -> None:
    grammar = LayoutGrammar(modules)
    if steps == 2 and "_Scene" not in modules:
        pytest.skip("no layout of one module")
    torch.manual_seed(0)
    maps, answered = torch.zeros(500, dtype=torch.int64), torch.zeros(500, dtype=torch.bool)
    tokens = []
    for step in range(steps):
        may = grammar.allowed(maps, answered, steps - step)
        assert may.any(dim=1).all()
        tokens.append(torch.multinomial(may.float(), 1)[:, 0])
        maps, answered = grammar.advance(maps, answered, tokens[-1])
    layouts = torch.stack(tokens, dim=1)
    assert grammar.valid(layouts).all()
    assert len(layouts.unique(dim=0)) > 3 or steps <= 3


@pytest.mark.parametrize("shared", [False, True])
def test_the_batch_is_executed_as_the_equations_one_by_one(
    square: ImageBatch, shared: bool
) -> None:
    if shared:  # enough questions for each image that images are not repeated
        square = replace(square, grid=square.grid[:2], index=torch.tensor([1, 0, 0, 1, 1]))
    network = _network().eval()
    batch = _batch(square, GRAMMAR.encode(LAYOUTS, 6))
    plan = network.policy(batch.question, 6, expert=batch.layout)
    logits, _ = network.execute(square, plan)
    modules = network.modules_
    line = _COORDINATES * torch.linspace(-1, 1, 3)
    xy = torch.stack([line.repeat(3), line.repeat_interleave(3)], dim=1)
    for row, layout in enumerate(LAYOUTS):
        x = torch.cat([square.grid[square.index[row]], xy], dim=1)[None]
        stack: list[torch.Tensor] = []
        expected = network.prior(plan.summary[row : row + 1])
        for step, name in enumerate(layout):
            text, arity = (
                plan.text[row : row + 1, step],
                int(GRAMMAR.arity[GRAMMAR.tokens.index(name)]),
            )
            maps = [stack.pop() for _ in range(arity)][::-1]
            if name == "_Find":
                stack.append(modules.find_maps(x, None, text[:, None])[:, 0])
            elif name in ("_Transform", "_And"):
                stack.append(modules.map_of(name, x, text, maps))
            else:
                expected = expected + modules.answer_of(name, x, text, maps)
        torch.testing.assert_close(logits[row : row + 1], expected)


def test_find_and_transform_are_the_equations() -> None:
    modules = _network().modules_
    x, text, before = torch.randn(3, 9, 7), torch.randn(3, 6), torch.randn(3, 9)
    seen = (before.softmax(dim=1)[:, :, None] * x).sum(dim=1)
    guides = {
        "find": modules.find_text(text),
        "transform": modules.transform_text(text) * modules.transform_seen(seen),
    }
    maps = {
        "find": modules.find_maps(x, None, text[:, None])[:, 0],
        "transform": modules.map_of("_Transform", x, text, [before]),
    }
    for name, guide in guides.items():
        places = getattr(modules, f"{name}_image")(x) * guide[:, None]
        scaled = torch.nn.functional.normalize(places, dim=-1) * 8**0.5
        expected = getattr(modules, name)(scaled)[:, :, 0]
        torch.testing.assert_close(maps[name], expected, rtol=1e-3, atol=1e-3)


def test_and_is_commutative_and_monotone() -> None:
    modules = _network().modules_
    first, second = torch.randn(2, 3, 9).unbind()
    none = torch.zeros(3, 9, 7), torch.zeros(3, 6)
    both = modules.map_of("_And", *none, [first, second])
    assert torch.equal(both, modules.map_of("_And", *none, [second, first]))
    assert (modules.map_of("_And", *none, [first + 1, second]) >= both).all()


@pytest.mark.processor
def test_predicted_layouts_are_valid_and_cloning_learns_them(
    square: ImageBatch, learning_seed: int
) -> None:
    network = _network(learning_seed, dropout=0.0)
    batch = _batch(square, GRAMMAR.encode(LAYOUTS, 6))
    before = network.eval().policy(batch.question, 6)
    assert GRAMMAR.valid(before.layout).all()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(120):
        output = network.train().train_forward(batch)
        losses = torch.nn.functional.cross_entropy(output.logits, batch.target, reduction="none")
        loss = losses.mean() + sum(output.further(losses).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert network.eval().plan(batch.question) == LAYOUTS
    assert network(square, batch.question).argmax(1).tolist() == batch.target.tolist()


@pytest.mark.processor
def test_search_prefers_the_layout_with_the_lower_loss(
    square: ImageBatch, learning_seed: int
) -> None:
    network = _network(learning_seed, search_after=0).train()
    batch, plans = _batch(square, None), []
    network.policy.register_forward_hook(lambda _, given, plan: plans.append(plan))
    scene = GRAMMAR.tokens.index("_Scene")
    optimizer = torch.optim.Adam(network.policy.parameters(), lr=0.02)
    for _ in range(100):
        output = network.train_forward(batch)
        losses = (plans[-1].layout[:, 0] != scene).float()  # _Scene answers every question
        optimizer.zero_grad()
        sum(output.further(losses).values()).backward()  # type: ignore[union-attr]
        optimizer.step()
    assert network.eval().plan(batch.question) == [["_Scene"]] * 5


def test_without_layouts_there_is_nothing_to_clone(square: ImageBatch) -> None:
    with pytest.raises(ValueError, match=r"these data have none .*search_after=0"):
        _network().train_forward(_batch(square, None))
    with pytest.raises(ValueError, match="uses _Filter, which is not among the modules"):
        _network().encode_layouts([["_Find", "_Filter", "_Exist"]])
    with pytest.raises(ValueError, match="has no room in 3 steps; raise max_layout"):
        GRAMMAR.encode([["_Find", "_Find", "_And", "_Exist"]], 3)
    with pytest.raises(ValueError, match="must hold an answer module"):
        LayoutGrammar(["_Find", "_And"])


def test_a_grid_that_is_not_square_is_refused(images: ImageBatch) -> None:
    with pytest.raises(ValueError, match="needs a square grid, not one of 6 positions"):
        _network()(images, _batch(images, None).question)


def test_search_starts_after_the_steps_of_cloning(square: ImageBatch) -> None:
    network = _network(search_after=2).train()
    batch = _batch(square, GRAMMAR.encode(LAYOUTS, 6))
    terms = [set(network.train_forward(batch).further(torch.ones(5))) for _ in range(4)]
    assert terms == [{"layout"}] * 2 + [{"policy", "entropy"}] * 2


def test_the_policy_starts_with_forget_bias_one_and_drops_between_its_layers() -> None:
    policy = N2NMN(
        num_words=12, num_answers=4, feature_sizes={"grid": 5}, embedding_size=6, hidden_size=7
    ).policy
    biases = {name: value for name, value in policy.named_parameters() if "bias_ih" in name}
    assert len(biases) == 4  # two layers of encoder and decoder
    for bias in biases.values():
        assert (bias[7:14] == 1).all()
        assert (bias[:7].abs() < 0.4).all()  # 1 / sqrt(7)
    assert policy.encoder.dropout == 0.5
    assert not policy.words.weight[0].any()  # padding


def test_attention_maps_are_those_of_the_module_that_answers(
    square: ImageBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of _Describe, its map; of _MoreNum, the mean of both; of _Scene, all places alike."""
    network = _network().eval()
    layout = network.encode_layouts(LAYOUTS)
    batch = _batch(square, layout)
    plan = network.policy(batch.question, network.max_layout, expert=layout)
    monkeypatch.setattr(network.policy, "forward", lambda *_: plan)
    maps = network.attention_maps(square, batch.question)
    assert maps.shape == (5, 1, 9)
    x = torch.cat([square.grid, square.grid.new_zeros(3, 9, 2)], dim=2)
    x[:, :, 5] = _COORDINATES * torch.tensor([-1.0, 0.0, 1.0]).repeat(3)
    x[:, :, 6] = _COORDINATES * torch.tensor([-1.0, 0.0, 1.0]).repeat_interleave(3)
    found = network.modules_.find_maps(x, square.index, plan.text).softmax(dim=2)  # (B, T, L)
    torch.testing.assert_close(maps[0, 0], found[0, 0])
    torch.testing.assert_close(maps[1, 0], torch.full((9,), 1 / 9))
    torch.testing.assert_close(maps[3, 0], found[3, :2].mean(dim=0))
