"""Makes the released weights of the embedded data: `python -m ivqa.tasks.release`.

Trains image features, generator and legality model as `pretrained=false` does, or takes them from
the artifact store, scores them on held-out scenes and writes them into `ivqa.released`. After a
change of code that leaves the weights valid, `--check` scores the released weights again, and notes
the new code where they still score the same.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, open_dict
from rich.console import Console
from torchmetrics.functional.classification import binary_auroc, multilabel_average_precision

from ivqa.data import VQADataModule
from ivqa.features import ConceptFeatures, FeatureStore
from ivqa.features.concept_features import RELEASED_NAME
from ivqa.features.concepts import described_images
from ivqa.generators import Sampling
from ivqa.released import Released, catalogue, note, release
from ivqa.runs.artifact_store import ArtifactStore
from ivqa.runs.preparation import prepare_workbench, with_features
from ivqa.runs.trained_models import build_module, obtain_module
from ivqa.runs.vocabularies import Vocabularies
from ivqa.runs.workbench import Workbench
from ivqa.scenes import ScenesDataset, parse
from ivqa.weights import load_into

CONF = Path(__file__).parents[3] / "conf"
TOLERANCE = 0.01
"""How far a score may differ on another processor."""

_PARTS = ("questioner", "judge")
_SCORED = 1000  # held-out questions


def compose_diagnosis(*overrides: str) -> DictConfig:
    """The configuration of `python diagnose.py`, with Hydra's own taken out of it and set."""
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("diagnose", ["output_dir=.", *overrides], return_hydra_config=True)
    HydraConfig.instance().set_config(cfg)
    with open_dict(cfg):
        del cfg["hydra"]
        cfg.trainer.precision = "32-true"
    return cfg


def small_scenes(root: Path) -> ScenesDataset:
    """The first 100 held-out images of the embedded data: an image depends on its number alone."""
    images = {"train": 4, "val": 100, "test": 4}
    return ScenesDataset(root, images=images, questions_per_image=10, workers=1)


def main() -> None:
    """Trains, scores and writes; or, with --check, scores what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="score the released weights again")
    parser.add_argument("--artifacts", default="artifacts", help="the artifact store")
    arguments = parser.parse_args()
    store = f"artifacts={arguments.artifacts}"
    held_out = small_scenes(Path(arguments.artifacts) / "data")
    if arguments.check:
        check(held_out, store)
        return
    splits = ["train", "val"]
    bench = prepare_workbench(compose_diagnosis("pretrained=false", store), splits)
    bench = with_features(bench, splits)
    features: ConceptFeatures = instantiate(bench.cfg.features)
    assert bench.features is not None
    cnn = torch.load(bench.features.directory / "cnn.pt", weights_only=True)
    release(
        RELEASED_NAME,
        cnn["state_dict"],
        {"concepts": cnn["concepts"]},
        identity=features.identity(bench.dataset),
        code=features.code(),
        scores={},
    )
    for part in (bench.parts[name] for name in _PARTS):
        module, _, _ = obtain_module(part)
        release(
            part.cfg.model.name,
            {name: _half(value) for name, value in module.state_dict().items()},
            module.component(),
            identity=part.release_identity(),
            code=part.code(),
            scores={},
        )
    for name, scores in score(held_out, store).items():
        note(replace(catalogue()[name], scores=scores))
        print(name, json.dumps(scores))


def check(held_out: ScenesDataset, *overrides: str) -> None:
    """Notes the code of today for released weights that score as they did.

    Raises:
        ValueError: A score differs by more than `TOLERANCE`: train and release again.
    """
    codes = released_codes(*overrides)
    for name, scores in score(held_out, *overrides).items():
        before = catalogue()[name]
        print(name, json.dumps(scores))
        for term, value in scores.items():
            if abs(value - before.scores[term]) > TOLERANCE:
                raise ValueError(
                    f"{name}: {term} is {value:.4f} and was {before.scores[term]:.4f} when it was "
                    "released; make release trains it again"
                )
        note(replace(before, code=codes[name]))


def released_codes(*overrides: str) -> dict[str, str]:
    """The digest of today's code of each released model."""
    bench = _bench(None, *overrides)
    parts = {name: bench.parts[name] for name in _PARTS}
    codes = {part.cfg.model.name: part.code() for part in parts.values()}
    return {RELEASED_NAME: instantiate(bench.cfg.features).code(), **codes}


