"""Concepts: the words, and short runs of words, that captions use most [iVQA 3.2]."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from ivqa.data.images import ImageFiles
from ivqa.data.vqa_json import VQASplit
from ivqa.errors import UserError
from ivqa.features.extraction import subset
from ivqa.text.tokens import tokenise

# Words that say nothing about what an image shows.
_STOP_WORDS = frozenset(
    "a an the of in on at and or to is are was were be been this that these those it its there "  # noqa: SIM905
    "here with by for from as do does did has have had you we they he she i his her their some "
    "any what where when who which why how many much can could".split()
)
_PHRASE_END = re.compile(r"[,.;:?!]|\band\b")


class ConceptVocabulary:
    """The concepts of a data set, most frequent first.

    A concept is a run of at most a few words of one phrase, stop words left out: "star" and, as a
    run of two, "red star", which says what is red.
    """

    def __init__(self, concepts: Sequence[str]) -> None:
        self.concepts = list(concepts)
        self._index = {concept: index for index, concept in enumerate(self.concepts)}
        self._longest = max((concept.count(" ") + 1 for concept in self.concepts), default=1)

    @classmethod
    def build(
        cls, texts: Iterable[Iterable[str]], size: int, longest: int = 1, min_images: int = 5
    ) -> "ConceptVocabulary":
        """The `size` concepts of at most `longest` words that most images have.

        texts: of each image. min_images: rarer concepts cannot be learnt and are left out.
        Raises UserError where fewer than two concepts are that frequent.
        """
        counts = Counter(
            concept for captions in texts for concept in _concepts_of(captions, longest)
        )
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        kept = [concept for concept, count in ranked[:size] if count >= min_images]
        if len(kept) < 2:
            raise UserError(
                f"fewer than two words occur with at least {min_images} images, so there are no "
                "concepts to learn; give captions_SPLIT.json or more data, or choose a backbone "
                "for features="
            )
        return cls(kept)

    def targets(self, texts: Sequence[Iterable[str]]) -> Tensor:
        """(M, C) float32: 1 where a text of image m has concept c.

        >>> vocabulary = ConceptVocabulary(["star", "red star", "blue star"])
        >>> vocabulary.targets([["A red star, and a blue heart"]]).tolist()
        [[1.0, 1.0, 0.0]]
        """
        targets = np.zeros((len(texts), len(self)), dtype=np.float32)
        for row, captions in enumerate(texts):
            found = _concepts_of(captions, self._longest)
            targets[row, [self._index[name] for name in found if name in self._index]] = 1
        return torch.from_numpy(targets)

    def __len__(self) -> int:
        return len(self.concepts)


def described_images(split: VQASplit) -> tuple[ImageFiles, list[list[str]]]:
    """The images of which the data say something, and the texts that describe each of them.

    Captions where the data have them; else the questions about the image and their answers. An
    image without any text is left out: it would teach that it shows none of the concepts.
    """
    images = split.require_images()
    by_image: dict[int, list[str]] = {}
    if split.captions is not None:
        by_image = split.captions
    else:
        for image_id, question, answer in zip(
            split.image_ids.tolist(), split.questions, split.main_answers, strict=True
        ):
            by_image.setdefault(image_id, []).extend((question, answer))
    described = subset(images, [image_id for image_id, texts in by_image.items() if texts])
    return described, [by_image[image_id] for image_id in described.ids.tolist()]


def _concepts_of(texts: Iterable[str], longest: int) -> set[str]:
    found: set[str] = set()
    for text in texts:
        for phrase in _PHRASE_END.split(text.lower()):
            words = [word for word in tokenise(phrase) if word not in _STOP_WORDS]
            for length in range(1, longest + 1):
                found.update(
                    " ".join(words[at : at + length]) for at in range(len(words) - length + 1)
                )
    return found
