"""The LightningDataModule: batches of questions, answers and image features."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from typing_extensions import override

from ivqa.data.batches.augmentation import (
    AnsweredAugmentation,
    AugmentedBatches,
    AugmentedSplit,
    QuestionAugmentation,
    SubstitutedSplit,
)
from ivqa.data.batches.batch import Disturb, DisturbedImages, ImageBatch, VQABatch
from ivqa.data.batches.batch_settings import BatchContents, BatchSettings
from ivqa.data.batches.encoded_split import EncodedSplit, ImageFeatures
from ivqa.data.dataset import VQADataset
from ivqa.data.loading import BatchLoader, OrderedBatches, Rows, ShuffledBatches, with_source
from ivqa.data.split import VQASplit
from ivqa.data.validation import DataError
from ivqa.errors import UserError
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary


def build_vocabularies(train: VQASplit, min_count: int = 1) -> tuple[Vocabulary, Vocabulary]:
    """Builds the vocabularies of a training split.

    Args:
        train: The training split, with annotations.
        min_count: Minimum number of occurrences of a question word. Answer words are all kept,
            because a generator must distinguish rare answers.

    Returns:
        The vocabulary of the questions, and that of the words in the main answers.

    Raises:
        DataError: The split has no annotations, or no word occurs often enough.
    """
    questions = Vocabulary.build(train.questions, min_count=min_count)
    if not questions.words:
        raise DataError(
            f"no word occurs {min_count} times in the questions of split '{train.name}', so that "
            "all words would be unknown; lower min_word_count"
        )
    return questions, Vocabulary.build(train.require_answers().main_answers)


class VQADataModule(pl.LightningDataModule):
    """Question-answer pairs with image features in batches.

    Training resumes in the middle of an epoch without repeating or skipping a sample. Create the
    Trainer with `use_distributed_sampler=False`: this class distributes the batches over processes.

    Args:
        features: The image features; None for text-only data.
        question_vocabulary: Words of the questions.
        answer_words: Words of the answers as texts.
        answer_vocabulary: The closed answer set A; if None, `target` is -1 everywhere.
        augmentation: Other wordings of the training questions, or further questions that replace
            them, drawn in every epoch.

    Attributes:
        evaluated: The split that `evaluating` chose for validation, or None.

    Raises:
        UserError: A requested image feature is not provided.
        ValueError: `contents` or `batching` need an answer vocabulary, and there is none.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        dataset: VQADataset,
        features: ImageFeatures | None,
        question_vocabulary: Vocabulary,
        answer_words: Vocabulary,
        answer_vocabulary: AnswerVocabulary | None = None,
        *,
        contents: BatchContents | None = None,
        batching: BatchSettings | None = None,
        augmentation: QuestionAugmentation | AnsweredAugmentation | None = None,
    ) -> None:
        super().__init__()
        self.dataset = dataset
        self.features = features
        self.question_vocabulary = question_vocabulary
        self.answer_words = answer_words
        self.answer_vocabulary = answer_vocabulary
        self.contents = contents or BatchContents()
        self.batching = batching or BatchSettings()
        self.augmentation = augmentation
        self.evaluated: str | None = None
        self._encoded: dict[str, EncodedSplit] = {}
        self._augmented: AugmentedSplit | SubstitutedSplit | None = None
        self._training: BatchLoader | None = None
        self._unfinished: dict[str, int] | None = None
        self._check()

    def encoded(self, split: str) -> EncodedSplit:
        """Returns a stage or a split as arrays; it is tokenised on first use and then kept."""
        name = self.dataset.name_of(split)
        if name not in self._encoded:
            self._encoded[name] = self._encode(self.dataset.split(name))
        return self._encoded[name]

    def batch_of(self, split: str, rows: Sequence[int] | Rows | Tensor) -> VQABatch:
        """Returns the batch of rows (B,) of a stage or a split, with a source of their pixels.

        Raises:
            ValueError: A row is outside the split.
        """
        encoded = self.encoded(split)
        chosen = np.asarray(rows, dtype=np.int64)
        outside = chosen[(chosen < 0) | (chosen >= len(encoded))]
        if len(outside):
            raise ValueError(
                f"row {outside[0]} is outside split '{encoded.split.name}' "
                f"of {len(encoded)} questions"
            )
        return with_source(encoded[chosen], encoded.split.images)

    def images_of(
        self, split: str, image_ids: Sequence[int] | Rows, disturb: Disturb | None = None
    ) -> ImageBatch:
        """Returns images of a split, for questions that are not in the data set.

        Args:
            split: A stage or the name of a split.
            image_ids: Ids of the images in the data set, (B,), with repeats.
            disturb: Changes the images; the features are computed from the changed pixels.

        Raises:
            ValueError: No question of the split is about one of the images.
        """
        encoded, wanted = self.encoded(split), np.asarray(image_ids, dtype=np.int64)
        known, first = np.unique(encoded.split.image_ids, return_index=True)
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        if (strange := wanted[known[at] != wanted]).size:
            raise ValueError(f"image {strange[0]} is not in split '{encoded.split.name}'")
        images = self.batch_of(split, first[at]).images
        if disturb is None:
            return images
        source = DisturbedImages(encoded.split.require_images(), disturb)
        features: dict[str, Any] = {}
        if self.features is not None and self.contents.image_features:
            pictures = [source.open(image_id) for image_id in images.ids.tolist()]
            features = self.features.extract(pictures, self.contents.image_features)
        return replace(images, source=source, **features)

    def batches(self, split: str, batch_size: int | None = None) -> Iterator[VQABatch]:
        """Iterates over all batches of a split in order, in this process only, for evaluation.

        `batch_size` is by default `batching.eval_batch_size`.
        """
        encoded = self.encoded(split)
        ordered = OrderedBatches(len(encoded), batch_size or self.batching.eval_batch_size)
        return iter(self._loader(encoded, ordered))

    def loader(self, split: str) -> BatchLoader:
        """Returns a loader of ordered batches, distributed over the processes, for evaluation."""
        encoded = self.encoded(split)
        ordered = OrderedBatches(len(encoded), self.batching.eval_batch_size, *_replicas())
        return self._loader(encoded, ordered)

    def evaluating(self, split: str) -> "VQADataModule":
        """Returns a copy whose validation split is `split`, for `Trainer.validate`.

        Callbacks read the split from the attribute `evaluated`.
        """
        other = copy(self)
        other.evaluated = split
        return other

    def _training_rows(self) -> Rows:
        """Returns the rows of the training split that are trained on."""
        encoded = self.encoded("train")
        encoded.split.require_answers()
        if not self.batching.drop_unknown_answers:
            return np.arange(len(encoded))
        rows = np.flatnonzero(encoded.target.numpy() >= 0)
        if not len(rows):
            raise UserError(
                f"no main answer of split '{encoded.split.name}' is in the answer vocabulary of "
                f"{len(self.answer_vocabulary or ())}; build the vocabulary on this split"
            )
        return rows

    def train_dataloader(self) -> BatchLoader:
        """Returns the loader of shuffled training batches; its state makes resuming exact.

        Several processes share each batch, so their number changes the speed and not the steps.

        Raises:
            UserError: The processes cannot share a batch equally.
        """
        encoded = self.encoded("train")
        batching = self.batching
        processes, rank = _replicas()
        if batching.batch_size % processes:
            raise UserError(
                f"a batch of {batching.batch_size} questions cannot be shared by {processes} "
                f"processes; choose a model.batch_size that is a multiple of {processes}"
            )
        own_size = batching.batch_size // processes
        order = self._training_rows(), own_size, batching.seed, processes, rank
        arrangement: dict[str, Any] = {
            "lengths": encoded.question.lengths.numpy(),
            "window": batching.length_window,
        }
        if batching.group_by_image:
            arrangement["groups"] = np.unique(encoded.split.image_ids, return_inverse=True)[1]
        if self.augmentation is None:
            return self._resumed(self._loader(encoded, ShuffledBatches(*order, **arrangement)))
        if self._augmented is None:
            self._augmented = (
                SubstitutedSplit.build(
                    encoded, self.augmentation, self._encode, batching.drop_unknown_answers
                )
                if isinstance(self.augmentation, AnsweredAugmentation)
                else AugmentedSplit.build(
                    encoded,
                    self.augmentation,
                    self.question_vocabulary,
                    batching.max_question_length,
                )
            )
        batches = AugmentedBatches(self._augmented, *order, **arrangement)
        return self._resumed(self._loader(encoded, batches, self._augmented))

    @override
    def val_dataloader(self) -> BatchLoader:
        return self.loader(self.evaluated or "val")

    @override
    def test_dataloader(self) -> BatchLoader:
        return self.loader("test")

    def _encode(self, split: VQASplit) -> EncodedSplit:
        return EncodedSplit.build(
            split,
            self.features,
            self.question_vocabulary,
            self.answer_words,
            self.answer_vocabulary,
            contents=self.contents,
            max_question_length=self.batching.max_question_length,
        )

    def _check(self) -> None:
        wanted, features = self.contents.image_features, self.features
        if wanted and features is None:
            raise UserError(
                f"image_features={list(wanted)} need features; "
                "choose features= that provide them, or image_features=[] for text only"
            )
        if features is not None and (unknown := sorted(set(wanted) - set(features.sizes))):
            raise UserError(
                f"image feature '{unknown[0]}' is not among those of features=, "
                f"which provide {', '.join(features.sizes)}"
            )
        closed = {
            "soft_targets": self.contents.soft_targets,
            "answer_counts": self.contents.answer_counts,
            "drop_unknown_answers": self.batching.drop_unknown_answers,
        }
        if self.answer_vocabulary is None and any(closed.values()):
            name = next(name for name, asked in closed.items() if asked)
            raise ValueError(f"{name}=true needs an answer vocabulary; give answer_vocabulary")

    def _loader(
        self,
        encoded: EncodedSplit,
        batches: ShuffledBatches | OrderedBatches,
        augmented: AugmentedSplit | SubstitutedSplit | None = None,
    ) -> BatchLoader:
        return BatchLoader(
            augmented or encoded,
            batches,
            num_workers=self.batching.num_workers,
            source=encoded.split.images,
            finished=None if self.trainer is None else self._finished_batches,
        )

    def _resumed(self, loader: BatchLoader) -> BatchLoader:
        if self._unfinished is not None:
            loader.load_state_dict(self._unfinished)
            self._unfinished = None  # a later training starts at the beginning
        self._training = loader
        return loader

    def state_dict(self) -> dict[str, int]:
        """Returns the state of the training batches for the checkpoint; see `BatchLoader`.

        Lightning stores the state of the loader too, but does not restore it if the loader exists
        already, as it does when a learning rate schedule has asked for the number of steps.
        """
        return {} if self._training is None else self._training.state_dict()

    @override
    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self._unfinished = state_dict

    def _finished_batches(self) -> int:
        # `processed` counts completed optimiser steps; one more batch may have been handed out.
        trainer: Any = self.trainer
        return int(trainer.fit_loop.epoch_loop.batch_progress.current.processed)


def _replicas() -> tuple[int, int]:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    return 1, 0
