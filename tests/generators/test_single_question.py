"""The most probable question of each pair, and concatenated questions."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from toy_generators import (
    ANSWER_WORDS,
    FEATURE_SIZES,
    NETWORKS,
    QUESTION_WORDS,
    enlarge,
    random_images,
)

from ivqa.generators import (
    Beam,
    GeneratorModule,
    Greedy,
    QuestionGenerator,
    Questions,
    Sampling,
    ask,
    most_probable,
)
from ivqa.generators.decoding.inference import answer_posterior
from ivqa.text.vocabulary import Tokens, Vocabulary


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
    questions = questions_of(rows)
    found = most_probable(questions.log_likelihood, questions.pair)
    assert found.tolist() == expected


def test_each_pair_is_asked_one_question(
    network_factory: Callable[..., QuestionGenerator],
    build_module: Callable[..., GeneratorModule],
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
    build_module: Callable[..., GeneratorModule],
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


def test_the_question_that_fits_its_answer_best_is_chosen() -> None:
    """The posterior of the answer by a loop over all candidates, and the choice by it."""
    torch.manual_seed(0)
    module = GeneratorModule(
        network=partial(NETWORKS["variational"], embedding_size=7, hidden_size=9, dropout=0.0),
        question_vocabulary=Vocabulary(QUESTION_WORDS),
        answer_words=Vocabulary(ANSWER_WORDS),
        feature_sizes=FEATURE_SIZES,
        max_length=6,
    )
    enlarge(module.network)
    images, answers = random_images(3), ["yes", "red", "2"]
    others = [["no", "yes"], ["a dog", "2", "no"], []]
    generator = torch.Generator().manual_seed(1)
    questions = module.sample(images, answers, 5, Sampling(), generator)
    found = answer_posterior(module, images, answers, questions, others)
    for row in range(15):
        pair = int(questions.pair[row])
        candidates = [answers[pair], *[one for one in others[pair] if one != answers[pair]]]
        scores = []
        for answer in candidates:
            some = images.select(torch.tensor([pair]))
            given = module.network.conditions(some, module.answer_words.encode([answer]))
            assert questions.z is not None
            log_probs = module.network.eval().token_log_probs(
                questions.tokens.select(torch.tensor([row])), questions.z[row : row + 1], given
            )
            scores.append(log_probs.sum())
        expected = torch.stack(scores).log_softmax(0)[0]
        torch.testing.assert_close(found[row], expected, atol=1e-4, rtol=1e-4)
    assert (found[10:] == 0).all()  # no other answer
    generator = torch.Generator().manual_seed(1)
    options = {"num_latents": 5, "strategy": Sampling(), "generator": generator}
    chosen = ask(module, images, answers, alternatives=others, answer_weight=50.0, **options)
    for pair in range(3):
        own = (questions.pair == pair).nonzero()[:, 0]
        score = questions.log_likelihood[own] + 50 * found[own]
        assert chosen.text[pair] == questions.text[int(own[score.argmax()])]
