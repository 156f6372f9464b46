"""CLEVR: rendered scenes, questions with functional programs (Johnson et al., CVPR 2017)."""

import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from typing_extensions import override

from ivqa.data.answer_metric import ExactMatch
from ivqa.data.batches.columns import Entry
from ivqa.data.file_patterns import FilePatterns
from ivqa.data.formats.clevr_language import SYNONYMS, ClevrLanguage
from ivqa.data.formats.clevr_programs import (
    ClevrScene,
    Step,
    answers_of,
    fact_of,
    kind_of,
    layout_of,
    program_of,
)
from ivqa.data.formats.published import PublishedDataset, Record, records
from ivqa.data.oracles import FALSE_PREMISE, NOT_UNDERSTOOD, Judgement, judge_all
from ivqa.data.validation import Problems, check_id, check_text, shown
from ivqa.data.vqa_json import VQASplit


class ClevrDataset(PublishedDataset):
    """CLEVR under its official file names, in the folder CLEVR_v1.0 of the root or in the root.

    questions/CLEVR_SPLIT_questions.json has questions and programs, scenes/CLEVR_SPLIT_scenes.json
    the things in the images, images/SPLIT/ the images. The programs give the layouts of module
    networks, and `question_types`: exist, count, compare_integer, compare_attribute or
    query_attribute, by which the paper reports the share of answers that equal the right one. The
    splits "train" and "val" have an oracle. The split "test" has no answers.

    Args:
        root: The folder.
        train: Name of the training split, or None.
        val: Name of the validation split, or None.
        test: Name of the test split, or None.

    Raises:
        UserError: See `VQADataset`.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        train: str | None = "train",
        val: str | None = "val",
        test: str | None = None,
    ) -> None:
        inner = Path(root) / "CLEVR_v1.0"
        super().__init__(
            inner if inner.is_dir() else root,
            reader=read_clevr,
            metric=ExactMatch(),
            title="CLEVR",
            server_results=clevr_results,
            train=train,
            val=val,
            test=test,
            files=FilePatterns(
                question_file="questions/CLEVR_{split}_questions",
                image_pattern="images/{split}/CLEVR_*{image_id:06d}.*",
            ),
        )

    @override
    def oracle(self, stage_or_name: str) -> "ClevrOracle | None":
        """The oracle of a split, from its scenes and programs."""
        self.prepare()
        name = self.name_of(stage_or_name)
        scenes = self.root / "scenes" / f"CLEVR_{name}_scenes.json"
        if not os.path.lexists(scenes):
            return None
        return ClevrOracle.load(scenes, self._paths(name))


class ClevrOracle:
    """Judges CLEVR's questions, and others of their templates, about scenes.

    Args:
        scenes: The scene of each image id.
        language: Parses questions.
    """

    def __init__(self, scenes: Mapping[int, ClevrScene], language: ClevrLanguage) -> None:
        self.scenes = dict(scenes)
        self.language = language

    @classmethod
    def load(cls, scenes_path: Path, question_paths: Iterable[Path]) -> "ClevrOracle":
        """Reads scenes, learns the templates of the questions, and checks all programs.

        Args:
            scenes_path: CLEVR_SPLIT_scenes.json.
            question_paths: The files of the questions about these scenes.

        Returns:
            The oracle.

        Raises:
            DataError: A file is damaged, or a program does not give the published answer; the
                message names the question.
        """
        problems = Problems()
        scenes = _read_scenes(scenes_path, problems)
        problems.raise_if_any()
        # Two passes keep the memory small: 700,000 programs take several GB.
        language = ClevrLanguage()
        for path in question_paths:
            for entry, program in _programs(path, problems):
                if program is not None:
                    language.learn(entry.question, program)
        for path in question_paths:
            for entry, program in _programs(path, Problems()):
                if program is None:
                    continue
                if language.parse(entry.question) not in (None, program):
                    language.forget(entry.question)
                _check_answer(entry, program, scenes, path, problems)
        problems.raise_if_any()
        return cls(scenes, language)

    def judge(self, image_id: int, question: str) -> Judgement:
        """Judges a question about an image.

        Args:
            image_id: The image.
            question: Any text.

        Returns:
            The judgement.

        Raises:
            KeyError: The oracle does not have the scene of this image.
        """
        scene = self.scenes.get(int(image_id))
        if scene is None:
            raise KeyError(f"the oracle does not know image {image_id}; load the split it is in")
        program = self.language.parse(question)
        if program is None:
            return NOT_UNDERSTOOD
        answers = answers_of(program, scene)
        if not answers:
            return FALSE_PREMISE
        known = answers.union(*(SYNONYMS.get(answer, ()) for answer in answers))
        return Judgement(True, True, min(answers), known)

    def judge_many(self, image_ids: Iterable[int], questions: Iterable[str]) -> list[Judgement]:
        """Judges N questions, each about its own image, see `Oracle.judge_many`."""
        return judge_all(self, image_ids, questions)

    def fact(self, question: str) -> Hashable | None:
        """The visual fact that a question states, see `Oracle.fact`."""
        program = self.language.parse(question)
        return None if program is None else fact_of(program)

    def objects(self) -> dict[int, set[str]]:
        """The shapes in each scene, by image id."""
        return {
            image: {one["shape"] for one in scene.things} for image, scene in self.scenes.items()
        }


def read_clevr(path: Path, split: str, problems: Problems) -> Iterator[Entry]:
    """Reads a file of questions: {"questions": [{"question_index", "question", "program", ...}]}.

    Args:
        path: The file.
        split: Name of the split.
        problems: Collects the faults.

    Yields:
        The questions.

    Raises:
        DataError: The file cannot be read.
    """
    for entry, program in _programs(path, problems):
        yield entry if program is None else entry._replace(layout=layout_of(program))


def clevr_results(
    split: VQASplit, answers: Sequence[str] | None, chosen: Sequence[str] | None
) -> list[Record]:
    """Formats answers with CLEVR's name of the id, see `ivqa.data.results.results_text`."""
    numbers = split.question_ids.tolist()
    return [{"question_index": n, "answer": a} for n, a in zip(numbers, answers or (), strict=True)]


