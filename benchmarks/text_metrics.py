"""Claim: text metrics rank a pool at least 100 times as fast as pycocoevalcap scores its pairs.

Pairs a second of `rank`, main questions against the whole pool with the index of the pool and the
21 best included, and of the library's scorer on part of the same pairs; in turn, in one process and
thread, by processor time, which other programs on the machine do not count in.
CIDEr's document frequencies are made for the library beforehand. Its METEOR is a Java program: the
peer there is NLTK, stems cached, whose values ours are. Questions: those of VQA v2 in
IVQA_SHARED_DATA or ../shared/data, validation against training; without it those of data=scenes.
"""

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider_scorer import CiderScorer, cook_refs, cook_test
from pycocoevalcap.rouge.rouge import Rouge

from benchmarks.timing import paired
from ivqa.data.dataset import VQADataset
from ivqa.metrics import meteor_nltk
from ivqa.ranking import BleuRanker, CiderRanker, MeteorRanker, RougeLRanker
from ivqa.ranking.text_metrics import TextMetricRanker
from ivqa.ranking.text_metrics.ranker import pool_scores
from ivqa.scenes import ScenesDataset
from ivqa.text.duplicates import duplicates_of, unique_questions
from ivqa.text.tokens import tokenise

MAIN, BASIC, PEER_PAIRS = 500, 40_000, 1000
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"

Pairs = list[tuple[str, str]]  # a main and a basic question, words apart by spaces


def run() -> list[dict[str, Any]]:
    """One row a metric."""
    main, pool = _questions()
    exclude = duplicates_of(main, pool)
    words = [" ".join(tokenise(question)) for question in pool]
    reference = " ".join(tokenise(main[0]))
    pairs = [(reference, hypothesis) for hypothesis in words[:PEER_PAIRS]]
    peers: dict[str, tuple[TextMetricRanker, Callable[[], object]]] = {
        **{f"BLEU-{n}": (BleuRanker(n), partial(_bleu, n, pairs)) for n in range(1, 5)},
        "ROUGE-L": (RougeLRanker(), partial(_rouge, pairs)),
        "CIDEr-D": (CiderRanker(), partial(_cider, _frequencies(words), pairs)),
        f"METEOR ({MeteorRanker().stages}, NLTK)": (MeteorRanker(), partial(_meteor, pairs)),
    }
    return [
        _row(name, partial(_rank, ranker, main, pool, exclude), peer, len(main) * len(pool))
        for name, (ranker, peer) in peers.items()
    ]


def _row(
    name: str, rank: Callable[[], object], peer: Callable[[], object], pairs: int
) -> dict[str, Any]:
    ours, theirs = paired(rank, peer, repeats=3, clock=time.process_time)
    return {
        "metric": name,
        "ivqa, pairs/s": round(pairs / ours),
        "library, pairs/s": round(PEER_PAIRS / theirs),
        "ratio": pairs / ours / (PEER_PAIRS / theirs),
        f"9,000 x {BASIC}, s": round(ours * 9000 * BASIC / pairs),
    }


def _rank(
    ranker: TextMetricRanker, main: list[str], pool: list[str], exclude: list[list[int]]
) -> None:
    pool_scores.cache_clear()  # the index of the pool is part of the work
    ranker.rank(main, pool, 21, exclude)


def _bleu(order: int, pairs: Pairs) -> None:
    Bleu(order).compute_score(*_as_captions(pairs), verbose=0)


def _rouge(pairs: Pairs) -> None:
    Rouge().compute_score(*_as_captions(pairs))


def _cider(frequencies: CiderScorer, pairs: Pairs) -> None:
    scorer = CiderScorer()
    scorer.document_frequency = frequencies.document_frequency
    for reference, hypothesis in pairs:
        scorer.crefs.append(cook_refs([reference]))
        scorer.ctest.append(cook_test(hypothesis))
    scorer.compute_cider()


def _frequencies(words: list[str]) -> CiderScorer:
    scorer = CiderScorer()
    scorer.crefs = [cook_refs([question]) for question in words]
    scorer.compute_doc_freq()
    return scorer


def _meteor(pairs: Pairs) -> None:
    meteor_nltk([hypothesis for _, hypothesis in pairs], [[reference] for reference, _ in pairs])


def _as_captions(pairs: Pairs) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    references = {row: [reference] for row, (reference, _) in enumerate(pairs)}
    return references, {row: [hypothesis] for row, (_, hypothesis) in enumerate(pairs)}


def _questions() -> tuple[list[str], list[str]]:
    """Different main and basic questions."""
    root = Path(os.environ.get("IVQA_SHARED_DATA", SHARED)) / "vqa_v2_subset"
    with tempfile.TemporaryDirectory() as folder:
        dataset: VQADataset = VQADataset(root) if root.is_dir() else ScenesDataset(folder)
        if isinstance(dataset, ScenesDataset):
            dataset.prepare()
        main, basic = dataset.split("val").questions, dataset.split("train").questions
    return unique_questions(main)[:MAIN], unique_questions(basic)[:BASIC]