def released_identities(*overrides: str) -> dict[str, Mapping[str, Any]]:
    """What today's configuration asks of each released model; reads no data."""
    bench = _bench(None, *overrides)
    parts = {name: bench.parts[name] for name in _PARTS}
    identities = {part.cfg.model.name: part.release_identity() for part in parts.values()}
    return {RELEASED_NAME: instantiate(bench.cfg.features).identity(bench.dataset), **identities}


def score(held_out: ScenesDataset, *overrides: str) -> dict[str, dict[str, float]]:
    """How well the released weights do on `held_out`'s validation split, by model and term.

    val_map: mean average precision of the concepts that are there. nll_per_word: of the questions
    people asked, nats. grammatical: share of sampled questions that the grammar knows. auroc: of
    telling grammatical samples from others. kept: share of people's questions that count as legal.
    """
    bench = _bench(held_out, *overrides)
    features: ConceptFeatures = instantiate(bench.cfg.features)
    concepts = features.load_released(catalogue()[RELEASED_NAME])[1]
    store = _features(bench, features)
    split = held_out.split("val")
    images, texts = described_images(split)
    targets = concepts.targets(texts).int()
    probabilities = store.gather("val", store.rows("val", images.ids), ["concepts"])["concepts"]
    there = targets.any(dim=0)
    precision = multilabel_average_precision(
        probabilities[:, there], targets[:, there], int(there.sum()), average="macro"
    )
    scores = {RELEASED_NAME: {"val_map": float(precision)}}

    bench = replace(bench, features=store)
    modules, data = {}, {}
    for name in _PARTS:
        part = bench.parts[name]
        modules[name], data[name] = _load(part)
    generator, judge = modules["questioner"], modules["judge"]
    questions, answers = split.questions[:_SCORED], split.main_answers[:_SCORED]
    asked_of = data["questioner"].images_of("val", split.image_ids[:_SCORED].tolist())
    likelihood = generator.log_likelihood(asked_of, answers, questions)
    words = generator.question_vocabulary.encode(questions).lengths + 1
    seeded = torch.Generator().manual_seed(0)
    samples = generator.sample(asked_of, answers, 4, Sampling(), seeded).text
    legal = torch.tensor([parse(text) is not None for text in samples])
    judged = judge.probabilities(samples)
    scores["ivqa_vae"] = {
        "nll_per_word": float(-likelihood.sum() / words.sum()),
        "grammatical": float(legal.float().mean()),
    }
    scores["legality"] = {
        "auroc": float(binary_auroc(judged, legal.long())),
        "kept": float((judge.probabilities(questions) > judge.limit).float().mean()),
    }
    return scores


def _bench(dataset: ScenesDataset | None, *overrides: str) -> Workbench:
    """A workbench that has neither read data nor made features."""
    cfg = compose_diagnosis(*overrides)
    data = instantiate(cfg.data) if dataset is None else dataset
    return Workbench(cfg, ArtifactStore(cfg.artifacts), data, None, Console())


def _features(bench: Workbench, features: ConceptFeatures) -> FeatureStore:
    """Features of the workbench's validation split by the released CNN, whatever made it."""
    cnn = catalogue()[RELEASED_NAME]
    file = bench.store.root / "released_cnn.pt"
    network, concepts = features.load_released(cnn)
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"state_dict": network.state_dict(), "concepts": concepts.concepts}, file)
    given = replace(features, weights=str(file))
    return given.build(bench.dataset, ["val"], bench.store.root / "features")


def _load(part: Workbench) -> tuple[Any, VQADataModule]:
    """A module with its released weights, whether or not they fit the configuration."""
    released: Released = catalogue()[part.cfg.model.name]
    words = Vocabularies.of(released.component())
    module = build_module(replace(part, cfg=_without_parts(part.cfg)), words)
    load_into(module, released.weights(), released.file, released.name)
    return module.eval(), part.datamodule(words, module)


def _without_parts(cfg: DictConfig) -> DictConfig:
    """The same model without the parts that only its training needs."""
    cfg = cfg.copy()
    with open_dict(cfg):
        cfg.model.parts = {}
    return cfg


def _half(value: torch.Tensor) -> torch.Tensor:
    """Matrices in half precision, which changes no score; the rest, such as limits, as it is."""
    return value.half() if value.is_floating_point() and value.ndim >= 2 else value


if __name__ == "__main__":
    main()
