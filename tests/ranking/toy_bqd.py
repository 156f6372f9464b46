"""Main questions, some of them repeated, and a pool of basic questions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ivqa.ranking import RandomRanker, Ranking
from ivqa.ranking.bqd_files import write_parquet
from ivqa.ranking.bqd_ranking import BQDRanking

COLORS = ["red", "blue", "green", "yellow", "black", "white"]
NOUNS = ["car", "bus", "cat", "dog", "tree"]
POOL = [
    *[f"What color is the {noun}?" for noun in NOUNS],
    *[f"Is the {noun} {color}?" for noun in NOUNS for color in COLORS],
    *[f"How many {color} {noun}s are there?" for noun in NOUNS for color in COLORS],
]
# 9 questions, 7 of them distinct; the fixture `make` gives them descending ids.
MAIN = [
    "Is the car red?",
    "How many cats are there?",
    "What color is the big dog?",
    "is the car red",
    "Is the tree pink?",
    "Are the buses blue?",
    "Is the car red?",
    "Is there a white cat?",
    "How many dogs?",
]

MakeRanking = Callable[..., BQDRanking]


def write(job: BQDRanking, file: Path) -> Path:
    """Ranks the questions of a shard and writes its file."""
    assert list(job.run())[-1] == job.size
    write_parquet(file, job.table(), job.origin)
    return file


@dataclass
class Watched:
    """A ranker that records its questions, and raises after `dies_after` parts."""

    dies_after: int = 1000
    asked: list[list[str]] = field(default_factory=list)

    def rank(
        self,
        questions: Sequence[str],
        pool: Sequence[str],
        k: int,
        exclude: Sequence[Sequence[int]],
    ) -> Ranking:
        if len(self.asked) == self.dies_after:
            raise KeyboardInterrupt
        self.asked.append(list(questions))
        return RandomRanker().rank(questions, pool, k, exclude)
