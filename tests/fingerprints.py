"""What each trained component computes today: `python tests/fingerprints.py` records it.

Two steps of training on small fixed inputs give numbers that change if the network, its initial
weights, its loss, its batches or its optimiser do. Rounding differs between processors, by less
than `TOLERANCE`; a real change rarely stays within it.
"""

import inspect
import json
import math
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytorch_lightning as pl
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, open_dict
from rich.console import Console
from torch import Tensor

from ivqa.data.dataset import VQADataset
from ivqa.features.compact_cnn import CompactCNN
from ivqa.features.concept_features import ConceptFeatures
from ivqa.features.extraction import build_store
from ivqa.features.pictures import Network, Resize
from ivqa.generators import Sampling
from ivqa.runs import trained_models
from ivqa.runs.context import RunContext
from ivqa.scenes import generate_scenes
from ivqa.store.identity import code_of, to_plain
from ivqa.store.signatures import defaults_of
from ivqa.store.versions import code_version
from measures import measures

PROJECT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".json")
TOLERANCE = 2e-4
# Adam's steps have the size of the rate where a gradient is nearly 0, and rounding gives the sign.
_OF_STEPS = 1e-2
_LARGER = 3.0  # initial weights attend almost alike to all places, and hide a change of attention

MODELS = [
    *("mlb", "mcb", "mutan", "mutan_noatt", "hiecoatt", "lstm_qi", "vanilla", "language_only"),
    *("n2nmn", "prior", "ivqa_vae", "ivqa_attention", "ivqa_attend_and_tell", "ivqa_answer_only"),
    *("ivqa_image_only", "ivqa_image_answer_type", "ivqa_prior", "ivqa_nearest_neighbour"),
    *("ivqa_vae_paper", "ivqa_attend_and_tell_paper"),
    *("legality", "skip_thoughts", "ivqa_rl"),
]
RANKERS = ["lasso", "cosine", "random", "bleu1", "cider", "meteor", "rouge_l"]
_TEXTS = ["is it red", "is the star red", "how many stars are there", "what is left of the heart"]

Fingerprint = dict[str, float]
Entry = tuple[dict[str, int | str], Fingerprint]


def entries() -> Iterator[tuple[str, Callable[[], Entry]]]:
    """The name of each component and the function that computes its versions and numbers."""
    yield from ((f"model={name}", lambda name=name: _trained(name)) for name in MODELS)
    yield from ((f"ranker={name}", lambda name=name: _ranker(name)) for name in RANKERS)
    yield "features=concepts", _concepts
    yield from ((name, lambda name=name: _measured(name)) for name in measures())


def defaults() -> dict[str, dict[str, str | int]]:
    """The defaults of each component's arguments, and its version.

    An identity leaves defaults out, so a changed default needs a new version.
    """
    groups = ("model", "question_encoder", "answer_network", "features", "encoder", "ranker")
    files = (file for group in groups for file in (PROJECT / "conf" / group).rglob("*.yaml"))
    found = {}
    for target in re.findall(r"_target_: *(ivqa\.[\w.]+)", " ".join(f.read_text() for f in files)):
        one = get_object(target)
        owner = one.__self__ if inspect.ismethod(one) else one
        given = {name: repr(value) for name, value in defaults_of(one).items()}
        found[target] = {**dict(sorted(given.items())), "version": vars(owner).get("version", 0)}
    return dict(sorted(found.items()))


def differences(there: Mapping[str, float], here: Mapping[str, float]) -> list[str]:
    """The numbers that differ by more than `TOLERANCE`."""
    return [
        f"{name} was {there.get(name)}, is {here.get(name)}"
        for name in dict.fromkeys([*there, *here])
        if name not in there
        or name not in here
        or not math.isclose(there[name], here[name], rel_tol=_tolerance(name), abs_tol=TOLERANCE)
    ]


def _tolerance(name: str) -> float:
    return _OF_STEPS if name.endswith(("of the weights", "after training")) else TOLERANCE


def composed(command: str, *overrides: str) -> DictConfig:
    """The configuration of a command; interpolations of Hydra's own stay unresolved."""
    with initialize_config_dir(str(PROJECT / "conf"), version_base=None):
        return compose(command, [*overrides])


@cache
def _data() -> tuple[VQADataset, Any]:
    """Eight scenes a split, and features that are fixed functions of their pixels."""
    folder = Path(tempfile.mkdtemp())
    generate_scenes(folder / "data", images={"train": 8, "val": 8}, workers=1, progress=False)
    dataset = VQADataset(folder / "data")

    def compute(images: Tensor) -> dict[str, Tensor]:
        # Centred and large, so that positions differ and attention matters.
        rows = images.float().flatten(2).transpose(1, 2) / 32 - 4  # (M, 64, 3)
        grid = rows.reshape(len(rows), 16, 12)
        return {"grid": grid, "pooled": rows.mean(1), "concepts": rows[:, 20:26].flatten(1)}

    network = Network(compute, Resize(8))
    stages = ["train", "val"]
    store = build_store(dataset, stages, folder / "f", "key", lambda _: network, batch_size=8)
    return dataset, store


