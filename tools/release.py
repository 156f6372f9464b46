"""Builds the released weights of the embedded data: `python -m tools.release`.

It trains image features, generator, legality model and MLB as `pretrained=false` does, or loads
them from the artifact store, scores them on held-out scenes and writes them into `ivqa.released`.
`--check` scores the released weights again and records the versions of today's code if the scores
are the same.
"""

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, open_dict
from torchmetrics.functional.classification import binary_auroc, multilabel_average_precision

from ivqa.data import VQADataModule
from ivqa.features import ConceptFeatures, FeatureStore
from ivqa.features.concept_features import RELEASED_NAME
from ivqa.features.concepts import described_images
from ivqa.features.decoding import asked_images
from ivqa.generators import Sampling
from ivqa.released import FOLDER, TRAINING_NAME, Released, catalogue, note, release
from ivqa.runs.context import RunContext
from ivqa.runs.picture_model import compared_images
from ivqa.runs.preparation import open_context, with_features
from ivqa.runs.trained_models import build_module, obtain_module
from ivqa.runs.vocabularies import Vocabularies
from ivqa.scenes import ScenesDataset, parse
from ivqa.store.files import write_text
from ivqa.store.weights import load_into, write_weights
from ivqa.terminal import terminal
from ivqa.text.vocabulary import Vocabulary

CONF = Path(__file__).parents[1] / "conf"
TOLERANCE = 0.01
"""Largest difference of a score between processors."""

_CARDS = FOLDER / "README.md"
_ABOUT = {  # what each is, and what its scores mean
    RELEASED_NAME: "Image features: a compact CNN that predicts the concepts of a scene. "
    "`val_map`: mean average precision of the concepts",
    "ivqa_vae": "Question generator p(q | z, I, a). `nll_per_word`: negative log-likelihood of the "
    "questions of the data, in nats per word; `grammatical`: share of its samples that the grammar "
    "of the scenes parses",
    "legality": "Legality model: whether a text is a question that people would ask. `auroc`: of "
    "grammatical samples against others; `kept`: share of the questions of the data that pass",
    TRAINING_NAME: "The training data in short: for 500 pictures, the mean of `grid` over its "
    "places, and how often each answer occurs. With them, questions about a picture draw no scenes",
    "mlb": "VQA model MLB (Kim et al., 2017), seed 1. `accuracy`: share of questions whose main "
    "answer it gives",
}
_PARTS = ("questioner", "legality_model", "answerer")
_SCORED = 1000  # held-out questions


def compose_diagnosis(*overrides: str) -> DictConfig:
    """Composes the configuration of `python diagnose.py` in float32 and sets Hydra's own part.

    Args:
        *overrides: Overrides of the command line.
    """
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose("diagnose", ["output_dir=.", *overrides], return_hydra_config=True)
    HydraConfig.instance().set_config(cfg)
    with open_dict(cfg):
        del cfg["hydra"]
        cfg.trainer.precision = "32-true"
    return cfg


def small_scenes(root: Path) -> ScenesDataset:
    """The first 100 held-out images of the embedded data; an image depends only on its number.

    Args:
        root: The folder to write the data to.

    Returns:
        The data, with 10 questions per image.
    """
    images = {"train": 4, "val": 100, "test": 4}
    return ScenesDataset(root, images=images, questions_per_image=10, workers=1)


def main() -> None:
    """Trains, scores and writes the weights; with --check it only scores the released ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="score the released weights again")
    parser.add_argument("--only", help="with the released features: mlb or training")
    parser.add_argument("--artifacts", default="artifacts", help="the artifact store")
    arguments = parser.parse_args()
    store = f"artifacts={arguments.artifacts}"
    held_out = small_scenes(Path(arguments.artifacts) / "data")
    if arguments.check:
        check(held_out, store)
        write_text(_CARDS, cards())
        return
    splits, only = ["train", "val"], arguments.only
    pretrained = "pretrained=true" if only else "pretrained=false"
    context = open_context(compose_diagnosis(pretrained, store), splits)
    context = with_features(context, splits)
    if not only:
        _release_features(context)
    if only in (None, TRAINING_NAME):
        _release_training(context)
    # The scores are added below: they are computed from the released files themselves.
    for part in (context.parts[name] for name in _PARTS):
        name = part.cfg.model.name
        if only in (None, name):
            module, _, _ = obtain_module(part)
            weights = {key: _half(value) for key, value in module.state_dict().items()}
            release(
                name,
                weights,
                module.component(),
                identity=part.release_identity(),
                code=part.code(),
                scores={},
            )
    for name, scores in score(held_out, store).items():
        if only in (None, name):
            note(replace(catalogue()[name], scores=scores))
            print(name, json.dumps(scores))
    write_text(_CARDS, cards())


def cards() -> str:
    """A card for each released weight, in Markdown: what it is, its training, scores and limits."""
    text = """# Released weights

