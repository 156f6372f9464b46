"""Diagnosis: extracts the belief set of a VQA model, types it, and writes a report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import track

from ivqa.config.keys import CommandKeys, command_keys, model_keys
from ivqa.data import VQADataModule, VQADataset, VQASplit
from ivqa.diagnosis import (
    Belief,
    BeliefLog,
    BeliefSearch,
    Judge,
    Pairs,
    PolicyGradientModule,
    Reasons,
    SearchFigures,
    WithoutPolicy,
    agreement,
    apply_annotations,
    check_annotations,
    choose_pairs,
    corrected_answers,
    estimated_shares,
    judge_agreement,
    judge_answers,
    label_weights,
    listed_beliefs,
    main_answer_share,
    reasons_of,
    search_metrics,
    shares_of_types,
    typed_by_judges,
    typed_by_oracle,
    typed_by_proxy,
    with_suspects,
    write_beliefs,
    write_challenge,
    write_reasons,
)
from ivqa.errors import UserError
from ivqa.generators import DistinctSampling, Questioner, Sampling
from ivqa.metrics import PUBLISHED_R_SCORE, CiderStatistics
from ivqa.provenance import note_questions
from ivqa.ranges import (
    NO_EFFECT,
    Checkpoint,
    Count,
    CountOrZero,
    ExistingFile,
    ExistingFolder,
    NonEmptyText,
    Share,
    marks_of,
)
from ivqa.report.belief_charts import read_curves
from ivqa.report.belief_words import BeliefPageModel, mostly_illegal, print_summary, summary
from ivqa.report.model_names import title_in
from ivqa.report.pages.annotation_page import write_annotation_page
from ivqa.report.pages.belief_page import beliefs_to_explain, write_belief_page
from ivqa.report.pages.noise_page import write_noise_page
from ivqa.report.tables import noise_rows
from ivqa.robustness.records import NoiseRecords
from ivqa.runs.callbacks import measured
from ivqa.runs.judges import check_judges, obtained_judges
from ivqa.runs.loggers import log_results
from ivqa.runs.preparation import open_context, with_features
from ivqa.runs.run_directory import begin_run, read_metrics
from ivqa.runs.trained_models import obtain_measuring_models, obtain_module
from ivqa.scenes import Oracle, oracle_of
from ivqa.store.artifact_store import training_log
from ivqa.store.digests import content_digest
from ivqa.store.files import write_json
from ivqa.store.identity import result_settings, to_plain
from ivqa.store.locks import folder_lock
from ivqa.store.versions import versioned
from ivqa.tasks.compare import finished_diagnoses
from ivqa.tasks.consistency import follow_up_answers, show_consistency
from ivqa.tasks.pictures.diagnosis import belief_media, to_annotate
from ivqa.vqa import Answerer, Metered
from ivqa.vqa.evaluation import accuracy_of

_PAIRS_AT_ONCE = 50  # pairs of a chunk: a kill loses at most one chunk


class Keys(CommandKeys, total=False):
    """Keys of task=diagnose."""

    num_images: Count | None
    pool: Literal["ground_truth", "top", "all"]
    num_top_answers: Count
    num_latents: Count
    distinct: Count
    legality: Share | None
    recall: bool
    ckpt: Checkpoint
    compare: Annotated[Sequence[ExistingFolder] | None, NO_EFFECT]
    # Read after the search.
    max_follow_ups: Annotated[CountOrZero, NO_EFFECT]
    judge: Annotated[NonEmptyText | Sequence[NonEmptyText] | None, NO_EFFECT]
    annotations: Annotated[ExistingFile | None, NO_EFFECT]
    num_noisy_questions: Annotated[Count | None, NO_EFFECT]


@versioned(2)  # of the beliefs and the figures, which tables rest on
def diagnose(cfg: Annotated[DictConfig, Keys]) -> float:
    """Extracts and describes the belief set of cfg.vqa (diagnose.py).

    Writes beliefs.jsonl, follow_ups.jsonl, reasons.jsonl, metrics.json, report.html, annotate.html
    and challenge/ into the run directory. Its folder parts/ holds the beliefs chunk by chunk:
    resume=DIR continues after them, and processes with the same output_dir search the chunks
    together.

    Returns:
        The objective for sweepers: verified beliefs per pair that the oracle understands. The
        oracle judges all settings alike. Without an oracle: all verified beliefs per pair, which
        cannot compare settings that change which questions count as legal.

    Raises:
        UserError: The data do not fit the configuration, or a run of compare= is not finished.
    """
    # 1. The data, their features and the trained policy.
    check_judges(cfg)
    name = title_in(cfg.vqa)
    earlier = finished_diagnoses([Path(folder) for folder in cfg.compare], name)
    splits = list(dict.fromkeys(["train", "val", cfg.split]))
    context = open_context(cfg, splits)
    if cfg.annotations is not None:
        image_ids = set(context.dataset.split(cfg.split).image_ids.tolist())
        check_annotations(Path(cfg.annotations), image_ids)
    context = with_features(context, splits)
    run_dir, console = Path(cfg.output_dir), context.console
    split = context.dataset.split(cfg.split).require_answers()
    oracle = oracle_of(context.dataset, cfg.split)
    listed = listed_beliefs(oracle) if cfg.recall else None
    finished_before = (run_dir / "metrics.json").is_file()
    begin_run(cfg, run_dir, resume=cfg.resume is not None)
    module, vocabularies, checkpoint = obtain_module(context)
    datamodule = context.datamodule(vocabularies, module)
    measuring_models = obtain_measuring_models(context)
    judges = obtained_judges(context, measuring_models, vocabularies)
    # 2. Image-answer pairs, and the accuracy of the VQA model, without and with noise.
    pairs = choose_pairs(
        split,
        module.answers,
        context.dataset.split("train").main_answers,
        num_images=cfg.num_images,
        pool=cfg.pool,
        num_top_answers=cfg.num_top_answers,
        seed=cfg.seed,
    )
    answerer = module.answerer
    asked = pairs.images if isinstance(answerer, Metered) else None  # each question costs
    metrics = accuracy_of(answerer, datamodule, cfg.split, asked, console)
    metrics |= measured(cfg, measuring_models, answerer, datamodule, cfg.split, run_dir)
    # 3. Algorithm 1 over the pairs.
    origin = search_origin(cfg, context.dataset, checkpoint)
    log = BeliefLog(run_dir / "parts", len(pairs), _PAIRS_AT_ONCE, origin)
    statistics = CiderStatistics.of([[text] for text in split.questions])
    figures = SearchFigures(pairs.references, statistics, oracle, listed)
    _search_beliefs(cfg, module, datamodule, pairs, figures, log, console)
    note_questions(log.questions_asked())
    metrics |= search_metrics(log.figures())
    with folder_lock(run_dir):
        if (run_dir / "metrics.json").is_file() and not finished_before:
            console.print(f"report, by another process: {run_dir / 'report.html'}", soft_wrap=True)
            return _objective(read_metrics(run_dir / "metrics.json"))
        # 4. Types of the beliefs, and the challenging set.
        answered = log.beliefs()
        follow_ups = follow_up_answers(
            answered, answerer, datamodule, cfg.split, cfg.max_follow_ups, run_dir, origin
        )
        metrics |= answerer.usage() if isinstance(answerer, Metered) else {}
        everything = [*answered, *follow_ups]
        free = [judge for judge in judges if not isinstance(judge.answerer, Metered)]
        witnesses = [judge_answers(judge, everything) for judge in free]
        found, doubts = with_suspects(answered, follow_ups, witnesses)
        guessed, agreed = _type_beliefs(found, split, pairs, oracle, judges)
        beliefs, weights = guessed, None
        corrections: dict[Belief, list[str]] = {}
        if cfg.annotations is not None:
            beliefs = apply_annotations(guessed, Path(cfg.annotations))
            corrections = corrected_answers(beliefs, Path(cfg.annotations))
            weights = label_weights(beliefs, Path(cfg.annotations))
            metrics |= estimated_shares(beliefs, guessed, weights)
        write_beliefs(run_dir / "beliefs.jsonl", beliefs)
        metrics |= doubts | agreed | shares_of_types(beliefs, weights)
        certain = [belief for belief in beliefs if belief.type_by != "judge"]
        challenge = write_challenge(run_dir / "challenge", certain, split, oracle, corrections)
        metrics["challenge/questions"] = float(challenge)
        # 5. Words and places behind the beliefs that the report shows.
        reasons = _explain(module.answerer, datamodule, cfg.split, beliefs, oracle)
        write_reasons(run_dir / "reasons.jsonl", reasons)
        # 6. The report, the metrics, the terminal and the loggers.
        title = f"What {name} believes about {context.dataset.title}"
        r_score = instantiate(cfg.get("r_score")) or PUBLISHED_R_SCORE
        model = BeliefPageModel(name, beliefs, metrics, reasons, r_score, "", weights, corrections)
        shown = [model, *earlier]
        rewards = ["reward", *getattr(module, "rewards", ())]
        curves = read_curves(training_log(checkpoint), rewards)
        page = run_dir / "report.html"
        write_belief_page(page, title, shown, split, pairs.references, curves, oracle)
        asked_first = to_annotate(guessed, pairs.references)
        write_annotation_page(run_dir / "annotate.html", title, asked_first, split)
        media = belief_media(run_dir, beliefs, split, oracle)
        if "robustness/partition_1/accuracy" in metrics:
            records, noise_page = NoiseRecords.read(run_dir), run_dir / "robustness.html"
            write_noise_page(noise_page, f"{name} under noise", [(name, records)], split, r_score)
            media |= {"noise": noise_page, "noise_table": pd.DataFrame(noise_rows(metrics))}
        media |= show_consistency(metrics, name, run_dir, split, console)
        write_json(run_dir / "metrics.json", metrics)  # last: a run with it is finished
    print_summary(summary(shown[0], oracle), title=title, console=console)
    log_results(cfg, metrics, media)
    console.print(f"report: {run_dir / 'report.html'}\nrun: {run_dir}", soft_wrap=True)
    return _objective(metrics)


def search_origin(cfg: DictConfig, dataset: VQADataset, checkpoint: Path) -> dict[str, Any]:
    """What determines the beliefs of a search, so that stored ones are not taken for others."""
    counting = [key for key, hint in command_keys(cfg).items() if NO_EFFECT not in marks_of(hint)]
    settings = {key: to_plain(cfg[key]) for key in counting if key in cfg}
    return {
        **result_settings(settings, model_keys),
        "dataset": dataset.cache_key(),
        "weights": content_digest(checkpoint),
    }


def _objective(metrics: Mapping[str, float]) -> float:
    return metrics.get("beliefs/understood_per_pair", metrics["beliefs/per_pair"])


def _search_beliefs(
    cfg: DictConfig,
    module: PolicyGradientModule | WithoutPolicy,
    datamodule: VQADataModule,
    pairs: Pairs,
    figures: SearchFigures,
    log: BeliefLog,
    console: Console,
) -> None:
    """Runs Algorithm 1 over the pairs that are not in `log` yet, and waits for other processes."""
    if module.legality_model is None:
        raise UserError("diagnosis needs a legality model; name one in model.parts.legality_model")
    questioners: dict[str, Questioner] = {"supervised": module.reference}
    if module.questioner is not module.reference:
        questioners["rl"] = module.questioner
    search = BeliefSearch(
        questioners=questioners,
        answerer=module.answerer,
        answers=module.answers,
        legality_model=module.legality_model,
        num_latents=cfg.num_latents,
        strategy=DistinctSampling(cfg.distinct) if cfg.distinct > 1 else Sampling(),
        legality=cfg.legality,
    )
    chunks = track(
        log.to_search(),
        description="searching beliefs",
        total=len(log.missing()),
        console=console,
        transient=True,
    )
    for turn, chosen in enumerate(chunks):
        image_ids, answers = pairs.images[chosen], pairs.answers[chosen]
        images = datamodule.images_of(cfg.split, image_ids)
        # The seed depends on the chunk alone, so every process finds the same beliefs.
        seed = np.random.SeedSequence([cfg.seed, chosen.start]).generate_state(1)[0]
        found = search(images, answers, torch.Generator().manual_seed(int(seed)))
        sums = figures.sums(found, list(zip(image_ids, answers, strict=True)))
        log.write(chosen, found.beliefs(image_ids), sums)
        if not turn and (note := mostly_illegal(search_metrics([sums]))):
            console.print(note, soft_wrap=True)


def _type_beliefs(
    beliefs: Sequence[Belief],
    split: VQASplit,
    pairs: Pairs,
    oracle: Oracle | None,
    judges: Sequence[Judge],
) -> tuple[list[Belief], dict[str, float]]:
    """Types beliefs by the judges, or else by the oracle, or else by a proxy.

    Judges and proxy are compared with the oracle, if there is one, since real data have none.
    """
    guessed = typed_by_proxy(beliefs, split, pairs.references)
    typed = guessed
    metrics: dict[str, float] = {}
    if oracle is not None:
        typed = typed_by_oracle(beliefs, oracle, pairs.references)
        understood = sum(belief.type is not None for belief in typed)
        metrics["beliefs/understood"] = understood / max(len(beliefs), 1)
        metrics |= {f"proxy/{name}": share for name, share in agreement(typed, guessed).items()}
    if not judges:
        return typed, metrics
    judged = typed_by_judges(beliefs, judges, pairs.references)
    if oracle is not None:
        metrics |= {f"judge/{name}": x for name, x in judge_agreement(judged, typed).items()}
    rows = np.flatnonzero(np.isin(split.image_ids, pairs.images))
    asked = [(int(split.image_ids[at]), split.questions[at], split.main_answers[at]) for at in rows]
    for judge in judges:
        metrics[f"judge/{judge.name}/main_answer"] = main_answer_share(judge, asked)
        if isinstance(judge.answerer, Metered):
            usage = judge.answerer.usage().items()
            metrics |= {f"judge/{judge.name}/{name}": count for name, count in usage}
    return judged, metrics


def _explain(
    answerer: Answerer,
    datamodule: VQADataModule,
    split: str,
    beliefs: Sequence[Belief],
    oracle: Oracle | None,
) -> dict[int, Reasons]:
    """The words and places behind the beliefs that the report explains, by line, from 1."""
    if isinstance(answerer, Metered):  # each question costs
        return {}
    chosen = set(beliefs_to_explain(beliefs, oracle))
    lines = [line for line, belief in enumerate(beliefs, start=1) if belief in chosen]
    asked = [beliefs[line - 1] for line in lines]
    found = reasons_of(asked, answerer, lambda images: datamodule.images_of(split, images))
    return dict(zip(lines, found, strict=True))
