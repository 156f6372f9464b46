"""Keys of a configuration that are not arguments of a `_target_`: of commands and of models.

A task adds its own keys in its file: `def task(cfg: Annotated[DictConfig, Keys])`.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypedDict, get_args, get_type_hints, is_typeddict

from hydra.utils import get_object
from omegaconf import DictConfig

from ivqa.config.model_sources import source_of
from ivqa.ranges import (
    CHANGEABLE,
    NO_EFFECT,
    Component,
    Count,
    CountOrZero,
    ExistingFolder,
    NeutralComponent,
    NonEmptyText,
    Place,
    Seed,
)


class CommandKeys(TypedDict, total=False):
    """Keys at the top of the configuration of any command.

    Data and trainer have no effect beside the weights and the content of the data.
    """

    task: NonEmptyText
    command: NeutralComponent
    short_form: Annotated[NonEmptyText, NO_EFFECT]
    name: Annotated[NonEmptyText, NO_EFFECT]
    data: NeutralComponent
    trainer: NeutralComponent
    features: Component | None
    model: Component | None
    vqa: Component | None
    question_encoder: Component | None
    answer_network: Component | None
    augment: Component | None
    logger: Annotated[Component | None, NO_EFFECT, CHANGEABLE]
    callbacks: Annotated[Component | None, NO_EFFECT, CHANGEABLE]
    noise: NeutralComponent | None
    bqd: NeutralComponent | None
    ranker: NeutralComponent | None
    encoder: NeutralComponent | None
    r_score: NeutralComponent | None
    measuring_models: NeutralComponent | None
    seed: Seed
    split: NonEmptyText
    max_question_length: Count
    min_word_count: Count
    num_workers: Annotated[CountOrZero, NO_EFFECT, CHANGEABLE]
    output_dir: Annotated[Place, NO_EFFECT, CHANGEABLE]
    artifacts: Annotated[Place, NO_EFFECT, CHANGEABLE]
    pretrained: Annotated[bool, NO_EFFECT]
    resume: Annotated[ExistingFolder | None, NO_EFFECT, CHANGEABLE]
    push_to_hub: Annotated[NonEmptyText | None, NO_EFFECT, CHANGEABLE]
    trust: Annotated[Sequence[NonEmptyText], NO_EFFECT, CHANGEABLE]


def model_keys(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """The annotations of the keys of a model by key; empty for a mapping that is no model."""
    if "module" not in model:
        return {}
    return _hints(source_of(model).keys)


def command_keys(cfg: DictConfig) -> Mapping[str, Any]:
    """The annotations of the keys at the top: those of every command and those of its task."""
    try:
        hints = get_type_hints(get_object(cfg.command._target_), include_extras=True)
    except Exception:  # check_config reports targets that are missing or cannot be imported
        return _hints(CommandKeys)
    marked = [one for hint in hints.values() for one in get_args(hint) if is_typeddict(one)]
    return _hints(marked[0]) if marked else _hints(CommandKeys)


def keys_of(node: DictConfig, prefix: str) -> Mapping[str, Any]:
    """The annotations of the keys of a node without `_target_`: the top, a model or a part."""
    return model_keys(node) if prefix else command_keys(node)


@cache
def _hints(schema: Any) -> dict[str, Any]:
    return get_type_hints(schema, include_extras=True)
