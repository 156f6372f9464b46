"""What a person's word on some things proves, by hand."""

from tools.suspicions import _proven

ANSWERS = {
    "Is there a cat?": ("yes", 0.6),
    "What color is the cat?": ("red", 0.8),
    "Is there a dog?": ("yes", 0.9),
    "Is there a bird?": ("no", 0.9),
}


def test_what_a_person_tells_proves_errors() -> None:
    # There is neither cat nor dog: the first three answers are wrong, and agree with each other.
    wrong = [1, 1, 1, 0]
    assert _proven(ANSWERS, wrong, 0) == 0
    # The cat comes first: "no" would refute two answers, and the model doubts it more.
    assert _proven(ANSWERS, wrong, 1) == 2
    assert _proven(ANSWERS, wrong, 3) == 3
    # What nobody understands is not asked.
    assert _proven(ANSWERS, [-1, 1, -1, 0], 3) == 0


def test_a_contradiction_among_answers_still_counts() -> None:
    answers = {"Is there a cat?": ("no", 0.6), "What color is the cat?": ("red", 0.8)}
    assert _proven(answers, [0, 1], 0) == 1
    assert _proven(answers, [0, 1], 1) == 1
