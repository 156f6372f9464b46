"""Ranks main questions against a pool, in resumable parts and in shards that can be merged."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ivqa.data import DataError
from ivqa.data.validation import listed
from ivqa.errors import UserError
from ivqa.lasso.certificate import TOLERANCE
from ivqa.lasso.ranking import Ranking
from ivqa.ranking.bqd_files import list_of, read_parquet, write_parquet
from ivqa.ranking.question_rankers import QuestionRanker
from ivqa.store.digests import digest
from ivqa.store.identity import differences
from ivqa.text.duplicates import duplicates_of, unique_questions
from ivqa.text.tokens import tokenise

_RANKED = pa.schema(
    [
        ("question", pa.string()),
        ("basic_questions", list_of(pa.string())),
        ("scores", list_of(pa.float32())),
        ("gap", pa.float64()),
        ("support", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True, eq=False)
class BQDRanking:
    """One shard of the ranking of N main questions.

    Main questions with the same words are ranked once. Part p holds the distinct questions
    p * part_size ... (p + 1) * part_size - 1 and belongs to shard p mod num_shards. A part's
    ranking does not depend on the shard, so the merged shards equal the result of one process bit
    for bit.

    Args:
        questions: The N main questions.
        question_ids: Their ids, (N,), all different.
        image_ids: Ids of their images, (N,).
        pool: The basic questions, all different.
        settings: How the ranker and the pool were built, as plain values; stored with the parts.
        k: Basic questions for each main question.
        exclude_duplicates: Whether basic questions with the words of the main question are left out
            of its ranking. If they are not, LASSO gives them all the weight [IJCV, Table 8].
        part_size: Distinct questions of a part.
        shard: Number of this shard, from 0.
    """

    questions: Sequence[str]
    question_ids: NDArray[np.int64]
    image_ids: NDArray[np.int64]
    pool: Sequence[str]
    ranker: QuestionRanker
    settings: Mapping[str, Any]
    folder: Path
    k: int = 21
    exclude_duplicates: bool = True
    part_size: int = 1024
    shard: int = 0
    num_shards: int = 1

    @cached_property
    def distinct(self) -> list[str]:
        """The main questions with different words, in order of first occurrence."""
        return unique_questions(self.questions)

    @cached_property
    def parts(self) -> list[slice]:
        """The parts of this shard, as slices of `distinct`."""
        # Every num_shards-th part, so that shards have nearly the same size.
        starts = range(0, len(self.distinct), self.part_size)[self.shard :: self.num_shards]
        return [slice(at, min(at + self.part_size, len(self.distinct))) for at in starts]

    @cached_property
    def origin(self) -> dict[str, Any]:
        """The settings of this shard's file; shards can be merged if only "shard" differs."""
        return {
            **self.settings,
            "k": self.k,
            "exclude_duplicates": self.exclude_duplicates,
            "part_size": self.part_size,
            "pool_content": digest(list(self.pool)),
            "main_content": digest(
                [self.question_ids.tolist(), self.image_ids.tolist(), list(self.questions)]
            ),
            "main_questions": len(self.questions),
            "num_shards": self.num_shards,
            "shard": self.shard,
        }

    def check(self) -> None:
        """Checks the arguments.

        Raises:
            UserError: shard, part_size or k is out of range.
            ValueError: Question ids are missing or occur twice.
        """
        if not 0 <= self.shard < self.num_shards:
            raise UserError(
                f"shard={self.shard} of num_shards={self.num_shards} does not exist; shards are "
                "numbered from 0"
            )
        if self.part_size < 1:
            raise UserError(f"part_size must be at least 1, not {self.part_size}")
        if len(np.unique(self.question_ids)) != len(self.questions):
            raise ValueError("main questions need different question ids, one each")
        most = max(map(len, self._excluded), default=0)
        if not 1 <= self.k <= len(self.pool) - most:
            raise UserError(
                f"k={self.k} basic questions are wanted of a pool of {len(self.pool)}, {most} of "
                "them excluded as duplicates; choose a smaller k or a larger pool"
            )

    def run(self) -> Iterator[int]:
        """Ranks part by part and writes each part's file.

        Yields:
            How many distinct questions of the shard are ranked. The first value counts the parts
            that an interrupted run left in `folder`.

        Raises:
            DataError: A part in `folder` is damaged or has other settings.
            UserError: An argument is out of range, or a ranking is not finite.
        """
        self.check()
        self.folder.mkdir(parents=True, exist_ok=True)
        todo = [part for part in self.parts if not self._is_done(part)]
        done = self.size - sum(part.stop - part.start for part in todo)
        yield done
        for part in todo:
            questions = self.distinct[part]
            ranking = self.ranker.rank(questions, self.pool, self.k, self._excluded[part])
            table = _ranked(questions, self.pool, ranking)
            write_parquet(self._file(part), table, self._part_origin)
            done += len(questions)
            yield done

    @property
    def size(self) -> int:
        """The number of distinct questions of this shard."""
        return sum(part.stop - part.start for part in self.parts)

    def table(self) -> pa.Table:
        """The BQD of this shard from the finished parts, ordered by question id."""
        ranked = [read_parquet(self._file(part))[0] for part in self.parts]
        row_of = {tuple(tokenise(text)): row for row, text in enumerate(self.distinct)}
        distinct = np.array([row_of[tuple(tokenise(text))] for text in self.questions], np.int64)
        # The part of each main question and the row in it.
        part, within = np.divmod(distinct, self.part_size)
        rows = np.argsort(self.question_ids)
        rows = rows[part[rows] % self.num_shards == self.shard]
        # Only the last part can be short, so all parts before another one have part_size rows.
        places = part[rows] // self.num_shards * self.part_size + within[rows]
        table = pa.concat_tables([_RANKED.empty_table(), *ranked]).take(places)
        # `not <=` instead of `>`: a gap of nan is uncertified.
        uncertified = ~(table["gap"].to_numpy() <= TOLERANCE)
        return pa.table(
            {
                "image_id": self.image_ids[rows],
                "question_id": self.question_ids[rows],
                "question": pa.array([self.questions[row] for row in rows], pa.string()),
                **{name: table[name] for name in _RANKED.names[1:]},
                "uncertified": uncertified,
            }
        )

    @cached_property
    def _excluded(self) -> list[list[int]]:
        """For each distinct question the rows of the pool that it must not use."""
        if not self.exclude_duplicates:
            return [[]] * len(self.distinct)
        return duplicates_of(self.distinct, self.pool)

    @cached_property
    def _part_origin(self) -> dict[str, Any]:
        """The settings of a part's file: those of the shard without its number and count."""
        # A part does not depend on the number of shards, so a run with another number can reuse it.
        return {
            name: value
            for name, value in self.origin.items()
            if name not in ("shard", "num_shards")
        }

    def _file(self, part: slice) -> Path:
        return self.folder / f"part_{part.start // self.part_size:05d}.parquet"

    def _is_done(self, part: slice) -> bool:
        """Whether a part's file exists; raises DataError if it has other settings."""
        file = self._file(part)
        if not file.is_file():
            return False
        _, origin = read_parquet(file)
        if others := differences(origin, self._part_origin):
            raise DataError(
                f"{file} was written with other settings ({others[0]}); choose another output_dir "
                f"or delete {self.folder}"
            )
        return True


