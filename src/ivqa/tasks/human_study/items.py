"""The questions of a human study: drawn from several runs, shuffled and blinded."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AliasPath, Field, TypeAdapter

from ivqa.data import DataError, VQASplit
from ivqa.data.validation import read_lines
from ivqa.errors import UserError
from ivqa.metrics import CiderStatistics, bleu_scores, cider_scores, meteor_scores, rouge_l_scores
from ivqa.runs.run_directory import read_metrics
from ivqa.store.digests import digest
from ivqa.store.files import FileError, read_json, write_json
from ivqa.text.tokens import detokenise, tokenise

_KEY = "key.json"


@dataclass(frozen=True)
class StudyItem:
    """A question that people score.

    Args:
        id: Tells nothing about the model.
        answer: The answer that the question was generated for.
        reference: The question of the data set, which people do not see.
        models: The models that asked it.
        values: Automatic metrics of this question, by the name that they have in metrics.json.
    """

    id: str
    image_id: int
    answer: str
    question: str
    reference: str
    models: list[str]
    values: dict[str, float]


@dataclass(frozen=True)
class Study:
    """The key of a human study: which model asked what.

    `metrics` and `runs` have the metrics.json and the run directory of each model, `items` are in
    the order of the page. The exported ratings name the `id`.
    """

    id: str
    metrics: dict[str, dict[str, float]]
    runs: dict[str, str]
    items: list[StudyItem]

    def write(self, folder: Path) -> Path:
        """Writes key.json."""
        write_json(folder / _KEY, asdict(self))
        return folder / _KEY

    @classmethod
    def read(cls, folder: Path) -> "Study":
        """Reads key.json; raises UserError without it, and FileError where it is damaged."""
        file = folder / _KEY
        if not file.is_file():
            raise UserError(
                f"{folder} has no {_KEY}; pass study=DIR, the run directory of task=human_study "
                "that wrote annotate.html"
            )
        stored = read_json(file, dict)
        try:
            items = [StudyItem(**item) for item in stored.pop("items")]
            return cls(items=items, **stored)
        except (KeyError, TypeError):
            raise FileError(f"{file} is not the key of a human study; restore it") from None


@dataclass(frozen=True)
class BestQuestion:
    """A line of questions.jsonl: `reference`, a question of the data set, and a generated one.

    Args:
        question: The best question of the generator.
        verdict: The oracle's verdict on it; None without an oracle.
    """

    question_id: int
    image_id: int
    answer: str
    reference: str
    question: Annotated[str, Field(validation_alias=AliasPath("best", "text"))]
    verdict: Annotated[str | None, Field(validation_alias=AliasPath("best", "verdict"))]

    @property
    def pair(self) -> tuple[int, int, str, str]:
        """All but the generated question."""
        return self.question_id, self.image_id, self.answer, self.reference


def draw_study(
    runs: Mapping[str, Path], split: VQASplit, *, num_images: int | None, seed: int
) -> Study:
    """Draws image-answer pairs that all runs have, one for each image, and collects the questions.

    The best question of each run is taken. Questions with the same words are one item, and all are
    written alike, since case and punctuation could tell the model. With one pair for each image
    the images are independent, which the intervals of the results need.

    Raises:
        FileError: A file of a run is missing or damaged.
        DataError: A run asked about other data, or the runs have no image-answer pair in common.
    """
    asked = {name: read_questions(run, split) for name, run in runs.items()}
    first = next(iter(asked.values()))
    common = set.intersection(*({one.pair for one in own} for own in asked.values()))
    if not common:
        raise DataError(
            f"{', '.join(map(str, runs.values()))} have no image-answer pair in common; evaluate "
            "the models on the same data and split"
        )
    rng = random.Random(seed)
    by_image: dict[int, list[tuple[int, int, str, str]]] = {}
    for pair in sorted(common):
        by_image.setdefault(pair[1], []).append(pair)
    images = list(by_image)
    if num_images is not None and num_images < len(images):
        images = rng.sample(images, num_images)
    chosen = {rng.choice(by_image[image]) for image in images}
    statistics = CiderStatistics.of([[one.reference] for one in first])
    drawn = {name: [one for one in own if one.pair in chosen] for name, own in asked.items()}
    items = _items(drawn, statistics, seed)
    rng.shuffle(items)
    return Study(
        id=digest([item.id for item in items]),
        metrics={name: read_metrics(run / "metrics.json") for name, run in runs.items()},
        runs={name: str(run) for name, run in runs.items()},
        items=items,
    )


def _items(
    asked: Mapping[str, Sequence[BestQuestion]], statistics: CiderStatistics, seed: int
) -> list[StudyItem]:
    """The different questions, in an order that does not depend on the models."""
    models: dict[tuple[int, str, str, str], list[str]] = {}
    sources: dict[tuple[int, str, str, str], BestQuestion] = {}
    for name, own in asked.items():
        for one in own:
            # All pairs are of different images, so the reference separates nothing.
            key = one.image_id, one.answer, detokenise(tokenise(one.question)), one.reference
            models.setdefault(key, []).append(name)
            sources.setdefault(key, one)
    keys = sorted(models)
    values = _values([sources[key] for key in keys], statistics)
    return [
        StudyItem(digest([seed, *key]), *key, models=models[key], values=own)
        for key, own in zip(keys, values, strict=True)
    ]


def _values(asked: Sequence[BestQuestion], statistics: CiderStatistics) -> list[dict[str, float]]:
    """The automatic metrics of each question against the question of the data set.

    A metric is the mean of these values over the questions of a model, but for BLEU, whose counts
    are summed over the corpus.
    """
    hypotheses = [one.question for one in asked]
    references = [[one.reference] for one in asked]
    columns = {"cider": cider_scores(hypotheses, references, statistics)}
    bleu = bleu_scores(hypotheses, references)
    columns |= {f"bleu{order + 1}": bleu[:, order] for order in range(4)}
    columns["rouge_l"] = rouge_l_scores(hypotheses, references)
    columns["meteor"] = meteor_scores(hypotheses, references)
    rows = [
        {name: float(value) for name, value in zip(columns, row, strict=True)}
        for row in zip(*columns.values(), strict=True)
    ]
    if all(one.verdict is not None for one in asked):
        for row, one in zip(rows, asked, strict=True):
            row["best/consistent"] = float(one.verdict == "consistent")
    return rows


def read_questions(run: Path, split: VQASplit) -> list[BestQuestion]:
    """Reads the best questions in questions.jsonl of a run that asked about `split`.

    Raises:
        FileError: The file is missing.
        DataError: It is damaged, or the run asked about other data.
    """
    file = run / "questions.jsonl"
    if not file.is_file():
        raise FileError(
            f"{run} has no questions.jsonl; give the run directory of evaluate.py with a question "
            "generator, such as model=ivqa_vae"
        )
    rows = {int(number): row for row, number in enumerate(split.question_ids)}
    asked = []
    remedy, kind = "evaluate the model again", "a line that evaluate.py writes"
    lines = read_lines(file, TypeAdapter(BestQuestion), remedy, kind=kind)
    for number, one in enumerate(lines, start=1):
        row = rows.get(one.question_id)
        known = row is not None and one.pair == (
            one.question_id,
            int(split.image_ids[row]),
            split.main_answers[row],
            split.questions[row],
        )
        if not known:
            raise DataError(
                f"{file}, line {number}: question {one.question_id} is not one of split "
                f"'{split.name}'; pass the data= and split= that this run was evaluated on"
            )
        asked.append(one)
    return asked
