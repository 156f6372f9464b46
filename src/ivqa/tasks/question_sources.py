"""Sources of questions: how many mistakes of a VQA model each finds with as many questions."""

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import torch
from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.data import VQADataModule, VQASplit
from ivqa.diagnosis import (
    Belief,
    BudgetSearch,
    GivenAnswer,
    Pairs,
    PolicyGradientModule,
    WithoutPolicy,
    choose_pairs,
    given_answers,
    search_figures,
    typed_by_oracle,
    with_suspects,
)
from ivqa.diagnosis.beliefs.mistakes import BY_CHANCE
from ivqa.diagnosis.beliefs.recall import Enumerable
from ivqa.errors import UserError
from ivqa.generators import Questioner, Sampling
from ivqa.interchange.polls import STRATEGIES, ListsObjects, draw_polls
from ivqa.provenance import note_questions
from ivqa.ranges import AtLeastOne, Checkpoint, Count
from ivqa.report.tables import print_table, write_table
from ivqa.runs.loggers import log_results
from ivqa.runs.preparation import open_context, with_features
from ivqa.runs.run_directory import begin_run
from ivqa.runs.trained_models import obtain_module
from ivqa.scenes import Oracle, oracle_of
from ivqa.store.files import write_json
from ivqa.store.versions import versioned
from ivqa.tasks.pictures.asking import ask_in_plain_english, known_by
from ivqa.text.tokens import tokenise

_PAIRS_AT_ONCE = 50  # bounds the memory of the sampled questions
_AT_ONCE = 1024  # questions that are answered together
_ENOUGH = 100  # questions of a kind whose rate is known well enough

Question = tuple[int, str]
"""A question about the image of an id."""


class Keys(CommandKeys, total=False):
    """Keys of task=question_sources."""

    ckpt: Checkpoint
    num_images: Count | None
    num_latents: Count
    budgets: Annotated[Sequence[Count], AtLeastOne]


@versioned(BudgetSearch.version)  # the search is one of the sources
def question_sources(cfg: Annotated[DictConfig, Keys]) -> float:
    """Puts questions of each source to cfg.vqa, about the same images (task=question_sources).

    The oracle of cfg.split judges every answer. Each question about an image that is put to the
    model counts once, whatever the answer is; no source asks the same about an image twice. The
    generators are the policy cfg.model and the one that it was trained from; of their questions
    the legal ones are asked.

    Returns:
        Confident wrong facts per 1,000 questions of the search, after the most questions.

    Raises:
        UserError: The split has no oracle, or model= has no generator that searches beliefs.
    """
    splits = list(dict.fromkeys(["train", "val", cfg.split]))
    context = open_context(cfg, splits)
    oracle = oracle_of(context.dataset, cfg.split)
    if oracle is None:
        raise UserError(f"split '{cfg.split}' has no oracle that judges answers; use data=scenes")
    run_dir, console = Path(cfg.output_dir), context.console
    begin_run(cfg, run_dir, resume=False)
    context = with_features(context, splits)
    module, vocabularies, _ = obtain_module(context)
    if not isinstance(module, PolicyGradientModule | WithoutPolicy):
        raise UserError(f"model={cfg.model.name} searches no beliefs; choose model=ivqa_rl")
    datamodule = context.datamodule(vocabularies, module)
    split = context.dataset.split(cfg.split).require_answers()
    pairs = choose_pairs(
        split,
        module.answers,
        (),
        num_images=cfg.num_images,
        pool="ground_truth",
        num_top_answers=1,
        seed=cfg.seed,
    )
    ids, most = sorted(set(pairs.images)), max(cfg.budgets)

    def ask(questions: Sequence[Question]) -> list[GivenAnswer]:
        note_questions(len(questions))
        given: list[GivenAnswer] = []
        for start in range(0, len(questions), _AT_ONCE):
            images, texts = zip(*questions[start : start + _AT_ONCE], strict=True)
            given += given_answers(module.answerer, datamodule.images_of(cfg.split, images), texts)
        return given

    known = known_by(module.answerer)
    asked = {
        name: ask_in_plain_english(ask, ids, most, **known, seed=cfg.seed, explore=explore)
        for name, explore in (("search", 0.2), ("plain_english", 1.0))
    }
    drawn = drawn_questions(split, ids, oracle, most, cfg.seed)
    asked |= {name: answered(some[:most], ask, BY_CHANCE) for name, some in drawn.items()}
    questioners: dict[str, Questioner] = {cfg.model.name: module.reference}
    if module.questioner is not module.reference:
        questioners = {"supervised": module.reference, "policy": module.questioner}
    for name, questioner in questioners.items():
        some = generated(questioner, module, datamodule, cfg, pairs)
        asked[name] = answered(some[:most], ask, name)
    metrics: dict[str, float] = {}
    rows = []
    for name, beliefs in asked.items():
        for count, figures in figures_at(sorted(cfg.budgets), beliefs, oracle).items():
            metrics |= {f"{name}/{count}/{key}": value for key, value in figures.items()}
            rows.append({"source": f"{name}, {count:,}", **figures})
    if not rows:
        raise UserError(f"no source has {min(cfg.budgets)} questions; give smaller budgets=")
    if (best := best_kind(asked.get("simple", ()), oracle)) is not None:
        metrics["simple/best_kind"] = best
    write_json(run_dir / "metrics.json", metrics)
    title = f"mistakes of {cfg.vqa.name} that questions about {len(ids)} images find"
    write_table(run_dir, rows, title)
    print_table(rows, title=title, console=console)
    log_results(cfg, metrics, {"sources": pd.DataFrame(rows)})
    console.print(f"run: {run_dir}", soft_wrap=True)
    return metrics.get(f"search/{most}/confident_wrong_facts_per_1000", float("nan"))


