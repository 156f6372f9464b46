"""Sources of questions: which they ask, in which order, and what their answers are counted as."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from toy_diagnosis import LongIsLegal, toy_scene

from ivqa.diagnosis import Belief, Pairs
from ivqa.generators import Questions
from ivqa.scenes.oracle import SceneOracle
from ivqa.tasks.question_sources import best_kind, drawn_questions, figures_at, generated
from ivqa.text.vocabulary import Vocabulary

SCENES = SceneOracle({image_id: toy_scene() for image_id in range(1, 151)})


def _answer(image_id: int, question: str, answer: str, phi: float) -> Belief:
    return Belief(image_id, answer, question, phi, 0, 1, "some")


def test_facts_of_the_first_questions_are_counted_once() -> None:
    """The picture has a red star and a blue heart."""
    asked = [
        _answer(1, "Is there a star?", "no", 0.9),
        _answer(1, "Do you see a star?", "no", 0.95),  # the same fact
        _answer(1, "What color is the star?", "red", 0.9),  # right
        _answer(1, "What color is the circle?", "red", 0.99),  # about nothing
        _answer(1, "How many stars are there?", "2", 0.5),  # not confident
    ]
    found = figures_at([2, 5, 6], asked, SCENES)
    assert found.keys() == {2, 5}
    assert (found[2]["wrong_facts_per_1000"], found[5]["wrong_facts_per_1000"]) == (500, 400)
    assert found[2]["confident_wrong_facts_per_1000"] == 500
    assert found[5]["confident_wrong_facts_per_1000"] == 200
    # Both denials, or both answers that need the star.
    assert (found[2]["errors_at_least"], found[5]["errors_at_least"]) == (0, 2 / 5)
    assert found[5]["kinds_with_five_examples"] == 0


def test_a_rare_kind_with_five_examples_counts_too() -> None:
    many = [_answer(at, "Is there a star?", "no", 0.9) for at in range(1, 151)] * 3
    rare = [_answer(at, "What color is the star?", "blue", 0.9) for at in range(1, 6)]
    found = figures_at([455], [*rare, *many], SCENES)[455]
    assert found["kinds_with_five_examples"] == 2
    assert found["questions_to_five_of_each_kind"] == 10  # of the common kind alone: 5 of 455


def test_the_best_kind_of_question_needs_a_hundred_questions() -> None:
    asked = [
        _answer(at, "Is there a star?", "no" if at <= 12 else "yes", 0.8) for at in range(1, 101)
    ]
    asked += [_answer(at, "Is there a heart?", "no", 0.7) for at in range(1, 21)]  # not confident
    asked += [_answer(at, "What color is the star?", "blue", 0.9) for at in range(1, 100)]
    assert best_kind(asked[:99], SCENES) is None
    assert best_kind(asked, SCENES) == pytest.approx(1000 * 12 / 120)
    asked.append(_answer(100, "What color is the star?", "red", 0.9))
    assert best_kind(asked, SCENES) == pytest.approx(1000 * 99 / 100)


def test_drawn_questions_are_about_the_chosen_images_and_differ() -> None:
    texts = ["Is there a star?", "What color is the star?", "Is it night?", "Is it night?"] * 3
    split: Any = SimpleNamespace(image_ids=np.repeat([1, 2, 3], 4), questions=texts)
    drawn = drawn_questions(split, [1, 3], SCENES, 50, seed=1)
    for questions in drawn.values():
        assert len(set(questions)) == len(questions)
        assert {image_id for image_id, _ in questions} <= {1, 3}
    assert set(drawn["own"]) == {(image, text) for image in (1, 3) for text in texts}
    assert set(drawn["random"]) == set(drawn["own"])  # all that there are
    assert len(drawn["simple"]) == 50
    assert {SCENES.judge(*one).understood for one in drawn["simple"]} == {True}
    assert drawn == drawn_questions(split, [1, 3], SCENES, 50, seed=1)
    assert drawn["simple"] != drawn_questions(split, [1, 3], SCENES, 50, seed=2)["simple"]


def test_polls_ask_for_present_and_absent_things_of_the_chosen_images() -> None:
    star, heart = toy_scene().things
    three = replace(toy_scene(), things=(star, heart, replace(star, shape="cross")))
    others = replace(
        toy_scene(), things=tuple(replace(star, shape=s) for s in ("square", "circle", "diamond"))
    )
    oracle = SceneOracle({1: three, 2: others})
    split: Any = SimpleNamespace(image_ids=np.array([1]), questions=["Is it night?"])
    asked = drawn_questions(split, [1], oracle, 50, seed=1)["polls"]
    answers = Counter(oracle.judge(*one).answer for one in asked)
    assert {image_id for image_id, _ in asked} == {1}
    assert answers["yes"] == answers["no"] == 3  # copies of the three strategies are left out


class _Asks:
    """Asks about the first image often, about the second once, and a text that is no question."""

    def sample(self, images: Any, answers: list[str], number: int, *_: object) -> Questions:
        texts = ["Is it red?", "Is it red?", "Is it blue?", "Night?", "Is it night?", "Is it day?"]
        pair = torch.tensor([0, 1, 1, 1, 1, 2])  # pairs 0 and 1 are about the first image
        tokens = Vocabulary(["is"]).encode(texts)
        return Questions(tokens, texts, torch.zeros(6), pair)


def test_questions_of_a_generator_come_about_one_image_in_turn_without_copies() -> None:
    module: Any = SimpleNamespace(legality_model=LongIsLegal())
    datamodule: Any = SimpleNamespace(images_of=lambda split, image_ids: None)
    cfg = OmegaConf.create({"split": "test", "num_latents": 2, "seed": 1})
    pairs = Pairs([7, 7, 9], ["yes", "no", "no"], {})
    questioner: Any = _Asks()
    asked = generated(questioner, module, datamodule, cfg, pairs)
    assert [image_id for image_id, _ in asked] == [7, 9, 7, 7]
    assert set(asked) == {
        (7, "Is it red?"),
        (7, "Is it blue?"),
        (7, "Is it night?"),
        (9, "Is it day?"),
    }
