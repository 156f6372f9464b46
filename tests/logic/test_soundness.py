"""Nothing certain is ever wrong: on scenes against the oracle, on photographs against people."""

import gzip
import json
import random
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import pytest
from exact_contradictions import contradicting as exactly_contradicting

from ivqa.logic import contradicting, contradictions, implications
from ivqa.scenes import parse
from ivqa.scenes.grammar import realise
from ivqa.scenes.oracle import simple_questions
from ivqa.scenes.programs import acceptable, evaluate
from ivqa.scenes.questions import sample_program
from ivqa.scenes.world import VALUES, Scene, sample_scene

Belief = tuple[str, str]


def _sample(
    rng: random.Random, scene: Scene, number: int, wrong: float
) -> list[tuple[Belief, bool]]:
    """Different questions with an answer each, and whether it is right.

    Right ones are any that the oracle accepts. Among the wrong ones are answers to questions with a
    false premise. Two of five questions are simple ones about any thing, the others such as people
    ask about this scene or about another one.
    """
    simple = [parse(text) for text in simple_questions().values()]
    asked: dict[str, tuple[Belief, bool]] = {}
    while len(asked) < number:
        if rng.random() < 0.4:
            chosen = rng.choice(simple)
            assert chosen is not None
            program = chosen
        else:
            about = scene if rng.random() < 0.6 else sample_scene(rng)
            program = sample_program(rng, about)
        right = sorted(acceptable(evaluate(program, scene).acceptable))
        if rng.random() < wrong:
            other = {"yes/no": ("yes", "no"), "number": tuple("01234")}.get(program.answer_type)
            answer = rng.choice(other or VALUES[str(program.attribute)])
        elif right:
            answer = rng.choice(right)
        else:
            continue
        question = realise(program, rng)
        asked[question] = ((question, answer), answer in right)
    return list(asked.values())


def _check_soundness(images: int, questions: int) -> tuple[int, int, int]:
    """Returns the numbers of pairs, of certain implications, and of those that were understood."""
    rng = random.Random(53)
    pairs = implied = understood = 0
    for _ in range(images):
        scene = sample_scene(rng)
        beliefs = [belief for belief, _ in _sample(rng, scene, questions, wrong=0.0)]
        clashes = [one for one in contradictions(beliefs) if one.certain]
        assert not clashes, [beliefs[row] for row in clashes[0].members]
        pairs += sum(1 for _ in combinations(beliefs, 2))
        for belief in beliefs:
            for one in implications(*belief):
                implied += one.certain
                program = parse(one.question)
                if one.certain and program is not None:
                    understood += 1
                    right = acceptable(evaluate(program, scene).acceptable)
                    assert one.answer in right, (belief, one)
    return pairs, implied, understood


def test_true_answers_about_a_scene_imply_and_contradict_nothing_wrong() -> None:
    pairs, implied, understood = _check_soundness(images=8, questions=75)
    assert pairs > 20_000
    assert implied > 1_000
    # "Is there more than one star?" is no question of the grammar.
    assert understood > 0.9 * implied


@pytest.mark.slow
def test_a_million_pairs_of_true_answers() -> None:
    pairs, _, _ = _check_soundness(images=100, questions=150)
    assert pairs > 1_000_000


def test_recall_of_the_exact_rules_of_scenes() -> None:
    rng = random.Random(7)
    exact = found = 0
    for _ in range(10):
        scene = sample_scene(rng)
        sampled = _sample(rng, scene, 100, wrong=0.4)
        beliefs = [belief for belief, _ in sampled]
        for one in contradictions(beliefs):
            # Never a certain one whose members the oracle finds right.
            assert not one.certain or not all(sampled[row][1] for row in one.members)
        both = list(zip(exactly_contradicting(beliefs), contradicting(beliefs), strict=True))
        exact += sum(flag for flag, _ in both)
        found += sum(flag and own for flag, own in both)
    assert exact > 200
    assert found > 0.8 * exact


def _by_image(folder: Path, split: str, ending: str) -> dict[int, list[Belief]]:
    """Questions with their most frequent answer, by image."""
    texts = []
    for name in ("questions", "annotations"):
        data = (folder / f"{name}_{split}.json{ending}").read_bytes()
        texts.append(json.loads(gzip.decompress(data) if ending else data)[name])
    answers = {one["question_id"]: one["multiple_choice_answer"] for one in texts[1]}
    found = defaultdict(list)
    for one in texts[0]:
        found[one["image_id"]].append((one["question"], answers[one["question_id"]]))
    return found


@pytest.mark.parametrize(
    ("folder", "split", "ending"),
    [("vqa_v2_subset", "train", ".gz"), ("daquar", "train", "")],
)
def test_answers_of_people_hardly_ever_contradict_each_other(
    shared_data: Path, folder: str, split: str, ending: str
) -> None:
    pairs = clashes = 0
    for beliefs in _by_image(shared_data / folder, split, ending).values():
        pairs += len(beliefs) * (len(beliefs) - 1) // 2
        clashes += sum(one.certain for one in contradictions(beliefs))
    assert pairs > 20_000
    # Read one by one: people who count differently.
    assert 0 < clashes < 0.002 * pairs


def test_most_real_questions_have_a_certain_implication(shared_data: Path) -> None:
    asked = [
        one for beliefs in _by_image(shared_data / "vqa_v2_subset", "val", ".gz").values()
        for one in beliefs
    ]  # fmt: skip
    covered = [any(one.certain for one in implications(*belief)) for belief in asked]
    assert sum(covered) > 0.75 * len(covered)
