"""Types of beliefs where nothing knows the image exactly: a proxy, and always labelled as one.

Relevant: the content words of the belief are known of the image, from its captions and the
questions asked about it. Same fact: its content words are those of the data set's own question.
Correct: the annotators of that very question agree, or a second VQA model does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ivqa.data import VQASplit
from ivqa.diagnosis.beliefs import Belief, type_of
from ivqa.scenes.programs import SYNONYMS
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.normalisation import normalise_answer
from ivqa.text.tokens import tokenise

# Words that a question needs whatever it is about.
_FUNCTION_WORDS = frozenset(
    "a an the of in on at and or to is are was were be been does do did has have had there this "  # noqa: SIM905
    "that these those it its any some what which who where when why how many much number can could "
    "you we they see find show shown shows seen picture image photo kind type with from for by "
    "than as not more same all each other thing things object objects".split()
)


def typed_by_proxy(
    beliefs: Sequence[Belief],
    split: VQASplit,
    references: Mapping[tuple[int, str], Sequence[str]],
    judged: Mapping[tuple[int, str], str] | None = None,
    *,
    relevance: float = 0.75,
    sameness: float = 0.75,
) -> list[Belief]:
    """The beliefs with types by the proxy; None where nothing says whether an answer is right.

    split: with the questions about the images, their annotations and captions. judged: what a
    second model answers to (image, question). relevance: share of a belief's content words that
    must be known of the image. sameness: overlap (Jaccard) with the reference's content words.
    """
    known: dict[int, set[str]] = {}
    annotated: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for row, (image_id, question) in enumerate(
        zip(split.image_ids.tolist(), split.questions, strict=True)
    ):
        known.setdefault(image_id, set()).update(content_words(question))
        annotated.setdefault((image_id, tuple(tokenise(question))), []).extend(split.answers[row])
    for image_id, captions in (split.captions or {}).items():
        for caption in captions:
            known.setdefault(image_id, set()).update(content_words(caption))
    typed = []
    for belief in beliefs:
        words = content_words(belief.question)
        there = known.get(belief.image_id, set())
        relevant = not words or len(words & there) / len(words) >= relevance
        correct = _is_correct(belief, annotated, judged)
        if relevant and correct is None:
            typed.append(replace(belief, type=None, type_by=None))
            continue
        own = [content_words(text) for text in references.get((belief.image_id, belief.answer), ())]
        same = any(len(words & other) >= sameness * max(len(words | other), 1) for other in own)
        kind = type_of(relevant=relevant, same_fact=same, correct=bool(correct))
        typed.append(replace(belief, type=kind, type_by="proxy"))
    return typed


def agreement(first: Sequence[Belief], second: Sequence[Belief]) -> dict[str, float]:
    """How far two typings of the same beliefs agree, of those typed by both.

    type: share with the same type. relevant, correct: with the same answer to that question;
    correct is asked where both find the belief relevant. typed: share typed by both.
    """
    both = [
        (one.type, other.type)
        for one, other in zip(first, second, strict=True)
        if one.type is not None and other.type is not None
    ]
    if not both:
        return {"typed": 0.0}
    relevant = [(one != "irrelevant", other != "irrelevant") for one, other in both]
    correct = [
        (one == "adversarial", other == "adversarial")
        for (one, other), (seen, seen_too) in zip(both, relevant, strict=True)
        if seen and seen_too
    ]
    shares = {
        "typed": len(both) / len(first),
        "type": sum(one == other for one, other in both) / len(both),
        "relevant": sum(one == other for one, other in relevant) / len(both),
    }
    if correct:
        shares["correct"] = sum(one == other for one, other in correct) / len(correct)
    return shares


def content_words(text: str) -> set[str]:
    """The words of a text that say what it is about, plural s dropped, synonyms as one.

    >>> sorted(content_words("How many tiny stars are there in the picture?"))
    ['small', 'star']
    """
    words = set()
    for word in tokenise(text):
        if word in _FUNCTION_WORDS:
            continue
        single = word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] != "s" else word
        words.add(_MEANT.get(word, _MEANT.get(single, single)))
    return words


def _is_correct(
    belief: Belief,
    annotated: Mapping[tuple[int, tuple[str, ...]], Sequence[str]],
    judged: Mapping[tuple[int, str], str] | None,
) -> bool | None:
    given = annotated.get((belief.image_id, tuple(tokenise(belief.question))))
    if given:
        soft = AnswerVocabulary([belief.answer]).soft_targets([given])
        return bool(soft.values.sum() >= 0.5)
    if judged is not None and (belief.image_id, belief.question) in judged:
        told = judged[belief.image_id, belief.question]
        return normalise_answer(told) == normalise_answer(belief.answer)
    return None


_MEANT = {synonym: value for value, synonyms in SYNONYMS.items() for synonym in synonyms}
