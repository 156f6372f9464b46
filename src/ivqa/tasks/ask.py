"""Asking: the likely questions about given pictures, and what a VQA model answers to them."""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from omegaconf import DictConfig, OmegaConf
from PIL import Image
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from ivqa.config.keys import CommandKeys
from ivqa.config.model_sources import Pretrained, source_of
from ivqa.data.given_pictures import NumberedPictures, picture_files, read_picture
from ivqa.diagnosis.search.asking import (
    AskedQuestion,
    GivenAnswer,
    answer_marginal,
    check_answer,
    given_answers,
    likely_questions,
)
from ivqa.errors import UserError
from ivqa.generators.evaluation import AskedPair
from ivqa.ranges import Checkpoint, Count, Place
from ivqa.report.contact_sheet import NotedQuestion, write_contact_sheet
from ivqa.runs.context import RunContext
from ivqa.runs.data_checks import check_data
from ivqa.runs.loggers import log_results
from ivqa.runs.picture_model import (
    PictureModel,
    asks_questions,
    check_gives_probabilities,
    check_reads_images,
    image_batch,
    obtain_picture_model,
    training_answers,
    unlike_training,
)
from ivqa.runs.preparation import open_for_pictures
from ivqa.runs.run_directory import begin_run
from ivqa.store.files import write_json, write_lines
from ivqa.tasks.pictures.asking import check_answers_questions
from ivqa.text.tokens import tokenise

_THUMBNAIL = (512, 512)  # pixels; the pictures of a folder are kept at this size for the page


@dataclass(frozen=True)
class AskedAnswer:
    """The questions about one picture for one answer, by falling probability.

    `share` is p(a | I), or the frequency of the answer without a VQA model; None if it was given.
    `given` has what the VQA model answers to each question; empty without one.
    """

    file: Path
    thumbnail: Image.Image
    answer: str
    share: float | None
    questions: Sequence[AskedQuestion]
    given: Sequence[GivenAnswer]


class Keys(CommandKeys, total=False):
    """Keys of task=ask."""

    image: Place
    answer: Any
    ckpt: Checkpoint
    vqa_ckpt: Checkpoint
    num_questions: Count
    num_latents: Count
    likelihood_samples: Count
    num_top_answers: Count


def ask(cfg: Annotated[DictConfig, Keys]) -> float:
    """Asks about the pictures that cfg.image names (task=ask).

    Writes config.yaml, questions.jsonl, metrics.json and, for several pictures, questions.html
    into the run directory. Pictures and answers are checked before anything is trained.

    Returns:
        The mean probability of the most probable question.

    Raises:
        UserError: A picture cannot be read, the generator does not know an answer, or the models
            do not fit.
    """
    # 1. The pictures, the data and the checks of both.
    if cfg.resume is not None:
        raise UserError("resume= continues training; start asking again without resume=")
    _check_models(cfg)
    files = picture_files(str(cfg.image))
    for file in track(files, "reading pictures", transient=True, disable=len(files) == 1):
        read_picture(file)
    models = [cfg.model, *([] if cfg.get("vqa") is None else [cfg.vqa])]
    splits = list(dict.fromkeys(split for one in models for split in source_of(one).splits))
    context = open_for_pictures(cfg, splits, lambda one: [one, *_vqa_bench(one)])
    check_reads_images(context)
    answers = _wanted_answers(cfg, context)
    vqa_bench = next(iter(_vqa_bench(context)), None)
    if vqa_bench is not None and context.training is None:
        check_data(vqa_bench, [*source_of(cfg.vqa).splits])
    # 2. The trained models.
    run_dir, console = Path(cfg.output_dir), context.console
    begin_run(cfg, run_dir, resume=False)
    generator = obtain_picture_model(context)
    answerer = None if vqa_bench is None else obtain_picture_model(vqa_bench)
    for answer in answers or ():
        check_answer(answer, generator.questioner.answer_words, lambda: training_answers(context))
    note = unlike_training(generator, NumberedPictures(dict(enumerate(files))), range(len(files)))
    if note:
        console.print(note, soft_wrap=True)
    # 3. Questions and answers, picture by picture.
    started = time.perf_counter()
    asked: list[AskedAnswer] = []
    shown = track(files, "asking", console=console, transient=True, disable=len(files) == 1)
    for file in shown:
        asked += _ask_about(cfg, file, answers, generator, answerer)
    metrics = _metrics(asked, len(files), time.perf_counter() - started)
    # 4. The files, the terminal and the loggers.
    _write(run_dir, asked)
    write_json(run_dir / "metrics.json", metrics)
    _show(cfg, asked, note, len(files), run_dir, console)
    media = {"questions": run_dir / "questions.html"} if len(files) > 1 else None
    log_results(cfg, metrics, media)
    console.print(f"checkpoint: {generator.checkpoint}\nrun: {run_dir}", soft_wrap=True)
    return metrics["ask/best_probability"]


