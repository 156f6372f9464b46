"""Concepts: the most frequent words, and short runs of words, of the captions.

The concepts of the paper [iVQA 3.2] are the 1,000 most frequent words of the captions; runs of two
words, which bind a colour to a shape, are an addition.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from ivqa.data.images import ImageFiles
from ivqa.data.split import VQASplit
from ivqa.errors import UserError
from ivqa.features.decoding import subset
from ivqa.text.tokens import tokenise

# Words that do not describe the content of an image.
_STOP_WORDS = frozenset(
    "a an the of in on at and or to is are was were be been this that these those it its there "  # noqa: SIM905
    "here with by for from as do does did has have had you we they he she i his her their some "
    "any what where when who which why how many much can could".split()
)
# Where a phrase ends: "a red star and a blue heart" has no concept "star blue".
_PHRASE_END = re.compile(r"[,.;:?!]|\band\b")


class ConceptVocabulary:
    """The concepts of a data set, most frequent first.

    A concept is a run of one or more words of a phrase without its stop words, such as "star" or
    "red star".
    """

    def __init__(self, concepts: Sequence[str]) -> None:
        self.concepts = list(concepts)
        self._index = {concept: index for index, concept in enumerate(self.concepts)}
        self._longest = max((concept.count(" ") + 1 for concept in self.concepts), default=1)

    @classmethod
    def build(
        cls, texts: Iterable[Iterable[str]], size: int, longest: int = 1, min_images: int = 5
    ) -> "ConceptVocabulary":
        """Chooses the `size` concepts that most images have.

        Args:
            longest: The maximum number of words of a concept.
            min_images: Concepts of fewer images are left out, because they cannot be learned.

        Raises:
            UserError: Fewer than two concepts occur with `min_images` images.
        """
        counts = Counter(
            concept for captions in texts for concept in _concepts_of(captions, longest)
        )
        # Equal counts are ordered by the alphabet, so that the vocabulary is reproducible.
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
        """The targets (M, C) float32 of the concept predictor.

        A target is 1 where a text of image m has concept c, else 0.

        Example:
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
    """The M images of a split that have texts, and a list of texts for each.

    The texts are the captions, or in data without captions the questions about an image and their
    answers. An image without texts is left out, because its targets would be 0 for all concepts.

    Raises:
        UserError: The split has no images.
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
