"""Judges: the VQA models of `judge=`, which type the beliefs of another one."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from omegaconf import DictConfig

from ivqa.diagnosis import Judge
from ivqa.errors import UserError
from ivqa.runs.context import RunContext
from ivqa.runs.picture_model import answers_questions
from ivqa.runs.vocabularies import Vocabularies
from ivqa.store.identity import to_plain


def judge_names(cfg: DictConfig) -> list[str]:
    """The names in cfg.judge, which is null, one name, or a list of names."""
    chosen = cfg.get("judge") or []
    return [chosen] if isinstance(chosen, str) else list(dict.fromkeys(chosen))


def check_judges(cfg: DictConfig) -> None:
    """Raises UserError where a judge is no VQA model, or the model whose beliefs it would judge."""
    models = (cfg.get("measuring_models") or {}).get("parts") or {}
    for name in judge_names(cfg):
        if name not in models:
            raise UserError(
                f"judge={name}: only the command line can choose a judge; give judge={name} there"
            )
        if not answers_questions(models[name]):
            raise UserError(
                f"judge={name} answers no questions; choose a VQA model, such as judge=mlb or "
                "judge=hf_generative"
            )
        if to_plain(models[name]) == to_plain(cfg.vqa):
            raise UserError(
                f"judge={name} is the model whose beliefs are judged, and would find all of them "
                "right; choose another one"
            )


def obtained_judges(
    context: RunContext, modules: Mapping[str, Any], vocabularies: Vocabularies
) -> list[Judge]:
    """The judges of cfg.judge in its order, with the images that each reads.

    Args:
        context: The context of the command, with features.
        modules: Trained models by name, from `obtain_measuring_models`.
        vocabularies: Words and answers of the command; a judge has its own.
    """
    judges = []
    for name in judge_names(context.cfg):
        # A judge that was trained on other data reads the images of the command.
        own = replace(
            context.measuring_models[name], dataset=context.dataset, features=context.features
        )
        datamodule = own.datamodule(vocabularies, modules[name])
        images_of = partial(datamodule.images_of, context.cfg.split)
        judges.append(Judge(name, modules[name], images_of))
    return judges
