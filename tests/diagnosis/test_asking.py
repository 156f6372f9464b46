"""Questions about one picture, against an enumeration of all questions of a small vocabulary."""

import itertools
import math
from functools import partial

import pytest
import torch
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis.search.asking import (
    answer_marginal,
    check_answer,
    given_answers,
    likely_questions,
)
from ivqa.errors import UserError
from ivqa.generators import AnswerOnlyGenerator, GeneratorModule, VariationalGenerator
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import BOS, EOS, Vocabulary

WORDS, ANSWERS = ["is", "it", "red"], ["yes", "no", "red"]
SIZES = {"pooled": 3}
LONGEST = 2


def _module(network: object, **arguments: object) -> GeneratorModule:
    module = GeneratorModule(
        network=network,  # type: ignore[arg-type]
        question_vocabulary=Vocabulary(WORDS),
        answer_words=Vocabulary(ANSWERS),
        feature_sizes=SIZES,
        max_length=LONGEST,
        **arguments,  # type: ignore[arg-type]
    ).eval()
    with torch.no_grad():
        for value in module.parameters():
            value.normal_(std=0.7)
        # Word and end have similar probabilities; <pad>, <bos> and <unk> nearly none.
        bias = module.network.decoder.output.bias
        assert bias is not None
        bias[:] = torch.tensor([-20.0, -20.0, 0.5, -20.0, 0.0, 0.0, 0.0])
    return module


@pytest.fixture
def exact() -> GeneratorModule:
    return _module(
        partial(AnswerOnlyGenerator, answer_size=6, embedding_size=8, hidden_size=8, dropout=0.0)
    )


@pytest.fixture
def image() -> ImageBatch:
    first = torch.zeros(1, dtype=torch.int64)
    return ImageBatch(ids=first + 7, index=first, pooled=torch.randn(1, 3))


@torch.no_grad()
def _enumerated(
    module: GeneratorModule, image: ImageBatch, answer: str, z: Tensor | None = None
) -> dict[str, Tensor]:
    """p(q | z, I, a) (Z,) of all questions of 1 and 2 words, decoded word by word."""
    network = module.network
    answers = module.answer_words.encode([answer])
    number = 1 if z is None else len(z)
    conditions = network.conditions(image, answers).select(torch.zeros(number, dtype=torch.int64))
    found = {}
    for length in range(1, LONGEST + 1):
        for words in itertools.product(range(4, 4 + len(WORDS)), repeat=length):
            step, state = network.decoding(conditions, z)
            total = torch.zeros(number)
            for given, wanted in itertools.pairwise((BOS, *words, EOS)):
                log_probs, state = step(state, torch.full((number,), given))
                total = total + log_probs[:, wanted]
            text = " ".join(WORDS[word - 4] for word in words)
            found[text.capitalize() + "?"] = total.exp()
    return found


@pytest.mark.parametrize("answer", ANSWERS)
def test_probabilities_and_order_are_those_of_an_enumeration(
    exact: GeneratorModule, image: ImageBatch, answer: str
) -> None:
    wanted = {text: float(p) for text, p in _enumerated(exact, image, answer).items()}
    assert len(wanted) == 3 + 9
    assert 0.3 < sum(wanted.values()) < 1
    asked = likely_questions(exact, image, answer, n=5, num_latents=500)
    best = sorted(wanted, key=lambda text: -wanted[text])[:5]
    assert [one.question for one in asked] == best
    for one in asked:
        assert one.probability == pytest.approx(wanted[one.question], rel=1e-4)
    direct = exact.log_likelihood(image.repeat_interleave(5), [answer] * 5, best)
    for one, score in zip(asked, direct.tolist(), strict=True):
        assert one.probability == pytest.approx(math.exp(score), rel=1e-5)


def test_with_a_latent_variable_the_probability_is_the_integral_over_z(image: ImageBatch) -> None:
    module = _module(
        partial(
            VariationalGenerator,
            answer_size=6,
            latent_size=1,
            embedding_size=8,
            hidden_size=8,
            dropout=0.0,
        ),
    )
    z = torch.linspace(-6, 6, 2001)[:, None]
    density = torch.exp(-0.5 * z[:, 0] ** 2) / math.sqrt(2 * math.pi) * (12 / 2000)
    wanted = {text: float(p @ density) for text, p in _enumerated(module, image, "no", z).items()}
    asked = likely_questions(module, image, "no", n=12, num_latents=400, likelihood_samples=4000)
    assert len(asked) >= 10
    for one in asked:
        assert one.probability == pytest.approx(wanted[one.question], rel=0.05)
    probabilities = [one.probability for one in asked]
    assert probabilities == sorted(probabilities, reverse=True)
    again = likely_questions(module, image, "no", n=12, num_latents=400, likelihood_samples=4000)
    assert again == asked


