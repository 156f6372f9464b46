"""Questions weighted by a VQA model: probabilities by hand, consensus by brute force."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from toy_diagnosis import toy_images

from ivqa.answer_aware import ConsensusQuestioner
from ivqa.errors import UserError
from ivqa.generators import Beam, Questions, Sampling
from ivqa.generators.decoding.inference import ask
from ivqa.generators.likelihood import Likelihood
from ivqa.metrics import CiderStatistics, cider_scores
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary

PHI = {
    "is it red": 0.5,
    "is it day": 0.01,
    "is it dark red": 0.4,
    "how is it": 0.25,
}
TEXTS = list(PHI)
VOCABULARY = Vocabulary(sorted({word for text in PHI for word in text.split()}))


class _Proposer:
    """Proposes the texts in turn."""

    def sample(
        self, images: Any, answers: list[str], num: int, strategy: Any, generator: Any
    ) -> Questions:
        assert isinstance(strategy, Sampling)
        text = [TEXTS[at % len(TEXTS)] for at in range(num)] * len(answers)
        pair = torch.arange(len(answers)).repeat_interleave(num)
        return Questions(VOCABULARY.encode(text), text, torch.zeros(len(text)), pair)

    def likelihood(
        self, images: Any, answers: list[str], questions: list[str], samples: int | None = None
    ) -> Likelihood:
        value = torch.tensor([-float(TEXTS.index(text)) for text in questions])
        return Likelihood(value, torch.full((len(questions),), 0.1 * (samples or 16)))


class _Answerer:
    answers = AnswerVocabulary(["yes", "no"])

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []

    def log_scores(self, images: Any, questions: list[str], answers: Any = None) -> torch.Tensor:
        self.asked += zip(images.index.tolist(), questions, strict=True)
        yes = torch.tensor([PHI[text] for text in questions])
        return torch.stack([yes, 1 - yes], dim=1).log()


def _make(weight: float = 2.0, num_proposals: int = 4) -> ConsensusQuestioner:
    return ConsensusQuestioner(_Proposer(), _Answerer(), weight, num_proposals)  # type: ignore[arg-type]


def _remembering(questioner: ConsensusQuestioner) -> ConsensusQuestioner:
    training = SimpleNamespace(questions=[*TEXTS, "is it red", "why", "how many"])
    dataset = SimpleNamespace(split={"train": training}.__getitem__)
    questioner.remember(SimpleNamespace(dataset=dataset))  # type: ignore[arg-type]
    return questioner


def test_samples_follow_the_weights_of_the_vqa_model() -> None:
    pairs = 4000
    images = toy_images(1).select(torch.zeros(pairs, dtype=torch.int64))
    generator = torch.Generator().manual_seed(1)
    found = _make().sample(images, ["yes"] * pairs, 1, Sampling(), generator)
    squares = {text: phi**2 for text, phi in PHI.items()}
    for text in TEXTS:
        share = squares[text] / sum(squares.values())
        # Three standard deviations of a share of 4,000 draws.
        tolerance = 3 * (share * (1 - share) / pairs) ** 0.5
        assert found.text.count(text) / pairs == pytest.approx(share, abs=tolerance), text
    assert found.pair.tolist() == list(range(pairs))


def test_the_same_random_numbers_draw_the_same_questions() -> None:
    images = toy_images(1).select(torch.zeros(50, dtype=torch.int64))
    first, second, other = (
        _make(1.0).sample(images, ["yes"] * 50, 1, Sampling(), torch.Generator().manual_seed(seed))
        for seed in (3, 3, 4)
    )
    assert first.text == second.text
    assert first.text != other.text


def test_a_pair_whose_questions_hardly_fit_is_asked_too() -> None:
    # (1e-12)^8 is 0 in float32: weights are relative to the best of each question's proposals.
    found = _make(8.0).sample(toy_images(2), ["yes", "maybe"], 3, Sampling())
    assert set(found.text[3:]) <= set(TEXTS)
    best = _remembering(_make(8.0)).sample(toy_images(2), ["yes", "maybe"], 4, Beam(size=3))
    assert torch.isfinite(best.log_likelihood).all()


def test_each_sample_is_drawn_from_proposals_of_its_own() -> None:
    found = _make(num_proposals=2).sample(toy_images(2), ["yes", "no"], 2, Sampling())
    assert found.pair.tolist() == [0, 0, 1, 1]
    assert {found.text[0], found.text[2]} <= set(TEXTS[:2])
    assert {found.text[1], found.text[3]} <= set(TEXTS[2:])
    phi = torch.tensor([PHI[text] for text in found.text])
    given = torch.where(torch.tensor([True, True, False, False]), phi, 1 - phi)
    torch.testing.assert_close(found.log_likelihood, 2 * given.log())


def test_the_best_question_is_the_consensus_of_the_weighted_samples() -> None:
    questioner = _remembering(_make())
    found = questioner.sample(toy_images(2), ["yes", "no"], 6, Beam(size=3))
    texts = (TEXTS * 2)[:6]
    assert found.text == texts * 2
    corpus = [*TEXTS, "is it red", "why", "how many"]
    statistics = CiderStatistics.of([[text] for text in corpus])
    for pair, answer in enumerate(["yes", "no"]):
        weight = [PHI[text] ** 2 if answer == "yes" else (1 - PHI[text]) ** 2 for text in texts]
        for at, text in enumerate(texts):
            scores = [cider_scores([text], [[other]], statistics)[0] for other in texts]
            expected = sum(w * s for w, s in zip(weight, scores, strict=True)) / sum(weight)
            assert float(found.log_likelihood[6 * pair + at]) == pytest.approx(expected, rel=1e-5)
    best = ask(questioner, toy_images(2), ["yes", "no"], num_latents=6)  # type: ignore[arg-type]
    assert best.text == ["is it red", found.text[6 + int(found.log_likelihood[6:].argmax())]]


def test_equal_questions_of_a_pair_are_answered_once() -> None:
    questioner = _make(num_proposals=8)
    questioner.sample(toy_images(2), ["yes", "no"], 1, Sampling())
    asked = questioner._answerer[0].asked  # type: ignore[attr-defined]
    assert asked == [(image, text) for image in (0, 1) for text in TEXTS]


def test_given_questions_are_scored_by_both_models() -> None:
    rows = toy_images(2).select(torch.tensor([0, 0, 1]))
    found = _make(3.0).log_likelihood(rows, ["yes", "no", "maybe"], [TEXTS[0], TEXTS[2], TEXTS[1]])
    expected = torch.tensor([0.5, 0.6, 1e-12]).log() * 3 - torch.tensor([0.0, 2.0, 1.0])
    torch.testing.assert_close(found, expected)


def test_the_consensus_needs_the_training_questions() -> None:
    with pytest.raises(UserError, match=r"remember\(datamodule\)"):
        _make().sample(toy_images(1), ["yes"], 3, Beam(size=3))
