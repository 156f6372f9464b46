"""The three sources of a model's weights, and the keys that the configuration of each has."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypedDict

from ivqa.ranges import (
    CONTENT,
    NO_EFFECT,
    Checkpoint,
    Component,
    Count,
    ExistingFile,
    NeutralComponent,
    NonEmptyText,
    NonNegative,
    PositiveShare,
)


class ModelKeys(TypedDict, total=False):
    """Keys of any model. What an identity holds elsewhere has no effect here."""

    name: Annotated[NonEmptyText, NO_EFFECT]
    image_features: Sequence[NonEmptyText]
    num_answers: Count | None
    module: Component
    parts: NeutralComponent  # each has an identity of its own
    part_ckpt: Annotated[Mapping[str, Checkpoint], NO_EFFECT]
    benchmark: NeutralComponent | None  # null where it is not measured


class TrainedKeys(ModelKeys, total=False):
    """Keys of a model that ivqa trains."""

    batch_size: Count
    length_window: Count
    # The arguments of the trainer refer to these four.
    epochs: Annotated[Count, NO_EFFECT]
    epoch_steps: Annotated[Count | PositiveShare, NO_EFFECT]
    val_batches: Annotated[Count | PositiveShare, NO_EFFECT]
    gradient_clip: Annotated[NonNegative | None, NO_EFFECT]
    monitor: NonEmptyText
    monitor_mode: Literal["min", "max"]
    augment: Component | None
    # Data to train on in place of those of the command; they have an identity of their own.
    trained_on: NeutralComponent | None


class OtherKeys(ModelKeys, total=False):
    """Keys of a model that ivqa does not train."""

    batch_size: Annotated[Count, NO_EFFECT]
    epochs: Annotated[None, NO_EFFECT]
    gradient_clip: Annotated[None, NO_EFFECT]
    monitor: None
    monitor_mode: Literal["min", "max"]


class PretrainedKeys(OtherKeys, total=False):
    """Keys of a trained model of another library."""

    pretrained: Literal[True]
    path: Annotated[NonEmptyText, CONTENT]
    candidates: ExistingFile | None
    pool_answers: Annotated[Count, NO_EFFECT]
    # Arguments of the module refer to these, where they are validated.
    revision: Annotated[Any, NO_EFFECT]
    system: Annotated[Any, NO_EFFECT]
    base_url: Annotated[Any, NO_EFFECT]
    api_key_env: Annotated[Any, NO_EFFECT]
    workers: Annotated[Any, NO_EFFECT]
    max_requests: Annotated[Any, NO_EFFECT]
    price_in: Annotated[Any, NO_EFFECT]
    price_out: Annotated[Any, NO_EFFECT]
    max_cost: Annotated[Any, NO_EFFECT]


class UntrainedKeys(OtherKeys, total=False):
    """Keys of a question generator that is not trained."""

    untrained: Literal[True]
    path: Annotated[NonEmptyText, CONTENT]  # of a part that is loaded


class ModelSource:
    """What differs between models by the source of their weights.

    Attributes:
        keys: The annotations of the keys of such a model.
        splits: The splits of the data that it needs before it can be used.
        refusal: Why train.py does not train it, as the end of "model=X ..."; "" if it does.
    """

    keys: ClassVar[Any]
    splits: ClassVar[tuple[str, ...]] = ("train", "val")
    refusal: ClassVar[str] = ""


class TrainedHere(ModelSource):
    """ivqa trains the model and keeps it in the artifact store; a checkpoint holds it."""

    keys = TrainedKeys


class Pretrained(ModelSource):
    """Another library has trained the model, which has weights and words of its own."""

    keys = PretrainedKeys
    splits = ()
    refusal = "is already trained; use it with evaluate.py"


class Untrained(ModelSource):
    """The model has no weights: it remembers the training split, or combines other models."""

    keys = UntrainedKeys
    refusal = "is not trained; use it with evaluate.py"


def source_of(model: Mapping[str, Any]) -> ModelSource:
    """The source of a model, by the key `pretrained` or `untrained` of its file."""
    if model.get("pretrained"):
        return Pretrained()
    return Untrained() if model.get("untrained") else TrainedHere()