def _check_models(cfg: DictConfig) -> None:
    if not asks_questions(cfg.model):
        raise UserError(
            f"model={cfg.model.name} generates no questions; choose a generator, such as "
            "model=ivqa_vae, and name a VQA model in vqa="
        )
    check_gives_probabilities(cfg.model)
    if cfg.get("vqa") is not None:
        check_answers_questions(cfg.vqa, "vqa")


def _vqa_bench(context: RunContext) -> list[RunContext]:
    """The context of vqa=, if it names a model."""
    vqa = context.cfg.get("vqa")
    return [] if vqa is None else [context.for_model(vqa, context.cfg.vqa_ckpt)]


def _wanted_answers(cfg: DictConfig, context: RunContext) -> list[str] | None:
    """The answers of answer=, checked as far as the data can tell; None to find them."""
    given = OmegaConf.to_container(cfg.answer) if OmegaConf.is_list(cfg.answer) else cfg.answer
    if given is None:
        return None
    answers = [str(item) for item in (given if isinstance(given, list) else [given])]
    if not answers:
        raise UserError("answer=[] names no answer; give one, or answer=null for the likeliest")
    # A checkpoint, or a model of another library, brings its own words; so do released weights.
    is_trained_here = str(cfg.ckpt) == "auto" and not isinstance(context.source, Pretrained)
    if is_trained_here and context.training is None:
        for answer in answers:
            known = context.vocabularies.answer_words
            check_answer(answer, known, lambda: training_answers(context))
    return answers


def _ask_about(
    cfg: DictConfig,
    file: Path,
    answers: Sequence[str] | None,
    generator: PictureModel,
    answerer: PictureModel | None,
) -> Iterator[AskedAnswer]:
    """The questions about one picture, answer by answer."""
    picture = read_picture(file)
    models = [generator] if answerer is None else [generator, answerer]
    image, questioner = image_batch(models, picture), generator.questioner
    shares: dict[str, float] = {}
    if answers is None:
        # The generator reads only answers whose words it knows.
        known = training_answers(generator.context)
        total = sum(known.values())
        shares = {a: count / total for a, count in known.items() if _is_known(a, generator)}
        if answerer is not None:
            shares = answer_marginal(questioner, answerer.module, image, shares, seed=int(cfg.seed))
        answers = [a for a in shares if _is_known(a, generator)][: cfg.num_top_answers]
    thumbnail = picture.copy()
    thumbnail.thumbnail(_THUMBNAIL)
    for answer in answers:
        questions = likely_questions(
            questioner,
            image,
            answer,
            n=cfg.num_questions or cfg.num_latents,
            num_latents=cfg.num_latents,
            likelihood_samples=cfg.likelihood_samples,
            seed=cfg.seed,
        )
        texts = [asked.question for asked in questions]
        given = [] if answerer is None else given_answers(answerer.module, image, texts)
        yield AskedAnswer(file, thumbnail, answer, shares.get(answer), questions, given)


def _is_known(answer: str, generator: PictureModel) -> bool:
    words = tokenise(answer)
    return bool(words) and all(word in generator.questioner.answer_words for word in words)


