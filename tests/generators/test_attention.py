"""Attention over image grids, compared with loops over rows, cells and words."""

import math

import pytest
import torch
from toy_generators import ANSWER_WORDS, FEATURE_SIZES, enlarge, random_batch

from ivqa.errors import UserError
from ivqa.generators import (
    AttendAndTellGenerator,
    AttentiveGenerator,
    ImageAnswerTypeGenerator,
)
from ivqa.generators.networks.attention import (
    GridAttention,
    Grids,
    PlacedGrid,
    attend,
    place_features,
)
from ivqa.text.vocabulary import SPECIALS, Tokens, Vocabulary

SIZES = {"num_words": 15, "num_answer_words": 10, "embedding_size": 7, "hidden_size": 8}


@pytest.mark.parametrize("image", [[0, 1, 2, 3], [2, 0, 2, 2], [1, 1, 1, 1], [3, 3, 0, 1]])
def test_each_row_attends_to_its_own_image(image: list[int]) -> None:
    query, cells = torch.randn(4, 3, 5), torch.randn(4, 6, 5)
    found = attend(query, Grids(cells, torch.tensor(image)))
    for row in range(4):
        for word in range(3):
            own = cells[image[row]]
            scores = torch.tensor([float(query[row, word] @ cell) / math.sqrt(5) for cell in own])
            weights = scores.exp() / scores.exp().sum()
            expected = sum(weight * cell for weight, cell in zip(weights, own, strict=True))
            torch.testing.assert_close(found[row, word], expected)


def test_it_is_multi_head_attention_with_projected_keys_and_values() -> None:
    """W_q' W_k is the query matrix of the layer, and W_o W_v its output matrix."""
    layer = GridAttention(size=8, grid_size=6, heads=2).eval()
    plain = torch.nn.MultiheadAttention(8, 2, kdim=6, vdim=6, bias=False, batch_first=True)
    with torch.no_grad():
        query, key, value = plain.q_proj_weight, plain.k_proj_weight, plain.v_proj_weight
        for head in range(2):
            own = slice(4 * head, 4 * head + 4)
            # The layer divides by sqrt(6), PyTorch by sqrt(4), the dimensions of a head.
            absorbed = key[own].T @ query[own] * math.sqrt(6) / math.sqrt(4)
            layer.query.weight[6 * head : 6 * head + 6] = absorbed
            layer.output.weight[:, 6 * head : 6 * head + 6] = (
                plain.out_proj.weight[:, own] @ value[own]
            )
        layer.query.bias.zero_()
        layer.output.bias.zero_()
        layer.outer.weight.zero_()
        layer.outer.bias.zero_()
    words, cells = torch.randn(3, 4, 8), torch.randn(3, 5, 6)
    expected = words + plain(layer.norm(words), cells, cells)[0]
    found = layer(words, Grids(cells, torch.arange(3)))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_selected_rows_keep_their_grids() -> None:
    grids = Grids(torch.randn(8, 3, 2), torch.tensor([5, 0, 7, 7]))
    for rows in ([0, 1], [2, 2, 3], [1]):
        some = grids.select(torch.tensor(rows))
        assert torch.equal(some.cells[some.image], grids.cells[grids.image[rows]])
    assert len(grids.select(torch.tensor([1])).cells) == 1  # grids of no row are left out


def test_places_tell_rows_and_columns_apart() -> None:
    places = place_features(9, 2)
    assert places.shape == (9, 8)
    across = torch.tensor([math.sin(math.pi * x / 2) for x in (0, 1, 2)])
    # Of each direction two sines and two cosines; the first is sin(pi x), x = column / 2.
    torch.testing.assert_close(places.view(3, 3, 2, 4)[1, :, 1, 0], across)
    torch.testing.assert_close(places.view(3, 3, 2, 4)[:, 2, 0, 0], across)
    assert len(places.unique(dim=0)) == 9
    assert place_features(7, 2)[:, :4].unique(dim=0).shape[0] == 1  # no square: one row
    ends = torch.tensor([1.0, -1.0])  # cos(pi x) of the first and the last of two columns
    torch.testing.assert_close(place_features(4, 1).view(2, 2, 2, 2)[0, :, 1, 1], ends)