def _trained(name: str) -> Entry:
    dataset, features = _data()
    command = "diagnose" if name == "ivqa_rl" else "train"  # a policy needs a VQA model
    cfg = composed(command, f"model={name}", "num_workers=0")
    with open_dict(cfg):
        cfg.model.batch_size = 16
    context = RunContext(cfg, dataset, features, Console(quiet=True))

    def untrained(part: RunContext) -> tuple[Any, Any, Path]:
        return trained_models.build_module(part, part.vocabularies).eval(), part.vocabularies, FILE

    torch.manual_seed(0)
    with mock.patch.object(trained_models, "obtain_module", untrained):
        module = trained_models.build_module(context, context.vocabularies)
    before = _weights(module)
    found = {"initial weights": float(before.abs().sum())}
    if hasattr(module, "remember"):
        module.remember(context.datamodule(context.vocabularies, module))
    found |= _outputs(module, context)
    found |= _with_larger_weights(module, context)
    if isinstance(module, pl.LightningModule):
        module.scheduler = None  # its warm-up would begin with steps of almost 0
        found |= _two_steps(module, context)
        found["change of the weights"] = float((_weights(module) - before).abs().sum())
        trained = _outputs(module, context)
        found |= {f"{name} after training": value for name, value in trained.items()}
    return context.code(), found


def _with_larger_weights(module: Any, context: RunContext) -> Fingerprint:
    values = [*module.parameters()] if isinstance(module, torch.nn.Module) else []
    kept = [value.detach().clone() for value in values]
    with torch.no_grad():
        for value in values:
            value.mul_(_LARGER)
        found = _outputs(module, context)
        for value, old in zip(values, kept, strict=True):
            value.copy_(old)
    found.pop("sampled letters", None)  # rounding may change a draw
    return {f"{name} of larger weights": value for name, value in found.items()}


def _two_steps(module: pl.LightningModule, context: RunContext) -> Fingerprint:
    losses: Fingerprint = {}

    class Record(pl.Callback):
        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
            losses[f"loss {trainer.global_step}"] = float(outputs["loss"])

    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        limit_train_batches=2,
        limit_val_batches=1,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=to_plain(context.cfg.model).get("gradient_clip"),
        callbacks=[Record()],
    )
    pl.seed_everything(0, verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(module, datamodule=context.datamodule(context.vocabularies, module))
    # Shares and ranks may jump by rounding where two answers score alike.
    measured = {key: trainer.callback_metrics.get(key) for key in ("val/loss", "val/kl")}
    return losses | {key: float(value) for key, value in measured.items() if value is not None}


def _outputs(module: Any, context: RunContext) -> Fingerprint:
    """What a trained module answers and asks about four questions."""
    split = context.dataset.split("val")
    data = context.datamodule(context.vocabularies, module)
    images = data.images_of("val", split.image_ids[:4].tolist())
    questions, answers = split.questions[:4], split.main_answers[:4]
    found: Fingerprint = {}
    parts = [*module.modules()] if isinstance(module, torch.nn.Module) else []
    modes = [part.training for part in parts]
    for part in parts:
        part.training = False
    if hasattr(module, "log_scores"):
        scores = module.log_scores(images, questions)[:, :8].clamp(min=-100)
        # Weights of both signs, since a change of attention nearly cancels in the sum.
        found["log-scores"] = float((scores.double() * torch.linspace(-1, 1, 8)).abs().sum())
        found["differences"] = float((scores.diff(dim=0).double()).abs().sum())
    if hasattr(module, "log_likelihood"):
        words = module.sample(images, answers, 2, Sampling(), torch.Generator().manual_seed(0)).text
        found["log-likelihood"] = float(module.log_likelihood(images, answers, questions).sum())
        found["sampled letters"] = float(sum(len(text) for text in words))
    for part, mode in zip(parts, modes, strict=True):
        part.training = mode
    return found


def _weights(module: Any) -> Tensor:
    """All weights of a module, flat."""
    values = module.parameters() if isinstance(module, torch.nn.Module) else ()
    return torch.cat([torch.zeros(1).double(), *(v.detach().double().flatten() for v in values)])


def _ranker(name: str) -> Entry:
    cfg = composed("evaluate", "model=mlb", "callbacks=robustness", f"ranker={name}")
    ranker = instantiate(cfg.ranker)
    pool = _data()[0].split("train").questions[:40]
    ranking = ranker.rank(_TEXTS, pool, 5, [[]] * len(_TEXTS))
    scores = np.asarray(ranking.scores, np.float64)
    places = np.arange(1, scores.size + 1).reshape(scores.shape)
    return code_of(to_plain(cfg.ranker)), {
        "scores": float(np.abs(scores).sum()),
        "ranks": float((np.sort(ranking.indices) * places).sum()),
    }


def _measured(name: str) -> Entry:
    roots, measure = measures()[name]
    figures = measure(composed, *_data())
    return code_version(roots), {key: round(value, 6) for key, value in figures.items()}


def _concepts() -> Entry:
    torch.manual_seed(0)
    network = CompactCNN(num_concepts=5, width=16)
    image = torch.arange(3 * 32 * 32).view(1, 3, 32, 32).float() / 3072
    with torch.no_grad():
        grid, pooled, logits = network.eval()(image)
    return code_version([ConceptFeatures, Resize]), {
        "grid": float(grid.abs().mean()),
        "pooled": float(pooled.abs().mean()),
        "logits": float(logits.abs().mean()),
        "weights": float(_weights(network).abs().sum()),
    }


def main() -> None:
    """Writes the numbers of all components, or of those that the command line names."""
    known = json.loads(FILE.read_text()) if FILE.is_file() else {}
    for name, compute in entries():
        if not sys.argv[1:] or name in sys.argv[1:]:
            code, numbers = compute()
            known[name] = {"code": code, "numbers": numbers}
            print(name, code, {key: round(value, 4) for key, value in numbers.items()})
    known["defaults"] = defaults()
    FILE.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
