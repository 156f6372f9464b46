"""Types of beliefs on images without an oracle, estimated from captions and annotations.

A belief is relevant where its content words occur in the captions of the image or in the questions
about it. It is irrelevant where they do not occur although there are captions, which describe the
whole image; without captions nothing says what an image lacks. It states the same fact as a
question of the data set where their content words agree. It is correct where annotators gave its
answer to the same question, or to one with the same content words and the same first words. Such a
type is an estimate: `Belief.type_by` is "proxy". A belief that the data say too little about has no
type.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ivqa.data import VQASplit
from ivqa.diagnosis.beliefs.beliefs import Belief, type_of
from ivqa.scenes.programs import SYNONYMS
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.tokens import tokenise

# Words that say nothing about the subject of a question.
_FUNCTION_WORDS = frozenset(
    "a an the of in on at and or to is are was were be been does do did has have had there this "  # noqa: SIM905
    "that these those it its any some what which who where when why how many much number can could "
    "you we they see find show shown shows seen picture image photo kind type with from for by "
    "than as not more same all each other thing things object objects".split()
)
_FIRST_WORDS = 2  # "what color", "how many", "is there"
# Least share of the content words of a relevant belief that texts about the image have, too.
_RELEVANCE = 0.75
_SAMENESS = 0.75  # least overlap (Jaccard) of the content words of questions about the same fact
_VALUE_OF_SYNONYM = {synonym: value for value, synonyms in SYNONYMS.items() for synonym in synonyms}


def typed_by_proxy(
    beliefs: Sequence[Belief],
    split: VQASplit,
    references: Mapping[tuple[int, str], Sequence[str]],
) -> list[Belief]:
    """Assigns types to beliefs by the rules of this module.

    Args:
        split: Questions, annotations and captions of the images.
        references: The data set's own questions of each (image, answer).

    Returns:
        The beliefs in the same order. A belief has no type if it is relevant and nobody answered a
        question like it, or if its words are unknown and the image has no captions.
    """
    known: dict[int, set[str]] = {}
    answers_to = annotated_answers(split)
    captioned = {image_id for image_id, texts in (split.captions or {}).items() if texts}
    for image_id, question in zip(split.image_ids.tolist(), split.questions, strict=True):
        known.setdefault(image_id, set()).update(content_words(question))
    for image_id, captions in (split.captions or {}).items():
        for caption in captions:
            known.setdefault(image_id, set()).update(content_words(caption))
    typed = []
    for belief in beliefs:
        words = content_words(belief.question)
        seen = known.get(belief.image_id, set())
        # A question of function words only presupposes nothing.
        relevant = not words or len(words & seen) / len(words) >= _RELEVANCE
        correct = _is_correct(belief, answers_to(belief.image_id, belief.question))
        unknown = correct is None if relevant else belief.image_id not in captioned
        if unknown:
            typed.append(replace(belief, type=None, type_by=None))
            continue
        same = states_same_fact(belief, references)
        kind = type_of(relevant=relevant, same_fact=same, correct=bool(correct))
        typed.append(replace(belief, type=kind, type_by="proxy"))
    return typed


def states_same_fact(belief: Belief, references: Mapping[tuple[int, str], Sequence[str]]) -> bool:
    """Whether a belief states the same fact as a question of the data set, by their words."""
    words = content_words(belief.question)
    own = [content_words(text) for text in references.get((belief.image_id, belief.answer), ())]
    return any(len(words & other) >= _SAMENESS * max(len(words | other), 1) for other in own)


def annotated_answers(split: VQASplit) -> Callable[[int, str], Sequence[str] | None]:
    """Finds what annotators answered to a question, or to one of the same meaning.

    Returns:
        A function of image id and question. It returns the answers to the same words or else to
        the same content words and first words; None where nobody answered such a question.
    """
    annotated: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for row, (image_id, question) in enumerate(
        zip(split.image_ids.tolist(), split.questions, strict=True)
    ):
        for key in _keys(image_id, question):
            annotated.setdefault(key, []).extend(split.answers[row])

    def given(image_id: int, question: str) -> Sequence[str] | None:
        keys = _keys(image_id, question)
        return next((annotated[key] for key in keys if annotated.get(key)), None)

    return given


def agreement(first: Sequence[Belief], second: Sequence[Belief]) -> dict[str, float]:
    """Compares two typings of the same beliefs.

    Args:
        first: The beliefs with types, None for unknown.
        second: The same beliefs in the same order, with other types.

    Returns:
        Shares in [0, 1]. "typed": beliefs that have both types. Of these, "type": the same type;
        "relevant": the same relevance. "correct": the same correctness, of the beliefs that both
        typings call relevant. Only "typed" where no belief has both types.
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
        for (one, other), (relevant_first, relevant_second) in zip(both, relevant, strict=True)
        if relevant_first and relevant_second
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
    """The words that carry the subject of a question or a caption.

    Without function words, without plural s, and with one word for synonyms.

    Example:
        >>> sorted(content_words("How many tiny stars are there in the picture?"))
        ['small', 'star']
    """
    words = set()
    for word in tokenise(text):
        if word in _FUNCTION_WORDS:
            continue
        # A plural s, but not the end of "bus" or "grass".
        single = word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] != "s" else word
        words.add(_VALUE_OF_SYNONYM.get(word, _VALUE_OF_SYNONYM.get(single, single)))
    return words


def _keys(image_id: int, question: str) -> list[tuple[int, tuple[str, ...]]]:
    """What equal questions have in common: all words; then first words and content words."""
    words = tokenise(question)
    meaning = (*words[:_FIRST_WORDS], "|", *sorted(content_words(question)))
    return [(image_id, tuple(words)), (image_id, meaning)]


def _is_correct(belief: Belief, given: Sequence[str] | None) -> bool | None:
    """Whether the answer's official accuracy is at least 0.5; None without annotations."""
    if given is None:
        return None
    # One answer and one question: the only entry is the accuracy of the answer.
    soft = AnswerVocabulary([belief.answer]).soft_targets([list(given)])
    return bool(soft.values.sum() >= 0.5)
