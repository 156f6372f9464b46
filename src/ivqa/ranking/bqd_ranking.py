"""Ranking of main questions against a pool, in parts that survive a kill and shards that merge."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ivqa.data import DataError
from ivqa.errors import UserError
from ivqa.files import digest
from ivqa.lasso.certificate import TOLERANCE
from ivqa.lasso.ranking import Ranking
from ivqa.ranking.bqd_files import read_parquet, write_parquet
from ivqa.ranking.question_rankers import QuestionRanker
from ivqa.text.duplicates import duplicates_of, unique_questions
from ivqa.text.tokens import tokenise

# "element" is Parquet's own name: a table read back is of the same type, to the last byte.
_TEXTS, _SCORES = (pa.list_(pa.field("element", kind)) for kind in (pa.string(), pa.float32()))
_RANKED = pa.schema(
    [
        ("question", pa.string()),
        ("basic_questions", _TEXTS),
        ("scores", _SCORES),
        ("gap", pa.float64()),
        ("support", pa.int64()),
    ]
)


@dataclass(frozen=True, kw_only=True, eq=False)
class BQDRanking:
    """One shard of the ranking of N main questions.

    Main questions with the same words are solved once. Part p holds the distinct questions
    p * part_size ... (p + 1) * part_size - 1 and belongs to shard p mod num_shards: it is ranked
    alike in any shard, so that the shards together are what one process gives, bit for bit.

    questions, question_ids (different), image_ids: of the N main questions. pool: basic questions,
    different ones. ranker: of the pool; settings tells in plain values how it was made. folder: of
    the part files. k: basic questions of a main question. exclude_duplicates: whether a question
    with the words of the main question is left out of its ranking; kept in, LASSO puts all weight
    there [IJCV, Table 8].
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
        """The main questions that differ in their words, in order of first occurrence."""
        return unique_questions(self.questions)

    @cached_property
    def parts(self) -> list[slice]:
        """The parts of this shard, as slices of `distinct`."""
        starts = range(0, len(self.distinct), self.part_size)[self.shard :: self.num_shards]
        return [slice(at, min(at + self.part_size, len(self.distinct))) for at in starts]

    @cached_property
    def origin(self) -> dict[str, Any]:
        """How the file of this shard is made: shards merge where all but "shard" is the same."""
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
        """Raises ValueError for a shard, k or question ids that cannot be."""
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
        """Ranks part by part; yields how many distinct questions of the shard are done by then.

        The first value counts what an earlier, interrupted run has left in `folder`.
        Raises UserError where that was made otherwise, or a ranking is not finite.
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
        """Distinct questions of this shard."""
        return sum(part.stop - part.start for part in self.parts)

    def table(self) -> pa.Table:
        """The BQD of this shard, ordered by question id, from the finished parts."""
        ranked = [read_parquet(self._file(part))[0] for part in self.parts]
        row_of = {tuple(tokenise(text)): row for row, text in enumerate(self.distinct)}
        distinct = np.array([row_of[tuple(tokenise(text))] for text in self.questions])
        part, within = np.divmod(distinct, self.part_size)
        rows = np.argsort(self.question_ids, kind="stable")
        rows = rows[part[rows] % self.num_shards == self.shard]
        # Of all parts only the last can be short: those before one in this shard are whole.
        places = part[rows] // self.num_shards * self.part_size + within[rows]
        table = pa.concat_tables([_RANKED.empty_table(), *ranked]).take(places)
        # A number that is not a number is no certificate.
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
        if not self.exclude_duplicates:
            return [[]] * len(self.distinct)
        return duplicates_of(self.distinct, self.pool)

    @cached_property
    def _part_origin(self) -> dict[str, Any]:
        """Parts do not depend on how many shards there are."""
        return {
            name: value
            for name, value in self.origin.items()
            if name not in ("shard", "num_shards")
        }

    def _file(self, part: slice) -> Path:
        return self.folder / f"part_{part.start // self.part_size:05d}.parquet"

    def _is_done(self, part: slice) -> bool:
        file = self._file(part)
        if not file.is_file():
            return False
        _, origin = read_parquet(file)
        if others := differences(origin, self._part_origin):
            raise DataError(
                f"{file} was made otherwise ({others[0]}); choose another output_dir or delete "
                f"{self.folder}"
            )
        return True


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What differs between two nested settings, a text each.

    >>> differences({"ranker": {"lam": 0.1}, "k": 21}, {"ranker": {"lam": 0.2}, "k": 21})
    ['ranker.lam is 0.1 there, 0.2 here']
    """
    one, other = _flat(there), _flat(here)
    return [
        f"{name} is {one.get(name)} there, {other.get(name)} here"
        for name in dict.fromkeys([*one, *other])
        if one.get(name) != other.get(name)
    ]


def _ranked(questions: Sequence[str], pool: Sequence[str], ranking: Ranking) -> pa.Table:
    """The table of B ranked questions. Raises UserError where a score or gap is not finite."""
    finite = np.isfinite(ranking.scores).all(axis=1) & np.isfinite(ranking.gap)
    if not finite.all():
        raise UserError(
            f"the ranking of '{questions[int(np.flatnonzero(~finite)[0])]}' has scores that are "
            "not finite; its vector or one of the pool is not, check the encoder"
        )
    size, k = ranking.indices.shape
    ends = pa.array(np.arange(size + 1) * k, pa.int32())
    texts = pa.array([pool[row] for row in ranking.indices.ravel().tolist()], pa.string())
    scores = pa.array(ranking.scores.ravel(), pa.float32())
    columns = [
        pa.array(questions, pa.string()),
        pa.ListArray.from_arrays(ends, texts, type=_TEXTS),
        pa.ListArray.from_arrays(ends, scores, type=_SCORES),
        pa.array(ranking.gap, pa.float64()),
        pa.array(ranking.support, pa.int64()),
    ]
    return pa.table(columns, schema=_RANKED)


def _flat(node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in node.items():
        inner = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return flat
