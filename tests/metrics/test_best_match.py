"""Best matches, compared with plain Python loops over candidates and references."""

import math
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from ivqa.metrics import CiderStatistics, Matches, bleu, bleu_scores

WORDS = ["is", "the", "red", "blue", "star", "heart", "left", "of", "what", "color"]
CORPUS = ["is the star red", "what color is the star", "is the heart left of the star", "is it"]


def grams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[at : at + order]) for at in range(len(words) - order + 1))


def cider_d(hypothesis: str, reference: str, corpus: Sequence[str]) -> float:
    """CIDEr-D against one reference by its definition, with document frequencies of `corpus`."""
    mine, theirs, total = hypothesis.split(), reference.split(), 0.0
    for order in range(1, 5):
        own, other = grams(mine, order), grams(theirs, order)

        def rarity(gram: tuple[str, ...], order: int = order) -> float:
            containing = sum(gram in grams(text.split(), order) for text in corpus)
            return math.log(len(corpus) / max(containing, 1))

        product = sum(
            min(own[gram], count) * count * rarity(gram) ** 2 for gram, count in other.items()
        )
        norms = [
            math.sqrt(sum((count * rarity(gram)) ** 2 for gram, count in counts.items()))
            for counts in (own, other)
        ]
        if all(norms):
            total += product / (norms[0] * norms[1])
    difference = max(len(mine) - 1, 0) - max(len(theirs) - 1, 0)  # lengths in bigrams
    return 10 / 4 * total * math.exp(-(difference**2) / (2 * 6.0**2))


def bleu_n(hypothesis: str, references: Sequence[str], most: int) -> float:
    """Sentence BLEU-n with the guards of pycocoevalcap."""
    mine, theirs, product = hypothesis.split(), [text.split() for text in references], 1.0
    for order in range(1, most + 1):
        own = grams(mine, order)
        allowed: Counter[tuple[str, ...]] = Counter()
        for words in theirs:
            allowed |= grams(words, order)
        product *= ((own & allowed).total() + 1e-15) / (own.total() + 1e-9)
    closest = min((abs(len(words) - len(mine)), len(words)) for words in theirs)[1]
    ratio = (len(mine) + 1e-15) / (closest + 1e-9)
    return product ** (1 / most) * (math.exp(1 - 1 / ratio) if ratio < 1 else 1.0)


def made_up(rng: random.Random, longest: int = 8) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, longest)))


def test_sentence_bleu_follows_the_definition() -> None:
    rng = random.Random(3)
    hypotheses = [made_up(rng) for _ in range(60)]
    references = [[made_up(rng) for _ in range(rng.randint(1, 3))] for _ in range(60)]
    scores = bleu_scores(hypotheses, references)
    assert scores.shape == (60, 4)
    for row, (hypothesis, own) in enumerate(zip(hypotheses, references, strict=True)):
        expected = [bleu_n(hypothesis, own, order) for order in range(1, 5)]
        assert scores[row] == pytest.approx(expected, rel=1e-9)
        assert scores[row] == pytest.approx(bleu([hypothesis], [own]), rel=1e-9)


def test_each_reference_has_its_own_best_candidate_of_its_group() -> None:
    rng = random.Random(5)
    references = [["is the star red", "what color is the star"], [], ["is the heart blue"],
                  ["is the star red", "is the star red"], ["what is left of the star"]]  # fmt: skip
    groups = [0, 0, 0, 1, 2, 2, 3, 0, 3, 2, 3]  # no candidate in the last group
    texts = [made_up(rng) for _ in groups]
    texts[2], texts[5] = "what color is the heart", "is the heart blue"
    chosen = np.array([rng.random() < 0.7 for _ in groups])
    assert not chosen.all()
    found = Matches.of(
        texts, np.array(groups), references, CiderStatistics.of([[t] for t in CORPUS])
    )
    assert found.num_references == 6
    expected_cider, expected_bleu = [], []
    for group, own in enumerate(references):
        for reference in own:
            among = [text for text, at, taken in zip(texts, groups, chosen, strict=True)
                     if at == group and taken]  # fmt: skip
            expected_cider.append(
                max((cider_d(text, reference, CORPUS) for text in among), default=0.0)
            )
            expected_bleu.append(max((bleu_n(text, [reference], 4) for text in among), default=0.0))
    assert found.best_cider(chosen) == pytest.approx(expected_cider, abs=1e-9)
    assert found.best_bleu4(chosen) == pytest.approx(expected_bleu, abs=1e-9)
    assert found.best_cider(chosen)[-1] == 0


def test_bleu_and_cider_have_separate_maxima() -> None:
    """CIDEr prefers the candidate with the rare word, BLEU-4 the one with the longer match."""
    corpus = ["is the star red", "is the star blue", "is the star big", "where is it", "a zebra"]
    reference = "is the star a zebra"
    rare, run = "zebra", "is the star red"
    statistics = CiderStatistics.of([[text] for text in corpus])
    found = Matches.of([rare, run], np.zeros(2, dtype=np.int64), [[reference]], statistics)
    assert found.cider[0] > found.cider[1]
    assert found.bleu4[0] < found.bleu4[1]
    both = np.array([True, True])
    assert found.best_cider(both).tolist() == [found.cider[0]]
    assert found.best_bleu4(both).tolist() == [found.bleu4[1]]


def test_without_candidates_there_is_no_match() -> None:
    statistics = CiderStatistics.of([["is it"]])
    nothing = Matches.of([], np.zeros(0, dtype=np.int64), [["is it"], []], statistics)
    assert nothing.best_cider(np.zeros(0, dtype=bool)).tolist() == [0.0]
    nobody = Matches.of(["is it"], np.zeros(1, dtype=np.int64), [[]], statistics)
    assert nobody.best_bleu4(np.ones(1, dtype=bool)).tolist() == []
