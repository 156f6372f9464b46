"""Rewards, scores and belief sets of a search, with a toy answerer and a toy legality model."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from toy_diagnosis import ANSWERS, WORDS, LongIsLegal, WordAnswerer, toy_images, toy_questioner

from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis import (
    BeliefSearch,
    Candidates,
    DiversityReward,
    GoalReward,
    LegalityCNN,
    LegalityModule,
    LegalityReward,
)
from ivqa.diagnosis.search.search import Found, pooled
from ivqa.generators import Questions
from ivqa.generators.protocol import equal_rows
from ivqa.text.vocabulary import DecodedTexts, Vocabulary
from ivqa.vqa import RecurrentEncoder, Vanilla, VQAModule

PAIR_ANSWERS = ["yes", "red", "no", "yes"]


def _questions(texts: list[str], pairs: list[int], likelihood: list[float]) -> Questions:
    tokens = Vocabulary.build(texts).encode(texts)
    return Questions(tokens, texts, torch.tensor(likelihood), torch.tensor(pairs))


def _candidates() -> Candidates:
    texts = ["Is it?", "What color?", "What color?", "Star?", "What color?"]
    questions = _questions(texts, [0, 1, 1, 3, 3], [-1.0, -3.0, -2.0, -1.0, -9.0])
    return Candidates(
        questions, toy_images(4), PAIR_ANSWERS, WordAnswerer(), ANSWERS, LongIsLegal()
    )


def test_rewards_of_known_questions() -> None:
    candidates = _candidates()
    assert torch.allclose(GoalReward()(candidates), torch.tensor([0.1, 0.8, 0.8, 0.8, 0.1]))
    assert LegalityReward()(candidates).tolist() == [1, 1, 1, 0, 1]
    assert LegalityReward(threshold=0.95)(candidates).tolist() == [0] * 5
    # The more probable of two identical questions of pair 1 wins; that of pair 3 is not a copy.
    assert DiversityReward()(candidates).tolist() == [1, 0, 1, 1, 1]
    assert candidates.believed.tolist() == [False, True, True, True, False]


def test_a_question_at_the_limit_is_not_legal() -> None:
    class Judge:
        limit = 0.5

        def probabilities(self, questions: list[str]) -> Tensor:
            return torch.full((len(questions),), 0.5)

    assert LegalityReward()(replace(_candidates(), legality_model=Judge())).tolist() == [0] * 5


class _OpenAnswerer(WordAnswerer):
    """Gives the answers of `WordAnswerer` as sentences, and scores only the given answers."""

    answers = None

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        assert answers is not None
        return super().log_scores(images, questions)[:, ANSWERS.encode(answers)]

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        scores = super().log_scores(images, questions)
        return [f"The {ANSWERS.answers[at]}." for at in scores.argmax(dim=1).tolist()]


def test_an_open_answerer_believes_the_answers_that_it_writes() -> None:
    closed = _candidates()
    candidates = replace(closed, answerer=_OpenAnswerer())
    assert torch.allclose(candidates.phi, closed.phi)
    assert candidates.believed.tolist() == closed.believed.tolist()


def test_identical_questions_of_a_pair_are_answered_once() -> None:
    candidates = _candidates()
    candidates.phi.sum()
    candidates.believed.sum()
    assert candidates.answerer.asked == 4  # type: ignore[attr-defined]
    assert candidates.group.tolist() == [0, 1, 1, 2, 3]
    assert candidates.first.tolist() == [0, 1, 3, 4]


def test_the_answerer_sees_only_the_images_of_its_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Looks(WordAnswerer):
        def log_scores(
            self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
        ) -> Tensor:
            concepts = images.feature("concepts")
            assert len(images.ids) == len(concepts) == len(images.index.unique())
            seen.extend(images.ids[images.index].tolist())
            torch.testing.assert_close(
                concepts[images.index], features[images.ids - 7][images.index]
            )
            return super().log_scores(images, questions, answers)

    features = toy_images(1).feature("concepts")
    monkeypatch.setattr("ivqa.diagnosis.candidates._QUESTIONS_PER_PASS", 2)
    candidates = replace(_candidates(), answerer=Looks())
    torch.testing.assert_close(candidates.phi, _candidates().phi)
    assert seen == [7, 8, 7, 7]  # of pairs 0, 1 and 3, whose two questions differ


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=40))
def test_equal_rows_are_grouped_in_the_order_of_their_first(rows: list[tuple[int, int]]) -> None:
    numbers: dict[tuple[int, int], int] = {}
    expected = [numbers.setdefault(row, len(numbers)) for row in rows]
    first, group = equal_rows(torch.tensor(rows, dtype=torch.int64).view(-1, 2))
    assert group.tolist() == expected
    assert first.tolist() == [rows.index(row) for row in numbers]


def test_rows_of_one_number_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter([torch.tensor([1, 1]), torch.tensor([5, 3])])  # 1 + 2 is 2 + 1
    monkeypatch.setattr(torch, "randint", lambda *_, **__: next(draws))
    first, group = equal_rows(torch.tensor([[1, 2], [2, 1], [1, 2]]))
    assert (first.tolist(), group.tolist()) == ([0, 1], [0, 1, 0])


def test_decoded_questions_are_grouped_as_their_texts() -> None:
    candidates = _candidates()
    questions = candidates.questions
    words = Vocabulary.build(questions.text)
    texts = words.decode(words.encode(questions.text))
    for of_pair in (True, False):
        first, group = replace(questions, text=texts).distinct(of_pair=of_pair)
        assert first.tolist() == questions.distinct(of_pair=of_pair)[0].tolist()
        assert group.tolist() == ([0, 1, 1, 2, 3] if of_pair else [0, 1, 1, 2, 1])


def test_a_search_with_models_that_have_vocabularies_reads_no_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    encoder = partial(RecurrentEncoder, embedding_size=6, size=8)
    answerer = VQAModule(
        network=partial(Vanilla, question_encoder=encoder, joint_size=7),
        question_vocabulary=Vocabulary(["star", "what"]),
        answers=ANSWERS,
        feature_sizes={"concepts": 5},
    )
    legality_model = LegalityModule(
        network=partial(LegalityCNN, widths=(1, 2), maps=(4, 4)), question_vocabulary=WORDS
    )

    def search() -> Found:
        models = {"one": toy_questioner(1), "other": toy_questioner(2)}
        return BeliefSearch(models, answerer, ANSWERS, legality_model, 20, legality=0.01)(
            toy_images(4), PAIR_ANSWERS, torch.Generator().manual_seed(3)
        )

    with monkeypatch.context() as patch:
        patch.setattr(DecodedTexts, "_texts", property(lambda _: pytest.fail("a text is read")))
        found = search()
    # The same search where every model reads the texts.
    monkeypatch.setattr(Vocabulary, "_is_read_as_written", False)
    read = search()
    assert len(found.kept) > 3
    assert found.beliefs([1, 2, 3, 4]) == read.beliefs([1, 2, 3, 4])
    assert torch.equal(found.candidates.legality, read.candidates.legality)


def test_exactly_one_of_equally_probable_copies_wins() -> None:
    questions = _questions(["Is it?"] * 3, [0, 0, 0], [-1.0, -1.0, -1.0])
    candidates = Candidates(questions, toy_images(1), ["yes"], WordAnswerer(), ANSWERS)
    assert DiversityReward()(candidates).tolist() == [1, 0, 0]


def test_pooling_keeps_the_most_probable_of_identical_questions() -> None:
    first = _questions(["A b?", "C?"], [1, 0], [-2.0, -1.0])
    second = _questions(["C?", "A b?", "D?"], [1, 1, 0], [-1.0, -1.5, -4.0])
    questions, source, rows = pooled([first, second])
    assert questions.pair.tolist() == [0, 0, 1, 1]
    assert set(zip(questions.pair.tolist(), questions.text, strict=True)) == {
        (0, "C?"),
        (0, "D?"),
        (1, "A b?"),
        (1, "C?"),
    }
    for part, part_rows in zip((first, second), rows, strict=True):
        assert [questions.text[row] for row in part_rows.tolist()] == part.text
        assert questions.pair[part_rows].tolist() == part.pair.tolist()
    at = questions.text.index("A b?")
    assert questions.log_likelihood[at] == -1.5
    assert source[at] == 1


def test_a_belief_set_holds_exactly_the_legal_questions_with_the_answer() -> None:
    answerer, legality_model = WordAnswerer(), LongIsLegal()
    questioner = toy_questioner()
    search = BeliefSearch({"one": questioner}, answerer, ANSWERS, legality_model, num_latents=60)
    images = toy_images(4)

    def run(seed: int) -> list[tuple[int, str]]:
        found = search(images, PAIR_ANSWERS, torch.Generator().manual_seed(seed))
        candidates = found.candidates
        texts = candidates.questions.text
        expected = {
            (pair, text)
            for pair, text in zip(candidates.pairs, texts, strict=True)
            if len(text.split()) > 1
            and answerer.answer(toy_images(1), [text]) == [PAIR_ANSWERS[pair]]
        }
        kept = [(candidates.pairs[row], texts[row]) for row in found.kept.tolist()]
        assert len(kept) == len(set(kept))
        assert set(kept) == expected
        phi = candidates.phi[found.kept]
        for pair in range(4):
            own = phi[[key[0] == pair for key in kept]]
            assert (own[:-1] >= own[1:]).all()
        assert len(found.samples["one"]) == 240
        return kept

    assert run(0) == run(0)
    assert run(0) != run(1)
    assert run(0)
