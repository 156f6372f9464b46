"""Question pools of the iVQA benchmark: 24 candidate questions for each image and answer.

`build_pools` draws them by the rules of the paper [iVQA 3.3], `write_pools` keeps them, so that
every model ranks the same questions, and a `WordReplacement` makes the plausible distractors.
"""

from ivqa.pools.building import KINDS, Pools, PoolSettings, Sources, build_pools
from ivqa.pools.files import read_pools, write_pools
from ivqa.pools.replacement import (
    GrammarReplacement,
    TaggedReplacement,
    WordReplacement,
)

__all__ = [
    "KINDS",
    "GrammarReplacement",
    "PoolSettings",
    "Pools",
    "Sources",
    "TaggedReplacement",
    "WordReplacement",
    "build_pools",
    "read_pools",
    "write_pools",
]
