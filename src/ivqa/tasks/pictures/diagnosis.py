"""Diagnosis of pictures without data: what a VQA model wrongly believes about a folder."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.config.model_sources import source_of
from ivqa.data.given_pictures import NumberedPictures, read_picture
from ivqa.diagnosis import (
    AskedLog,
    Belief,
    BudgetSearch,
    PlainEnglish,
    drawn_for_labels,
    search_figures,
    shares_of_types,
    typed_by_oracle,
    with_suspects,
    write_beliefs,
)
from ivqa.errors import UserError
from ivqa.logic import unclear
from ivqa.provenance import note_data, note_questions
from ivqa.ranges import CHANGEABLE, NO_EFFECT, Checkpoint, Count, NonNegative, Place, Share
from ivqa.report.belief_words import BeliefPageModel, headline, print_summary
from ivqa.report.model_names import title_in
from ivqa.report.pages.annotation_page import HasPictures, ToAnnotate, write_annotation_page
from ivqa.report.pages.belief_page import beliefs_to_explain, write_belief_page
from ivqa.runs.context import without_measurements
from ivqa.runs.loggers import log_results
from ivqa.runs.picture_model import obtain_picture_model, unlike_training
from ivqa.runs.preparation import open_for_pictures
from ivqa.runs.run_directory import begin_run
from ivqa.scenes import Oracle, oracle_of
from ivqa.store.digests import content_digest
from ivqa.store.files import write_json
from ivqa.tasks.pictures.asking import (
    Limits,
    Meter,
    ask_in_plain_english,
    check_answers_questions,
    confirm,
    drawn_pictures,
    known_by,
    picture_asker,
    pictures_in_words,
    without_failed,
)
from ivqa.vqa import Metered

_UNCLEAR = 0.01  # the share of answers that say nothing above which a sentence says so
_LOGGED_BELIEFS = 2000  # rows of the table that goes to W&B
_LOGGED_PICTURES = 50  # rows of the table with pictures of `_LOGGED_SIDE` pixels
_LOGGED_SIDE = 256


class PictureKeys(CommandKeys, total=False):
    """Keys of task=diagnose_pictures: a search without data, which has a log of its own."""

    num_images: Annotated[Count | None, NO_EFFECT]
    ckpt: Checkpoint
    images: Annotated[Place, NO_EFFECT]
    max_questions: Annotated[Count, NO_EFFECT]
    oracle: Annotated[bool, NO_EFFECT]
    explore: Annotated[Share, NO_EFFECT]
    stop_below: Annotated[NonNegative | None, NO_EFFECT]
    ask_above: Annotated[Limits, NO_EFFECT, CHANGEABLE]
    yes: Annotated[bool, NO_EFFECT, CHANGEABLE]


@dataclass(frozen=True)
class PictureDiagnosis:
    """What a model says about pictures: every question that was asked, with the answer.

    `oracle` judges the beliefs; None without one. `note` says what limits the diagnosis; "" if
    nothing does.
    """

    name: str
    beliefs: list[Belief]
    metrics: dict[str, float]
    pictures: NumberedPictures
    oracle: Oracle | None = None
    note: str = ""

    def lines(self) -> list[str]:
        """The diagnosis in a few sentences."""
        return headline(BeliefPageModel(self.name, self.beliefs, self.metrics, note=self.note), [])

    def write(self, folder: Path) -> None:
        """Writes beliefs.jsonl, pictures.json, report.html, annotate.html and metrics.json."""
        files = {str(one): str(self.pictures.path(one)) for one in self.pictures.pictures}
        if not any(isinstance(one, Path) for one in self.pictures.pictures.values()):
            files = {}
        write_beliefs(folder / "beliefs.jsonl", self.beliefs)
        write_json(folder / "pictures.json", files)
        title = f"What {self.name} believes about {pictures_in_words(len(self.pictures.pictures))}"
        model = BeliefPageModel(self.name, self.beliefs, self.metrics, note=self.note)
        page = folder / "report.html"
        write_belief_page(page, title, [model], self.pictures, {}, {}, self.oracle)
        asked = to_annotate(self.beliefs, {})
        write_annotation_page(folder / "annotate.html", title, asked, self.pictures)
        write_json(folder / "metrics.json", self.metrics)  # last: a run with it is finished


def diagnose_pictures(cfg: Annotated[DictConfig, PictureKeys]) -> float:
    """Asks cfg.vqa about the pictures that cfg.images names, and describes what it believes.

    Writes the files of `PictureDiagnosis.write` into the run directory, and every answer into its
    parts/asked.jsonl as soon as it is known: a run that is started again in the same directory
    asks nothing twice.

    Returns:
        The share of the answers that must be wrong, at least.

    Raises:
        UserError: A picture cannot be read, or the configuration does not fit.
    """
    files = _chosen(cfg)
    cfg = without_measurements(cfg)  # on data, of which there may be none
    splits = [*source_of(cfg.vqa).splits, *([cfg.split] if cfg.oracle else [])]
    context = open_for_pictures(cfg, splits, lambda one: [one.parts["answerer"]])
    oracle = oracle_of(context.dataset, cfg.split) if cfg.oracle else None
    _check_oracle(cfg, oracle, files)
    run_dir, console = Path(cfg.output_dir), context.console
    begin_run(cfg, run_dir, resume=cfg.resume is not None)
    part = context.parts["answerer"]
    model = obtain_picture_model(part)
    pictures = NumberedPictures(files)
    note_data(f"{pictures_in_words(len(files))} of {Path(str(cfg.images)).name}")
    if note := unlike_training(model, pictures, list(files)):
        console.print(note, soft_wrap=True)
    origin = {
        "model": model.context.source_identity(),
        "pictures": {str(one): content_digest(str(file)) for one, file in files.items()},
        "version": BudgetSearch.version,
        "seed": int(cfg.seed),
    }
    meter = Meter(picture_asker(model, pictures), model.module)
    log = AskedLog(run_dir / "parts" / "asked.jsonl", meter, origin)
    if len(log):
        console.print(f"{len(log):,} answers are there from before", soft_wrap=True)
    beliefs = ask_in_plain_english(
        log,
        list(files),
        cfg.max_questions,
        **known_by(model.module),
        seed=cfg.seed,
        explore=cfg.explore,
        stop_below=cfg.stop_below,
        meter=meter,
        console=console,
        go_on=None if cfg.yes else lambda forecast: confirm(forecast, cfg.ask_above, console),
    )
    note_questions(len(beliefs))
    found = described(title_in(cfg.vqa), beliefs, pictures, oracle, note)
    if isinstance(model.module, Metered):
        found.metrics.update(model.module.usage())
    found.write(run_dir)
    print_summary(found.lines(), title=pictures_in_words(len(files)), console=console)
    log_results(cfg, found.metrics, belief_media(run_dir, found.beliefs, pictures, oracle))
    console.print(f"report: {run_dir / 'report.html'}\nrun: {run_dir}", soft_wrap=True)
    return found.metrics["beliefs/errors_at_least"]


def belief_media(
    run_dir: Path, beliefs: Sequence[Belief], pictures: HasPictures, oracle: Oracle | None
) -> dict[str, Any]:
    """Report, table and pictures of beliefs as media for `log_results`, first those at the top."""

    def with_pictures() -> pd.DataFrame:
        files = pictures.images
        chosen = beliefs_to_explain(beliefs, oracle)[:_LOGGED_PICTURES] if files else []
        shown = [read_picture(files.path(one.image_id)) for one in chosen] if files else []
        for picture in shown:
            picture.thumbnail((_LOGGED_SIDE, _LOGGED_SIDE))
        columns = ("image_id", "question", "answer", "phi", "type", "type_by")
        rows = [{name: getattr(one, name) for name in columns} for one in chosen]
        return pd.DataFrame(rows).assign(picture=shown)

    table = pd.DataFrame([belief.record() for belief in beliefs[:_LOGGED_BELIEFS]])
    page = run_dir / "report.html"
    return {"report": page, "beliefs_table": table, "belief_pictures": with_pictures}


def to_annotate(
    beliefs: Sequence[Belief], references: Mapping[tuple[int, str], Sequence[str]]
) -> list[ToAnnotate]:
    """The beliefs that annotate.html asks about, those first that narrow the interval most."""
    asked = []
    for row, weight in drawn_for_labels(beliefs):
        one = beliefs[row]
        reference = references.get((one.image_id, one.answer), [""])[0]
        asked.append(ToAnnotate(one.image_id, one.answer, one.question, reference, weight))
    return asked


def described(
    name: str,
    beliefs: Sequence[Belief],
    pictures: NumberedPictures,
    oracle: Oracle | None,
    note: str = "",
) -> PictureDiagnosis:
    """Finds contradictions and suspects among beliefs, and types them if there is an oracle.

    Returns:
        The diagnosis, with the figures of `with_suspects` and `search_figures`.
    """
    answered, said = without_failed(beliefs)
    note, failed, beliefs = f"{note} {said}".strip(), len(beliefs) - len(answered), answered
    marked, metrics = with_suspects(beliefs)
    vain = sum(unclear(one.question, one.answer) for one in beliefs)
    if vain > _UNCLEAR * len(beliefs):
        said = f"{vain:,} of its answers to yes/no questions are neither, and say nothing."
        note = f"{note} {said}".strip()
    metrics = {
        "beliefs/count": float(len(beliefs)),
        "beliefs/images": float(len({belief.image_id for belief in beliefs})),
        "beliefs/failed": float(failed),
        "beliefs/unclear": vain / max(len(beliefs), 1),
        **metrics,
    }
    if oracle is not None:
        marked = typed_by_oracle(marked, oracle, {})
        metrics |= shares_of_types(marked)
    metrics |= search_figures(marked, oracle)
    metrics["search/questions"] += failed  # they were asked too
    return PictureDiagnosis(name, marked, metrics, pictures, oracle, note)


def _chosen(cfg: DictConfig) -> dict[int, Path]:
    """The pictures by image id: at most cfg.num_images, drawn at random."""
    check_answers_questions(cfg.vqa, "vqa")
    if cfg.model.module._target_.rpartition(".")[2] != PlainEnglish.__name__:
        raise UserError(
            "images= asks questions whose meanings are known, and those of "
            f"model={cfg.model.name} are not; leave model= out"
        )
    found = drawn_pictures(str(cfg.images), cfg.num_images, cfg.seed)
    if not cfg.oracle:
        return dict(enumerate(found, start=1))
    numbers = [re.findall(r"\d+", file.stem)[-1:] for file in found]
    for file, number in zip(found, numbers, strict=True):
        if not number:
            raise UserError(f"oracle=true: the name of {file} has no image id; give oracle=false")
    return {int(number[0]): file for number, file in zip(numbers, found, strict=True)}


def _check_oracle(cfg: DictConfig, oracle: Oracle | None, files: dict[int, Path]) -> None:
    if not cfg.oracle:
        return
    if oracle is None:
        raise UserError(
            f"oracle=true: split '{cfg.split}' of data={cfg.data.get('root', 'scenes')} has no "
            "oracle; give oracle=false"
        )
    for image_id, file in files.items():
        try:
            oracle.judge(image_id, "Is there a star?")
        except KeyError:
            raise UserError(
                f"oracle=true: {file} is no image of split '{cfg.split}'; name the files by their "
                "image ids, or give oracle=false"
            ) from None
