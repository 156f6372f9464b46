"""Noise by basic questions: a question followed by questions that are similar to it [ROB 4]."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ivqa.ranges import Cache, Count
from ivqa.ranking import Ranking
from ivqa.ranking.question_rankers import QuestionRanker
from ivqa.store.arrays import load_arrays
from ivqa.store.digests import digest
from ivqa.store.files import atomic_write
from ivqa.store.identity import identity_of
from ivqa.store.integrity import is_intact, manifest_of, write_manifest
from ivqa.text.duplicates import duplicates_of, unique_questions

# The arrays of a ranking that the cache stores.
_ARRAYS = [one.name for one in fields(Ranking) if one.name not in ("rounds", "tolerance")]


@dataclass(frozen=True)
class BasicQuestionNoise:
    """Appends basic questions to a question [ROB 4].

    The basic questions are the unique questions of a pool, ranked by their similarity to the main
    question. Level 1 appends the most similar ones (the first partition), higher levels those
    further down the ranking.

    Args:
        ranker: Ranks the pool for each main question.
        levels: Number of levels (partitions).
        a_level: Number of basic questions of each level.
        cache: Folder for rankings, whose names are digests of what determines them; None keeps
            rankings in memory only.
        exclude_duplicates: Whether duplicates of the main question in the pool are left out. With
            them, LASSO gives all its weight to the duplicate [IJCV, Table 8].
        main_question: Its place: "first", as in the papers; "last"; or "absent", which shows
            how far a model comes that answers the basic questions instead.
    """

    version: ClassVar[int] = 1

    ranker: QuestionRanker
    levels: Count = 7
    a_level: Count = 3
    cache: Cache | None = None
    exclude_duplicates: bool = True
    main_question: Literal["first", "last", "absent"] = "first"
    # Results that this object keeps, not a setting.
    _rankings: dict[str, Ranking] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Concatenates each question with the basic questions of each level; see `Noise`.

        Raises:
            UserError: The pool has fewer questions than the levels need.
        """
        # All levels come from one ranking of levels * a_level basic questions.
        ranked, _ = self.ranked(questions, training)
        return partitions(questions, ranked, self.levels, self.a_level, self.main_question)

    def ranked(
        self, questions: Sequence[str], training: Sequence[str]
    ) -> tuple[list[list[str]], NDArray[np.float32]]:
        """Ranks the pool; see `RankedBasicQuestions.ranked`, with k = levels * a_level.

        Raises:
            UserError: The pool has fewer than k questions.
        """
        # A question that is asked about several images is ranked once.
        pool, distinct = unique_questions(training), list(dict.fromkeys(questions))
        ranking = self._ranking(distinct, pool)
        texts = [[pool[at] for at in row] for row in ranking.indices.tolist()]
        rows = {question: row for row, question in enumerate(distinct)}
        places = [rows[question] for question in questions]
        return [texts[place] for place in places], ranking.scores[places]

    def figures(self, questions: Sequence[str], training: Sequence[str]) -> dict[str, float]:
        """The certificate of the rankings.

        Returns:
            Figures by name, over the distinct main questions:

            - gap: the largest relative duality gap; absent for rankers that solve no problem;
            - uncertified: the number of gaps above the tolerance; absent without a gap;
            - short_rankings: the share of questions with fewer than k positive scores. The rest of
              such a ranking is ordered by the correlation with the residual.
        """
        ranking = self._ranking(list(dict.fromkeys(questions)), unique_questions(training))
        short = float((ranking.support < self.levels * self.a_level).mean())
        # All gaps are 0 where the ranker solves no problem.
        if not ranking.gap.any():
            return {"short_rankings": short}
        gap, uncertified = float(ranking.gap.max()), float(ranking.uncertified)
        return {"gap": gap, "uncertified": uncertified, "short_rankings": short}

    def _ranking(self, questions: list[str], pool: list[str]) -> Ranking:
        number = self.levels * self.a_level
        exclude = (
            duplicates_of(questions, pool) if self.exclude_duplicates else [[]] * len(questions)
        )
        # The name covers all that determines the ranking, the version of the ranker included.
        settings = [identity_of(self.ranker), number, self.exclude_duplicates]
        name = digest([*settings, questions, pool])
        if (known := self._rankings.get(name)) is not None:
            return known
        file = None if self.cache is None else Path(self.cache) / f"{name}.npz"
        found = None if file is None else _read(file)
        if found is not None:
            found.report_uncertified("warn")  # as the ranker did when it computed them
        else:
            found = self.ranker.rank(questions, pool, number, exclude)
            if file is not None:
                _write(file, found)
        self._rankings[name] = found
        return found


def partitions(
    questions: Sequence[str],
    ranked: Sequence[Sequence[str]],
    levels: int,
    a_level: int,
    main_question: Literal["first", "last", "absent"] = "first",
) -> list[list[str]]:
    """Concatenates questions with the partitions of their rankings [ROB 4].

    Args:
        ranked: At least levels * a_level basic questions of each main question, best first.
        main_question: The place of the main question.

    >>> ranked = [["Is it?", "Red?", "Why?", "Who?"]]
    >>> partitions(["Is it red?"], ranked, 2, 2)
    [['Is it red? Is it? Red?'], ['Is it red? Why? Who?']]
    >>> partitions(["Is it red?"], ranked, 1, 2, "last")
    [['Is it? Red? Is it red?']]
    >>> partitions(["Is it red?"], ranked, 1, 2, "absent")
    [['Is it? Red?']]
    """

    def joined(question: str, basic: Sequence[str]) -> str:
        before = [question] if main_question == "first" else []
        after = [question] if main_question == "last" else []
        return " ".join([*before, *basic, *after])

    return [
        [
            joined(question, texts[start : start + a_level])
            for question, texts in zip(questions, ranked, strict=True)
        ]
        for start in range(0, levels * a_level, a_level)
    ]


def _read(file: Path) -> Ranking | None:
    """The stored ranking; None where there is none, or the file was changed."""
    if not is_intact(file):
        return None
    found = load_arrays(file, _ARRAYS, remedy="delete it to rank the questions again")
    return Ranking(found["indices"], found["scores"], found["gap"], found["support"])


def _write(file: Path, ranking: Ranking) -> None:
    with atomic_write(file) as draft, draft.open("wb") as stream:
        np.savez(stream, **{name: getattr(ranking, name) for name in _ARRAYS})
    write_manifest(manifest_of(file), [file])
