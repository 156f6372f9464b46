"""Trained models: loaded from the artifact store, released weights or a checkpoint, or trained."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
from hydra.utils import get_object, instantiate
from pytorch_lightning.utilities import rank_zero_only

from ivqa.config.model_sources import Pretrained, Untrained, source_of
from ivqa.device import asking_device
from ivqa.errors import UserError
from ivqa.features import PixelStore
from ivqa.provenance import note_model, note_training
from ivqa.released import Released
from ivqa.runs.checkpoints import load_checkpoint
from ivqa.runs.context import RunContext
from ivqa.runs.fitting import fit
from ivqa.runs.loggers import end_wandb_run
from ivqa.runs.run_directory import best_checkpoint, can_continue
from ivqa.runs.vocabularies import Vocabularies
from ivqa.store.artifact_store import training_seconds
from ivqa.store.signatures import arguments_of
from ivqa.store.weights import load_into, weights_digest
from ivqa.text.vocabulary import Vocabulary
from ivqa.trained import check_same_encoder
from ivqa.vlm.prompt_reader import Example


def build_module(context: RunContext, vocabularies: Vocabularies) -> Any:
    """Builds the configured module, untrained; its parts are obtained first.

    The module receives only the inputs that its constructor declares, among the vocabularies,
    feature_sizes, and the parts in model.parts by name. A `TrainedModule` receives an image
    encoder too if features= leaves its features to it.

    Raises:
        UserError: There is an image encoder, and the module takes none.
    """
    cfg = context.cfg.model
    given = {**vars(vocabularies), "feature_sizes": context.feature_sizes}
    if number := cfg.module.get("num_examples"):
        given["examples"] = _examples(context, number)
    parts = context.parts
    for name, part in parts.items():
        given[name] = obtain_module(part)[0]
    # _partial_ leaves the vocabularies and parts, which are no configuration, for the call below.
    taken = arguments_of(get_object(cfg.module._target_))
    build = instantiate(cfg.module, _partial_=True)
    arguments = {name: value for name, value in given.items() if name in taken}
    if isinstance(context.features, PixelStore) and cfg.image_features:
        if "image_encoder" not in taken and "**" not in taken:
            raise UserError(
                f"model={cfg.name}: {cfg.module._target_} takes no image_encoder, so it cannot "
                "compute its image features from pixels; choose other features=, such as "
                "features=concepts"
            )
        arguments["image_encoder"] = context.features.encoder(cfg.image_features)
    return build(**arguments)


def _examples(context: RunContext, number: int) -> list[Example]:
    """Draws answered training questions with their pictures, for prompts."""
    split = context.dataset.split("train").require_answers()
    images = split.require_images()
    rows = np.random.default_rng(context.cfg.seed).permutation(len(split))[:number].tolist()
    return [
        Example(
            images.open(int(split.image_ids[row])), split.questions[row], split.main_answers[row]
        )
        for row in rows
    ]


def train_model(context: RunContext, run_dir: Path, *, resume: bool) -> dict[str, float]:
    """Builds the module of a context (`RunContext.of_training`) and trains it; see `fit`."""
    measuring_models = obtain_measuring_models(
        context
    )  # before the seed, which its training would use up
    pl.seed_everything(context.cfg.seed, workers=True, verbose=False)
    module = build_module(context, context.vocabularies)
    datamodule = context.datamodule(context.vocabularies, module)
    return fit(
        context.cfg, module, datamodule, run_dir, resume=resume, measuring_models=measuring_models
    )


def publish(context: RunContext, run_dir: Path, metrics: Mapping[str, float]) -> Path:
    """Copies the best checkpoint of a run into the artifact store, and returns the copy.

    The context is that of the training; the metrics have train/seconds.
    """
    folder = context.store_folder
    with context.store.building(folder, context.model_identity):
        context.store.keep(folder, best_checkpoint(run_dir), run_dir, metrics["train/seconds"])
    return folder / "model.ckpt"


def obtain_module(context: RunContext) -> tuple[Any, Vocabularies, Path]:
    """The trained module that cfg.ckpt names.

    ckpt=auto loads the model from the artifact store, or the released weights of a part. If there
    are none, the model is trained. A model without weights of its own is built anew. A model of
    another library is loaded with its own weights and words; it receives a closed set of answers
    if model.num_answers is set. The context has features.

    Returns:
        The module in eval mode, on a GPU if there is one; its vocabularies; the file of its
        weights.

    Raises:
        UserError: The checkpoint was trained on other features, words or answers.
    """
    context = context.of_training
    source = source_of(context.cfg.model)
    if isinstance(source, Pretrained):
        chosen = None if context.cfg.model.num_answers is None else context.vocabularies.answers
        none = Vocabularies(Vocabulary([]), Vocabulary([]), chosen)
        note_model(str(context.cfg.model.path))
        return build_module(context, none), none, Path(context.cfg.model.path)
    if isinstance(source, Untrained):
        return (
            build_module(context, context.vocabularies).eval(),
            context.vocabularies,
            context.store.root,
        )
    ckpt = str(context.cfg.ckpt)
    if (released := context.released) is not None:
        path, component, weights = released.file, released.component(), released.weights()
        _announce(context, released)
    else:
        path = _trained(context) if ckpt == "auto" else Path(ckpt)
        checkpoint = load_checkpoint(path)
        component, weights = checkpoint["component"], checkpoint["state_dict"]
    if component["feature_sizes"] != context.feature_sizes:
        raise UserError(
            f"{path} was trained on the image features {component['feature_sizes']}, but this run "
            f"offers {context.feature_sizes}; pass the features= and data= it was trained with"
        )
    vocabularies = context.vocabularies.restored(component)
    module = build_module(context, vocabularies)
    check_same_encoder(component, getattr(module, "image_encoder", None), str(path))
    load_into(module, weights, path, f"model={context.cfg.model.name}")
    note_model(str(context.cfg.model.name), revision := weights_digest(weights))
    if (seconds := training_seconds(path).get("train/seconds")) is not None:
        note_training(revision, seconds, path.stat().st_mtime)
    module.to(asking_device(context.cfg.trainer.accelerator))
    return module.eval(), vocabularies, path


def obtain_measuring_models(context: RunContext) -> dict[str, Any]:
    """The trained models that the callbacks of a command use; what is absent is trained.

    The context has features. The modules come by name; none where no callback uses one. For a
    command without a VQA model, which the callbacks ignore, they are None.
    """
    measuring_models = context.cfg.get("measuring_models")
    names = measuring_models.parts if measuring_models else ()
    return {
        name: obtain_module(context.measuring_models[name])[0]
        if name in context.measuring_models
        else None
        for name in names
    }


def _announce(context: RunContext, released: Released) -> None:
    """Reports released weights once per command, although several models may share the part."""
    if released.name in context.announced:
        return
    context.announced.add(released.name)
    scores = ", ".join(f"{name} {value:.3g}" for name, value in released.scores.items())
    context.console.print(
        f"{released.name}: released weights ({scores}); pretrained=false trains it",
        soft_wrap=True,
    )


@contextmanager
def _first_of_one() -> Iterator[None]:
    """Makes this process the first one for Lightning, whichever process of a run it is.

    A model that processes of torchrun or srun need is trained by one of them, alone. Lightning
    knows the rank from the launcher, and loggers write nothing where it is not 0.
    """
    rank = rank_zero_only.rank  # type: ignore[attr-defined]
    rank_zero_only.rank = 0  # type: ignore[attr-defined]
    try:
        yield
    finally:
        rank_zero_only.rank = rank  # type: ignore[attr-defined]


def _trained(context: RunContext) -> Path:
    """The checkpoint of the model in the artifact store; an absent model is trained."""
    cfg = context.cfg
    folder = context.store_folder
    file = folder / "model.ckpt"
    with context.store.building(folder, context.model_identity):
        fault = context.store.fault(folder)
        if fault and file.is_file():
            context.console.print(f"{fault}: the model is trained again.", soft_wrap=True)
        if fault:
            part, run = context.trained_as_part(), folder / "run"
            goes_on = can_continue(run)
            said = (
                f"The interrupted training of {cfg.model.name} in {context.store.root} continues."
                if goes_on
                else f"No trained {cfg.model.name} for this data and configuration in "
                f"{context.store.root}: training it first."
            )
            context.console.print(said, soft_wrap=True)
            with _first_of_one():
                metrics = train_model(part, run, resume=goes_on)
                end_wandb_run()  # the next model of this process logs to a W&B run of its own
            context.store.keep(folder, best_checkpoint(run), run, metrics["train/seconds"])
    return file
