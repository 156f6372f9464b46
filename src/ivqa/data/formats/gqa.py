"""GQA: questions with functional programs about photographs with scene graphs.

Hudson and Manning, CVPR 2019.
"""

import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

import numpy as np
from pydantic import AfterValidator, TypeAdapter
from typing_extensions import TypedDict, override

from ivqa.data.batches.columns import Entry
from ivqa.data.file_patterns import FilePatterns
from ivqa.data.formats.gqa_execution import GQAWords, judge
from ivqa.data.formats.gqa_graphs import SceneGraph, read_graphs
from ivqa.data.formats.gqa_metric import GQAMetric
from ivqa.data.formats.gqa_programs import Step, layout_of, program_of, reasoning_steps
from ivqa.data.formats.published import REMEDY, PublishedDataset, Record, records
from ivqa.data.images import ImageFiles
from ivqa.data.oracles import NOT_UNDERSTOOD, Judgement, Oracle
from ivqa.data.split import VQASplit
from ivqa.data.validation import DataError, Problems, checked, shown
from ivqa.text.tokens import tokenise

# Ids such as "n161313", of images that are not from Visual Genome, become 1,000,161,313.
_OTHER_IMAGES = 10**9
_IMAGE = re.compile(r"(n?)(\d{1,8})")
_QUESTION_ID = re.compile(r"\d{1,17}")


