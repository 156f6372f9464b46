"""The cache keys that a table rests on, computed without training or measuring anything.

The keys of trained models, features and data are those of the artifact store, except that they
leave out what belongs to a machine: the precision, and which models it has trained already. What
measures has a key too: the settings of each job, with the `version` of each class that they name.
So a table is out of date when a component, a setting or the data of it changed, and not when
code was moved or tidied.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, open_dict
from rich.console import Console
from typing_extensions import override

from ivqa.config.keys import command_keys, model_keys
from ivqa.ranges import CHANGEABLE, NO_EFFECT, marks_of
from ivqa.runs.context import RunContext
from ivqa.scenes.dataset import ScenesDataset
from ivqa.store.digests import digest
from ivqa.store.identity import code_of, result_settings, to_plain
from ivqa.vqa import MeasuringCallback
from tools.jobs import configurations

Code = dict[str, int | str]


class _KeyContext(RunContext):
    """A context whose identities are known without reading or computing features."""

    @cached_property
    @override
    def of_training(self) -> RunContext:
        settings = to_plain(self.cfg.model.get("trained_on"))
        if not settings:
            return self
        dataset = _dataset(settings)
        keys = [self.features.cache_key() if self.features else None, dataset.cache_key()]
        features: Any = SimpleNamespace(cache_key=lambda: digest(keys))
        return replace(self, dataset=dataset, features=features if self.features else None)


@dataclass(frozen=True)
class Keys:
    """What the results of an experiment depend on.

    Args:
        keys: Digests by the name of a component: each model by its name, "features", "data", and
            "measuring" for the settings of the jobs. Several where jobs differ, in ascending order.
            "data" is absent where the data are not on this machine.
        code: `version` by class, of all components and of the code that measures.
    """

    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    code: Mapping[str, int | str] = field(default_factory=dict)

    def changes(self, now: "Keys") -> list[str]:
        """What changed between these keys and those of today, as texts for the page.

        >>> then = Keys({"mlb": ["a"], "data": ["b"]}, {"MLB": 1})
        >>> then.changes(Keys({"mlb": ["c"]}, {"MLB": 2}))
        ['`MLB` had version 1, has version 2', 'mlb']
        >>> then.changes(then)
        []
        """
        if not self.keys:
            return ["its cache keys were not recorded"]
        found = [
            f"`{name}` had version {self.code[name]}, has version {now.code[name]}"
            for name in self.code
            if name in now.code and self.code[name] != now.code[name]
        ]
        compared = sorted({*self.keys, *now.keys} - ({"data"} - now.keys.keys()))
        found += [name for name in compared if self.keys.get(name) != now.keys.get(name)]
        return found


def keys_of(commands: Sequence[Sequence[str]], conf: Path) -> Keys:
    """The keys of all jobs of some commands.

    Args:
        commands: The script and the arguments of each; environment variables are not filled in.
        conf: The folder of configuration files.
    """
    keys: dict[str, set[str]] = defaultdict(set)
    code: Code = {}
    for words in commands:
        for cfg in configurations(words, conf):
            for name, key, versions in _components(cfg):
                keys[name].add(key)
                code |= versions
    return Keys({name: sorted(keys[name]) for name in sorted(keys)}, dict(sorted(code.items())))


def combined(own: Keys, others: Mapping[str, Keys]) -> Keys:
    """Adds the keys of other experiments, whose results an experiment reads, by their names."""
    keys = {f"results of {name}": [digest(dict(one.keys))] for name, one in others.items()}
    return Keys({**own.keys, **keys}, own.code)


def _components(cfg: DictConfig) -> Iterator[tuple[str, str, Code]]:
    """Name, key and versions of the code of each component of a job."""
    with open_dict(cfg):
        cfg.artifacts = "a folder without trained models"
        cfg.callbacks = _measuring_callbacks(cfg)
    settings = _settings(cfg)
    benchmark = to_plain((cfg.get("model") or {}).get("benchmark"))
    measuring = {**result_settings(settings, model_keys), "benchmark": result_settings(benchmark)}
    yield "measuring", digest(measuring), code_of([settings, benchmark], keys=model_keys)
    if not cfg.get("data"):
        return
    inside = get_object(cfg.data._target_) is ScenesDataset
    dataset = _dataset(cfg.data)
    if (key := _data_key(cfg, inside)) is not None:
        yield "data", key, {}
    features = None
    if cfg.get("features"):
        extractor = instantiate(cfg.features)
        features = SimpleNamespace(cache_key=lambda: extractor.cache_key(dataset))
    if not cfg.get("model"):
        return
    context = _KeyContext(cfg, dataset, features, Console(quiet=True))  # type: ignore[arg-type]
    used = [*context.models(), *(m for c in context.measuring_models.values() for m in c.models())]
    if features is not None and any(one.wanted_features for one in used):
        yield "features", features.cache_key(), code_of(to_plain(cfg.features))
    for one in used:
        # train.py has no ckpt=: it trains the model.
        identity = one.source_identity() if "ckpt" in one.cfg else one.model_identity
        yield str(one.cfg.model.name), digest(identity), one.code()


def _settings(cfg: DictConfig) -> dict[str, Any]:
    """The settings at the top of a configuration that may change a result."""
    annotations = command_keys(cfg)

    def counts(name: str) -> bool:
        marks = marks_of(annotations.get(name))
        is_component = not isinstance(cfg[name], str | bool | int | float | None)
        # Components have an identity of their own in that of a model, but none in a measurement.
        return name == "callbacks" or (
            CHANGEABLE not in marks and (is_component or NO_EFFECT not in marks)
        )

    return {str(name): to_plain(cfg[name]) for name in cfg if counts(str(name))}


def _measuring_callbacks(cfg: DictConfig) -> dict[str, Any]:
    """The callbacks that measure; those of the training change no result."""
    found = {}
    for name, node in (cfg.get("callbacks") or {}).items():
        target = get_object(node._target_) if node else None
        if isinstance(target, type) and issubclass(target, MeasuringCallback):
            found[str(name)] = node
    return found


def _data_key(cfg: DictConfig, inside: bool) -> str | None:
    """The key of the data; None where they are not here."""
    settings = to_plain(cfg.data)
    if inside:
        return str(instantiate(settings).cache_key())
    root = os.path.expandvars(str(settings.get("root")))
    return str(instantiate({**settings, "root": root}).cache_key()) if Path(root).is_dir() else None


def _dataset(settings: Mapping[str, Any]) -> Any:
    """The data; those from outside may be absent here: models and features leave their key out."""
    if get_object(settings["_target_"]) is ScenesDataset:
        return instantiate(settings)
    stages = {stage: settings.get(stage) for stage in ("train", "val", "test")}
    return SimpleNamespace(cache_key=lambda: "data from outside", stages=stages)
