"""Noise by other wordings of the same question. [ROB] proposes rephrasing as future work."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from nltk.metrics import edit_distance

from ivqa.data import DataError
from ivqa.data.json_files import open_json
from ivqa.errors import UserError
from ivqa.ranges import Count, ExistingFile, Seed
from ivqa.scenes.grammar import other_wordings
from ivqa.text.duplicates import unique_questions
from ivqa.text.tokens import tokenise


@dataclass(frozen=True)
class Rephrasing:
    """Asks a question in other words; the level sets how far the words are from the question's.

    The wordings of a question are ordered by their word edit distance to it, the number of words
    that are inserted, deleted or replaced. Level 1 is the nearest wording and the highest level the
    farthest; levels between are spread evenly over the order, and repeat wordings where a question
    has fewer than there are levels. The meaning, and so the right answer, stays the same. A
    question without another wording stays as it is.

    Args:
        path: JSON file of wordings: {question: [wordings]}, or the questions file of
            VQA-Rephrasings (Shah et al. 2019), whose rephrasings name their question in
            `rephrasing_of`. Questions are looked up by their words, without regard to case and
            punctuation. None takes the wordings of the grammar of the scenes.
        seed: Seed of the synonyms that the grammar chooses.
    """

    version: ClassVar[int] = 1

    path: ExistingFile | None = None
    levels: Count = 3
    seed: Seed = 0
    # Results that this object keeps, not a setting.
    _ordered: dict[str, list[tuple[int, str]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Replaces each question by another wording at each level; see `Noise`.

        Raises:
            DataError: The file holds no wordings.
        """
        return [
            [self._chosen(question, level)[1] for question in questions]
            for level in range(1, self.levels + 1)
        ]

    def check(self, questions: Sequence[str], training: Sequence[str]) -> None:
        """Checks that a question has another wording.

        Raises:
            UserError: None has one.
            DataError: The file holds no wordings.
        """
        if questions and not any(map(self.ordered, questions)):
            source = "the grammar of the scenes" if self.path is None else self.path
            raise UserError(
                f"none of the {len(questions)} questions, such as '{questions[0]}', has another "
                f"wording in {source}; pass a file with wordings of them as noise.path=FILE"
            )

    def figures(self, questions: Sequence[str], training: Sequence[str]) -> dict[str, float]:
        """How far the wordings are from the questions.

        Returns:
            Figures by name:

            - not_rephrased: the number of questions without another wording;
            - word_edits_K: the mean word edit distance at level K, over all other questions; absent
              where there are none.
        """
        known = [question for question in questions if self.ordered(question)]
        figures = {"not_rephrased": float(len(questions) - len(known))}
        for level in range(1, self.levels + 1 if known else 0):
            edits = [self._chosen(question, level)[0] for question in known]
            figures[f"word_edits_{level}"] = sum(edits) / len(edits)
        return figures

    def ordered(self, question: str) -> list[tuple[int, str]]:
        """The other wordings of a question with their distances, nearest first.

        Of equal distances, the first of the source comes first.
        """
        if question not in self._ordered:
            words = tokenise(question)
            texts = self._wordings_of(question, tuple(words))
            pairs = [
                (edit_distance(words, tokenise(text)), text) for text in unique_questions(texts)
            ]
            others = [pair for pair in pairs if pair[0]]
            self._ordered[question] = sorted(others, key=lambda pair: pair[0])
        return self._ordered[question]

    def _chosen(self, question: str, level: int) -> tuple[int, str]:
        """The distance and the text of a question at a level."""
        found = self.ordered(question)
        if not found:
            return 0, question
        return found[(level - 1) * (len(found) - 1) // max(self.levels - 1, 1)]

    def _wordings_of(self, question: str, words: tuple[str, ...]) -> list[str]:
        if self.path is not None:
            return self._in_file.get(words, [])
        # Seeded by the question: its wordings do not depend on the others of the call.
        return other_wordings(question, random.Random(f"{self.seed}/{question}"))

    @cached_property
    def _in_file(self) -> dict[tuple[str, ...], list[str]]:
        """The wordings of each question of the file, by its words."""
        found: dict[tuple[str, ...], list[str]] = {}
        for question, texts in _read(Path(str(self.path))):
            found.setdefault(tuple(tokenise(question)), []).extend(texts)
        return found


def _read(file: Path) -> list[tuple[str, list[str]]]:
    """The questions of a file of wordings, each with its wordings."""
    content = open_json(file)
    if isinstance(content, dict) and isinstance(content.get("questions"), list):
        return _rephrasings(file, content["questions"])
    if isinstance(content, dict) and content and all(map(_is_texts, content.values())):
        return list(content.items())
    raise DataError(
        f"{file} holds no wordings; it must be an object of lists, "
        '{"Is it red?": ["Is its color red?"]}, or a questions file of VQA-Rephrasings'
    )


def _rephrasings(file: Path, entries: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """The questions of VQA-Rephrasings, from entries {question_id, question, rephrasing_of}."""
    questions: dict[int, tuple[str, list[str]]] = {}
    texts: list[tuple[int, str]] = []
    for number, entry in enumerate(entries):
        try:
            text, own = str(entry["question"]), int(entry["question_id"])
            if "rephrasing_of" in entry:
                texts.append((int(entry["rephrasing_of"]), text))
            else:
                questions[own] = (text, [])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{file}: entry {number} of 'questions' is not {{question_id, question, "
                f"rephrasing_of}} ({error!r})"
            ) from error
    for original, text in texts:
        if original not in questions:
            raise DataError(
                f"{file}: rephrasing_of names question {original}, which is not in the file; add it"
            )
        questions[original][1].append(text)
    return list(questions.values())


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
