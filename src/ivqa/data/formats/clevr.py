"""CLEVR: rendered scenes, questions with functional programs (Johnson et al., CVPR 2017)."""

import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, BeforeValidator, TypeAdapter
from typing_extensions import TypedDict, override

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
    text_of,
)
from ivqa.data.formats.published import REMEDY, PublishedDataset, Record, number_in, records
from ivqa.data.oracles import FALSE_PREMISE, NOT_UNDERSTOOD, Judgement, Oracle
from ivqa.data.split import ExactMatch, VQASplit
from ivqa.data.validation import Id, Problems, checked, shown


class _Question(TypedDict):
    question_index: Id
    image_index: Id
    image_filename: NotRequired[str | None]
    question: str
    program: NotRequired[Annotated[list[Any], AfterValidator(program_of)] | None]
    answer: NotRequired[Annotated[str, BeforeValidator(text_of)]]


def _file_fits(record: _Question) -> _Question:
    name, number = record.get("image_filename"), record["image_index"]
    if name is not None and number_in(name) != number:
        raise ValueError(f"image_filename: is {shown(name)}, but image_index is {number}")
    return record


class _Scene(TypedDict):
    image_index: Id


_QUESTION: TypeAdapter[Any] = TypeAdapter(Annotated[_Question, AfterValidator(_file_fits)])
_SCENE = TypeAdapter(_Scene)


class ClevrDataset(PublishedDataset):
    """CLEVR under its official file names, in the folder CLEVR_v1.0 of the root or in the root.

    questions/CLEVR_SPLIT_questions.json has questions and programs, scenes/CLEVR_SPLIT_scenes.json
    the things in the images, images/SPLIT/ the images. The programs give the layouts of module
    networks, and `question_types`: exist, count, compare_integer, compare_attribute or
    query_attribute, by which the paper reports the share of answers that equal the right one. The
    splits "train" and "val" have an oracle. The split "test" has no answers.

    The arguments are those of `VQADataset`.
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
            reader=_read,
            metric=ExactMatch(),
            title="CLEVR",
            server_results=_results,
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
        self.prepare()
        name = self.name_of(stage_or_name)
        scenes = self.root / "scenes" / f"CLEVR_{name}_scenes.json"
        if not os.path.lexists(scenes):
            return None
        return ClevrOracle.load(scenes, self._paths(name))


class ClevrOracle(Oracle):
    """Judges CLEVR's questions, and others of their templates, about the scene of each image id."""

    def __init__(self, scenes: Mapping[int, ClevrScene], language: ClevrLanguage) -> None:
        self.scenes = dict(scenes)
        self.language = language

    @classmethod
    def load(cls, scenes_path: Path, question_paths: Iterable[Path]) -> "ClevrOracle":
        """Reads scenes, learns the templates of the questions about them, and checks all programs.

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

    @override
    def judge(self, image_id: int, question: str) -> Judgement:
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

    @override
    def fact(self, question: str) -> Hashable | None:
        program = self.language.parse(question)
        return None if program is None else fact_of(program)

    def objects(self) -> dict[int, set[str]]:
        """The shapes in each scene, by image id."""
        return {
            image: {one["shape"] for one in scene.things} for image, scene in self.scenes.items()
        }


def _read(path: Path, split: str, problems: Problems) -> Iterator[Entry]:
    """Reads {"questions": [{"question_index", "image_index", "question", "program"}]}."""
    for entry, program in _programs(path, problems):
        yield entry if program is None else entry._replace(layout=layout_of(program))


def _results(
    split: VQASplit, answers: Sequence[str] | None, chosen: Sequence[str] | None
) -> list[Record]:
    """Formats answers with CLEVR's name of the id, see `ivqa.data.results.results_text`."""
    numbers = split.question_ids.tolist()
    return [{"question_index": n, "answer": a} for n, a in zip(numbers, answers or (), strict=True)]


def _programs(path: Path, problems: Problems) -> Iterator[tuple[Entry, Step | None]]:
    """The questions of a file and their programs; None in a test split."""
    for position, record in records(path, "questions", problems):
        where = f"question {record.get('question_index', position)}"
        found = checked(_QUESTION, record, path, where, problems, REMEDY)
        if found is None:
            continue
        program, answer = found.get("program"), found.get("answer")
        yield (
            Entry(
                name=str(found["question_index"]),
                question_id=found["question_index"],
                image_id=found["image_index"],
                question=found["question"],
                answers=None if answer is None else [answer],
                question_type=None if program is None else kind_of(program),
                image_file=found.get("image_filename"),
                extras={"question_family_index": record.get("question_family_index")},
            ),
            program,
        )


def _read_scenes(path: Path, problems: Problems) -> dict[int, ClevrScene]:
    scenes: dict[int, ClevrScene] = {}
    for position, record in records(path, "scenes", problems):
        where = f"image {record.get('image_index', position)}"
        found = checked(_SCENE, record, path, where, problems, REMEDY)
        if found is not None:
            try:
                scenes[found["image_index"]] = ClevrScene.from_json(record)
            except (TypeError, ValueError) as error:
                problems.add(path, where, "", f"{error}; download the file again")
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
