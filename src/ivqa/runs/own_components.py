"""Trials of the user's own components on two questions, before the long work begins.

A trial finds a wrong shape, type or value. The components of ivqa have tests and are not tried.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig
from PIL import Image
from torch import Tensor, nn

from ivqa.config.error_messages import place_in_own_code
from ivqa.config.model_sources import Pretrained, source_of
from ivqa.config.nodes import nodes
from ivqa.data import VQADataset
from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis import Candidates
from ivqa.errors import UserError
from ivqa.generators import Questions
from ivqa.robustness.noise import DisturbsImages
from ivqa.runs.context import RunContext
from ivqa.runs.trained_models import build_module
from ivqa.text.answers import AnswerVocabulary

# Packages whose classes and functions conf/ names.
_KNOWN = {"ivqa", "torch", "torchvision", "transformers", "pytorch_lightning"}
_KNOWN |= {"hydra", "functools", "builtins"}
_POOL = 20  # basic questions of a trial


def try_text_components(cfg: DictConfig, dataset: VQADataset, split: str) -> None:
    """Tries the user's rankers and noise, which need questions alone, on those of a split.

    A component that returns something else than its protocol says raises UserError.
    """
    for name, node, _ in _own(cfg):
        trials = {"rank": _try_ranker, "disturbed": _try_noise}
        for method, trial in trials.items():
            if hasattr(get_object(name), method) and not node.get("_partial_"):
                questions = dataset.split(split).questions
                _try(f"{name}.{method}", trial, instantiate(node), questions)


def try_models(context: RunContext) -> None:
    """Tries the user's models that have no trained parts, and the user's rewards.

    A component that returns something else than its protocol says raises UserError.
    """
    for one in context.all_models():
        own = list(_own(one.cfg.model.module))
        for name, node, prefix in own:
            if prefix.startswith("rewards."):
                _try(name, _try_reward, instantiate(node), one)
        if own and not one.parts and not isinstance(source_of(one.cfg.model), Pretrained):
            _try(own[0][0], _try_model, one)


def _own(cfg: DictConfig) -> Iterator[tuple[str, DictConfig, str]]:
    """The class, node and prefix of each component that is not of a known package."""
    for node, prefix in nodes(cfg):
        name = node.get("_target_")
        if isinstance(name, str):
            module = getattr(get_object(name), "__module__", None) or name
            if module.partition(".")[0] not in _KNOWN:
                yield name, node, prefix


def _try(name: str, trial: Callable[..., None], *arguments: Any) -> None:
    """Runs a trial; an error outside of the user's code comes from what the component returned."""
    try:
        with torch.random.fork_rng(devices=[]):
            trial(name, *arguments)
    except Exception as error:
        if isinstance(error, AttributeError) and isinstance(error.obj, _StandIn):
            return  # a reward that reads more of a model than its protocol has
        if isinstance(error, UserError) or place_in_own_code(error) is not None:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"{name} returned a value that cannot be used: {reason}") from error


def _require(name: str, wanted: str, found: Any, holds: bool) -> None:
    if holds:
        return
    what = str(found)[:200]
    if hasattr(found, "dtype"):
        what = f"{found.dtype} of shape {tuple(found.shape)}: {str(found.tolist())[:100]}"
    raise UserError(f"{name} must return {wanted} for two questions, not {what}")


def _is_finite(value: Any, shape: tuple[int, ...]) -> bool:
    """Whether a value is a float tensor of this shape without NaN; -inf is a probability of 0."""
    is_float = isinstance(value, Tensor) and value.is_floating_point()
    return is_float and value.shape == shape and not bool((value.isnan() | (value > 1e30)).any())


def _try_ranker(name: str, ranker: Any, questions: Sequence[str]) -> None:
    pool = list(dict.fromkeys(questions))[:_POOL]
    found = ranker.rank(list(questions[:2]), pool, 2, [[], []])
    indices, scores = np.asarray(found.indices), np.asarray(found.scores)
    valid = indices.shape == (2, 2) and indices.dtype.kind == "i"
    valid = valid and bool(((indices >= 0) & (indices < len(pool))).all())
    wanted = f"integers below {len(pool)} of shape (2, 2)"
    _require(f"{name}, .indices,", wanted, indices, valid)
    finite = scores.shape == (2, 2) and bool(np.isfinite(scores).all())
    _require(f"{name}, .scores,", "finite numbers of shape (2, 2)", scores, finite)


