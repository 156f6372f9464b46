"""Diagnosis: extracts the belief set of a VQA model, types it, and shows it."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import track

from ivqa.data import VQADataModule, VQASplit
from ivqa.diagnosis import (
    Belief,
    BeliefSearch,
    Found,
    PolicyGradientModule,
    SearchFigures,
    agreement,
    apply_annotations,
    read_beliefs,
    search_metrics,
    share_of_contradictions,
    shares_of_types,
    typed_by_oracle,
    typed_by_proxy,
)
from ivqa.diagnosis.challenge import write_challenge
from ivqa.errors import UserError
from ivqa.experiment.artifacts import read_metrics
from ivqa.experiment.checks import check_config
from ivqa.experiment.logging import log_results
from ivqa.experiment.training import build_callbacks, note_overrides, obtain_module
from ivqa.experiment.vqa_benchmark import answer_all, score_answers
from ivqa.experiment.workbench import open_workbench
from ivqa.files import (
    FileError,
    bytes_digest,
    digest,
    file_digest,
    read_bytes,
    read_json,
    write_json,
    write_text,
)
from ivqa.metrics import CiderStatistics
from ivqa.report import (
    BeliefPageModel,
    ToAnnotate,
    print_metrics,
    print_noise_curve,
    read_curves,
    write_annotation_page,
    write_belief_page,
)
from ivqa.robustness import RobustnessCallback

_PAIRS_AT_ONCE = 50
_PROGRESS = "progress.json"  # beside beliefs.jsonl
_LAYOUT = 2  # of progress.json; counts up when the sums in it get another meaning
_LOGGED_BELIEFS = 2000  # rows of the table that goes to W&B


@dataclass(frozen=True)
class _Pairs:
    """The (image, answer) pairs that are asked about, and the data set's own questions."""

    images: list[int]
    answers: list[str]
    references: dict[tuple[int, str], list[str]]

    def __len__(self) -> int:
        return len(self.answers)