def drawn_questions(
    split: VQASplit, image_ids: Sequence[int], oracle: Oracle, most: int, seed: int
) -> dict[str, list[Question]]:
    """Questions that are drawn at random, at most `most` each.

    Returns:
        By name, in the order in which they are asked: "own", those of the split about its images;
        "random", any question of the split about any of the images; "polls", POPE's of all
        strategies; "simple", all simple questions of an oracle that can list them.
    """
    rng = np.random.default_rng(seed)
    chosen = set(image_ids)
    own = zip(split.image_ids.tolist(), split.questions, strict=True)
    drawn = {
        "own": [one for one in own if one[0] in chosen],
        "random": _crossed(image_ids, dict.fromkeys(split.questions), most, rng),
    }
    if isinstance(oracle, ListsObjects):
        objects = oracle.objects()
        drawn["polls"] = [
            (poll.image_id, poll.question)
            for strategy in STRATEGIES
            for poll in draw_polls(objects, strategy, num_images=None, seed=seed)
            if poll.image_id in chosen
        ]
    if isinstance(oracle, Enumerable):
        drawn["simple"] = _crossed(image_ids, oracle.simple_questions().values(), most, rng)
    shuffled = {}
    for name, questions in drawn.items():
        distinct = list(dict.fromkeys(questions))
        shuffled[name] = [distinct[at] for at in rng.permutation(len(distinct)).tolist()]
    return shuffled


def _crossed(
    image_ids: Sequence[int], texts: Iterable[str], most: int, rng: np.random.Generator
) -> list[Question]:
    """Draws at most `most` different pairs of an image and a text."""
    listed = list(texts)
    total = len(image_ids) * len(listed)
    drawn = rng.choice(total, size=min(most, total), replace=False).tolist()
    return [(image_ids[at // len(listed)], listed[at % len(listed)]) for at in drawn]


def generated(
    questioner: Questioner,
    module: PolicyGradientModule | WithoutPolicy,
    datamodule: VQADataModule,
    cfg: DictConfig,
    pairs: Pairs,
) -> list[Question]:
    """Samples cfg.num_latents questions of each pair, and leaves out copies and illegal ones.

    Returns:
        The questions, one about each image in turn.
    """
    by_image: dict[int, dict[str, None]] = {}
    judge = module.legality_model
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        some = slice(start, start + _PAIRS_AT_ONCE)
        image_ids, answers = pairs.images[some], pairs.answers[some]
        images = datamodule.images_of(cfg.split, image_ids)
        seed = np.random.SeedSequence([cfg.seed, start]).generate_state(1)[0]
        generator = torch.Generator().manual_seed(int(seed))
        found = questioner.sample(images, answers, cfg.num_latents, Sampling(), generator)
        texts = list(dict.fromkeys(found.text))
        legal = dict.fromkeys(texts, True)
        if judge is not None:
            kept = (judge.probabilities(texts) > judge.limit).tolist()
            legal = dict(zip(texts, kept, strict=True))
        for pair, text in zip(found.pair.tolist(), found.text, strict=True):
            if legal[text]:
                by_image.setdefault(image_ids[pair], {})[text] = None
    rng = np.random.default_rng(cfg.seed)
    columns = [
        [(image_id, texts[at]) for at in rng.permutation(len(texts)).tolist()]
        for image_id, texts in ((one, list(own)) for one, own in by_image.items())
    ]
    return [one for turn in zip_longest(*columns) for one in turn if one is not None]


def answered(
    questions: Sequence[Question],
    ask: Callable[[Sequence[Question]], Sequence[GivenAnswer]],
    source: str,
) -> list[Belief]:
    """Asks questions, and records each with its answer."""
    given = ask(questions)
    return [
        Belief(image_id, one.answer, text, round(one.probability, 6), 0.0, 1.0, source)
        for (image_id, text), one in zip(questions, given, strict=True)
    ]


def figures_at(
    budgets: Sequence[int], asked: Sequence[Belief], oracle: Oracle
) -> dict[int, dict[str, float]]:
    """Computes the figures of the first questions of a source.

    Returns:
        Those of `search_figures` and `with_suspects` by number of questions, for the numbers that
        the source has.
    """
    typed = typed_by_oracle(asked, oracle, {})
    found = {}
    for count in budgets:
        if count <= len(typed):
            marked, doubts = with_suspects(typed[:count])
            figures = search_figures(marked, oracle) | doubts
            found[count] = {name.rpartition("/")[2]: value for name, value in figures.items()}
    return found


def best_kind(asked: Sequence[Belief], oracle: Oracle) -> float | None:
    """Confident wrong facts per 1,000 questions of the kind of question that has the most.

    A search that knew the kind, but not what is in the picture, could not find more. The first two
    words of a question are its kind; those with fewer than 100 questions do not count. None where
    no kind counts.
    """
    kinds: dict[str, list[Belief]] = {}
    for belief in typed_by_oracle(asked, oracle, {}):
        kinds.setdefault(" ".join(tokenise(belief.question)[:2]), []).append(belief)
    rates = [
        search_figures(own, oracle)["search/confident_wrong_facts_per_1000"]
        for own in kinds.values()
        if len(own) >= _ENOUGH
    ]
    return max(rates, default=None)
