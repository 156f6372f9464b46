"""Claim: the metrics of a generator's questions cost less than those of pycocoevalcap and NLTK.

Pairs a second of 5,000 questions with one to three references each, most of their n-grams rare,
which is the costly case; self-BLEU of 100 pairs with 20 questions each, where the peer is NLTK's
sentence BLEU of each against the others. In turn, in one process, by processor time; both sides
tokenise for themselves.
"""

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from benchmarks.timing import paired
from ivqa.metrics import bleu, cider, question_diversity, rouge_l
from ivqa.text.tokens import tokenise

PAIRS, DIVERSE_PAIRS, QUESTIONS_A_PAIR = 5000, 100, 20
FRAMES = (
    "What color is the {} in row {}?",
    "Is there a {} next to number {}?",
    "How many {}s are left of the {} on the table?",
    "Why is the {} at {}?",
)
THINGS = ("star", "heart", "circle", "old dog", "red car", "tree")


def run() -> list[dict[str, Any]]:
    """One row a metric."""
    rng = random.Random(0)

    def question() -> str:
        return rng.choice(FRAMES).format(rng.choice(THINGS), rng.randrange(999))

    texts = [question() for _ in range(PAIRS)]
    references = [[question() for _ in range(rng.randint(1, 3))] for _ in range(PAIRS)]
    diverse = [[question() for _ in range(QUESTIONS_A_PAIR)] for _ in range(DIVERSE_PAIRS)]
    theirs = partial(_captions, texts, references)
    return [
        _row("BLEU-1 to 4", lambda: bleu(texts, references), partial(theirs, Bleu(4)), PAIRS),
        _row("ROUGE-L", lambda: rouge_l(texts, references), partial(theirs, Rouge()), PAIRS),
        _row("CIDEr-D", lambda: cider(texts, references), partial(theirs, Cider()), PAIRS),
        _row(
            "self-BLEU (NLTK)",
            lambda: question_diversity(diverse),
            lambda: [_self_bleu(questions) for questions in diverse],
            DIVERSE_PAIRS,
        ),
    ]


def _row(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], pairs: int
) -> dict[str, Any]:
    first, second = paired(ours, theirs, repeats=3, clock=time.process_time)
    return {
        "metric": name,
        "ivqa, pairs/s": round(pairs / first),
        "library, pairs/s": round(pairs / second),
        "ratio": round(second / first, 1),
    }


def _captions(texts: list[str], references: list[list[str]], scorer: Any) -> None:
    found = {row: [" ".join(tokenise(text))] for row, text in enumerate(texts)}
    wanted = {row: [" ".join(tokenise(t)) for t in group] for row, group in enumerate(references)}
    quiet = {"verbose": 0} if isinstance(scorer, Bleu) else {}
    scorer.compute_score(wanted, found, **quiet)


def _self_bleu(questions: list[str]) -> list[float]:
    words = [tokenise(question) for question in questions]
    smoothing = SmoothingFunction().method1
    return [
        sentence_bleu(words[:at] + words[at + 1 :], words[at], smoothing_function=smoothing)
        for at in range(len(words))
    ]