def _metrics(asked: Sequence[AskedAnswer], pictures: int, seconds: float) -> dict[str, float]:
    best = [item.questions[0].probability for item in asked if item.questions]
    return {
        "ask/pictures": float(pictures),
        "ask/questions": float(sum(len(item.questions) for item in asked)),
        "ask/best_probability": sum(best) / max(len(best), 1),
        "ask/seconds": seconds,
    }


def _write(run_dir: Path, asked: Sequence[AskedAnswer]) -> None:
    """Writes questions.jsonl: one line for each picture and answer."""
    lines = []
    for item in asked:
        questions: list[dict[str, Any]] = [dict(vars(question)) for question in item.questions]
        for record, given in zip(questions, item.given, strict=False):
            record |= {"vqa_answer": given.answer, "vqa_probability": given.probability}
        record = {"image": str(item.file), "answer": item.answer, "answer_share": item.share}
        lines.append({**record, "questions": questions})
    write_lines(run_dir / "questions.jsonl", lines)


def _show(
    cfg: DictConfig,
    asked: Sequence[AskedAnswer],
    note: str,
    pictures: int,
    run_dir: Path,
    console: Console,
) -> None:
    """Prints the table of one picture, or writes the contact sheet of several."""
    title = f"questions of {cfg.model.name}"
    if cfg.get("vqa") is not None:
        title += f" and answers of {cfg.vqa.name}"
    if pictures == 1:
        console.print(_table(cfg, asked, f"{asked[0].file.name}: {title}"))
    else:
        page = run_dir / "questions.html"
        summary: dict[str, float | str] = {"pictures": str(pictures), "cards": str(len(asked))}
        items = [_card(cfg, item) for item in asked if item.questions]
        subtitle = f"{title}. {note}" if note else title
        write_contact_sheet(page, items, "Questions about pictures", subtitle, summary)
        console.print(f"contact sheet: {page}", soft_wrap=True)
    if cfg.answer is None:
        console.print(_order(cfg), soft_wrap=True)


def _order(cfg: DictConfig) -> str:
    """How the answers were chosen, in one sentence."""
    if cfg.get("vqa") is None:
        return (
            "answers: the most frequent of the training split, because a generator p(q | I, a) "
            "does not say which answers fit a picture; vqa=NAME orders them for the picture"
        )
    return (
        f"answers: those that {cfg.vqa.name} gives most often to questions of the generator about "
        "the picture, p(a | I)"
    )


def _table(cfg: DictConfig, asked: Sequence[AskedAnswer], title: str) -> Table:
    table = Table(title=Text(title))
    for name in ("answer", "question"):
        table.add_column(name, overflow="fold")
    table.add_column("p(q | I, a)", justify="right")
    if cfg.get("vqa") is not None:
        table.add_column(f"{cfg.vqa.name} answers", overflow="fold")
        table.add_column("probability", justify="right")
    for item in asked:
        share = "" if item.share is None else f" ({item.share:.3f})"
        for row, question in enumerate(item.questions):
            cells = [question.question, f"{question.probability:.4f}"]
            if item.given:
                cells += [item.given[row].answer, f"{item.given[row].probability:.3f}"]
            # Text, since Rich would read brackets in a question as markup.
            table.add_row(*map(Text, [f"{item.answer}{share}" if row == 0 else "", *cells]))
        table.add_section()
    return table


def _card(cfg: DictConfig, item: AskedAnswer) -> AskedPair:
    """A picture and an answer on the contact sheet."""
    noted = []
    for row, question in enumerate(item.questions):
        note = f"p {question.probability:.3f}"
        if item.given:
            given = item.given[row]
            note += f", {cfg.vqa.name}: {given.answer} ({given.probability:.2f})"
        log_likelihood = math.log(max(question.probability, sys.float_info.min))
        noted.append(NotedQuestion(question.question, log_likelihood, note=note))
    return AskedPair(item.thumbnail, item.answer, "", "", noted[0], noted)