def _programs(path: Path, problems: Problems) -> Iterator[tuple[Entry, Step | None]]:
    """The questions of a file and their programs; None in a test split."""
    for position, record in records(path, "questions", problems):
        before = len(problems)
        number = check_id(record, "question_index", path, f"entry {position}", problems)
        where = f"question {number}"
        image_id = check_id(record, "image_index", path, where, problems)
        name = record.get("image_filename")
        if name is not None and image_id != _number_of(name):
            fault = f"is {shown(name)}, but image_index is {image_id}; download the file again"
            problems.add(path, where, "image_filename", fault)
        question = check_text(record, "question", path, where, problems)
        program = _program(record, path, where, problems)
        answer = record.get("answer")
        if isinstance(answer, bool):
            answer = "yes" if answer else "no"
        if isinstance(answer, int):
            answer = str(answer)
        if "answer" in record and not isinstance(answer, str):
            problems.add(path, where, "answer", f"must be text, not {shown(answer)}")
        if number is None or image_id is None or question is None or len(problems) > before:
            continue
        family = record.get("question_family_index")
        yield (
            Entry(
                name=str(number),
                question_id=number,
                image_id=image_id,
                question=question,
                answers=None if answer is None else [answer],
                question_type=None if program is None else kind_of(program),
                image_file=name,
                extras={"question_family_index": family},
            ),
            program,
        )


def _number_of(name: object) -> int | None:
    """The number at the end of a file name such as CLEVR_val_000042.png."""
    found = re.search(r"(\d+)\.\w+$", name) if isinstance(name, str) else None
    return None if found is None else int(found[1])


def _program(record: Record, path: Path, where: str, problems: Problems) -> Step | None:
    steps = record.get("program")
    if steps is None:
        return None
    try:
        return program_of(steps)
    except (TypeError, ValueError) as error:
        problems.add(path, where, "program", f"{error}; repair it or download the file again")
        return None


def _read_scenes(path: Path, problems: Problems) -> dict[int, ClevrScene]:
    scenes: dict[int, ClevrScene] = {}
    for position, record in records(path, "scenes", problems):
        number = check_id(record, "image_index", path, f"entry {position}", problems)
        if number is None:
            continue
        try:
            scenes[number] = ClevrScene.from_json(record)
        except (TypeError, ValueError) as error:
            problems.add(path, f"image {number}", "", f"{error}; download the file again")
    return scenes


def _check_answer(
    entry: Entry, program: Step, scenes: Mapping[int, ClevrScene], path: Path, problems: Problems
) -> None:
    where = f"question {entry.name}"
    scene = scenes.get(entry.image_id)
    if scene is None:
        fault = f"image {entry.image_id} has no scene; use questions and scenes of one download"
        problems.add(path, where, "image_index", fault)
    elif entry.answers is not None:
        found = answers_of(program, scene)
        if found != {*entry.answers}:
            given = " or ".join(sorted(found)) or "no answer"
            problems.add(
                path,
                where,
                "program",
                f"gives {given} on its scene, but the answer is {entry.answers[0]}; "
                "use questions and scenes of one download",
            )