def diagnose(cfg: DictConfig) -> float:
    """Extracts and describes the belief set of cfg.vqa; diagnose.py calls this.

    Writes beliefs.jsonl (as it goes; resume=DIR goes on), metrics.json, report.html, annotate.html
    and challenge/ into the run directory.

    Returns:
        The objective of sweepers: verified beliefs a pair that the oracle understands. The oracle
        is the same judge whatever is swept. Without one: all verified beliefs a pair, which is no
        fair measure of settings that change what counts as legal.
    """
    check_config(cfg)
    bench = open_workbench(cfg, list(dict.fromkeys(["train", "val", cfg.split])))
    run_dir, console = Path(cfg.output_dir), bench.console
    split = bench.dataset.split(cfg.split).require_answers()
    earlier = [(Path(folder).name, _of_run(Path(folder))) for folder in cfg.compare]
    run_dir.mkdir(parents=True, exist_ok=True)
    write_text(run_dir / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    if cfg.resume is None:
        note_overrides(run_dir)
    module, vocabularies, checkpoint = obtain_module(bench)
    datamodule = bench.datamodule(vocabularies, module)
    train_answers = bench.dataset.split("train").main_answers
    pairs = _choose_pairs(cfg, split, module, train_answers)

    file = run_dir / "beliefs.jsonl"
    statistics = CiderStatistics.of([[text] for text in split.questions])
    oracle = bench.dataset.oracle(cfg.split)
    figures = SearchFigures(pairs.references, statistics, oracle)
    metrics = _search(cfg, module, datamodule, pairs, figures, file, console)
    beliefs = read_beliefs(file)
    guessed = typed_by_proxy(beliefs, split, pairs.references)
    if oracle is None:
        beliefs = guessed
    else:
        beliefs = typed_by_oracle(beliefs, oracle, pairs.references)
        metrics |= {f"proxy/{name}": share for name, share in agreement(beliefs, guessed).items()}
    if cfg.annotations is not None:
        beliefs = apply_annotations(beliefs, Path(cfg.annotations))
    _write_typed(file, beliefs)
    metrics |= shares_of_types(beliefs)
    if oracle is not None:
        understood = [belief.type_by == "oracle" for belief in beliefs]
        metrics["beliefs/understood"] = sum(understood) / max(len(beliefs), 1)
        metrics["beliefs/contradictions"] = share_of_contradictions(beliefs)
    answers = answer_all(
        module.answerer, datamodule, cfg.split, split.image_ids, split.questions, console
    )
    metrics["vqa/accuracy"] = score_answers(split, answers)["vqa/accuracy"]
    for callback in build_callbacks(cfg):
        if isinstance(callback, RobustnessCallback):
            metrics |= callback.metrics(module.answerer, datamodule, cfg.split, run_dir)
    metrics["challenge/questions"] = float(
        write_challenge(run_dir / "challenge", beliefs, split, oracle)
    )
    write_json(run_dir / "metrics.json", metrics)

    title = f"What {cfg.vqa.name} believes about {bench.dataset.root.name}"
    shown = [BeliefPageModel(str(cfg.vqa.name), beliefs, metrics)]
    shown += [BeliefPageModel(name, *run) for name, run in earlier]
    curves = read_curves(_training_log(checkpoint))
    write_belief_page(run_dir / "report.html", title, shown, split, pairs.references, curves)
    asked = [
        ToAnnotate(
            belief.image_id,
            belief.answer,
            belief.question,
            pairs.references.get((belief.image_id, belief.answer), [""])[0],
        )
        for belief in beliefs
    ]
    write_annotation_page(run_dir / "annotate.html", title, asked, split)
    table = pd.DataFrame([asdict(belief) for belief in beliefs[:_LOGGED_BELIEFS]])
    log_results(cfg, metrics, {"report": run_dir / "report.html", "beliefs_table": table})
    print_metrics(metrics, title=title, console=console)
    if "robustness/r_score" in metrics:
        print_noise_curve(metrics, console=console)
    console.print(f"report: {run_dir / 'report.html'}\nrun: {run_dir}", soft_wrap=True)
    return metrics.get("beliefs/understood_per_pair", metrics["beliefs/per_pair"])


def _choose_pairs(
    cfg: DictConfig, split: VQASplit, module: PolicyGradientModule, train_answers: Sequence[str]
) -> _Pairs:
    """The pairs of the chosen images and answer pool, answers the model does not know left out."""
    images = np.unique(split.image_ids)
    if cfg.num_images is not None and cfg.num_images < len(images):
        images = np.sort(np.random.default_rng(cfg.seed).permutation(images)[: cfg.num_images])
    chosen = set(images.tolist())
    references: dict[tuple[int, str], list[str]] = {}
    for image_id, answer, question in zip(
        split.image_ids.tolist(), split.main_answers, split.questions, strict=True
    ):
        if image_id in chosen:
            references.setdefault((image_id, answer), []).append(question)
    if cfg.pool == "ground_truth":
        keys = [key for key in references if key[1] in module.answers]
    else:
        known = list(dict.fromkeys(answer for answer in train_answers if answer in module.answers))
        counts = dict.fromkeys(known, 0)
        for answer in train_answers:
            if answer in counts:
                counts[answer] += 1
        ranked = sorted(known, key=lambda answer: -counts[answer])
        asked = ranked if cfg.pool == "all" else ranked[: cfg.num_top_answers]
        keys = [(image_id, answer) for image_id in images.tolist() for answer in asked]
    if not keys:
        raise UserError(
            f"no answer of split '{split.name}' is among the {len(module.answers)} answers of "
            f"{cfg.vqa.name}; choose pool=top"
        )
    keys.sort()
    return _Pairs([key[0] for key in keys], [key[1] for key in keys], references)


def _search(
    cfg: DictConfig,
    module: PolicyGradientModule,
    datamodule: VQADataModule,
    pairs: _Pairs,
    figures: SearchFigures,
    file: Path,
    console: Console,
) -> dict[str, float]:
    """Runs Algorithm 1 over the pairs, appends to `file`, and returns the figures of the search.

    What was done is noted beside it after each chunk of pairs: a killed run goes on there.
    """
    if module.judge is None:
        raise UserError("diagnosis needs a legality model; name one in model.parts.judge")
    search = BeliefSearch(
        questioners={"supervised": module.reference, "rl": module.questioner},
        answerer=module.answerer,
        answers=module.answers,
        judge=module.judge,
        num_latents=cfg.num_latents,
        legality=cfg.legality,
    )
    state = _search_so_far(file)
    starts = range(state["pairs"], len(pairs), _PAIRS_AT_ONCE)
    for start in track(starts, description="searching beliefs", console=console, transient=True):
        chosen = slice(start, start + _PAIRS_AT_ONCE)
        answers = pairs.answers[chosen]
        images = datamodule.images_of(cfg.split, pairs.images[chosen])
        seed = np.random.SeedSequence([cfg.seed, start]).generate_state(1)[0]
        found = search(images, answers, torch.Generator().manual_seed(int(seed)))
        lines = [belief.line() for belief in _beliefs(found, pairs.images[chosen], search)]
        with file.open("ab") as stream:
            stream.write("".join(lines).encode())
            stream.flush()
            os.fsync(stream.fileno())
            state["bytes"] = stream.tell()
        state["content"] = file_digest(file)
        state["pairs"] = min(start + _PAIRS_AT_ONCE, len(pairs))
        keys = list(zip(pairs.images[chosen], answers, strict=True))
        state["figures"].append(figures.sums(found, keys))
        _note_progress(file, state)
    return search_metrics(state["figures"])


def _search_so_far(file: Path) -> dict[str, Any]:
    """How far an earlier run came: pairs, their figures, and the beliefs in `file` so far.

    Raises FileError where the beliefs or what was noted about them is not as it was written.
    """
    progress = file.with_name(_PROGRESS)
    if not (progress.is_file() and file.is_file()):
        file.write_bytes(b"")
        begun = {"layout": _LAYOUT, "pairs": 0, "bytes": 0, "figures": []}
        return {**begun, "content": bytes_digest(b"")}
    remedy = f"delete {progress} to search the beliefs again"
    noted = read_json(progress, dict)
    state = noted.get("state")
    if not isinstance(state, dict) or noted.get("digest") != digest(state):
        raise FileError(f"{progress} was changed after it was written; {remedy}")
    if state.get("layout") != _LAYOUT:
        raise FileError(f"{progress} was written by another version of ivqa; {remedy}")
    content = read_bytes(file)
    if bytes_digest(content) != state.get("typed"):
        if bytes_digest(content[: state["bytes"]]) != state["content"]:
            raise FileError(f"{file} was cut short or changed after it was written; {remedy}")
        with file.open("r+b") as stream:
            stream.truncate(state["bytes"])  # a chunk that was cut short is searched again
    return state


def _note_progress(file: Path, state: dict[str, Any]) -> None:
    write_json(file.with_name(_PROGRESS), {"state": state, "digest": digest(state)})


def _write_typed(file: Path, beliefs: Sequence[Belief]) -> None:
    """Writes the beliefs with their types, so that a finished run can be resumed too."""
    text = "".join(belief.line() for belief in beliefs)
    state = read_json(file.with_name(_PROGRESS), dict)["state"]
    _note_progress(file, {**state, "typed": bytes_digest(text.encode())})
    write_text(file, text)


def _beliefs(found: Found, images: Sequence[int], search: BeliefSearch) -> Iterator[Belief]:
    candidates, questions = found.candidates, found.candidates.questions
    names = list(search.questioners)
    phi, legality = candidates.phi, candidates.legality
    for row in found.kept.tolist():
        pair = candidates.pairs[row]
        yield Belief(
            image_id=images[pair],
            answer=candidates.answers[pair],
            question=questions.text[row],
            phi=round(float(phi[row]), 6),
            log_likelihood=round(float(questions.log_likelihood[row]), 4),
            legality=round(float(legality[row]), 6),
            source=names[int(found.source[row])],
        )


def _of_run(folder: Path) -> tuple[list[Belief], dict[str, float]]:
    if not (folder / "metrics.json").is_file():
        raise UserError(f"compare: {folder} holds no finished diagnosis (metrics.json is missing)")
    return read_beliefs(folder / "beliefs.jsonl"), read_metrics(folder / "metrics.json")


def _training_log(checkpoint: Path) -> Path:
    """metrics.csv of the run that wrote the checkpoint, in the store or beside it."""
    inside = checkpoint.parent / "run" / "metrics.csv"
    return inside if inside.is_file() else checkpoint.parent.parent / "metrics.csv"
