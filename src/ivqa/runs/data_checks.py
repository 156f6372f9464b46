"""Whether the data fit the configuration, before anything long starts: features, training."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hydra.utils import get_object, instantiate
from omegaconf import DictConfig

from ivqa.data import VQADataset
from ivqa.errors import UserError
from ivqa.features import offered_places
from ivqa.runs.config_checks import plain
from ivqa.runs.config_values import defaults_of


def check_data(
    cfg: DictConfig, dataset: VQADataset, splits: Collection[str], unscored: Collection[str] = ()
) -> None:
    """Checks annotations, layouts, noise and the choice of features against the configuration.

    Args:
        cfg: The configuration of a command, valid by itself (`check_config`).
        dataset: The data, whose splits are read.
        splits: Stages or names of the splits that the command uses.
        unscored: Those of them that may lack annotations.

    Raises:
        UserError: naming split, question or key, and the remedy.
    """
    _check_annotations(cfg, dataset, splits, unscored)
    _check_layouts(cfg, dataset)
    _check_features(cfg)
    _check_callbacks(cfg, dataset)
    _check_augmentations(cfg, dataset)


def wanted_features(model: DictConfig) -> list[str]:
    """The image features that a model and the models it is built of read."""
    return list(dict.fromkeys(name for part, _ in _models(model) for name in part.image_features))


def _models(model: DictConfig, ckpt: str = "auto") -> Iterator[tuple[DictConfig, str]]:
    """A model and those that it is built of, each with the checkpoint it comes from."""
    yield model, ckpt
    for name, part in (model.get("parts") or {}).items():
        yield from _models(part, str(model.part_ckpt[name]))


def _networks(
    model: DictConfig, hook: str, ckpt: str = "auto"
) -> Iterator[tuple[Any, dict[str, Any], DictConfig, str]]:
    """Networks that have `hook`: class, arguments, their model and its checkpoint."""
    for part, source in _models(model, ckpt):
        node = part.module.get("network")
        if node and "_target_" in node and hasattr(target := get_object(node._target_), hook):
            yield target, {**defaults_of(target), **plain(node)}, part, source


def _check_annotations(
    cfg: DictConfig, dataset: VQADataset, splits: Collection[str], unscored: Collection[str]
) -> None:
    """Training needs answers, and so does what a benchmark names in `needs_answers`.

    "validation": of the split `val`, while the model is trained. "scores": of every other split.
    """
    benchmark = cfg.model.get("benchmark")
    needs = getattr(get_object(benchmark._target_), "needs_answers", ()) if benchmark else ()
    for split in splits:
        purpose = "validation" if split == "val" else "scores"
        if split == "train" or (purpose in needs and split not in unscored):
            dataset.split(split).require_answers()


def _check_layouts(cfg: DictConfig, dataset: VQADataset) -> None:
    """Of what is trained, the splits it learns from; of what is asked, the split it is asked on."""
    for network, arguments, model, ckpt in _networks(
        cfg.model, "check_split", str(cfg.get("ckpt", "auto"))
    ):
        learnt = ["train", "val"] if ckpt == "auto" else []
        asked = [cfg.split] if model is cfg.model and cfg.get("split") else []
        for split in dict.fromkeys([*learnt, *asked]):
            network.check_split(arguments, dataset.split(split), learns=split == "train")


def _check_features(cfg: DictConfig) -> None:
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
    """Those that ask the model, where it answers questions."""
    modules = [get_object(model.module._target_) for model, _ in _models(cfg.model)]
    if not any(hasattr(getattr(module, "__self__", module), "answer") for module in modules):
        return
    for node in (cfg.get("callbacks") or {}).values():
        if node and hasattr(get_object(node._target_), "check_data"):
            instantiate(node).check_data(dataset, cfg.get("split") or "val")


def check_offered(model: DictConfig, offered: Mapping[str, Any]) -> None:
    """Raises UserError where a model reads a feature that is not offered."""
    if absent := set(wanted_features(model)) - set(offered):
        raise UserError(
            f"model={model.name} reads the image features {sorted(absent)}, which these features "
            f"do not offer; they offer {sorted(offered)}"
        )


def _check_augmentations(cfg: DictConfig, dataset: VQADataset) -> None:
    """Raises UserError where the noise of augment= has nothing for a training question."""
    for model, ckpt in _models(cfg.model, str(cfg.get("ckpt", "auto"))):
        if ckpt == "auto" and model.get("augment"):
            augmentation = instantiate(model.augment)
            if hasattr(augmentation, "check"):
                augmentation.check(dataset.split("train").questions)
