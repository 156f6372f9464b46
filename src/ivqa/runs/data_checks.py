"""Checks of the data against the configuration, before features and training start."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.utils import get_object, instantiate

from ivqa.config.model_sources import source_of
from ivqa.config.nodes import nodes
from ivqa.data.batches.datamodule import build_vocabularies
from ivqa.errors import UserError
from ivqa.features import offered_places
from ivqa.runs.callbacks import build_callback
from ivqa.runs.checkpoints import load_checkpoint
from ivqa.runs.context import RunContext
from ivqa.store.identity import to_plain
from ivqa.store.signatures import defaults_of


def check_data(
    context: RunContext, splits: Collection[str], unscored: Collection[str] = ()
) -> None:
    """Checks annotations, words, layouts, noise and image features against the configuration.

    Args:
        context: The data, whose splits are read, and a configuration that is valid by itself
            (`check_config`).
        splits: Stages or names of the splits that the command uses.
        unscored: The splits among them that may lack annotations.

    Raises:
        UserError: The data do not fit; names the split, question or key, and the remedy.
    """
    _check_annotations(context, splits, unscored)
    _check_other_data(context)
    if "train" in splits and context.cfg.min_word_count > 1:
        build_vocabularies(context.dataset.split("train"), context.cfg.min_word_count)
    if "train" in splits:
        _check_corpora(context)
    _check_checkpoints(context)
    _check_layouts(context)
    _check_features(context)
    _check_callbacks(context)
    _check_augmentations(context)
    _check_endpoints(context)


def _networks(
    context: RunContext, hook: str
) -> Iterator[tuple[Any, dict[str, Any], RunContext, Sequence[str]]]:
    """The networks of the model and its parts whose class has the method `hook`.

    They come with their arguments, the context of the model's training, and the image features
    that the network reads.
    """
    for part in context.models():
        model = part.cfg.model
        for key, features in (
            ("network", model.image_features),
            ("answer_network", model.module.get("answer_features")),
        ):
            node = model.module.get(key)
            if node and "_target_" in node and hasattr(target := get_object(node._target_), hook):
                yield target, {**defaults_of(target), **to_plain(node)}, part, list(features)


def _check_annotations(
    context: RunContext, splits: Collection[str], unscored: Collection[str]
) -> None:
    """Requires annotations on the splits whose answers are used.

    Training always uses them. A benchmark names further uses in `needs_answers`: "validation" on
    the split `val` while the model is trained, "scores" on every other split. A diagnosis, which
    runs no benchmark, uses both.
    """
    benchmark = context.cfg.model.get("benchmark")
    needs: tuple[str, ...] = ("validation", "scores")
    if benchmark:
        needs = getattr(get_object(benchmark._target_), "needs_answers", ())
    for split in splits:
        purpose = "validation" if split == "val" else "scores"
        if split == "train" or (purpose in needs and split not in unscored):
            context.dataset.split(split).require_answers()


def _check_other_data(context: RunContext) -> None:
    """Reads the training splits of model.trained_on."""
    for part in context.all_models():
        if part.dataset is not context.dataset:
            for split in ("train", "val"):
                part.dataset.split(split).require_answers()


def _check_corpora(context: RunContext) -> None:
    """Calls `check_corpus` of encoders, whose files need words of the training questions."""
    trained = [one.cfg.model.module for one in context.models() if one.cfg.get("ckpt") == "auto"]
    for root in (context.cfg.get("encoder"), *trained):
        for node, _ in nodes(root) if root else ():
            if "_target_" in node and hasattr(target := get_object(node._target_), "check_corpus"):
                arguments = {**defaults_of(target), **to_plain(node)}
                target.check_corpus(arguments, context.dataset.split("train").questions)


def _check_checkpoints(context: RunContext) -> None:
    """Reads each checkpoint that the user gives, before a part without one is trained."""
    for part in context.all_models():
        given = str(part.cfg.get("ckpt", "auto"))
        if given != "auto" and not source_of(part.cfg.model).refusal:
            load_checkpoint(Path(given))


def _check_layouts(context: RunContext) -> None:
    """Checks layouts on the training splits of each model to train, and on the evaluated split."""
    for network, arguments, part, _ in _networks(context, "check_split"):
        cfg = part.cfg
        training = ["train", "val"] if cfg.get("ckpt", "auto") == "auto" else []
        read = [(part.dataset, name) for name in training]
        if cfg is context.cfg and cfg.get("split"):
            read.append((context.dataset, cfg.split))
        for dataset, name in dict.fromkeys(read):
            split = dataset.split(name)
            try:
                network.check_split(arguments, split, learns=name == "train")
            except UserError as error:
                if split.layouts is None and cfg.model.module.get("answer_network"):
                    raise UserError(
                        f"answer_network= of model={cfg.model.name} learns from layouts, which "
                        f"split '{name}' does not have; pass answer_network=mlb, which needs none"
                    ) from error
                raise


def _check_features(context: RunContext) -> None:
    """Checks names and sizes of the image features, as far as features= declares them."""
    if not context.cfg.features:
        return
    offered = offered_places(instantiate(context.cfg.features))
    if offered is None:
        return
    for reader in (context, *context.measuring_models.values()):
        check_offered(reader, offered)
        for network, arguments, part, features in _networks(reader, "check_features"):
            places = {name: offered[name] for name in features}
            network.check_features(arguments, str(part.cfg.model.name), places)


def check_offered(context: RunContext, offered: Mapping[str, Any]) -> None:
    """Raises UserError unless all image features of the model and its parts are offered."""
    if absent := set(context.wanted_features) - set(offered):
        raise UserError(
            f"model={context.cfg.model.name} reads the image features {sorted(absent)}, which "
            f"features= does not offer; it offers {sorted(offered)}"
        )


def _check_callbacks(context: RunContext) -> None:
    """Calls `check_data` of the callbacks if a model of the command answers questions."""
    if not context.answers_questions:
        return
    # Such as the robustness callback, whose noise needs a pool of basic questions. The check needs
    # no trained model.
    for node in (context.cfg.get("callbacks") or {}).values():
        if node and hasattr(get_object(node._target_), "check_data"):
            callback = build_callback(node, dict.fromkeys(context.measuring_models))
            callback.check_data(context.dataset, context.cfg.get("split") or "val")


def _check_augmentations(context: RunContext) -> None:
    """Raises UserError where the noise of augment= has nothing for a training question."""
    for part in context.models():
        augment = part.cfg.model.get("augment")
        if augment and part.cfg.get("ckpt", "auto") == "auto":
            augmentation = instantiate(augment)
            if hasattr(augmentation, "check"):
                augmentation.check(part.dataset.split("train").questions)


def _check_endpoints(context: RunContext) -> None:
    """Raises UserError where a served model does not respond, or does not exist at its endpoint."""
    for part in context.all_models():
        if endpoint := part.cfg.model.module.get("endpoint"):
            instantiate(endpoint).check(part.cfg.model.path)
