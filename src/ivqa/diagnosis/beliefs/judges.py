"""Types of beliefs by other VQA models, the judges, which answer the paper's three questions.

- Relevant? The judge answers "yes" to each question that the belief presupposes ("What color is
  the car?" presupposes "Is there a car?"). A question without presuppositions is relevant.
- Correct? The judge gives the belief's answer to the belief's question.
- Same fact? The words decide (`states_same_fact`), as for the proxy.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score

from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis.beliefs.beliefs import WRONG, Belief, type_of
from ivqa.diagnosis.search.asking import GivenAnswer, given_answers
from ivqa.diagnosis.search.proxy import agreement, states_same_fact
from ivqa.logic import implications
from ivqa.text.normalisation import normalise_answer
from ivqa.vqa import Answerer

_QUESTIONS_PER_PASS = 256  # as in `asking`


@dataclass(frozen=True)
class Judge:
    """A VQA model that judges the beliefs of another one.

    Attributes:
        name: Its name in metrics.
        answerer: The model.
        images_of: Reads the images with the given ids, with the features of this model.
    """

    name: str
    answerer: Answerer
    images_of: Callable[[Sequence[int]], ImageBatch]


@dataclass(frozen=True)
class _Claim:
    """That a question about an image has this answer."""

    image_id: int
    question: str
    answer: str


def typed_by_judges(
    beliefs: Sequence[Belief],
    judges: Sequence[Judge],
    references: Mapping[tuple[int, str], Sequence[str]],
) -> list[Belief]:
    """Assigns types by the majority of judges.

    Args:
        beliefs: N beliefs.
        judges: At least one. A tie goes to the side to which they give the higher mean probability.
        references: The data set's own questions of each (image, answer).

    Returns:
        The beliefs in the same order, each with a type and with `judge_wrong`, the mean over judges
        of 1 - p(relevant) p(correct). p(correct) is phi of the belief's answer, p(relevant) that of
        "yes" to the presupposition which the judge doubts most. A judge that writes its answers has
        no phi over a closed set, so that its probabilities are 0 or 1. An adversarial belief has
        `judge_answer`, the commonest other answer of the judges; of several, the first judge's.
    """
    correct = [_Claim(one.image_id, one.question, one.answer) for one in beliefs]
    presupposed = [
        [_Claim(one.image_id, text, "yes") for text in _presuppositions(one)] for one in beliefs
    ]
    claims = list(dict.fromkeys([*correct, *(claim for own in presupposed for claim in own)]))
    row_of = {claim: row for row, claim in enumerate(claims)}
    relevance = [[row_of[claim] for claim in own] for own in presupposed]
    correctness = [row_of[claim] for claim in correct]
    votes, chances = [], []  # of each judge: (N, 2), relevant and correct
    said = []  # of each judge: N answers
    for judge in judges:
        answered, given = _answered(judge, claims)  # (claims, 2): verdict and probability
        said.append([given[row] for row in correctness])
        relevant = np.array(
            [answered[rows].min(axis=0) if rows else (1.0, 1.0) for rows in relevance]
        ).reshape(-1, 2)
        both = np.stack([relevant, answered[correctness]], axis=1)  # (N, questions, 2)
        votes.append(both[:, :, 0])
        chances.append(both[:, :, 1])
    share, chance = np.mean(votes, axis=0), np.mean(chances, axis=0)
    decided = np.where(share == 0.5, chance > 0.5, share > 0.5).tolist()
    doubts = (1 - np.prod(chances, axis=2).mean(axis=0)).tolist()
    typed = []
    for belief, (is_relevant, is_correct), doubt, answers in zip(
        beliefs, decided, doubts, zip(*said, strict=True), strict=True
    ):
        same = states_same_fact(belief, references)
        kind = type_of(relevant=is_relevant, same_fact=same, correct=is_correct)
        wrong = round(min(max(doubt, 0.0), 1.0), 6)  # as phi
        judged = replace(belief, type=kind, type_by="judge", judge_wrong=wrong, judge_answer=None)
        if kind == "adversarial":
            own = normalise_answer(belief.answer)
            others = Counter(one for one in answers if normalise_answer(one) != own)
            judged = replace(judged, judge_answer=others.most_common(1)[0][0])
        typed.append(judged)
    return typed


def judge_answers(judge: Judge, beliefs: Sequence[Belief]) -> list[GivenAnswer]:
    """What a judge itself answers to the questions of N beliefs, with its probability."""
    given = [GivenAnswer("", 0.0)] * len(beliefs)
    for rows, images in _passes(judge, beliefs):
        answers = given_answers(judge.answerer, images, [beliefs[row].question for row in rows])
        for row, answer in zip(rows, answers, strict=True):
            given[row] = answer
    return given


def main_answer_share(judge: Judge, asked: Iterable[tuple[int, str, str]]) -> float:
    """How far a judge can be trusted where no oracle says it.

    Args:
        asked: Image, question and main answer of questions of the data set, at least one.

    Returns:
        The share of the questions that it answers with the main answer, in [0, 1].
    """
    answered, _ = _answered(judge, [_Claim(*one) for one in asked])
    return float(answered[:, 0].mean())


def judge_agreement(judged: Sequence[Belief], typed: Sequence[Belief]) -> dict[str, float]:
    """Compares the judges with better types, such as those of an oracle.

    Args:
        judged: The beliefs as the judges type them.
        typed: The same beliefs in the same order; those without a type are left out.

    Returns:
        "agreement", the share of equal types, and "kappa", Cohen's kappa of the four types;
        "wrong", the share of equal decisions whether a belief is wrong, and its kappa
        "wrong_kappa"; "relevant" and "correct" of `agreement`. Empty if no belief has a type.
    """
    pairs = [
        (one.type, other.type)
        for one, other in zip(judged, typed, strict=True)
        if one.type is not None and other.type is not None
    ]
    if not pairs:
        return {}
    first, second = (np.array(kinds) for kinds in zip(*pairs, strict=True))
    wrong = np.isin(first, WRONG), np.isin(second, WRONG)
    parts = agreement(judged, typed)
    return {
        "agreement": parts["type"],
        "kappa": _kappa(first, second),
        "wrong": float((wrong[0] == wrong[1]).mean()),
        "wrong_kappa": _kappa(*wrong),
        **{name: parts[name] for name in ("relevant", "correct") if name in parts},
    }


def _presuppositions(belief: Belief) -> list[str]:
    """What a question asks as if it were known, as existence questions."""
    return [
        implied.question
        for implied in implications(belief.question, belief.answer)
        if implied.rule == "presupposition" and implied.answer == "yes"
    ]


def _answered(judge: Judge, claims: Sequence[_Claim]) -> tuple[NDArray[np.float64], list[str]]:
    """(claims, 2): whether the judge gives the answer of each claim, and its probability.

    Beside it, what the judge answers to the question of each claim.
    """
    answered = np.zeros((len(claims), 2))
    said = [""] * len(claims)
    known = judge.answerer.answers
    forms = [normalise_answer(answer) for answer in known.answers] if known else []
    columns: dict[str, list[int]] = {}  # several answers of a closed set may have one form
    for column, form in enumerate(forms):
        columns.setdefault(form, []).append(column)
    for rows, images in _passes(judge, claims):
        questions = [claims[row].question for row in rows]
        wanted = [normalise_answer(claims[row].answer) for row in rows]
        if known is None:
            given = map(normalise_answer, judge.answerer.answer(images, questions))
            for row, own, other in zip(rows, given, wanted, strict=True):
                said[row], answered[row] = own, float(own == other)
            continue
        phi = judge.answerer.log_scores(images, questions).cpu().double().exp()  # (rows, |A|)
        best = phi.argmax(dim=1).tolist()
        for place, (row, form) in enumerate(zip(rows, wanted, strict=True)):
            chance = float(phi[place, columns.get(form, [])].sum())
            said[row] = known.answers[best[place]]
            answered[row] = forms[best[place]] == form, chance
    return answered, said


def _passes(
    judge: Judge, asked: Sequence[Belief] | Sequence[_Claim]
) -> Iterator[tuple[list[int], ImageBatch]]:
    """Yields the rows that a judge answers in one pass, and their images.

    Questions about one image follow each other, so that its features are read once.
    """
    order = sorted(range(len(asked)), key=lambda row: asked[row].image_id)
    for start in range(0, len(order), _QUESTIONS_PER_PASS):
        rows = order[start : start + _QUESTIONS_PER_PASS]
        yield rows, judge.images_of([asked[row].image_id for row in rows])


def _kappa(first: NDArray, second: NDArray) -> float:
    """Cohen's kappa; 1 where both sides give one and the same value to everything."""
    return 1.0 if (first == second).all() else float(cohen_kappa_score(first, second))
