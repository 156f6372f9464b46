"""Basic question datasets: rankings and resuming."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from toy_bqd import MAIN, POOL, MakeRanking, Watched, write

from ivqa.data import DataError, VQADataset
from ivqa.encoders.encoder import unit_rows
from ivqa.encoders.tfidf import TfidfEncoder
from ivqa.ranking import CosineRanker, LassoQuestionRanker, RandomRanker, Ranking, general_questions
from ivqa.ranking.bqd_files import scores_of, write_records
from ivqa.ranking.question_rankers import QuestionRanker
from ivqa.tasks.rank import bqd_figures
from ivqa.text.tokens import tokenise


def test_each_main_question_has_a_row_and_each_text_is_ranked_once(make: MakeRanking) -> None:
    ranker = Watched()
    job = make(ranker=ranker)
    assert list(job.run()) == [0, 2, 4, 6, 7]
    asked = [text for part in ranker.asked for text in part]
    assert [tokenise(text) for text in asked] == [
        list(words) for words in dict.fromkeys(tuple(tokenise(text)) for text in MAIN)
    ]
    table = job.table()
    assert table["question_id"].to_pylist() == sorted(job.question_ids.tolist())
    assert table["question"].to_pylist() == MAIN[::-1]
    assert table["image_id"].to_pylist() == job.image_ids[::-1].tolist()
    rows = table.to_pylist()[::-1]
    assert rows[0]["basic_questions"] == rows[3]["basic_questions"] == rows[6]["basic_questions"]


def test_the_table_holds_the_ranking_of_the_ranker(make: MakeRanking) -> None:
    job = make()
    list(job.run())
    table = job.table()
    exclude = [[POOL.index("Is the car red?")] if "red" in text else [] for text in MAIN]
    direct = job.ranker.rank(MAIN, POOL, 5, exclude)
    rows = table.to_pylist()[::-1]
    assert [row["basic_questions"][0] for row in rows] == [
        POOL[best] for best in direct.indices[:, 0]
    ]
    assert np.allclose(scores_of(table)[::-1], direct.scores, atol=1e-5)
    assert max(row["gap"] for row in rows) < 1e-6
    assert [row["support"] for row in rows] == direct.support.tolist()


class _Uncertified:
    """A ranker whose ranking of MAIN[0] has a gap over the tolerance."""

    def rank(
        self,
        questions: Sequence[str],
        pool: Sequence[str],
        k: int,
        exclude: Sequence[Sequence[int]],
    ) -> Ranking:
        ranking = RandomRanker().rank(questions, pool, k, exclude)
        return replace(ranking, gap=np.where(np.array(questions) == MAIN[0], 0.5, 1e-6))


def test_uncertified_rankings_are_marked_in_the_files(make: MakeRanking, tmp_path: Path) -> None:
    job = make(ranker=_Uncertified())
    list(job.run())
    table = job.table()
    own = [tokenise(row["question"]) == tokenise(MAIN[0]) for row in table.to_pylist()]
    assert table["uncertified"].to_pylist() == own
    write_records(tmp_path / "bqd.json", table)
    records = json.loads((tmp_path / "bqd.json").read_text())
    assert [record.get("uncertified", False) for record in records] == own
    assert bqd_figures(table)["bqd/uncertified"] == sum(own) == 3


def test_duplicates_are_excluded_by_default(make: MakeRanking) -> None:
    own, first = {}, {}
    for exclude in (True, False):
        job = make(str(exclude), exclude_duplicates=exclude)
        list(job.run())
        row = job.table().to_pylist()[-1]
        assert row["question"] == "Is the car red?"
        own[exclude] = "Is the car red?" in row["basic_questions"]
        first[exclude] = row["scores"][0]
    assert own == {True: False, False: True}
    # LASSO puts all weight on the duplicate [IJCV, Table 8].
    assert first[False] == pytest.approx(1, abs=1e-3)
    assert first[True] < 0.9


def test_a_killed_ranking_resumes_to_the_same_file(make: MakeRanking, tmp_path: Path) -> None:
    whole = write(make("whole", ranker=Watched()), tmp_path / "whole.parquet")
    with pytest.raises(KeyboardInterrupt):
        list(make(ranker=Watched(dies_after=2)).run())
    (tmp_path / "parts" / ".part_00002.parquet.77").write_bytes(b"a draft that the kill left")
    again = Watched()
    resumed = write(make(ranker=again), tmp_path / "resumed.parquet")
    assert sum(map(len, again.asked)) == 3
    assert resumed.read_bytes() == whole.read_bytes()
    # Parts do not depend on the number of shards.
    assert next(make(num_shards=2).run()) == 4


def test_parts_of_another_configuration_are_refused(make: MakeRanking) -> None:
    list(make().run())
    with pytest.raises(DataError, match=r"other settings.*ranker.lam is 1e-06 there, 0.1 here"):
        next(make(settings={"ranker": {"lam": 0.1}}).run())
    with pytest.raises(DataError, match="pool_content is"):
        next(make(pool=POOL[1:]).run())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pool": []}, "k=5 basic questions are wanted of a pool of 0"),
        ({"k": len(POOL)}, f"k={len(POOL)} .* pool of {len(POOL)}, 1 of them excluded"),
        ({"k": 0}, "k=0 basic questions"),
        ({"shard": 3, "num_shards": 3}, "shard=3 of num_shards=3 does not exist"),
        ({"shard": -1}, "shard=-1 of num_shards=1 does not exist"),
        ({"question_ids": np.zeros(9, dtype=np.int64)}, "need different question ids"),
        ({"part_size": 0}, "part_size must be at least 1"),
    ],
)
def test_arguments_out_of_range_are_refused(
    changes: dict[str, object], message: str, make: MakeRanking
) -> None:
    with pytest.raises(ValueError, match=message):
        list(make(**changes).run())


def test_a_whole_pool_can_be_ranked(make: MakeRanking) -> None:
    job = make(k=len(POOL), exclude_duplicates=False, ranker=RandomRanker())
    list(job.run())
    assert all(len(set(row)) == len(POOL) for row in job.table()["basic_questions"].to_pylist())


def test_the_least_numbers_are_valid(make: MakeRanking, tmp_path: Path) -> None:
    """A part for each question, in a folder of a folder, of one basic question."""
    job = make("new/parts", k=1, part_size=1, ranker=RandomRanker())
    assert list(job.run()) == list(range(8))
    assert sorted(file.name for file in (tmp_path / "new/parts").iterdir()) == [
        f"part_0000{part}.parquet" for part in range(7)
    ]
    assert list(job.run()) == [7]  # all parts are there
    assert [len(texts) for texts in job.table()["basic_questions"].to_pylist()] == [1] * 9
    none = np.array([], dtype=np.int64)
    nothing = make("none", questions=[], question_ids=none, image_ids=none, k=len(POOL))
    assert list(nothing.run()) == [0]
    assert nothing.table().schema.equals(job.table().schema)


class _Other:
    """A ranker with numbers of other types, whose value for the second question is given."""

    def __init__(self, score: float, gap: float) -> None:
        self.score, self.gap = score, gap

    def rank(
        self,
        questions: Sequence[str],
        pool: Sequence[str],
        k: int,
        exclude: Sequence[Sequence[int]],
    ) -> Ranking:
        indices = np.tile(np.arange(k, dtype=np.int16), (len(questions), 1))
        scores = np.tile(np.array([0.5] * k), (len(questions), 1))
        gap = np.zeros(len(questions), dtype=np.float32)
        if len(questions) > 1:
            scores[1, 2], gap[1] = self.score, self.gap
        return Ranking(indices, scores, gap, np.full(len(questions), k, np.int8), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("score", "gap"), [(np.inf, 0), (np.nan, 0), (0.5, np.nan)])
def test_rankings_that_are_not_finite_are_refused(
    score: float, gap: float, make: MakeRanking
) -> None:
    with pytest.raises(ValueError, match=r"ranking of 'How many cats are there\?' has scores"):
        list(make(ranker=_Other(score, gap)).run())


def test_the_types_of_a_file_do_not_depend_on_the_ranker(make: MakeRanking) -> None:
    job, other = make("one", ranker=RandomRanker()), make("other", ranker=_Other(0.25, 0.125))
    for each in (job, other):
        list(each.run())
    assert other.table().schema.equals(job.table().schema)
    row = other.table().to_pylist()[-2]
    assert row["question"] == "How many cats are there?"
    assert (row["gap"], row["support"], row["uncertified"]) == (0.125, 5, True)
    assert list(zip(row["basic_questions"], row["scores"], strict=True)) == list(
        zip(POOL[:5], [0.5, 0.5, 0.25, 0.5, 0.5], strict=True)
    )


class _Broken:
    """An encoder with one vector that is not finite."""

    def __init__(self, bad: str) -> None:
        self.bad = bad

    def fit(self, texts: Sequence[str]) -> "_Broken":
        return self

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = unit_rows(np.random.default_rng(0).standard_normal((len(texts), 8)))
        vectors[[text == self.bad for text in texts]] = np.nan
        return vectors


@pytest.mark.parametrize("ranker", [LassoQuestionRanker, CosineRanker])
@pytest.mark.parametrize("bad", [POOL[7], "Is the tree pink?"])
def test_vectors_that_are_not_finite_are_refused(
    bad: str, ranker: Callable[..., QuestionRanker], make: MakeRanking
) -> None:
    with pytest.raises(ValueError, match=f"the vector of '{re.escape(bad)}' is not finite"):
        list(make(ranker=ranker(_Broken(bad)), k=len(POOL) - 1).run())


@pytest.mark.parametrize("ranker", [LassoQuestionRanker, CosineRanker])
def test_vectors_that_are_not_unit_are_refused(
    ranker: Callable[..., QuestionRanker], make: MakeRanking
) -> None:
    """A cosine of vectors of length 2 would be 4 times as large, and LASSO scales with lambda."""
    encoder = _Broken("")
    encoder.encode = lambda texts: 2 * _Broken("").encode(texts)  # type: ignore[method-assign]
    question = re.escape(POOL[0])
    with pytest.raises(ValueError, match=f"_Broken: the vector of '{question}' has length 2, not"):
        list(make(ranker=ranker(encoder), k=4).run())


def test_real_questions_have_certified_rankings(shared_data: Path, make: MakeRanking) -> None:
    dataset = VQADataset(shared_data / "vqa_v2_subset")
    val = dataset.split("val")
    main = {
        "questions": val.questions[:25],
        "question_ids": val.question_ids[:25],
        "image_ids": val.image_ids[:25],
    }
    pool = general_questions(dataset, ["val"])[:1000]
    ranker = LassoQuestionRanker(TfidfEncoder(size=32))
    job = make(**main, pool=pool, k=21, ranker=ranker, part_size=16)
    list(job.run())
    table = job.table()
    assert table["gap"].to_numpy().max() <= 1e-6
    scores = scores_of(table)
    assert scores.shape == (25, 21)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert scores.min() >= 0
    # The pool holds every main question, and none is its own basic question.
    for row in table.to_pylist():
        own = tokenise(row["question"])
        assert own in map(tokenise, pool)
        assert own not in map(tokenise, row["basic_questions"])


def test_a_ranking_does_not_continue_with_another_exclusion_of_duplicates(
    make: MakeRanking,
) -> None:
    origins = [make(exclude_duplicates=excluded).origin for excluded in (True, False)]
    assert [origin["exclude_duplicates"] for origin in origins] == [True, False]
    job = make(exclude_duplicates=True)
    list(job.run())
    other = make(exclude_duplicates=False, ranker=CosineRanker(TfidfEncoder(size=24, min_count=1)))
    with pytest.raises(ValueError, match="exclude_duplicates"):
        list(other.run())
