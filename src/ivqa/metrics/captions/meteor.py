"""METEOR by NLTK: exact matches, stems, and synonyms where WordNet is installed."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from nltk.corpus import wordnet
from nltk.stem import PorterStemmer
from nltk.translate.meteor_score import meteor_score
from numpy.typing import NDArray

from ivqa.metrics.captions.ngrams import require_pairs
from ivqa.text.tokens import tokenise


class _NoSynonyms:
    """Replaces WordNet where its data are not installed."""

    def synsets(self, word: str) -> list[Any]:
        return []


class _CachedStemmer:
    """NLTK's Porter stemmer with a cache."""

    def __init__(self) -> None:
        # meteor_score stems the same words again for every pair.
        self.stem = cache(PorterStemmer().stem)


_STEMMER = _CachedStemmer()


def meteor_nltk(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Computes the mean METEOR of a corpus by NLTK, in [0, 1] (Lavie and Agarwal 2007).

        METEOR = (1 - gamma * (chunks / matches)^beta) * P R / (alpha P + (1 - alpha) R)

    with alpha = 0.9, beta = 3 and gamma = 0.5; P and R are the precision and recall of the matched
    words. A hypothesis has its best value over its references. The COCO evaluation uses METEOR
    1.5, a Java program with paraphrase tables, so its values are not comparable. The value depends
    on `meteor_stages`. Arguments and errors are those of `bleu`.

    Example:
        >>> round(meteor_nltk(["what color is the star"], [["what color is the star"]]), 3)
        0.996
    """
    return float(meteor_scores(hypotheses, references).mean())


def meteor_scores(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> NDArray[np.float64]:
    """Computes METEOR of each hypothesis by NLTK, (P,) float64 in [0, 1]; see `meteor_nltk`."""
    require_pairs(hypotheses, references)
    source = _synonyms()
    scores: dict[tuple[str, ...], float] = {}  # generators repeat questions
    found = np.empty(len(hypotheses))
    for number, (hypothesis, texts) in enumerate(zip(hypotheses, references, strict=True)):
        key = (hypothesis, *texts)
        if key not in scores:
            words = [tokenise(text) for text in texts]
            scores[key] = meteor_score(
                words, tokenise(hypothesis), stemmer=_STEMMER, wordnet=source
            )
        found[number] = scores[key]
    return found


def meteor_stages() -> tuple[str, ...]:
    """Names the matching stages of this machine: "synonym" only if WordNet is installed."""
    found = not isinstance(_synonyms(), _NoSynonyms)
    return ("exact", "stem", "synonym") if found else ("exact", "stem")


def stem(word: str) -> str:
    """Computes the Porter stem of a lower-case word, which the stem stage compares.

    Example:
        >>> stem("colors")
        'color'
    """
    found: str = _STEMMER.stem(word)
    return found


def synonyms(word: str) -> set[str]:
    """Looks up the one-word lemmas of a word's WordNet synsets, which the synonym stage matches.

    Empty if WordNet is not installed.
    """
    lemmas = [lemma.name() for synset in _synonyms().synsets(word) for lemma in synset.lemmas()]
    return {name for name in lemmas if "_" not in name}


@cache
def _synonyms() -> Any:
    """WordNet, or an empty replacement."""
    try:
        wordnet.ensure_loaded()
    except LookupError:
        return _NoSynonyms()
    return wordnet
