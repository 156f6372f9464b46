"""Text metrics of whole pools equal those of the libraries, and rank as a full sort does."""

import gzip
import json
import random
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from nltk.stem import PorterStemmer
from nltk.translate.meteor_score import single_meteor_score
from numpy.typing import NDArray

from ivqa.metrics import CiderStatistics, cider_scores, meteor_nltk
from ivqa.metrics.captions import meteor
from ivqa.ranking import BleuRanker, CiderRanker, MeteorRanker, RougeLRanker, score_ranking
from ivqa.ranking.text_metrics import TextMetricRanker
from ivqa.store.identity import identity_of
from ivqa.text.duplicates import duplicates_of
from ivqa.text.tokens import tokenise

RANKERS = [*map(BleuRanker, range(1, 5)), RougeLRanker(), CiderRanker(), MeteorRanker()]
WORDS = tokenise("What color is the the the dog, dogs running, run runs left of a colored to on")
Sentences = list[list[str]]


def _random_questions(number: int, seed: int, longest: int = 12) -> Sentences:
    """Questions of few different words, which are repeated in other orders and numbers."""
    rng = random.Random(seed)
    drawn = [rng.choices(WORDS, k=rng.randrange(longest + 1)) for _ in range(number - 3)]
    return [*drawn, [], ["the"] * longest, [f"unknown{seed}", *WORDS[:3]]]


# Main questions for each integer type, and with more words than 64 bits.
LONG = random.Random(0).choices(WORDS, k=99)
MAIN = [*_random_questions(16, 1), *(LONG[:length] for length in (8, 9, 16, 33, 64, 65, 99))]
POOL = [*_random_questions(40, 2), *_random_questions(10, 3, 40), LONG[:70]]


def _real(shared_data: Path, split: str, number: int) -> Sentences:
    file = shared_data / "vqa_v2_subset" / f"questions_{split}.json.gz"
    questions = json.loads(gzip.decompress(file.read_bytes()))["questions"]
    chosen = random.Random(0).sample(questions, number)
    return [tokenise(question["question"]) for question in chosen]


def _every_pair(main: Sentences, pool: Sentences) -> tuple[dict, dict]:
    """Arguments of pycocoevalcap: main questions as references, basic questions as hypotheses."""
    pairs = [(" ".join(mq), " ".join(bq)) for mq in main for bq in pool]
    return (
        {row: [reference] for row, (reference, _) in enumerate(pairs)},
        {row: [hypothesis] for row, (_, hypothesis) in enumerate(pairs)},
    )


def _library_bleu(main: Sentences, pool: Sentences) -> NDArray[np.float64]:
    """BLEU-1 to BLEU-4 of pycocoevalcap, (4, B, N)."""
    library = pytest.importorskip("pycocoevalcap.bleu.bleu")
    scores = library.Bleu(4).compute_score(*_every_pair(main, pool), verbose=0)[1]
    return np.array(scores).reshape(4, len(main), len(pool))


def _library_rouge(main: Sentences, pool: Sentences) -> NDArray[np.float64]:
    library = pytest.importorskip("pycocoevalcap.rouge.rouge")
    scores = library.Rouge().compute_score(*_every_pair(main, pool))[1]
    return scores.reshape(len(main), len(pool))


def _library_cider(main: Sentences, pool: Sentences) -> NDArray[np.float64]:
    """CIDEr-D of pycocoevalcap with the document frequencies of the pool, (B, N)."""
    library = pytest.importorskip("pycocoevalcap.cider.cider_scorer")
    rows = []
    for reference in main:
        scorer = library.CiderScorer()
        scorer.crefs = [library.cook_refs([" ".join(words)]) for words in pool]
        scorer.compute_doc_freq()
        # It divides by the number of references, so there are as many as questions in the pool.
        scorer.crefs = [library.cook_refs([" ".join(reference)])] * len(pool)
        scorer.ctest = [library.cook_test(" ".join(words)) for words in pool]
        rows.append(scorer.compute_cider())
    return np.array(rows)


def _assert_equal_to_pycocoevalcap(main: Sentences, pool: Sentences) -> None:
    for order, expected in enumerate(_library_bleu(main, pool), start=1):
        found = BleuRanker(order).scores(pool)(main)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=0)
    found = RougeLRanker().scores(pool)(main)
    np.testing.assert_allclose(found, _library_rouge(main, pool), atol=1e-12)
    found = CiderRanker().scores(pool)(main)
    np.testing.assert_allclose(found, _library_cider(main, pool), atol=2e-9)


def test_every_pair_equals_pycocoevalcap() -> None:
    _assert_equal_to_pycocoevalcap(MAIN, POOL)


def test_every_pair_of_real_questions_equals_pycocoevalcap(shared_data: Path) -> None:
    _assert_equal_to_pycocoevalcap(_real(shared_data, "val", 6), _real(shared_data, "train", 150))


