from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from toy_zoo import ENCODER, ZOO, feature_sizes

from ivqa.data.batches.batch import ImageBatch
from ivqa.text.vocabulary import PAD, Tokens
from ivqa.vqa import (
    MCB,
    MLB,
    HieCoAtt,
    Mutan,
    RecurrentEncoder,
    Vanilla,
    VQANetwork,
)
from ivqa.vqa.network import SharedDropout
from ivqa.vqa.networks.hiecoatt import Attention, ImageAttention, QuestionAttention
from ivqa.vqa.networks.mcb import CompactBilinear, signed_root
from ivqa.vqa.networks.mutan import RankSumFusion

NUM_WORDS, NUM_ANSWERS = 12, 4


def _network(kind: str) -> VQANetwork:
    torch.manual_seed(0)
    factory, _ = ZOO[kind]
    network = factory(
        num_words=NUM_WORDS, num_answers=NUM_ANSWERS, feature_sizes=feature_sizes(kind)
    )
    return network.eval()


def _questions() -> Tokens:
    ids = torch.randint(4, NUM_WORDS, (5, 6), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([6, 1, 3, 4, 2])
    return Tokens(ids * (torch.arange(6) < lengths[:, None]), lengths)


def test_padding_and_order_change_no_logit(kind: str, images: ImageBatch) -> None:
    network, question = _network(kind), _questions()
    logits = network(images, question)
    assert logits.shape == (5, NUM_ANSWERS)
    padded = Tokens(F.pad(question.ids, (0, 4)), question.lengths)
    torch.testing.assert_close(network(images, padded), logits)
    order = torch.tensor([4, 2, 0])
    torch.testing.assert_close(network(images.select(order), question.select(order)), logits[order])


def test_every_weight_learns(kind: str, images: ImageBatch) -> None:
    network = _network(kind).train()
    logits = network(images, _questions())
    (logits * torch.randn_like(logits)).sum().backward()
    for name, value in network.named_parameters():
        assert value.grad is not None, name
        assert value.grad.abs().sum() > 0, name


def test_image_models_depend_on_the_image_of_the_question(kind: str, images: ImageBatch) -> None:
    network, question = _network(kind), _questions()
    other = replace(images, index=(images.index + 1) % 3)
    same = torch.allclose(network(images, question), network(other, question))
    assert same == (not feature_sizes(kind))


def test_a_feature_of_another_size_is_refused(kind: str, images: ImageBatch) -> None:
    network = _network(kind)
    for name in feature_sizes(kind):
        wide = replace(images, **{name: torch.cat([images.feature(name)] * 2, dim=-1)})
        with pytest.raises(ValueError, match=rf"'{name}' has \d+ dimensions, but this model"):
            network(wide, _questions())


def test_attention_needs_a_grid_and_one_feature(images: ImageBatch) -> None:
    network = MLB(num_words=9, num_answers=3, feature_sizes={"pooled": 4}, question_encoder=ENCODER)
    with pytest.raises(ValueError, match=r"'pooled' is one vector an image; use .*\[grid\]"):
        network(images, Tokens(torch.full((5, 1), 4), torch.ones(5, dtype=torch.int64)))
    with pytest.raises(ValueError, match=r"vanilla reads exactly one image feature, not \[\]"):
        Vanilla(num_words=9, num_answers=3, feature_sizes={}, question_encoder=ENCODER)


def test_vanilla_starts_with_image_vectors_of_the_size_of_tanh_of_a_normal_variable() -> None:
    network = Vanilla(
        num_words=9, num_answers=3, feature_sizes={"pooled": 500}, question_encoder=ENCODER
    )
    vectors = torch.nn.functional.normalize(torch.randn(50, 500))  # "norm I": of length 1
    # The root of the mean of tanh(Z)^2, by numerical integration over the normal density.
    z = torch.linspace(-8, 8, 100_001)
    density = torch.exp(-(z**2) / 2) / (2 * torch.pi) ** 0.5
    expected = float(torch.trapezoid(z.tanh() ** 2 * density, z) ** 0.5)  # 0.63
    found = network.image(vectors).tanh().square().mean().sqrt()
    assert float(found) == pytest.approx(expected, abs=0.02)


def test_pooling_keeps_the_largest_of_square_tiles() -> None:
    grid = torch.arange(16.0).view(1, 4, 4).repeat(2, 1, 1)  # rows of 0..3, 4..7, ...
    grid[1] = -grid[1]
    batch = ImageBatch(torch.arange(2), torch.arange(2), grid=grid.flatten(1)[:, :, None])
    network = MCB(num_words=NUM_WORDS, num_answers=3, feature_sizes={"grid": 1})
    pooled = network.grid_of(batch, pool=2)[:, :, 0]
    assert pooled.tolist() == [[5, 7, 13, 15], [0, -2, -8, -10]]
    assert network.grid_of(batch) is batch.grid
    with pytest.raises(ValueError, match=r"'grid' has 16 places, which are not .* 3 x 3 tiles"):
        network.grid_of(batch, pool=3)


def test_mcb_with_pooling_depends_on_the_maxima_alone() -> None:
    torch.manual_seed(0)
    network = MCB(num_words=NUM_WORDS, num_answers=3, feature_sizes={"grid": 4}, pool=2).eval()
    grid = torch.rand(5, 16, 4)
    tiles = grid.view(5, 2, 2, 2, 2, 4).transpose(2, 3)
    floor = tiles.amax(dim=(3, 4), keepdim=True) - 0.01
    flat = torch.where(tiles < floor, tiles - 1, tiles)  # the maximum of each tile stays
    flat = flat.transpose(2, 3).reshape(5, 16, 4)
    logits = [
        network(ImageBatch(torch.arange(5), torch.arange(5), grid=g), _questions())
        for g in (grid, flat, grid - 1)
    ]
    torch.testing.assert_close(logits[0], logits[1])
    assert not torch.allclose(logits[0], logits[2], atol=1e-3)


@pytest.mark.parametrize("root", [True, False])
def test_attention_of_mcb_is_scored_with_or_without_the_root(root: bool) -> None:
    torch.manual_seed(0)
    network = MCB(
        num_words=NUM_WORDS,
        num_answers=3,
        feature_sizes={"grid": 4},
        question_encoder=ENCODER,
        size=40,
        attention_root=root,
    ).eval()
    grid, encoded = torch.rand(2, 6, 4), torch.randn(3, 8)
    index = torch.tensor([0, 1, 0])
    pooled = network.attention_pooling(encoded[:, None].expand(-1, 6, -1), grid[index])
    found = network.attention(grid, index, encoded)
    for rooted, values in ((False, pooled), (True, pooled.sign() * pooled.abs().sqrt())):
        hidden = network.hidden(F.normalize(values, dim=-1)).relu()
        expected = network.glimpses(hidden).softmax(dim=1).mT
        assert torch.allclose(found, expected, atol=2e-2) == (rooted == root)


def test_attention_of_mutan_scores_the_fusion_of_every_place() -> None:
    """P^T z of the docstring, computed without z or N_r v~ of each position."""
    torch.manual_seed(0)
    network = _network("mutan").eval()
    assert isinstance(network, Mutan)
    grid, encoded = torch.randn(3, 6, 5), torch.randn(8, 8)
    for chosen in ([0, 2, 1], [0, 2, 1, 1, 0, 0, 2, 1]):  # repeated, and together
        index = torch.tensor(chosen)
        asked = network.attention_question(encoded[: len(index)]).tanh()
        places = network.attention_image(grid[index]).tanh()
        fused = network.attention_fusion(asked[:, None], places)
        expected = network.glimpses(fused).softmax(dim=1).mT
        found = network.attention(grid, index, encoded[: len(index)])
        torch.testing.assert_close(found, expected)
        expected.square().sum().backward()
        wanted = [value.grad for value in network.attention_fusion.parameters()]
        network.zero_grad()
        found.square().sum().backward()
        got = [value.grad for value in network.attention_fusion.parameters()]
        torch.testing.assert_close(got, wanted, atol=1e-6, rtol=1e-4)
        network.zero_grad()


def test_standardising_removes_what_all_positions_share() -> None:
    def network(standardise: bool) -> MCB:
        torch.manual_seed(0)
        return MCB(
            num_words=NUM_WORDS,
            num_answers=3,
            feature_sizes={"grid": 4},
            question_encoder=ENCODER,
            size=40,
            dropout=0.0,
            standardise=standardise,
        ).train()

    grid = torch.randn(5, 6, 4)
    raised = grid * torch.tensor([1.0, 2, 3, 4]) + 10
    question = _questions()
    for standardise, alike in ((True, True), (False, False)):
        model = network(standardise)
        model.question_encoder.eval()
        logits = [
            model(ImageBatch(torch.arange(5), torch.arange(5), grid=g), question)
            for g in (grid, raised)
        ]
        assert torch.allclose(*logits, atol=1e-3) == alike


@pytest.mark.parametrize("kind", ["mlb", "mutan", "mcb"])
def test_attention_is_a_distribution_over_places(kind: str, images: ImageBatch) -> None:
    network = _network(kind)
    assert isinstance(network, MLB | Mutan | MCB)
    assert images.grid is not None
    weights = network.attention(images.grid, images.index, torch.randn(5, 8))
    assert weights.shape == (5, 2, 6)
    torch.testing.assert_close(weights.sum(dim=2), torch.ones(5, 2))


def test_an_empty_question_is_zero_and_unknown_cells_are_refused() -> None:
    empty = Tokens(torch.zeros(2, 1, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
    assert (ENCODER(num_words=9).eval()(empty) == 0).all()
    with pytest.raises(ValueError, match="cell must be one of lstm, gru, not rnn"):
        RecurrentEncoder(num_words=9, cell="rnn")  # type: ignore[arg-type]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_question_dropout_is_the_same_at_every_word(cell: str) -> None:
    encoder = RecurrentEncoder(num_words=9, embedding_size=50, size=3, cell=cell, dropout=0.5)
    seen: list[torch.Tensor] = []
    encoder.recurrence.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    nn.init.ones_(encoder.embedding.weight)
    encoder(Tokens(torch.full((4, 5), 4), torch.full((4,), 5)))
    assert torch.equal(seen[0], seen[0][:, :1].expand_as(seen[0]))
    assert set(seen[0].unique().tolist()) == {0.0, 2.0}


def test_compact_bilinear_is_the_convolution_of_two_sketches() -> None:
    torch.manual_seed(0)
    pooling = CompactBilinear(first_size=5, second_size=4, size=11)
    first, second = torch.randn(3, 5), torch.randn(3, 4)
    found = pooling(first, second)
    sketches = pooling.first(first), pooling.second(second)
    for row in range(3):
        for place in range(11):
            expected = sum(
                sketches[0][row, shift] * sketches[1][row, (place - shift) % 11]
                for shift in range(11)
            )
            assert found[row, place].item() == pytest.approx(float(expected), abs=1e-4)


def test_compact_bilinear_keeps_inner_products_on_average() -> None:
    """Expectation over h, s: <Phi(x, y), Phi(x', y')> = <x, x'> <y, y'>."""
    torch.manual_seed(0)
    x, other_x, y, other_y = torch.randn(4, 6).unbind()
    products = []
    for _ in range(4000):
        pooling = CompactBilinear(first_size=6, second_size=6, size=16)
        products.append(pooling(x, y) @ pooling(other_x, other_y))
    found = torch.stack(products)
    error = found.std() / len(found) ** 0.5
    assert abs(found.mean() - (x @ other_x) * (y @ other_y)) < 4 * error


def test_signed_root_has_unit_norm_and_a_bounded_slope() -> None:
    values = torch.tensor([[4.0, -9.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]], requires_grad=True)
    rooted = signed_root(values)
    expected = torch.tensor([[2.0, -3.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    expected[0] /= expected[0].norm()
    torch.testing.assert_close(rooted, expected, rtol=1e-4, atol=1e-6)
    rooted.square().sum().backward()
    assert values.grad is not None
    assert values.grad.isfinite().all()


def test_a_fusion_of_rank_one_and_identities_is_the_product_of_mlb() -> None:
    fusion = RankSumFusion(first_size=4, second_size=4, size=4, rank=1)
    for layer in (fusion.first, fusion.second):
        nn.init.eye_(layer.weight)
        nn.init.zeros_(layer.bias)
    first, second = torch.randn(3, 4), torch.randn(3, 4)
    torch.testing.assert_close(fusion(first, second), first * second)


def test_attention_over_words_is_zero_at_the_padding() -> None:
    network = _network("hiecoatt")
    assert isinstance(network, HieCoAtt)
    question = _questions()
    weights = network.levels.summary.weights(torch.randn(3, 5, 6, 8), question.mask, None)
    assert (weights[:, ~question.mask] == 0).all()
    torch.testing.assert_close(weights.sum(dim=2), torch.ones(3, 5))


def test_shared_dropout_drops_a_channel_in_all_places() -> None:
    torch.manual_seed(0)
    dropped = SharedDropout(0.5)(torch.ones(4, 6, 20))
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}


def _published_attention(
    attention: Attention, level: int, values: Tensor, guide: Tensor
) -> tuple[Tensor, Tensor]:
    """Weights (B, N) and sums (B, d) of one level's tanh, layers and softmax."""
    assert attention.guide is not None
    size = attention.score.in_features
    own = slice(level * size, (level + 1) * size)
    guided = attention.guide(guide)[:, None, own]
    hidden = (attention.values(values)[..., own] + guided).tanh()
    weights = (hidden @ attention.score.weight[level]).softmax(dim=1)
    return weights, torch.einsum("bn,bnd->bd", weights, values)


def test_attention_of_hiecoatt_is_the_published_one() -> None:
    torch.manual_seed(0)
    image, guide = 2 * torch.randn(4, 5, 6), torch.randn(3, 4, 6)
    question, mask = 2 * torch.randn(3, 4, 5, 6), torch.ones(4, 5, dtype=torch.bool)
    of_image = ImageAttention(levels=3, size=6, attention_size=4, dropout=0.0)
    of_question = QuestionAttention(levels=3, size=6, attention_size=4, guided=True, dropout=0.0)
    for level in range(3):
        weights, sums = _published_attention(of_image, level, image, guide[level])
        torch.testing.assert_close(of_image.weights(image, guide)[:, level], weights)
        torch.testing.assert_close(of_image(image, guide)[level], sums)
        weights, sums = _published_attention(of_question, level, question[level], guide[level])
        torch.testing.assert_close(of_question.weights(question, mask, guide)[level], weights)
        torch.testing.assert_close(of_question(question, mask, guide)[level], sums)


def test_initial_attention_of_hiecoatt_depends_on_the_guide() -> None:
    torch.manual_seed(0)
    attention = ImageAttention(levels=3, size=64, attention_size=48, dropout=0.0)
    values, guide = 0.5 * torch.randn(1, 30, 64), 0.2 * torch.randn(3, 20, 64)
    scores = attention.weights(values.expand(20, -1, -1), guide).log()
    scores = scores - scores.mean(dim=2, keepdim=True)
    # PyTorch's initial weights give 0.04: attention is then the same for all guides.
    assert scores.std(dim=0).mean() > 0.3 * scores.std(dim=2).mean()


def test_all_positions_share_the_dropout_mask_of_hiecoatt() -> None:
    torch.manual_seed(0)
    attention = ImageAttention(levels=2, size=8, attention_size=8, dropout=0.5)
    alike, guide = torch.randn(3, 1, 8).expand(3, 5, 8), torch.randn(2, 3, 8)
    torch.testing.assert_close(attention.weights(alike, guide), torch.full((3, 2, 5), 0.2))
    values = torch.randn(3, 5, 8)
    dropped = [attention.weights(values, guide) for _ in range(2)]
    assert not torch.allclose(*dropped)


def test_phrases_of_hiecoatt_are_the_largest_of_three_convolutions() -> None:
    torch.manual_seed(0)
    network = _network("hiecoatt").eval()
    assert isinstance(network, HieCoAtt)
    ids = torch.tensor([[5, 6, 7, 5], [8, 4, 0, 0]])
    words, phrases, _ = network.hierarchy(Tokens(ids, torch.tensor([4, 2])))
    channels = words.transpose(1, 2)
    found = []
    # A word alone, with the one before it, with both neighbours: (left, right) padding.
    for layer, padding in zip(network.n_grams, [(0, 0), (1, 0), (1, 1)], strict=True):
        kernel = layer.weight.unflatten(1, (-1, words.shape[2])).transpose(1, 2)
        found.append(F.conv1d(F.pad(channels, padding), kernel, layer.bias))
    expected = torch.stack(found).amax(dim=0).tanh().transpose(1, 2)
    expected = expected * (ids != 0)[:, :, None]
    torch.testing.assert_close(phrases, expected)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_encodings_are_the_same_with_and_without_gradients(cell: Any) -> None:
    encoder = RecurrentEncoder(num_words=20, embedding_size=6, size=5, cell=cell, num_layers=2)
    lengths = torch.tensor([3, 7, 1, 0, 5])
    ids = torch.randint(4, 20, (5, 7)) * (torch.arange(7) < lengths[:, None])
    learning = encoder.eval()(Tokens(ids, lengths))
    with torch.no_grad():
        torch.testing.assert_close(encoder(Tokens(ids, lengths)), learning.detach())


def test_lstm_qi_starts_as_released_or_at_full_scale() -> None:
    factory, _ = ZOO["lstm_qi"]
    sizes = {"num_words": NUM_WORDS, "num_answers": NUM_ANSWERS, "feature_sizes": {"pooled": 50}}
    released = factory(**sizes)
    assert all(0 < value.abs().max() <= 0.08 for value in released.parameters())
    assert not released.embedding.weight[PAD].any()
    full = factory(**sizes, initializer_range=None)
    seen = full.image(F.normalize(torch.randn(100, 50), dim=1))
    assert seen.std() > 0.7  # unit vectors give clearly different outputs


@pytest.mark.parametrize("kind", sorted(ZOO))
def test_attention_maps_are_those_that_forward_uses(
    kind: str, images: ImageBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attention that looks at one place alone must be seen in the maps and in the logits."""
    network, question = _network(kind), _questions()
    maps = network.attention_maps(images, question)
    if kind not in ("mlb", "mutan", "mcb", "hiecoatt"):
        assert maps is None
        return
    assert maps is not None
    torch.testing.assert_close(maps.sum(dim=2), torch.ones(maps.shape[:2]))
    used: list[Tensor] = []
    owner = network.levels.image if isinstance(network, HieCoAtt) else network
    name = "weights" if isinstance(network, HieCoAtt) else "attention"
    compute = getattr(owner, name)

    def recorded(*arguments: Any, **named: Any) -> Tensor:
        used.append(compute(*arguments, **named))
        return used[-1]

    monkeypatch.setattr(owner, name, recorded)
    network(images, question)
    torch.testing.assert_close(used[0], maps)
