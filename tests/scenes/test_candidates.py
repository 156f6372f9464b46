"""Candidate answers of multiple choice about scenes, checked rule by rule."""

from collections import Counter
from pathlib import Path

from ivqa.scenes import ScenesDataset
from ivqa.scenes.candidates import candidate_answers

# Thirty answers: yes 30 times, 1 29 times, ..., so that the order of frequencies is known.
ANSWERS = [str(at) for at in range(30) for _ in range(30 - at)]
# The questions about the rarest five answers are of a type of their own.
TYPES = ["rare" if int(answer) >= 25 else "usual" for answer in ANSWERS]
IDS = [10 * at for at in range(len(ANSWERS))]


def test_each_question_has_right_plausible_popular_and_random_answers() -> None:
    found = candidate_answers(IDS, ANSWERS, TYPES)
    random_ones: Counter[str] = Counter()
    for answer, kind, row in zip(ANSWERS, TYPES, found, strict=True):
        assert len(row) == len(set(row)) == 18
        # 25 has 5 questions, 26 has 4, ...: the most frequent of their type, without the right one.
        plausible = [str(at) for at in range(25, 30) if str(at) != answer][:3]
        wanted = {answer, *map(str, range(10)), *(plausible if kind == "rare" else [])}
        assert wanted <= set(row)
        random_ones.update(set(row) - wanted)
    # Answers to random questions: a frequent answer occurs more often than a rare one.
    assert random_ones["10"] > 2 * random_ones["24"] > 0
    places = Counter(row.index(answer) for answer, row in zip(ANSWERS, found, strict=True))
    assert set(places) == set(range(18))


def test_the_draws_are_reproducible_and_few_answers_are_all_candidates() -> None:
    found = candidate_answers(IDS, ANSWERS, TYPES)
    assert candidate_answers(IDS, ANSWERS, TYPES) == found
    assert candidate_answers(IDS, ANSWERS, TYPES, seed=1) != found
    assert all(sorted(row) == ["a", "b"] for row in candidate_answers([1, 2], ["a", "b"], ["", ""]))


def test_candidates_change_nothing_else_of_the_data(tmp_path: Path) -> None:
    sizes = {"train": 12, "val": 6, "test": 6}
    plain = ScenesDataset(tmp_path, images=sizes)
    chosen = ScenesDataset(tmp_path, images=sizes, multiple_choice=True)
    assert chosen.cache_key() == plain.cache_key()
    assert chosen.root == plain.root
    split, other = plain.split("val"), chosen.split("val")
    assert split.multiple_choices is None
    assert (split.questions, split.answers) == (other.questions, other.answers)
    assert other.multiple_choices is not None
    for answer, row in zip(other.main_answers, other.multiple_choices, strict=True):
        assert answer in row
