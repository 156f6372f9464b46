"""Fixtures of the ranking tests."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_bqd import MAIN, POOL, MakeRanking

from ivqa.encoders.tfidf import TfidfEncoder
from ivqa.ranking import LassoQuestionRanker
from ivqa.ranking.bqd_ranking import BQDRanking


@pytest.fixture
def make(tmp_path: Path) -> MakeRanking:
    """A function that builds a ranking of MAIN in parts of two questions."""

    def build(folder: str = "parts", **changes: Any) -> BQDRanking:
        settings: dict[str, Any] = {
            "questions": MAIN,
            "question_ids": np.arange(len(MAIN))[::-1] * 10,
            "image_ids": np.arange(len(MAIN)) // 2,
            "pool": POOL,
            "ranker": LassoQuestionRanker(TfidfEncoder(size=24, min_count=1)),
            "settings": {"ranker": {"lam": 1e-6}},
            "folder": tmp_path / folder,
            "k": 5,
            "part_size": 2,
        }
        return BQDRanking(**{**settings, **changes})

    return build
