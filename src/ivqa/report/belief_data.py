"""The beliefs of a page as compact JSON, which the page draws piece by piece."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ivqa.diagnosis import Belief, Mistake, Reasons, RightAnswers, convicting, meaning_of
from ivqa.report.belief_words import BeliefPageModel
from ivqa.report.pages.annotation_page import HasPictures, picture
from ivqa.scenes import Oracle

MOST_BELIEFS = 50_000  # of a page; they take about 3 megabytes
MOST_IMAGES = 100
_THUMBNAIL, _QUALITY = 192, 80  # of the pictures: 7 kB for a photograph of VQA
_LEVELS = 64  # of an attention weight: one character each
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_KINDS = ("rephrase", "complementary", "adversarial", "irrelevant", "untyped")

_SAYS = {"oracle": "oracle", "human": "people", "judge": "judge", "proxy": "annotators"}
NO_SUCH_THING = "no such thing"

Pair = tuple[int, str]


class PageBeliefs:
    """The beliefs of up to four models about the same images, numbered for the page.

    Args:
        oracle: The oracle of the images, which knows the meanings of questions; None without one.
        annotated: What annotators answered to a question, see `annotated_answers`.
    """

    def __init__(
        self,
        models: Sequence[BeliefPageModel],
        oracle: Oracle | None,
        annotated: RightAnswers = lambda image_id, question: None,
    ) -> None:
        self.models = models
        self._oracle, self._annotated = oracle, annotated
        self._means = meaning_of(oracle)
        self._questions: dict[str, int] = {}
        self._rights: dict[tuple[str, ...], int] = {(): 0}
        self._sources: dict[str, int] = {}
        # The line of each belief in the beliefs.jsonl of its model.
        self._lines = [
            {_key(belief): line for line, belief in enumerate(model.beliefs, start=1)}
            for model in models
        ]
        self._pairs = _by_pair(models)
        self.images = _shared_images(models)
        step = max(1, len(self.images) / MOST_IMAGES)  # evenly spread over all images
        self.shown_images = [
            self.images[int(at * step)] for at in range(min(len(self.images), MOST_IMAGES))
        ]

    def data(
        self,
        split: HasPictures,
        references: Mapping[Pair, Sequence[str]],
        front: Sequence[Belief],
        per_pair: int,
    ) -> dict[str, Any]:
        """Collects what the script of the page needs.

        Args:
            references: The questions of the data set by image id and answer.
            front: Beliefs of the first model that the top of the page shows.
            per_pair: Meanings of a pair that are shown at first.

        Returns:
            A JSON value. Questions are stored once; a belief is its number, its phi in
            thousandths, a digit for its type, a letter for its source, its line, and the number of
            its right answer if it is wrong; a suspect has what convicts it.
        """
        shown = set(self.shown_images)
        pairs = {key: own for key, own in self._pairs.items() if key[0] in shown}
        limit = _longest([len(own) for by_model in pairs.values() for own in by_model])
        items = [
            {
                "image": image,
                "answer": answer,
                "references": list(references.get((image, answer), ()))[:2],
                "sets": [
                    self._columns(number, own[:limit], len(own))
                    for number, own in enumerate(by_model)
                ],
            }
            for (image, answer), by_model in pairs.items()
        ]
        on_front = [self._view(belief) for belief in front]
        pictured = dict.fromkeys([*self.shown_images, *(belief.image_id for belief in front)])
        meanings: dict[Hashable, int] = {}
        means = [
            meanings.setdefault(self._means(question), len(meanings))
            for question in self._questions
        ]
        return {
            "images": {image: picture(split, image, _THUMBNAIL, _QUALITY) for image in pictured},
            "questions": list(self._questions),
            "meanings": means,
            "sources": list(self._sources),
            "rights": list(self._rights),
            "nothing": NO_SUCH_THING,
            "kinds": list(_KINDS),
            "models": [model.name for model in self.models],
            "items": items,
            "front": on_front,
            "perPair": per_pair,
        }

    def _columns(self, model: int, beliefs: Sequence[Belief], found: int) -> dict[str, Any]:
        """The beliefs of a model about a pair, column by column."""
        lines = [self._lines[model][_key(belief)] for belief in beliefs]
        reasons = self.models[model].reasons
        return {
            "q": [self._questions.setdefault(b.question, len(self._questions)) for b in beliefs],
            "p": [round(1000 * belief.phi) for belief in beliefs],
            "t": "".join(str(_KINDS.index(belief.type or "untyped")) for belief in beliefs),
            "s": "".join(_LETTERS[self._source(belief)] for belief in beliefs),
            "l": lines,
            "r": [self._right(model, belief) for belief in beliefs],
            "why": {at: _packed(reasons[line]) for at, line in enumerate(lines) if line in reasons},
            "x": {
                at: said for at, one in enumerate(beliefs) if (said := self._against(model, one))
            },
            "found": found,
        }

    def _right(self, model: int, belief: Belief) -> int:
        """The number of who says what is right instead, and the right answers, the main one first.

        0 for a right belief, and where the right answer is unknown.
        """
        own, answers = belief.answer, Counter[str]()
        if belief.type == "irrelevant":
            answers[NO_SUCH_THING] = 1
        elif belief.type == "adversarial":
            if belief.type_by == "judge":
                answers.update([belief.judge_answer] if belief.judge_answer else [])
            elif belief.type_by == "human":
                answers.update(self.models[model].corrections.get(belief, ()))
            elif belief.type_by == "proxy":
                answers.update(self._annotated(belief.image_id, belief.question) or ())
            elif self._oracle is not None:
                judged = self._oracle.judge(belief.image_id, belief.question)
                answers.update(sorted(judged.acceptable))
                answers[judged.answer or own] += 1
        said = [answer for answer, _ in answers.most_common() if answer != own]
        right = (_SAYS[str(belief.type_by)], *said) if said else ()
        return self._rights.setdefault(right, len(self._rights))

    def _against(self, model: int, belief: Belief) -> list[Any] | None:
        """What convicts a suspect: question, answer and phi, and the line if it is a belief."""
        if not belief.suspect:
            return None
        other = convicting(belief, self.models[model].beliefs)
        if belief.denied_by is not None and (
            other is None or other.suspect or other.phi < belief.denied_by[2]
        ):
            question, answer, phi = belief.denied_by
            return [question, answer, round(phi, 2)]
        if other is None:
            return None
        return [other.question, other.answer, round(other.phi, 2), self._lines[model][_key(other)]]

    def _view(self, belief: Belief) -> dict[str, Any]:
        """A belief of the first model on its own."""
        line = self._lines[0][_key(belief)]
        reasons = self.models[0].reasons.get(line)
        own = self._pairs.get((belief.image_id, belief.answer), [[]])[0]
        sense = self._means(belief.question)
        return {
            "image": belief.image_id,
            "answer": belief.answer,
            "q": belief.question,
            "phi": round(belief.phi, 3),
            "type": belief.type or "untyped",
            "line": line,
            "right": list(list(self._rights)[self._right(0, belief)]),
            "wordings": sum(self._means(other.question) == sense for other in own),
            **({} if reasons is None else {"why": _packed(reasons)}),
            "x": self._against(0, belief),
        }

    def _source(self, belief: Belief) -> int:
        return self._sources.setdefault(belief.source, len(self._sources))


def mistake_rows(models: Sequence[Sequence[Mistake]], number: int) -> list[dict[str, Any]]:
    """Aligns the kinds of mistakes of several models: the commonest of the first one.

    Returns:
        For each kind of the first model its mistake and, model by model, the mistake of this kind;
        None where a model makes none.
    """
    by_kind = [{mistake.description: mistake for mistake in own} for own in models]
    return [
        {"mistake": mistake, "of": [own.get(mistake.description) for own in by_kind]}
        for mistake in models[0][:number]
    ]


def _key(belief: Belief) -> tuple[int, str, str]:
    return belief.image_id, belief.answer, belief.question


def _by_pair(models: Sequence[BeliefPageModel]) -> dict[Pair, list[list[Belief]]]:
    """The beliefs of each model about each pair, by falling phi."""
    pairs: dict[Pair, list[list[Belief]]] = {}
    for number, model in enumerate(models):
        for belief in sorted(model.beliefs, key=lambda belief: -belief.phi):
            key = belief.image_id, belief.answer
            pairs.setdefault(key, [[] for _ in models])[number].append(belief)
    # In the order of the files, so that the pairs of an image are together.
    order = {(b.image_id, b.answer): None for model in models for b in model.beliefs}
    images = {image: at for at, image in enumerate(dict.fromkeys(image for image, _ in order))}
    return {key: pairs[key] for key in sorted(order, key=lambda key: images[key[0]])}


def _shared_images(models: Sequence[BeliefPageModel]) -> list[int]:
    """The images that all models have beliefs about, in the order of the first model."""
    known = [{belief.image_id for belief in model.beliefs} for model in models]
    first = dict.fromkeys(belief.image_id for belief in models[0].beliefs)
    return [image for image in first if all(image in own for own in known)]


def _longest(lengths: Sequence[int]) -> int:
    """The greatest length of lists that together hold at most MOST_BELIEFS when cut to it."""

    def held(limit: int) -> int:
        return sum(min(length, limit) for length in lengths)

    return max(1, bisect_right(range(max(lengths, default=1) + 1), MOST_BELIEFS, key=held) - 1)


def _packed(reasons: Reasons) -> dict[str, Any]:
    """Reasons in few bytes: falls in hundredths, and a letter for each place."""
    most = max(reasons.places, default=0.0) or 1.0
    packed: dict[str, Any] = {"w": [round(100 * fall) for fall in reasons.falls]}
    side = round(len(reasons.places) ** 0.5)
    if reasons.places and side * side == len(reasons.places):
        packed["a"] = "".join(
            _LETTERS[min(int(_LEVELS * weight / most), _LEVELS - 1)] for weight in reasons.places
        )
    return packed