class GQADataset(PublishedDataset):
    """GQA under its official file names.

    questions/SPLIT_questions.json has questions and programs; a split such as "train_all" is a
    folder of files. sceneGraphs/ has train_sceneGraphs.json and val_sceneGraphs.json, images/ all
    images. The programs give layouts of module networks, which GQA does not have itself. Splits of
    train and val have an oracle where the scene graphs are there. Answers are scored by
    `GQAMetric`, which finds TIER_choices.json, or the folder TIER_choices, in eval/ or in the root.

    `extras` has the types of a question that GQA calls "semantic" and "structural", the global
    "group" of its answer and "isBalanced"; `question_types` is the detailed type, such as
    "existAnd".

    The arguments are those of `VQADataset`.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        train: str | None = "train_balanced",
        val: str | None = "val_balanced",
        test: str | None = "testdev_balanced",
    ) -> None:
        super().__init__(
            root,
            reader=_read,
            title="GQA",
            server_results=_results,
            train=train,
            val=val,
            test=test,
            files=FilePatterns(
                question_file="questions/{split}_questions", image_pattern="images/{image_id}.*"
            ),
            images_in=_images,
        )

    @override
    def metric(self, name: str) -> GQAMetric:
        return GQAMetric(self._paths(name), self._choices(name.partition("_")[0]))

    def _choices(self, tier: str) -> list[Path]:
        """The files of the choices of "train" or "val"; the official file may be cut into parts."""
        for folder in (self.root / "eval", self.root):
            if os.path.lexists(path := folder / f"{tier}_choices.json"):
                return [path]
            if parts := sorted(folder.glob(f"{tier}_choices/*.json")):
                return parts
        return []

    @override
    def oracle(self, stage_or_name: str) -> "GQAOracle | None":
        self.prepare()
        name = self.name_of(stage_or_name)
        graphs = self.root / "sceneGraphs" / f"{name.partition('_')[0]}_sceneGraphs.json"
        if not os.path.lexists(graphs):
            return None
        return GQAOracle.load(graphs, self._paths(name))


class GQAOracle(Oracle):
    """Judges GQA's questions about the photographs of a split, as far as scene graphs decide them.

    A question is understood if it is one of the data set's questions, asked about any photograph,
    and the scene graph decides its answer: see `gqa_execution`. Questions with several programs
    are not understood.

    Args:
        graphs: The scene graph of each image id.
        programs: The program of each question, by its words; None for several programs.
        words: The meanings of words.
    """

    def __init__(
        self,
        graphs: Mapping[int, SceneGraph],
        programs: Mapping[str, Step | None],
        words: GQAWords,
    ) -> None:
        self.graphs = dict(graphs)
        self.words = words
        self._programs = programs

    @classmethod
    def load(cls, graphs_path: Path, question_paths: Iterable[Path]) -> "GQAOracle":
        """Reads scene graphs and learns from the questions about them.

        Raises:
            DataError: A file is damaged.
        """
        problems, words = Problems(), GQAWords()
        graphs = {}
        for name, graph in read_graphs(graphs_path, problems):
            try:
                graphs[image_number(name)] = graph
            except DataError as error:
                problems.add(graphs_path, f"image {name}", "", str(error))
        programs: dict[str, Step | None] = {}
        for path in question_paths:
            for name, record in records(path, None, problems):
                entry, program = _entry_of(name, record, path, problems)
                if entry is None or program is None:
                    continue
                if entry.image_id not in graphs:
                    fault = f"is not in {graphs_path.name}; use the files of one download"
                    problems.add(path, f"question {name}", f"image {record['imageId']}", fault)
                    continue
                answer = entry.answers[0] if entry.answers else None
                words.learn(record["semantic"], answer, graphs[entry.image_id])
                key = _key(entry.question)
                if programs.setdefault(key, program) != program:
                    programs[key] = None
        problems.raise_if_any()
        return cls(graphs, programs, words)

    @override
    def judge(self, image_id: int, question: str) -> Judgement:
        graph = self.graphs.get(int(image_id))
        if graph is None:
            raise KeyError(f"the oracle does not know image {image_id}; load the split it is in")
        program = self._programs.get(_key(question))
        return NOT_UNDERSTOOD if program is None else judge(program, graph, self.words)

    @override
    def fact(self, question: str) -> Hashable | None:
        return self._programs.get(_key(question))

    def objects(self) -> dict[int, set[str]]:
        """The names of the objects in each photograph, by image id."""
        return {
            image: {one.name for one in graph.objects.values()}
            for image, graph in self.graphs.items()
        }


def image_number(image_id: str) -> int:
    """Converts an image id of GQA to an integer; adds 1,000,000,000 to ids that start with "n".

    Raises:
        DataError: The id has another form.

    Example:
        >>> image_number("2354786"), image_number("n161313")
        (2354786, 1000161313)
    """
    found = _IMAGE.fullmatch(image_id)
    if found is None:
        raise DataError(f"the image id {shown(image_id)} is not like 2354786 or n161313; repair it")
    return int(found[2]) + (_OTHER_IMAGES if found[1] else 0)


class _Question(TypedDict):
    question: str
    imageId: Annotated[str, AfterValidator(image_number)]
    answer: NotRequired[str]
    semantic: NotRequired[Annotated[list[Any], AfterValidator(program_of)]]
    types: NotRequired[dict[str, str | None] | None]
    groups: NotRequired[dict[str, str | None] | None]


_QUESTION: TypeAdapter[Any] = TypeAdapter(_Question)


def question_number(question_id: str) -> int:
    """Converts a question id of GQA to an integer, by a 1 in front: ids may start with zeros.

    Raises:
        DataError: The id is not a text of digits.

    Example:
        >>> question_number("05515938")
        105515938
    """
    if not _QUESTION_ID.fullmatch(question_id):
        raise DataError("its id is not a text of 1 to 17 digits; repair it")
    return int("1" + question_id)


def _results(
    split: VQASplit, answers: Sequence[str] | None, chosen: Sequence[str] | None
) -> list[Record]:
    """Formats answers for the server, see `ivqa.data.results.results_text`."""
    ids = (str(number)[1:] for number in split.question_ids.tolist())  # see `question_number`
    return [{"questionId": i, "prediction": a} for i, a in zip(ids, answers or (), strict=True)]


def _images(folder: Path, name_pattern: str) -> ImageFiles:
    """Lists the images of GQA: 2354786.jpg, n161313.jpg, ..."""
    found: list[ImageFiles] = []
    for pattern, offset in ((name_pattern, 0), (f"n{name_pattern}", _OTHER_IMAGES)):
        try:
            images = ImageFiles.in_folder(folder, pattern)
        except DataError:
            if offset and not found:  # neither kind
                raise
            continue
        found.append(ImageFiles(images.ids + offset, images.paths))
    paths = [path for images in found for path in images.paths]
    return ImageFiles(np.concatenate([images.ids for images in found]), paths)


def _read(path: Path, split: str, problems: Problems) -> Iterator[Entry]:
    """Reads a file of questions: {question_id: {"imageId", "question", "answer", "semantic"}}."""
    for name, record in records(path, None, problems):
        entry, program = _entry_of(name, record, path, problems)
        if entry is not None:
            yield entry if program is None else entry._replace(layout=layout_of(program))


def _entry_of(
    name: str, record: Record, path: Path, problems: Problems
) -> tuple[Entry | None, Step | None]:
    """A question and its program; None after a fault or, for the program, without one."""
    found = checked(_QUESTION, record, path, f"question {name}", problems, REMEDY)
    try:
        question_id = question_number(name)
    except DataError as error:
        problems.add(path, f"question {name}", "", str(error))
        return None, None
    if found is None:
        return None, None
    types, groups = found.get("types") or {}, found.get("groups") or {}
    answer, program = found.get("answer"), found.get("semantic")
    extras = {"semantic": types.get("semantic"), "structural": types.get("structural")}
    extras |= {"group": groups.get("global"), "isBalanced": record.get("isBalanced", True)}
    if program is not None:
        extras["steps"] = reasoning_steps(record["semantic"])
    return (
        Entry(
            name=name,
            question_id=question_id,
            image_id=found["imageId"],
            question=found["question"],
            answers=None if answer is None else [answer],
            question_type=types.get("detailed"),
            extras=extras,
        ),
        program,
    )


def _key(question: str) -> str:
    return " ".join(tokenise(question))