def _try_noise(name: str, noise: Any, questions: Sequence[str]) -> None:
    levels: int = noise.levels
    found = noise.disturbed(list(questions[:2]), list(questions[:_POOL]))
    valid = len(found) == levels and all(
        len(level) == 2 and all(isinstance(text, str) for text in level) for level in found
    )
    _require(name, f"two texts at each of its {levels} levels", found, valid)
    if isinstance(noise, DisturbsImages):
        image = noise.disturbed_image(Image.new("RGB", (32, 24)), 1, levels)
        valid = isinstance(image, Image.Image) and image.mode == "RGB" and image.size == (32, 24)
        _require(f"{name}_image", "an RGB image of the same size", image, valid)


def _two(context: RunContext, module: nn.Module) -> tuple[ImageBatch, list[str], list[str]]:
    """Images, questions and answers of two training questions."""
    train = context.dataset.split("train").require_answers()
    images = context.datamodule(context.vocabularies, module).images_of(
        "train", train.image_ids[:2]
    )
    return images, train.questions[:2], train.main_answers[:2]


def _try_model(name: str, context: RunContext) -> None:
    module = build_module(context, context.vocabularies).eval()
    images, questions, answers = _two(context, module)
    if hasattr(module, "log_scores"):
        outputs: list[Any] = []
        network = getattr(module, "network", module)
        hook = network.register_forward_hook(lambda *call: outputs.append(call[2]))
        known = module.answers
        shape = (2, len(known) if known else 1)
        try:
            scores = module.log_scores(images, questions, None if known else ["yes"])
        finally:
            hook.remove()
        wanted = f"a float tensor of shape {shape} without NaN"
        for output in outputs[:1]:
            _require(f"{name}.forward", wanted, output, _is_finite(output, shape))
        _require(f"{name}.log_scores", wanted, scores, _is_finite(scores, shape))
        written = module.answer(images, questions)
        valid = len(written) == 2 and all(isinstance(text, str) for text in written)
        _require(f"{name}.answer", "two texts", written, valid)
    elif hasattr(module, "log_likelihood"):
        found = module.log_likelihood(images, answers, questions)
        _require(f"{name}.log_likelihood", "floats of shape (2,)", found, _is_finite(found, (2,)))
        asked = module.sample(images, answers, 1)
        _require(f"{name}.sample", "two questions", asked, len(asked) == 2)


class _StandIn:
    """A VQA model and a legality model for which everything is equally probable."""

    limit = 0.5

    def __init__(self, known: AnswerVocabulary) -> None:
        self.answers: AnswerVocabulary | None = known
        self.known = known

    def log_scores(self, images: Any, questions: Sequence[str], answers: Any = None) -> Tensor:
        return torch.full((len(questions), len(answers or self.known)), 0.5).log()

    def answer(self, images: Any, questions: Sequence[str]) -> list[str]:
        return [self.known.answers[0]] * len(questions)

    def probabilities(self, questions: Sequence[str]) -> Tensor:
        return torch.full((len(questions),), 0.5)


def _try_reward(name: str, reward: Any, context: RunContext) -> None:
    images, questions, answers = _two(context, nn.Module())
    stand_in = _StandIn(AnswerVocabulary(list(dict.fromkeys(answers))))
    tokens = context.vocabularies.question_vocabulary.encode(questions)
    asked = Questions(tokens, questions, torch.full((2,), -3.0), torch.arange(2), torch.zeros(2, 1))
    found = reward(Candidates(asked, images, answers, stand_in, stand_in.known, stand_in))
    valid = _is_finite(found, (2,)) and bool(((found >= 0) & (found <= 1)).all())
    _require(name, "floats in [0, 1] of shape (2,)", found, valid)
