"""features=concepts: a concept predictor that is trained on the data set itself.

The image feature of the paper [iVQA 3.2] is the output of a concept predictor that is trained on
the captions. Here the predictor is a compact CNN, which gives a grid of features too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from ivqa.data.batches.encoded_split import ImageFeatures
from ivqa.data.dataset import VQADataset
from ivqa.data.split import VQASplit
from ivqa.errors import UserError, reason_of
from ivqa.features.compact_cnn import CompactCNN
from ivqa.features.concept_training import Labelled, train_concepts
from ivqa.features.concepts import ConceptVocabulary, described_images
from ivqa.features.decoding import pixels
from ivqa.features.extraction import build_store, store_for_others
from ivqa.features.pictures import Network, Resize
from ivqa.features.positions import FeatureComponent
from ivqa.features.store import FeatureStore
from ivqa.ranges import Count, ExistingFile, ImageSize, LearningRate, Seed
from ivqa.released import Released, find
from ivqa.store.digests import content_digest, digest
from ivqa.store.integrity import first_fault, manifest_of, write_manifest
from ivqa.store.versions import code_version
from ivqa.store.weights import check_finite, read_weights, write_weights
from ivqa.terminal import terminal

# Seconds that two cores without bfloat16 arithmetic need for one image of 96 px in one epoch;
# measured on 4,000 images. Processors with it need less than half.
_SECONDS_PER_IMAGE = 6e-3

RELEASED_NAME = "features"
"""The name of the CNN among the released weights."""


@dataclass(frozen=True, kw_only=True)
class ConceptFeatures(FeatureComponent):
    """Grid, pooled and concept features of a compact CNN.

    The CNN is trained to predict the concepts of the training captions from the images, or those
    of the questions and answers where there are no captions.

    Args:
        num_concepts: The maximum number of concepts.
        longest: The maximum number of words of a concept: 1 as in the paper, 2 to bind a colour
            to a shape.
        image_size: Pixels of a side.
        width: Number of channels of the grid.
        epochs: Number of passes over the training images.
        batch_size: Images of one training step.
        learning_rate: The maximum of the learning rate.
        seed: Seed of the initial weights and of the order of the images.
        weights: The cnn.pt of another store, used instead of training, so that different data get
            the same features; None to train.
        pretrained: Whether to use the released weights, if they are for these data and settings.
    """

    version: ClassVar[int] = 1

    num_concepts: Count = 1000
    longest: Count = 2
    image_size: ImageSize = 96
    width: Count = 128
    epochs: Count = 8
    batch_size: Count = 16
    learning_rate: LearningRate = 3e-3
    seed: Seed = 0
    weights: ExistingFile | None = None
    pretrained: bool = False

    @override
    def build(self, dataset: VQADataset, splits: Sequence[str], root: Path) -> FeatureStore:
        key = self.cache_key(dataset)
        folder = root / f"concepts-{key}"
        return build_store(
            dataset,
            splits,
            folder,
            key,
            lambda device: self._extractor(dataset, folder, device),
            batch_size=256,  # without gradients, so larger than in training
        )

    @override
    def build_for_others(
        self, own: ImageFeatures, dataset: VQADataset, splits: Sequence[str], root: Path
    ) -> FeatureStore:
        return store_for_others(own, dataset, splits, root)

    @override
    def places(self) -> dict[str, int | None]:
        # The grid of the compact CNN has stride 8, with padding.
        return {"grid": (-(-self.image_size // 8)) ** 2, "pooled": None, "concepts": None}

    def identity(self, dataset: VQADataset) -> dict[str, Any]:
        """The data and settings that determine the weights of the CNN, as JSON values.

        These are the arguments except `weights` and `pretrained`, and the data's `cache_key`.
        """
        settings = {k: v for k, v in asdict(self).items() if k not in ("weights", "pretrained")}
        return {**settings, "data": dataset.cache_key()}

    def released(self, dataset: VQADataset) -> Released | None:
        """Finds the released CNN for these data and settings.

        None where there is none, or `pretrained` is false, or `weights` is given.
        """
        if not self.pretrained or self.weights is not None:
            return None
        return find(RELEASED_NAME, self.identity(dataset), self.code())

    @classmethod
    def code(cls) -> dict[str, int | str]:
        """The version of the code that defines the features."""
        return code_version([cls])

    def _extractor(self, dataset: VQADataset, folder: Path, device: str) -> Network:
        network = self._network(dataset, folder)[0].eval().to(device)

        def features(images: Tensor) -> Mapping[str, Tensor]:
            scaled = images.float() / 255
            grid, pooled, logits = network(scaled.contiguous(memory_format=torch.channels_last))
            return {"grid": grid, "pooled": pooled, "concepts": logits.sigmoid()}

        return Network(features, Resize(self.image_size))

    def _network(self, dataset: VQADataset, folder: Path) -> tuple[CompactCNN, ConceptVocabulary]:
        if (released := self.released(dataset)) is not None:
            return self.load_released(released)
        file = folder / "cnn.pt" if self.weights is None else Path(self.weights)
        if file.is_file():
            if self.weights is None:
                _remove_temporary(folder)
            return self._load(file)
        if self.weights is not None:
            raise UserError(f"features.weights={file} does not exist; null trains a CNN")
        return self._train(dataset, file)

    def _train(self, dataset: VQADataset, file: Path) -> tuple[CompactCNN, ConceptVocabulary]:
        """Trains the CNN on the split train and writes it into `file`."""
        train = dataset.split("train")
        texts = described_images(train)[1]
        concepts = ConceptVocabulary.build(texts, self.num_concepts, self.longest)
        self._announce_training(len(texts), len(concepts))
        # All images are decoded before the training, so that an unreadable file is reported first.
        labelled = self._labelled(train, concepts, file.parent)
        val = None if dataset.stages["val"] is None else dataset.split("val")
        held_out = None if val is None else self._labelled(val, concepts, file.parent)
        # `build_store` restores the caller's random state afterwards.
        torch.manual_seed(self.seed)
        network = self._untrained(len(concepts))
        precision = train_concepts(
            network,
            labelled,
            held_out,
            file.parent,
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            seed=self.seed,
        )
        content: dict[str, Any] = {
            "state_dict": network.cpu().state_dict(),
            "concepts": concepts.concepts,
            "val_map": precision,
        }
        write_weights(file, content)
        write_manifest(manifest_of(file), [file])
        _remove_temporary(file.parent)
        if val is not None:
            terminal().print(
                f"image features: mean average precision of the concepts {precision:.3f} "
                f"on {val.name}",
                soft_wrap=True,
            )
        return network, concepts

    def _announce_training(self, num_images: int, num_concepts: int) -> None:
        # The time is proportional to the number of pixels.
        size = num_images * self.epochs * (self.image_size / 96) ** 2
        seconds = max(_SECONDS_PER_IMAGE * size, 10)
        terminal().print(
            f"image features: training a concept predictor on {num_images} images and "
            f"{num_concepts} concepts (up to {seconds:.0f} s on 2 cores); it is stored for "
            "later runs",
            soft_wrap=True,
        )

    def _labelled(self, split: VQASplit, concepts: ConceptVocabulary, folder: Path) -> Labelled:
        """Pixels and targets of the images of a split that have texts."""
        images, texts = described_images(split)
        array = pixels(images, folder / f"pixels_{split.name}.npy", self.image_size)
        return array, concepts.targets(texts)

    def load_released(self, released: Released) -> tuple[CompactCNN, ConceptVocabulary]:
        """Builds the CNN of a release with its weights, and its concepts.

        Raises:
            FileError: The file of the weights is missing or was changed.
        """
        concepts = ConceptVocabulary(released.component()["concepts"])
        network = self._untrained(len(concepts))
        network.load_state_dict(released.weights())
        return network, concepts

    def _load(self, file: Path) -> tuple[CompactCNN, ConceptVocabulary]:
        try:
            if manifest_of(file).is_file() and (fault := first_fault(manifest_of(file))):
                raise ValueError(fault)
            stored = read_weights(file)
            check_finite(stored["state_dict"], file)
            concepts = ConceptVocabulary(stored["concepts"])
            network = self._untrained(len(concepts))
            network.load_state_dict(stored["state_dict"])
        except Exception as error:
            reason = reason_of(error)
            remedy = f"delete {file.parent} to train it again"
            if self.weights is not None:
                remedy = "give the cnn.pt of a concept store, and the features.width of that store"
            raise UserError(
                f"{file} is not a concept predictor of width {self.width} ({reason}); {remedy}"
            ) from error
        return network, concepts

    def _untrained(self, num_concepts: int) -> CompactCNN:
        return CompactCNN(num_concepts=num_concepts, width=self.width)

    @override
    def cache_key(self, dataset: VQADataset) -> str:
        settings = {**self.identity(dataset), "code": self.code()}
        if (released := self.released(dataset)) is not None:
            settings["weights"] = released.digest
        elif self.weights is not None:
            settings["weights"] = content_digest(self.weights)
        return digest(settings)


def _remove_temporary(folder: Path) -> None:
    """Deletes the decoded images and the checkpoint, which only an unfinished training needs."""
    for file in (*folder.glob("pixels_*"), folder / "last.ckpt"):
        file.unlink(missing_ok=True)
