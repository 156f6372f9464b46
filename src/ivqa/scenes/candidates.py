"""Candidate answers for multiple choice about scenes, by the rules of VQA 1.0."""

import random
from collections import Counter
from collections.abc import Sequence

NUMBER = 18
_PLAUSIBLE, _POPULAR = 3, 10


def candidate_answers(
    question_ids: Sequence[int],
    main_answers: Sequence[str],
    question_types: Sequence[str],
    seed: int = 0,
) -> list[list[str]]:
    """Draws 18 candidate answers for each question of a split [Antol et al. 2015, 3].

    These are the right answer; three plausible ones, which VQA 1.0 asked people for who did not see
    the image, and which are here the most frequent answers to questions of the same type; the ten
    most popular answers; and right answers to random other questions. They are different and in
    random order.

    Args:
        question_ids: Ids of N questions, which seed the draws together with `seed`.

    Returns:
        N lists of 18 answers; of all answers of the split where it has fewer.

    Example:
        >>> answers = ["yes", "no", "yes", "red"]
        >>> [sorted(row) for row in candidate_answers([1, 2, 3, 4], answers, ["is"] * 4)][0]
        ['no', 'red', 'yes']
    """
    popular = [answer for answer, _ in Counter(main_answers).most_common(_POPULAR)]
    by_type: dict[str, Counter[str]] = {}
    for kind, answer in zip(question_types, main_answers, strict=True):
        by_type.setdefault(kind, Counter())[answer] += 1
    number = min(NUMBER, len(set(main_answers)))
    candidates: list[list[str]] = []
    for question_id, right, kind in zip(question_ids, main_answers, question_types, strict=True):
        rng = random.Random(f"{seed} {question_id}")
        likely = by_type[kind].most_common(_PLAUSIBLE + 1)
        plausible = [answer for answer, _ in likely if answer != right][:_PLAUSIBLE]
        chosen = dict.fromkeys([right, *plausible, *popular])
        while len(chosen) < number:
            chosen[rng.choice(main_answers)] = None
        row = list(chosen)
        rng.shuffle(row)
        candidates.append(row)
    return candidates
