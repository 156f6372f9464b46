"""Checks of the data against the configuration, before features and training start."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hydra.utils import get_object, instantiate
from omegaconf import DictConfig

from ivqa.data import VQADataset
from ivqa.errors import UserError
from ivqa.features import offered_places
from ivqa.runs.config_checks import plain
from ivqa.runs.signatures import defaults_of


def check_data(
    cfg: DictConfig, dataset: VQADataset, splits: Collection[str], unscored: Collection[str] = ()
) -> None:
    """Checks annotations, layouts, noise and image features against the configuration.

    Args:
        cfg: The configuration of a command, valid by itself (`check_config`).
        dataset: The data, whose splits are read.
        splits: Stages or names of the splits that the command uses.
        unscored: The splits among them that may lack annotations.

    Raises:
        UserError: The data do not fit; names the split, question or key, and the remedy.
    """
    _check_annotations(cfg, dataset, splits, unscored)
    _check_layouts(cfg, dataset)
    _check_features(cfg)
    _check_callbacks(cfg, dataset)
    _check_augmentations(cfg, dataset)


def wanted_features(model: DictConfig) -> list[str]:
    """The image features that a model and its parts read, without repetitions.

    Args:
        model: The configuration of the model.

    Returns:
        Names such as "grid" and "concepts".
    """
    return list(dict.fromkeys(name for part, _ in _models(model) for name in part.image_features))


def _models(model: DictConfig, ckpt: str = "auto") -> Iterator[tuple[DictConfig, str]]:
    """A model and its parts at any depth, each with its checkpoint ("auto" or a path)."""
    yield model, ckpt
    for name, part in (model.get("parts") or {}).items():
        yield from _models(part, str(model.part_ckpt[name]))


def _networks(
    model: DictConfig, hook: str, ckpt: str = "auto"
) -> Iterator[tuple[Any, dict[str, Any], DictConfig, str]]:
    """The networks whose class has the method `hook`.

    Yields:
        The class, its arguments, the configuration of the model, and the model's checkpoint.
    """
    for part, source in _models(model, ckpt):
        node = part.module.get("network")
        if node and "_target_" in node and hasattr(target := get_object(node._target_), hook):
            yield target, {**defaults_of(target), **plain(node)}, part, source


def _check_annotations(
    cfg: DictConfig, dataset: VQADataset, splits: Collection[str], unscored: Collection[str]
) -> None:
    """Requires annotations on the splits whose answers are used.

    Training always uses them. A benchmark names further uses in `needs_answers`: "validation" on
    the split `val` while the model is trained, "scores" on every other split.
    """
    benchmark = cfg.model.get("benchmark")
    needs = getattr(get_object(benchmark._target_), "needs_answers", ()) if benchmark else ()
    for split in splits:
        purpose = "validation" if split == "val" else "scores"
        if split == "train" or (purpose in needs and split not in unscored):
            dataset.split(split).require_answers()


def _check_layouts(cfg: DictConfig, dataset: VQADataset) -> None:
    """Checks layouts on the training splits of each model to train, and on the evaluated split."""
    for network, arguments, model, ckpt in _networks(
        cfg.model, "check_split", str(cfg.get("ckpt", "auto"))
    ):
        training = ["train", "val"] if ckpt == "auto" else []
        evaluated = [cfg.split] if model is cfg.model and cfg.get("split") else []
        for split in dict.fromkeys([*training, *evaluated]):
            network.check_split(arguments, dataset.split(split), learns=split == "train")


def _check_features(cfg: DictConfig) -> None:
    """Checks names and sizes of the image features, as far as features= declares them."""
    if not cfg.features:
        return
    offered = offered_places(instantiate(cfg.features))
    if offered is None:
        return
    check_offered(cfg.model, offered)
    for network, arguments, model, _ in _networks(cfg.model, "check_features"):
        places = {name: offered[name] for name in model.image_features}
        network.check_features(arguments, str(model.name), places)


def _check_callbacks(cfg: DictConfig, dataset: VQADataset) -> None:
    """Calls `check_data` of the callbacks if a model of the command answers questions."""
    modules = [get_object(model.module._target_) for model, _ in _models(cfg.model)]
    if not any(hasattr(getattr(module, "__self__", module), "answer") for module in modules):
        return
    # Such as the robustness callback, whose noise needs a pool of basic questions.
    for node in (cfg.get("callbacks") or {}).values():
        if node and hasattr(get_object(node._target_), "check_data"):
            instantiate(node).check_data(dataset, cfg.get("split") or "val")


def check_offered(model: DictConfig, offered: Mapping[str, Any]) -> None:
    """Checks that the image features of a model and its parts are available.

    Args:
        model: The configuration of the model.
        offered: Available image features by name.

    Raises:
        UserError: A feature is missing.
    """
    if absent := set(wanted_features(model)) - set(offered):
        raise UserError(
            f"model={model.name} reads the image features {sorted(absent)}, which features= does "
            f"not offer; it offers {sorted(offered)}"
        )


def _check_augmentations(cfg: DictConfig, dataset: VQADataset) -> None:
    """Raises UserError where the noise of augment= has nothing for a training question."""
    for model, ckpt in _models(cfg.model, str(cfg.get("ckpt", "auto"))):
        if ckpt == "auto" and model.get("augment"):
            augmentation = instantiate(model.augment)
            if hasattr(augmentation, "check"):
                augmentation.check(dataset.split("train").questions)
