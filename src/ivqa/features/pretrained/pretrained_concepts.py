"""features=pretrained_concepts: semantic concepts of photographs by a head on a frozen network.

The image feature of the paper [iVQA 3.2] is the output of a concept predictor. On photographs, a
network that is trained from scratch learns few concepts; here a linear head predicts them from the
pooled feature of any pretrained network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.functional.classification import multilabel_average_precision
from typing_extensions import override

from ivqa.data.batches.encoded_split import ImageFeatures
from ivqa.data.dataset import VQADataset
from ivqa.data.split import VQASplit
from ivqa.errors import UserError
from ivqa.features.concepts import ConceptVocabulary, described_images
from ivqa.features.extraction import extend_store, store_for_others
from ivqa.features.pictures import Network, PictureFeatures
from ivqa.features.positions import FeatureComponent
from ivqa.features.pretrained.base import PretrainedFeatures
from ivqa.features.store import FeatureStore
from ivqa.ranges import Count, LearningRate, NonNegative, Seed
from ivqa.store.digests import digest
from ivqa.store.files import write_json
from ivqa.store.integrity import first_fault, manifest_of, write_manifest
from ivqa.store.locks import folder_lock
from ivqa.store.versions import code_version
from ivqa.store.weights import load_into, read_weights, write_weights
from ivqa.terminal import terminal

_BATCH = 512


@dataclass(frozen=True, kw_only=True)
class PretrainedConcepts(FeatureComponent):
    """The features of a frozen network, and the concepts that a linear head predicts from them.

    The head is trained with the binary cross-entropy of every concept on the training images.
    The concepts of a training image come from another head that was trained without it
    (cross-fitting), so that a VQA model does not see better concepts in training than in a test.
    The images of other data (`build_for_others`) get those of the head of all training images.

    Args:
        backbone: The frozen network: any `PretrainedFeatures` with the feature "pooled".
        num_concepts: The maximum number of concepts.
        longest: The maximum number of words of a concept.
        folds: Number of parts of the training images; each part gets the concepts of a head that
            the others trained.
        epochs: Number of passes over the training images.
        learning_rate: The maximum of the learning rate.
        weight_decay: Weight of the squared norm of the head; small data need more.
        seed: Seed of the parts and of the order of the images.
    """

    version: ClassVar[int] = 1

    backbone: PretrainedFeatures
    num_concepts: Count = 1000
    longest: Count = 1
    folds: Count = 5
    epochs: Count = 60
    learning_rate: LearningRate = 1e-2
    weight_decay: NonNegative = 0.1
    seed: Seed = 0

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise UserError(f"features.folds={self.folds} must be at least 2")

    @override
    def build_for_others(
        self, own: ImageFeatures, dataset: VQADataset, splits: Sequence[str], root: Path
    ) -> FeatureStore:
        return store_for_others(own, dataset, splits, root)

    @override
    def places(self) -> Mapping[str, int | None] | None:
        known = self.backbone.places()
        return None if known is None else {**known, "concepts": None}

    @override
    def build(self, dataset: VQADataset, splits: Sequence[str], root: Path) -> FeatureStore:
        names = list(dict.fromkeys(dataset.name_of(split) for split in splits))
        stages = [stage for stage in ("train", "val") if dataset.stages[stage] is not None]
        if "train" not in stages:
            raise UserError(
                "features=pretrained_concepts needs a training split; set data.train, or choose "
                "the backbone itself as features="
            )
        key = self.cache_key(dataset)
        folder = root / f"concepts-{self.backbone.name}-{key}"
        file = folder / "head.pt"
        wanted = [*names, *stages] if _fault(file) else names
        base = self.backbone.build(dataset, wanted, root)
        if "pooled" not in base.sizes:
            raise UserError(f"features.backbone gives no pooled feature, only {sorted(base.sizes)}")
        with folder_lock(folder):
            if _fault(file):
                self._train(dataset, base, file)
            head = _Heads.load(file)
            train = dataset.name_of("train")

            def added(name: str) -> dict[str, NDArray[np.float16]]:
                pooled, ids = _pooled(base, name)
                concepts = head(pooled)
                if name == train:  # each image by the head that did not see it
                    concepts = head.cross_fitted(pooled, ids, concepts)
                return {"concepts": concepts.numpy().astype(np.float16)}

            pictures = PictureFeatures(self._network(head), self.backbone.batch_size)
            return extend_store(base, folder, key, names, added, pictures)

    def _network(self, head: "_Heads") -> Any:
        def on_device(device: str) -> Network:
            network, whole = self.backbone.on_device(device), head.to(device)

            def compute(images: Tensor) -> Mapping[str, Tensor]:
                features = network.compute(images)
                return {**features, "concepts": whole(features["pooled"].float())}

            return Network(compute, network.prepare)

        return on_device

    def _train(self, dataset: VQADataset, base: FeatureStore, file: Path) -> None:
        """Trains the heads, and prints and stores their mean average precision."""
        split = dataset.split("train")
        pooled, targets, ids, concepts = self._labelled(split, base)
        if len(ids) < self.folds:
            raise UserError(f"{len(ids)} training images cannot be cut into {self.folds} folds")
        fold = np.random.default_rng(self.seed).permutation(len(ids)) % self.folds
        heads = _Heads(pooled.shape[1], concepts.concepts, self.folds, ids, fold)
        heads.standardise(pooled)
        with torch.random.fork_rng(devices=[]):
            for at in range(self.folds + 1):  # the last one sees all images
                rows = torch.from_numpy(np.flatnonzero(fold != at))
                self._fit(heads, at, pooled[rows], targets[rows])
        report: dict[str, float] = {"concepts": len(concepts), "images": len(ids)}
        found = heads.cross_fitted(pooled, ids, heads(pooled))
        report |= _scores("train, cross-fitted", found, targets)
        if dataset.stages["val"] is not None:
            val = dataset.split("val")
            held_out, wanted, _, _ = self._labelled(val, base, concepts)
            report |= _scores(val.name, heads(held_out), wanted)
        write_weights(file, heads.content())
        write_manifest(manifest_of(file), [file])
        write_json(file.with_name("concepts.json"), {**report, "names": concepts.concepts})
        shown = ", ".join(
            f"{name} {value:.3f}" for name, value in report.items() if isinstance(value, float)
        )
        terminal().print(f"image features: {len(concepts)} concepts; {shown}", soft_wrap=True)

    def _fit(self, heads: "_Heads", at: int, pooled: Tensor, targets: Tensor) -> None:
        """Trains one head in place: AdamW, learning rate falling to 0 along a cosine."""
        generator = torch.Generator().manual_seed(self.seed)
        weight = heads.weight[at].detach().requires_grad_()
        # Starts at the frequency of each concept.
        frequency = targets.mean(dim=0).clamp(1e-4, 1 - 1e-4)
        bias = (frequency / (1 - frequency)).log().requires_grad_()
        optimizer = torch.optim.AdamW(
            [
                {"params": [weight], "weight_decay": self.weight_decay},
                {"params": [bias], "weight_decay": 0.0},
            ],
            lr=self.learning_rate,
        )
        steps = self.epochs * -(-len(pooled) // _BATCH)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        scaled = heads.scaled(pooled)
        for _ in range(self.epochs):
            for rows in torch.randperm(len(pooled), generator=generator).split(_BATCH):
                optimizer.zero_grad()
                logits = scaled[rows] @ weight.T + bias
                # Summed over concepts, so that their number does not change the step.
                loss = F.binary_cross_entropy_with_logits(logits, targets[rows], reduction="sum")
                (loss / len(rows)).backward()
                optimizer.step()
                scheduler.step()
        heads.weight[at], heads.bias[at] = weight.detach(), bias.detach()

    def _labelled(
        self, split: VQASplit, base: FeatureStore, concepts: ConceptVocabulary | None = None
    ) -> tuple[Tensor, Tensor, NDArray[np.int64], ConceptVocabulary]:
        """Pooled features, targets and ids of the described images of a split."""
        images, texts = described_images(split)
        known = concepts or ConceptVocabulary.build(texts, self.num_concepts, self.longest)
        pooled, ids = _pooled(base, split.name)
        row_of = {image: row for row, image in enumerate(ids.tolist())}
        kept = [at for at, image in enumerate(images.ids.tolist()) if image in row_of]
        rows = torch.tensor([row_of[int(images.ids[at])] for at in kept])
        targets = known.targets([texts[at] for at in kept])
        return pooled[rows], targets, images.ids[kept], known

    @override
    def cache_key(self, dataset: VQADataset) -> str:
        settings = {name: value for name, value in vars(self).items() if name != "backbone"}
        code = code_version([type(self)])
        return digest({**settings, "backbone": self.backbone.cache_key(dataset), "code": code})


class _Heads(nn.Module):
    """One linear head for each fold and one for all images; the input is standardised."""

    mean: Tensor
    std: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        size: int,
        concepts: Sequence[str],
        folds: int,
        ids: NDArray[np.int64],
        fold: NDArray[np.int64],
    ) -> None:
        super().__init__()
        self.concepts, self.folds = list(concepts), folds
        self.fold_of = dict(zip(map(int, ids), map(int, fold), strict=True))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("std", torch.ones(size))
        self.register_buffer("weight", torch.zeros(folds + 1, len(concepts), size))
        self.register_buffer("bias", torch.zeros(folds + 1, len(concepts)))

    def standardise(self, pooled: Tensor) -> None:
        """Takes mean and standard deviation of the training images (M, d)."""
        self.mean.copy_(pooled.mean(dim=0))
        self.std.copy_(pooled.std(dim=0).clamp_min(1e-3))

    def scaled(self, pooled: Tensor) -> Tensor:
        """The standardised input, (M, d), of norm about 1."""
        return (pooled - self.mean) / self.std / len(self.mean) ** 0.5

    def forward(self, pooled: Tensor, at: int = -1) -> Tensor:
        """Probabilities of the concepts of M images by one head, (M, C)."""
        return (self.scaled(pooled) @ self.weight[at].T + self.bias[at]).sigmoid()

    def cross_fitted(self, pooled: Tensor, ids: NDArray[np.int64], other: Tensor) -> Tensor:
        """Probabilities by the head that did not see the image; `other` for other images."""
        own = np.array([self.fold_of.get(int(image), -1) for image in ids])
        result = other.clone()
        for at in range(self.folds):
            rows = torch.from_numpy(np.flatnonzero(own == at))
            result[rows] = self(pooled[rows], at)
        return result

    def content(self) -> dict[str, Any]:
        """Everything that `load` needs, in plain containers and tensors."""
        return {
            "state_dict": self.state_dict(),
            "concepts": self.concepts,
            "images": torch.tensor(list(self.fold_of), dtype=torch.int64),
            "fold": torch.tensor(list(self.fold_of.values()), dtype=torch.int64),
        }

    @classmethod
    def load(cls, file: Path) -> "_Heads":
        """Reads the heads that `content` describes."""
        content = read_weights(file)
        folds, _, size = content["state_dict"]["weight"].shape
        ids, fold = content["images"].numpy(), content["fold"].numpy()
        heads = cls(size, content["concepts"], folds - 1, ids, fold)
        load_into(heads, content["state_dict"], file, "the heads of the concepts")
        return heads


def _fault(file: Path) -> str | None:
    """What is wrong with the stored heads; None if nothing is."""
    if not file.is_file():
        return "is missing"
    return first_fault(manifest_of(file))


def _pooled(base: FeatureStore, name: str) -> tuple[Tensor, NDArray[np.int64]]:
    """The pooled features (M, d) float32 and the ids of the images of a split, in its order."""
    ids = np.load(base.directory / name / "ids.npy")
    pooled = base.gather(name, np.arange(len(ids)), ["pooled"])["pooled"]
    return pooled, ids


def _scores(name: str, found: Tensor, targets: Tensor) -> dict[str, float]:
    """Mean average precision over the concepts that some image has, and its chance level."""
    judged = targets.any(dim=0)
    precision = multilabel_average_precision(
        found[:, judged], targets[:, judged].int(), int(judged.sum()), average="macro"
    )
    return {
        f"mean average precision on {name}": float(precision),
        f"chance level on {name}": float(targets[:, judged].mean()),
    }