def test_cider_equals_ivqa_metrics_with_the_statistics_of_the_pool() -> None:
    pool = [" ".join(words) for words in POOL]
    statistics = CiderStatistics.of([[text] for text in pool])
    for words in MAIN[:5]:
        expected = cider_scores(pool, [[" ".join(words)]] * len(pool), statistics)
        np.testing.assert_allclose(CiderRanker().scores(POOL)([words])[0], expected, atol=2e-9)


def test_meteor_equals_ivqa_metrics() -> None:
    found = MeteorRanker().scores(POOL)(MAIN)
    assert (found > 0).mean() > 0.5
    for row, mq in enumerate(MAIN):
        expected = [meteor_nltk([" ".join(bq)], [[" ".join(mq)]]) for bq in POOL]
        np.testing.assert_allclose(found[row], expected, rtol=1e-13, atol=0)


def test_the_synonym_stage_of_meteor_equals_nltk(monkeypatch: pytest.MonkeyPatch) -> None:
    def synsets(word: str) -> list[SimpleNamespace]:
        sets = ({"left", "of", "what"}, {"dog", "on", "running_dog"}, {"on", "colored", "a"})
        names = [sorted(names) for names in sets if word in names and word != "a"]
        # "a" is a synonym of "on", but "on" is not one of "a".
        return [
            SimpleNamespace(lemmas=lambda n=n: [SimpleNamespace(name=lambda m=m: m) for m in n])
            for n in names
        ]

    wordnet = SimpleNamespace(synsets=synsets)
    without = MeteorRanker().scores(POOL)(MAIN)
    monkeypatch.setattr(meteor, "_synonyms", lambda: wordnet)
    assert MeteorRanker().stages == "exact+stem+synonym"
    found = MeteorRanker().scores(POOL)(MAIN)
    assert (found != without).mean() > 0.2
    for row, mq in enumerate(MAIN):
        expected = [
            single_meteor_score(mq, bq, stemmer=PorterStemmer(), wordnet=wordnet) for bq in POOL
        ]
        np.testing.assert_allclose(found[row], expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("ranker", RANKERS, ids=str)
@pytest.mark.parametrize("pairs_at_once", [300, 10**6])
def test_the_best_equal_those_of_a_full_sort(
    ranker: TextMetricRanker, pairs_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_ranking, "_PAIRS_AT_ONCE", pairs_at_once)
    questions, pool = ([" ".join(words) for words in side] for side in (MAIN, [*POOL, *POOL]))
    exclude = duplicates_of(questions, pool)
    assert any(exclude)
    ranking = ranker.rank(questions, pool, 21, exclude)
    everything = ranker.scores([*POOL, *POOL])(MAIN)
    for row, scores in enumerate(everything):
        allowed = [at for at in range(len(pool)) if at not in exclude[row]]
        best = sorted(allowed, key=lambda at: (-scores[at], at))[:21]
        assert ranking.indices[row].tolist() == best
        np.testing.assert_allclose(ranking.scores[row], scores[best], rtol=1e-6)
    assert not ranking.gap.any()
    assert (ranking.support == (ranking.scores > 0).sum(axis=1)).all()


@pytest.mark.parametrize("ranker", RANKERS, ids=str)
def test_equal_questions_keep_the_order_of_the_pool(ranker: TextMetricRanker) -> None:
    pool = ["Is a cat here?", "Is a dog here?", "Why?", "IS A DOG HERE", "Is a dog here, then?"] * 9
    ranking = ranker.rank(["Is a dog here?"], pool, 45, [[]])
    dogs = [row for row in range(45) if row % 5 in (1, 3)]
    assert ranking.indices[0][:18].tolist() == dogs
    # Questions with the same words keep their order.
    places = np.argsort(ranking.indices[0])
    assert all(first < second for kind in range(5) for first, second in pairwise(places[kind::5]))


@pytest.mark.parametrize("ranker", RANKERS, ids=str)
def test_empty_questions_and_pools(ranker: TextMetricRanker) -> None:
    ranking = ranker.rank(["?", "Why?"], ["", "Why not?", "?!"], 2, [[], []])
    assert np.isfinite(ranking.scores).all()
    assert ranking.indices[1][0] == 1
    none = ranker.rank([], ["Why?"], 1, [])
    assert none.indices.shape == none.scores.shape == (0, 1)
    for pool, exclude, left in (([], [[]], 0), (["Why?", "Who?"], [[0, 1, 0]], 0)):
        with pytest.raises(ValueError, match=f"only {left} questions to rank, but k is 1"):
            ranker.rank(["Why?"], pool, 1, exclude)
    with pytest.raises(ValueError, match="exclude has 1 entries for 2 main questions"):
        ranker.rank(["Why?", "Who?"], ["Why?"], 1, [[]])
    # A pool of questions without words.
    assert ranker.rank(["Why?"], ["", "?"], 2, [[]]).indices.tolist() == [[0, 1]]


def test_an_order_below_1_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        BleuRanker(0)


def test_stored_rankings_of_different_metrics_have_different_settings() -> None:
    settings = [repr(identity_of(ranker)) for ranker in RANKERS]
    assert len(set(settings)) == len(RANKERS)
    assert "exact+stem" in settings[-1]
