"""Checks of the data against the configuration, before features and training start."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.utils import get_object, instantiate
from omegaconf import DictConfig

from ivqa.config.signatures import defaults_of
from ivqa.data.batches.datamodule import build_vocabularies
from ivqa.errors import UserError
from ivqa.features import offered_places
from ivqa.runs.callbacks import build_callback
from ivqa.runs.checkpoints import load_checkpoint
from ivqa.runs.workbench import Workbench
from ivqa.store.identity import plain


def check_data(bench: Workbench, splits: Collection[str], unscored: Collection[str] = ()) -> None:
    """Checks annotations, words, layouts, noise and image features against the configuration.

    Args:
        bench: The data, whose splits are read, and a configuration that is valid by itself
            (`check_config`).
        splits: Stages or names of the splits that the command uses.
        unscored: The splits among them that may lack annotations.

    Raises:
        UserError: The data do not fit; names the split, question or key, and the remedy.
    """
    _check_annotations(bench, splits, unscored)
    if "train" in splits and bench.cfg.min_word_count > 1:
        build_vocabularies(bench.dataset.split("train"), bench.cfg.min_word_count)
    _check_checkpoints(bench)
    _check_layouts(bench)
    _check_features(bench)
    _check_callbacks(bench)
    _check_augmentations(bench)
    _check_endpoints(bench)


def _networks(
    bench: Workbench, hook: str
) -> Iterator[tuple[Any, dict[str, Any], DictConfig, Sequence[str]]]:
    """The networks of the model and its parts whose class has the method `hook`.

    Yields:
        The class, its arguments, the configuration that the model is built with, and the image
        features that the network reads.
    """
    for part in bench.models():
        model = part.cfg.model
        for key, features in (
            ("network", model.image_features),
            ("answer_network", model.module.get("answer_features")),
        ):
            node = model.module.get(key)
            if node and "_target_" in node and hasattr(target := get_object(node._target_), hook):
                yield target, {**defaults_of(target), **plain(node)}, part.cfg, list(features)


def _check_annotations(
    bench: Workbench, splits: Collection[str], unscored: Collection[str]
) -> None:
    """Requires annotations on the splits whose answers are used.

    Training always uses them. A benchmark names further uses in `needs_answers`: "validation" on
    the split `val` while the model is trained, "scores" on every other split.
    """
    benchmark = bench.cfg.model.get("benchmark")
    needs = getattr(get_object(benchmark._target_), "needs_answers", ()) if benchmark else ()
    for split in splits:
        purpose = "validation" if split == "val" else "scores"
        if split == "train" or (purpose in needs and split not in unscored):
            bench.dataset.split(split).require_answers()


def _check_checkpoints(bench: Workbench) -> None:
    """Reads each checkpoint that the user gives, before a part without one is trained."""
    for part in (part for one in (bench, *bench.probe.values()) for part in one.models()):
        given = str(part.cfg.get("ckpt", "auto"))
        if given != "auto" and not (part.cfg.model.keys() & {"pretrained", "untrained"}):
            load_checkpoint(Path(given))


def _check_layouts(bench: Workbench) -> None:
    """Checks layouts on the training splits of each model to train, and on the evaluated split."""
    for network, arguments, cfg, _ in _networks(bench, "check_split"):
        training = ["train", "val"] if cfg.get("ckpt", "auto") == "auto" else []
        evaluated = [cfg.split] if cfg is bench.cfg and cfg.get("split") else []
        for name in dict.fromkeys([*training, *evaluated]):
            split = bench.dataset.split(name)
            try:
                network.check_split(arguments, split, learns=name == "train")
            except UserError as error:
                if split.layouts is None and cfg.model.module.get("answer_network"):
                    raise UserError(
                        f"answer_network= of model={cfg.model.name} learns from layouts, which "
                        f"split '{name}' does not have; pass answer_network=mlb, which needs none"
                    ) from error
                raise


def _check_features(bench: Workbench) -> None:
    """Checks names and sizes of the image features, as far as features= declares them."""
    if not bench.cfg.features:
        return
    offered = offered_places(instantiate(bench.cfg.features))
    if offered is None:
        return
    for reader in (bench, *bench.probe.values()):
        check_offered(reader, offered)
        for network, arguments, cfg, features in _networks(reader, "check_features"):
            places = {name: offered[name] for name in features}
            network.check_features(arguments, str(cfg.model.name), places)


def check_offered(bench: Workbench, offered: Mapping[str, Any]) -> None:
    """Checks that the image features of the model and its parts are available.

    Args:
        bench: The workbench.
        offered: Available image features by name.

    Raises:
        UserError: A feature is missing.
    """
    if absent := set(bench.wanted_features) - set(offered):
        raise UserError(
            f"model={bench.cfg.model.name} reads the image features {sorted(absent)}, which "
            f"features= does not offer; it offers {sorted(offered)}"
        )


def _check_callbacks(bench: Workbench) -> None:
    """Calls `check_data` of the callbacks if a model of the command answers questions."""
    if not bench.answers_questions:
        return
    # Such as the robustness callback, whose noise needs a pool of basic questions. The check needs
    # no trained model.
    for node in (bench.cfg.get("callbacks") or {}).values():
        if node and hasattr(get_object(node._target_), "check_data"):
            callback = build_callback(node, dict.fromkeys(bench.probe))
            callback.check_data(bench.dataset, bench.cfg.get("split") or "val")


def _check_augmentations(bench: Workbench) -> None:
    """Raises UserError where the noise of augment= has nothing for a training question."""
    for part in bench.models():
        augment = part.cfg.model.get("augment")
        if augment and part.cfg.get("ckpt", "auto") == "auto":
            augmentation = instantiate(augment)
            if hasattr(augmentation, "check"):
                augmentation.check(bench.dataset.split("train").questions)


def _check_endpoints(bench: Workbench) -> None:
    """Raises UserError where a served model does not respond, or does not exist at its endpoint."""
    for part in bench.models():
        if endpoint := part.cfg.model.module.get("endpoint"):
            instantiate(endpoint).check(part.cfg.model.path)