Written by `python -m tools.release`. All are trained on scenes, the embedded data of ivqa, and
licensed as ivqa (Apache-2.0). They say little about photographs, and about questions outside of the
grammar of the scenes. The scores are those of 100 held-out scenes with 10 questions each. A command
uses them where data, settings and versions of the code fit; `pretrained=false` trains the model.
"""
    for name, one in catalogue().items():
        size = sum(value.numel() for value in one.weights().values())
        scores = ", ".join(f"`{term}` {value:.3f}" for term, value in one.scores.items())
        code = ", ".join(f"{part} {version}" for part, version in sorted(one.code.items()))
        text += f"""
## {name}

{_ABOUT[name]}.

- Scores: {scores or "none"}.
- Values in `{one.file.name}`: {size:,}; digest {one.digest}.
- Data: scenes, cache key {one.identity["data"]}; all settings are in `manifest.json`.
- Versions of the code: {code}.
"""
    return text


def _release_features(context: RunContext) -> None:
    features: ConceptFeatures = instantiate(context.cfg.features)
    assert context.features is not None
    cnn = torch.load(context.features.directory / "cnn.pt", weights_only=True)
    release(
        RELEASED_NAME,
        cnn["state_dict"],
        {"concepts": cnn["concepts"]},
        identity=features.identity(context.dataset),
        code=features.code(),
        scores={},
    )


def _release_training(context: RunContext) -> None:
    """Features of some training pictures and all answers: what is read in place of the data."""
    features: ConceptFeatures = instantiate(context.cfg.features)
    store, split = context.features, context.dataset.split("train")
    assert store is not None
    chosen = store.rows("train", compared_images(asked_images(split).ids))
    release(
        TRAINING_NAME,
        {"grid": _half(store.gather("train", chosen, ["grid"])["grid"].mean(dim=1))},
        {"answers": dict(Counter(split.main_answers).most_common())},
        identity=features.identity(context.dataset),
        code=features.code(),
        scores={},
    )


def check(held_out: ScenesDataset, *overrides: str) -> None:
    """Records the versions of the current code if the released weights score as before.

    Args:
        held_out: Held-out scenes; the validation split is used.
        *overrides: Overrides of the command line.

    Raises:
        ValueError: A score differs by more than `TOLERANCE`; the weights must be trained again.
    """
    codes = released_codes(*overrides)
    for name, scores in score(held_out, *overrides).items():
        before = catalogue()[name]
        print(name, json.dumps(scores))
        for term, value in scores.items():
            if abs(value - before.scores[term]) > TOLERANCE:
                raise ValueError(
                    f"{name}: {term} is {value:.4f}, but was {before.scores[term]:.4f} when it was "
                    "released; run make release, which trains it again"
                )
        note(replace(before, code=codes[name]))


def released_codes(*overrides: str) -> dict[str, dict[str, int | str]]:
    """The versions of the current code of each released model.

    Args:
        *overrides: Overrides of the command line.
    """
    context = _bench(None, *overrides)
    parts = {name: context.parts[name] for name in _PARTS}
    codes = {part.cfg.model.name: part.code() for part in parts.values()}
    own = instantiate(context.cfg.features).code()
    return {RELEASED_NAME: own, TRAINING_NAME: own, **codes}


def released_identities(*overrides: str) -> dict[str, Mapping[str, Any]]:
    """The identity of each released model in the current configuration; reads no data.

    Args:
        *overrides: Overrides of the command line.
    """
    context = _bench(None, *overrides)
    parts = {name: context.parts[name] for name in _PARTS}
    identities = {part.cfg.model.name: part.release_identity() for part in parts.values()}
    own = instantiate(context.cfg.features).identity(context.dataset)
    return {RELEASED_NAME: own, TRAINING_NAME: own, **identities}


def score(held_out: ScenesDataset, *overrides: str) -> dict[str, dict[str, float]]:
    """Scores the released weights on the validation split of held-out scenes.

    Args:
        held_out: Held-out scenes.
        *overrides: Overrides of the command line.

    Returns:
        By model and term. Concepts: val_map, the mean average precision of the concepts that
        occur. Generator: nll_per_word, the negative log-likelihood of the data's questions in nats
        per word, and grammatical, the share of sampled questions that the grammar parses.
        Legality model: auroc of separating grammatical samples from others, and kept, the share of
        the data's questions that count as legal. VQA model: accuracy.
    """
    context = _bench(held_out, *overrides)
    features: ConceptFeatures = instantiate(context.cfg.features)
    concepts = features.load_released(catalogue()[RELEASED_NAME])[1]
    store = _features(context, features)
    split = held_out.split("val")
    images, texts = described_images(split)
    targets = concepts.targets(texts).int()
    probabilities = store.gather("val", store.rows("val", images.ids), ["concepts"])["concepts"]
    occurs = targets.any(dim=0)  # (concepts,)
    precision = multilabel_average_precision(
        probabilities[:, occurs], targets[:, occurs], int(occurs.sum()), average="macro"
    )
    scores = {RELEASED_NAME: {"val_map": float(precision)}, TRAINING_NAME: {}}

    context = replace(context, features=store)
    modules, data = {}, {}
    for name in _PARTS:
        part = context.parts[name]
        modules[name], data[name] = _load(part)
    generator, legality_model = modules["questioner"], modules["legality_model"]
    questions, answers = split.questions[:_SCORED], split.main_answers[:_SCORED]
    images_of = data["questioner"].images_of("val", split.image_ids[:_SCORED].tolist())
    likelihood = generator.log_likelihood(images_of, answers, questions)
    words = generator.question_vocabulary.encode(questions).lengths + 1  # with the end token
    seeded = torch.Generator().manual_seed(0)
    samples = generator.sample(images_of, answers, 4, Sampling(), seeded).text
    # The grammar is the ground truth of legality.
    legal = torch.tensor([parse(text) is not None for text in samples])
    judged = legality_model.probabilities(samples)
    scores["ivqa_vae"] = {
        "nll_per_word": float(-likelihood.sum() / words.sum()),
        "grammatical": float(legal.float().mean()),
    }
    scores["legality"] = {
        "auroc": float(binary_auroc(judged, legal.long())),
        "kept": float(
            (legality_model.probabilities(questions) > legality_model.limit).float().mean()
        ),
    }
    answerer = modules["answerer"]
    images_of = data["answerer"].images_of("val", split.image_ids[:_SCORED].tolist())
    given = answerer.answer(images_of, questions)
    hits = [answer == main for answer, main in zip(given, answers, strict=True)]
    scores[context.parts["answerer"].cfg.model.name] = {"accuracy": sum(hits) / len(hits)}
    return scores


def _bench(dataset: ScenesDataset | None, *overrides: str) -> RunContext:
    """A context without features; its data are not read yet."""
    cfg = compose_diagnosis(*overrides)
    data = instantiate(cfg.data) if dataset is None else dataset
    return RunContext(cfg, data, None, terminal())


def _features(context: RunContext, features: ConceptFeatures) -> FeatureStore:
    """Features of the validation split by the released CNN, whether or not its version fits."""
    cnn = catalogue()[RELEASED_NAME]
    file = context.store.root / "released_cnn.pt"
    network, concepts = features.load_released(cnn)
    write_weights(file, {"state_dict": network.state_dict(), "concepts": concepts.concepts})
    given = replace(features, weights=str(file))
    return given.build(context.dataset, ["val"], context.store.root / "features")


def _load(part: RunContext) -> tuple[Any, VQADataModule]:
    """A module with its released weights, whether or not they fit the configuration."""
    released: Released = catalogue()[part.cfg.model.name]
    words = Vocabularies(Vocabulary([]), Vocabulary([])).restored(released.component())
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
    """Matrices in half precision, which changes no score; vectors and scalars unchanged."""
    return value.half() if value.is_floating_point() and value.ndim >= 2 else value


if __name__ == "__main__":
    main()
