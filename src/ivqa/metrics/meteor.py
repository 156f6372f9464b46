"""METEOR by NLTK: exact and stem matches, synonyms where WordNet is at hand."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from nltk.corpus import wordnet
from nltk.stem import PorterStemmer
from nltk.translate.meteor_score import meteor_score

from ivqa.metrics.ngrams import require_pairs
from ivqa.text.tokens import tokenise


class _NoSynonyms:
    """Stands in for WordNet where its data are absent."""

    def synsets(self, word: str) -> list[Any]:
        return []


class _CachedStemmer:
    def __init__(self) -> None:
        self.stem = cache(PorterStemmer().stem)


_STEMMER = _CachedStemmer()


def meteor_nltk(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Mean METEOR in [0, 1] by NLTK (the 2007 formula: alpha 0.9, beta 3, gamma 0.5).

    This is not METEOR 1.5 of the COCO evaluation, a Java program with paraphrase tables: compare
    these values with each other only. `meteor_stages` says which stages ran.
    Raises ValueError where the two sides do not match.
    """
    require_pairs(hypotheses, references)
    source = _synonyms()
    scores: dict[tuple[str, ...], float] = {}  # generators repeat themselves
    total = 0.0
    for hypothesis, texts in zip(hypotheses, references, strict=True):
        key = (hypothesis, *texts)
        if key not in scores:
            words = [tokenise(text) for text in texts]
            scores[key] = meteor_score(
                words, tokenise(hypothesis), stemmer=_STEMMER, wordnet=source
            )
        total += scores[key]
    return total / len(hypotheses)


def meteor_stages() -> tuple[str, ...]:
    """The matching stages that run on this machine."""
    found = not isinstance(_synonyms(), _NoSynonyms)
    return ("exact", "stem", "synonym") if found else ("exact", "stem")


def stem(word: str) -> str:
    """What the stem stage compares words by."""
    found: str = _STEMMER.stem(word)
    return found


def synonyms(word: str) -> set[str]:
    """One-word lemmas of the word's synsets: what the synonym stage matches a stem with.

    Empty where WordNet is absent.
    """
    lemmas = [lemma.name() for synset in _synonyms().synsets(word) for lemma in synset.lemmas()]
    return {name for name in lemmas if "_" not in name}


@cache
def _synonyms() -> Any:
    try:
        wordnet.ensure_loaded()
    except LookupError:
        return _NoSynonyms()
    return wordnet
