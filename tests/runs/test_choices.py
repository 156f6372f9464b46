"""Every choice of every group of conf composes under each command that has the group, and is valid.

Experiments are left out: test_experiments.py composes their jobs.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from ivqa.config.checks import check_config
from ivqa.config.choices import choices_of
from ivqa.config.nodes import missing_keys, nodes
from ivqa.errors import UserError

CONF = Path(__file__).parents[2] / "conf"
COMMANDS = ("train", "evaluate", "diagnose")
# Most groups of the other commands are among those of diagnose.py.
OFTEN = [pytest.param(one, marks=[] if one == "diagnose" else pytest.mark.slow) for one in COMMANDS]
# Groups that choices of other groups refer to.
BASE = {"callbacks": "robustness", "model@vqa": "mlb", "answer_network": "n2nmn"}
# Choices of these groups override other groups, so they are composed one by one.
ALONE = ("task", "debug")


@pytest.fixture(autouse=True)
def _hydra() -> Iterator[None]:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        yield


@cache
def _groups(command: str) -> tuple[str, ...]:
    """The groups of a command as Hydra writes them, such as model and model@vqa."""
    chosen = compose(command, return_hydra_config=True).hydra.runtime.choices
    found = [key for key in chosen if (CONF / str(key).partition("@")[0]).is_dir()]
    inner = ("/", ".parts.")  # a part of a model is a question generator
    return tuple(
        key for key in map(str, found) if not any(mark in key for mark in (*inner, "experiment"))
    )


def _files(group: str) -> list[Path]:
    """The choices of a group; a VQA model (model@vqa) answers questions."""
    files = sorted((CONF / group.partition("@")[0]).glob("*.yaml"))
    if group != "model@vqa":
        return files
    marks = ("shared/answerer", "ivqa.vqa.evaluation.VQABenchmark")
    return [file for file in files if any(mark in file.read_text() for mark in marks)]


def _rounds(command: str, *, with_path: bool) -> Iterator[dict[str, str]]:
    """Choices of several groups at a time, until each choice has been in one round.

    Args:
        command: The name of the command.
        with_path: Whether to take the choices that require a path (`???`), or the others.
    """
    groups = [group for group in _groups(command) if group not in ALONE]
    # A group inside of a model, such as the rewards, exists for the default models alone.
    for inner in (False, True):
        choices = {
            group: [file.stem for file in _files(group) if ("???" in file.read_text()) == with_path]
            for group in groups
            if (".module." in group) == inner
        }
        for number in range(max(map(len, choices.values()), default=0)):
            yield {group: names[number] for group, names in choices.items() if names[number:]}


def _composed(command: str, choices: dict[str, str]) -> Any:
    overrides = {group: name for group, name in BASE.items() if group in _groups(command)} | choices
    return compose(command, [f"{group}={name}" for group, name in overrides.items()])


@pytest.mark.parametrize("command", OFTEN)
def test_every_choice_is_valid(command: str) -> None:
    seen = set()
    for choices in _rounds(command, with_path=False):
        check_config(_composed(command, choices))
        seen |= choices.keys()
    assert seen == set(_groups(command)) - set(ALONE)


@pytest.mark.parametrize("command", OFTEN)
def test_a_choice_that_needs_a_path_is_valid_with_one(command: str) -> None:
    for choices in _rounds(command, with_path=True):
        cfg = _composed(command, choices)
        missing = missing_keys(nodes(cfg))
        with pytest.raises(UserError, match=f"{sorted(missing)[0]} must be set"):
            check_config(cfg)
        chosen = {group.rpartition("@")[2] for group in choices}
        assert chosen <= {key.split(".")[0] for key in missing}
        assert {key.split(".")[-1] for key in missing} <= {"path", "root"}
        for key in missing:
            OmegaConf.update(cfg, key, __file__)
        readers = {
            "question_encoder": ("skip_thoughts", "stacked_lstm"),
            "encoder": ("word_vectors",),
        }
        if reads := [group for group, names in readers.items() if choices.get(group) in names]:
            # These read their file at once, and this one has no vectors.
            with pytest.raises(UserError, match=f"configuration: .*{reads[0]}: "):
                check_config(cfg)
        else:
            check_config(cfg)


@pytest.mark.parametrize("command", OFTEN)
def test_a_choice_that_overrides_groups_composes(command: str) -> None:
    for group in set(ALONE) & set(_groups(command)):
        for choice in choices_of(group, [CONF], command):
            cfg = compose(command, [f"{group}={choice}"])
            missing = missing_keys(nodes(cfg))
            if not missing:
                check_config(cfg)
            # A task may require one argument, which is a path.
            assert len(missing) <= (group == "task")


def test_every_group_belongs_to_a_command() -> None:
    folders = {folder.name for folder in CONF.iterdir() if folder.is_dir()}
    known = {group.partition("@")[0] for command in COMMANDS for group in _groups(command)}
    assert folders - known == {"experiment", "hydra", "sweep"}


def test_the_target_is_the_first_key_of_a_node() -> None:
    """A node then reads as the class and its arguments; only Hydra's `defaults` precede it."""

    def late_targets(node: Any, path: str) -> Iterator[str]:
        if isinstance(node, list):
            node = dict(enumerate(node))
        if isinstance(node, dict):
            keys = [key for key in node if key != "defaults"]
            if "_target_" in keys[1:]:
                yield path
            for key in keys:
                yield from late_targets(node[key], f"{path}: {key}")

    files = sorted(CONF.rglob("*.yaml"))
    found = [
        node
        for file in files
        for node in late_targets(yaml.safe_load(file.read_text()), str(file.relative_to(CONF)))
    ]
    assert not found


def test_every_file_opens_with_what_it_is_and_a_command() -> None:
    for file in CONF.rglob("*.yaml"):
        lines = file.read_text().removeprefix("# @package _global_\n").splitlines()
        head = list(takewhile(lambda line: line.startswith("#"), lines))
        assert re.search("python |make ", str(head)), file


@pytest.mark.parametrize("command", ["train", "diagnose"])
def test_the_reward_of_the_paper_has_no_entropy_bonus(command: str) -> None:
    """reward=paper changes the objective too, and the command line has the last word."""
    chosen = ["model@vqa=mlb", "model=ivqa_rl", "reward@model.module.rewards=paper"]
    module = compose(command, chosen).model.module
    assert set(module.rewards) == {"goal", "legality", "diversity"}
    assert module.objective.entropy_weight == 0
    assert compose(command, chosen[:2]).model.module.objective.entropy_weight == 0.05
    changed = [*chosen, "model.module.objective.entropy_weight=0.1"]
    assert compose(command, changed).model.module.objective.entropy_weight == 0.1


@pytest.mark.parametrize("command", ["train", "diagnose"])
def test_the_adversarial_reward_trains_the_legality_model_on(command: str) -> None:
    chosen = ["model@vqa=mlb", "model=ivqa_rl"]
    assert compose(command, chosen).model.module.adversary is None
    module = compose(command, [*chosen, "reward@model.module.rewards=adversarial"]).model.module
    assert set(module.rewards) == {"goal", "legality", "diversity"}
    assert module.adversary._target_ == "ivqa.diagnosis.AdversarialJudge"