def test_a_moved_thing_looks_different() -> None:
    placed = PlacedGrid(grid_size=4, size=6)
    grid = torch.zeros(1, 9, 4)
    grid[0, 2] = 1
    moved = grid.roll(1, dims=1)
    assert not torch.allclose(placed(grid).sum(1), placed(moved).sum(1))


def test_the_words_of_show_attend_and_tell_by_a_loop() -> None:
    network = AttendAndTellGenerator(
        feature_sizes={"grid": 4}, answer_size=6, attention_size=5, **SIZES
    ).eval()
    enlarge(network, 0.4)
    batch = random_batch(5)
    conditions = network.conditions(batch.images, batch.answer)
    grid = batch.images.feature("grid")[batch.images.index]
    lstm = network.decoder.lstm
    answer = network.answer_encoder(batch.answer)
    for row in range(5):
        start = torch.tanh(network.initial(torch.cat([grid[row].mean(0), answer[row]])))
        hidden, cell = start[:8], start[8:]
        total, words = 0.0, batch.question.ids[row, : batch.question.lengths[row]].tolist()
        for before, word in zip([1, *words], [*words, 2], strict=True):  # <bos>, <eos>
            energies = torch.stack(
                [
                    network.score(torch.tanh(network.of_cell(one) + network.of_state(hidden)))[0]
                    for one in grid[row]
                ]
            )
            seen = (energies.softmax(0)[:, None] * grid[row]).sum(0)
            inputs = network.decoder.embedding.weight[before] + network.seen(seen)
            _, (h, c) = lstm(inputs[None, None], (hidden[None, None], cell[None, None]))
            hidden, cell = h[0, 0], c[0, 0]
            logits = network.decoder.output(hidden)
            logits[[0, 1]] = -torch.inf  # <pad> and <bos>
            total = total + logits.log_softmax(0)[word]
        found = network.token_log_probs(batch.question, None, conditions)[row].sum()
        torch.testing.assert_close(found, total, atol=1e-4, rtol=1e-4)


def test_the_answer_decides_where_the_words_look() -> None:
    network = AttentiveGenerator(
        feature_sizes=FEATURE_SIZES, answer_size=6, latent_size=4, grid_size=6, heads=2, **SIZES
    ).eval()
    enlarge(network, 0.5)
    batch = random_batch(6)
    z = torch.zeros(6, 4)
    conditions = network.conditions(batch.images, batch.answer)
    scores = network.token_log_probs(batch.question, z, conditions).sum(dim=1)
    # Another grid of the same mean: only attention sees the difference.
    grid = batch.images.feature("grid")
    shuffled = type(batch.images)(
        batch.images.ids,
        batch.images.index,
        concepts=batch.images.concepts,
        pooled=batch.images.pooled,
        grid=grid.flip(1),
    )
    other = network.token_log_probs(
        batch.question, z, network.conditions(shuffled, batch.answer)
    ).sum(dim=1)
    assert not torch.allclose(scores, other)


def test_generators_with_attention_need_a_grid() -> None:
    for network in (AttendAndTellGenerator, AttentiveGenerator):
        with pytest.raises(UserError, match=r"add grid to model\.image_features"):
            network(feature_sizes={"concepts": 5}, **SIZES)


def test_the_type_of_an_answer_is_that_of_its_one_word() -> None:
    words = Vocabulary([*ANSWER_WORDS, "12"])
    network = ImageAnswerTypeGenerator(feature_sizes=FEATURE_SIZES, answer_words=words, **SIZES)
    texts = ["yes", "no", "2", "12", "red", "a dog", "2 dog", ""]
    found = network.types(words.encode(texts)).argmax(dim=1).tolist()
    assert found == [0, 0, 1, 1, 2, 2, 2, 2]
    assert network.types(Tokens(torch.empty(2, 0, dtype=torch.int64), torch.zeros(2, dtype=int)))[
        :, 2
    ].tolist() == [1, 1]
    assert len(SPECIALS) + len(words.words) == len(network._type_of_word)
    # Answers of one type are the same to it; those of another type are not.
    batch = random_batch(3)
    enlarge(network)
    rows = network.conditions(batch.images, words.encode(["yes", "no", "2"])).decoder
    same = network.conditions(batch.images, words.encode(["no", "yes", "12"])).decoder
    torch.testing.assert_close(rows, same)
    other = network.conditions(batch.images, words.encode(["2", "red", "a dog"])).decoder
    assert not torch.isclose(rows, other).any(dim=1).all()
