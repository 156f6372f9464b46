"""The most probable question of each pair, and concatenated questions."""

from collections.abc import Callable

import pytest
import torch
from toy_generators import random_images

from ivqa.generators import (
    Beam,
    Greedy,
    QuestionGenerationModule,
    QuestionGenerator,
    Questions,
    ask,
    most_probable,
)
from ivqa.text.vocabulary import Tokens


def questions_of(rows: list[tuple[int, str, float]]) -> Questions:
    """(pair, one-letter words, log-likelihood) as questions."""
    width = max(len(words) for _, words, _ in rows)
    ids = [[ord(word) for word in words] + [0] * (width - len(words)) for _, words, _ in rows]
    return Questions(
        tokens=Tokens(torch.tensor(ids), torch.tensor([len(words) for _, words, _ in rows])),
        text=[words for _, words, _ in rows],
        log_likelihood=torch.tensor([score for _, _, score in rows]),
        pair=torch.tensor([pair for pair, _, _ in rows]),
        z=torch.arange(len(rows))[:, None].float(),
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(0, "a", -3.0), (0, "b", -1.0), (0, "a", -2.5)], [1]),
        ([(0, "a", -1.0), (0, "a", -1.0)], [0]),  # a tie: the first row
        ([(1, "b", -1.0), (0, "b", -2.0), (1, "a", -3.0), (1, "a", -4.0)], [1, 0]),
        ([(0, "ab", -1.0), (0, "a", -2.0), (0, "a", -2.0)], [0]),
        ([(5, "a", -1.0), (2, "a", -9.0)], [1, 0]),
    ],
)
def test_the_most_probable_question_of_each_pair_is_kept(
    rows: list[tuple[int, str, float]], expected: list[int]
) -> None:
    assert most_probable(questions_of(rows)).tolist() == expected


def test_each_pair_is_asked_one_question(
    network_factory: Callable[..., QuestionGenerator],
    build_module: Callable[..., QuestionGenerationModule],
) -> None:
    module, images = build_module(network_factory), random_images(5)
    answers = ["red", "2", "red", "yes", "no"]
    kept = ask(
        module,
        images,
        answers,
        num_latents=7,
        strategy=Greedy(),
        generator=torch.Generator().manual_seed(0),
    )
    assert kept.pair.tolist() == list(range(5))
    everything = module.sample(images, answers, 7, Greedy(), torch.Generator().manual_seed(0))
    for pair in range(5):
        scores = everything.log_likelihood[everything.pair == pair]
        assert kept.log_likelihood[pair] == scores.max()


def test_more_latents_never_find_a_less_probable_question(
    variational_factory: Callable[..., QuestionGenerator],
    build_module: Callable[..., QuestionGenerationModule],
) -> None:
    module, images = build_module(variational_factory), random_images(4)
    scores = [
        ask(
            module,
            images.select(torch.tensor([0])),
            ["red"],
            num_latents=num,
            strategy=Beam(size=2),
            generator=torch.Generator().manual_seed(0),
        ).log_likelihood.item()
        for num in (16, 64, 256)  # torch fills a whole vector of normals at once: from 16 on
    ]
    assert scores == sorted(scores)


def test_concatenated_questions_have_consecutive_pairs() -> None:
    first = questions_of([(0, "a", -1.0), (1, "abc", -2.0)])
    second = questions_of([(0, "b", -3.0), (0, "c", -4.0), (1, "ab", -5.0)])
    joined = Questions.concatenate([first, second])
    assert joined.pair.tolist() == [0, 1, 2, 2, 3]
    assert joined.text == ["a", "abc", "b", "c", "ab"]
    assert joined.tokens.lengths.tolist() == [1, 3, 1, 1, 2]
    assert joined.log_likelihood.tolist() == [-1, -2, -3, -4, -5]
    assert joined.z.shape == (5, 1)
    with pytest.raises(ValueError, match="no questions to concatenate"):
        Questions.concatenate([])