class Answerer:
    """phi depends on the words of the question; `closed` chooses between the two kinds."""

    def __init__(self, *, closed: bool) -> None:
        self.answers = AnswerVocabulary(ANSWERS) if closed else None

    def phi(self, question: str) -> list[float]:
        share = 0.05 * len(question.split()) + 0.6 * ("red" in question.lower())
        return [share, 0.9 - share, 0.1]

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        assert len(images) == len(questions)
        chosen = [ANSWERS.index(answer) for answer in answers or ANSWERS]
        return torch.tensor([self.phi(text) for text in questions])[:, chosen].log()

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        assert len(images) == len(questions)
        return ["yes" if self.phi(text)[0] > self.phi(text)[1] else "no" for text in questions]


@pytest.mark.parametrize("closed", [True, False])
def test_answers_come_with_their_own_probabilities(image: ImageBatch, closed: bool) -> None:
    questions = ["Is?", "Is it?", "Is it red?"] * 100  # several passes
    given = given_answers(Answerer(closed=closed), image, questions)  # type: ignore[arg-type]
    assert [one.answer for one in given] == ["no", "no", "yes"] * 100
    found = [one.probability for one in given]
    assert found == pytest.approx([0.85, 0.8, 0.75] * 100)


@pytest.mark.parametrize("closed", [True, False])
def test_the_marginal_of_the_answers_is_the_sum_over_all_questions(
    exact: GeneratorModule, image: ImageBatch, closed: bool
) -> None:
    answerer, prior = Answerer(closed=closed), {"yes": 1.0, "no": 1.0, "red": 8.0}
    wanted = dict.fromkeys(ANSWERS, 0.0)
    for answer, weight in prior.items():
        questions = {text: float(p) for text, p in _enumerated(exact, image, answer).items()}
        # `sample` ends a question of LONGEST words, and may return one without words.
        network = exact.network
        conditions = network.conditions(image, exact.answer_words.encode([answer]))
        step, state = network.decoding(conditions, None)
        with torch.no_grad():
            questions["?"] = float(step(state, torch.tensor([BOS]))[0][0, EOS].exp())
            for first, second in itertools.product(WORDS, WORDS):
                text = f"{first} {second}".capitalize() + "?"
                step, state = network.decoding(conditions, None)
                total = torch.zeros(())
                for given, word in ((BOS, first), (4 + WORDS.index(first), second)):
                    log_probs, state = step(state, torch.tensor([given]))
                    total = total + log_probs[0, 4 + WORDS.index(word)]
                questions[text] = float(total.exp())
        assert sum(questions.values()) == pytest.approx(1, abs=1e-4)
        for text, probability in questions.items():
            shares = answerer.phi(text)
            if not closed:
                shares = [float(name == answerer.answer(image, [text])[0]) for name in ANSWERS]
            for name, share in zip(ANSWERS, shares, strict=True):
                wanted[name] += weight / 10 * probability * share
    found = answer_marginal(exact, answerer, image, prior, num_questions=20_000)  # type: ignore[arg-type]
    assert sum(found.values()) == pytest.approx(1)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for name, share in wanted.items():
        assert found.get(name, 0) == pytest.approx(share, abs=0.01)


def test_an_unknown_answer_is_refused_with_the_nearest_ones() -> None:
    words = Vocabulary(["yes", "no", "dark", "red"])

    def known() -> list[str]:
        return ["yes", "dark red", "no"]

    check_answer("Dark red", words, known)
    with pytest.raises(UserError, match=r"know the word 'yess'; did you mean yes\?"):
        check_answer("yess", words, known)
    with pytest.raises(UserError, match=r"know the word 'drak'; did you mean dark red"):
        check_answer("drak red", words, known)
    with pytest.raises(UserError, match=r"know the word 'zzz'; frequent are yes, dark red, no"):
        check_answer("zzz", words, known)
    with pytest.raises(UserError, match="answer ' ': the generator needs at least one word"):
        check_answer(" ", words, known)