def _ranked(questions: Sequence[str], pool: Sequence[str], ranking: Ranking) -> pa.Table:
    """The table of B ranked questions; raises UserError if a score or gap is not finite."""
    finite = np.isfinite(ranking.scores).all(axis=1) & np.isfinite(ranking.gap)
    if not finite.all():
        raise UserError(
            f"the ranking of '{questions[int(np.flatnonzero(~finite)[0])]}' has scores that are "
            "not finite; its vector or one of the pool is not, check the encoder"
        )
    size, k = ranking.indices.shape
    # Offsets of the lists, which all have k entries.
    ends = pa.array(np.arange(size + 1) * k, pa.int32())
    texts = pa.array([pool[row] for row in ranking.indices.ravel().tolist()])
    lists = (pa.ListArray.from_arrays(ends, of) for of in (texts, ranking.scores.ravel()))
    # The schema gives the types.
    return pa.table([questions, *lists, ranking.gap, ranking.support], schema=_RANKED)


def merge_shards(files: Sequence[Path]) -> tuple[pa.Table, dict[str, Any]]:
    """Merges the files of all shards into the table and origin that a single process would write.

    The files may be in any order; the table is ordered by question id.

    Raises:
        DataError: A file is damaged, has other settings than the first, or repeats questions of
            another file, or a shard is missing.
    """
    if not files:
        raise DataError("there are no shards to merge")
    tables, origins = zip(*(read_parquet(file) for file in files), strict=True)
    for file, origin in zip(files, origins, strict=True):
        _check_same(file, origin, files[0], origins[0])
    _check_no_overlap(files, tables)
    number = origins[0]["num_shards"]
    if missing := sorted(set(range(number)) - {origin["shard"] for origin in origins}):
        raise DataError(
            f"shard {listed([str(shard) for shard in missing])} of {number} is missing beside "
            f"{files[0]}; run the same command with shard={','.join(map(str, missing))}"
        )
    merged = pa.concat_tables(tables).sort_by("question_id")
    expected = origins[0]["main_questions"]
    if len(merged) != expected:
        raise DataError(
            f"the {number} shards beside {files[0]} hold {len(merged)} main questions of "
            f"{expected}; run them again"
        )
    return merged, {**origins[0], "shard": 0, "num_shards": 1}


def _check_same(
    file: Path, origin: Mapping[str, Any], first: Path, expected: Mapping[str, Any]
) -> None:
    """Raises DataError unless a file is a shard with the settings of the first."""
    if "shard" not in origin:
        raise DataError(f"{file} is not a shard of a basic question dataset written by task=rank")
    # Shards differ in their number only.
    others = differences({**expected, "shard": 0}, {**origin, "shard": 0})
    if others:
        raise DataError(
            f"{file} has other settings than {first} ({others[0]}); merge shards of one "
            "configuration"
        )


def _check_no_overlap(files: Sequence[Path], tables: Sequence[pa.Table]) -> None:
    """Raises DataError where two files have rankings of the same question."""
    owner = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    ids = np.concatenate([table["question_id"].to_numpy() for table in tables])
    # Sorted, equal ids are neighbours.
    order = np.argsort(ids, kind="stable")
    again = np.flatnonzero(ids[order][1:] == ids[order][:-1])
    if len(again):
        one, other = (files[owner[order[again[0] + step]]] for step in (0, 1))
        raise DataError(
            f"{len(again)} question ids occur twice, such as {ids[order[again[0]]]} in {one} and "
            f"in {other}; merge each shard once"
        )
