"""Batches of questions, answers and image features for Lightning."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor

from ivqa.data.augmentation import AugmentedBatches, AugmentedSplit, QuestionAugmentation
from ivqa.data.batch import ANSWER_TYPES, Disturb, DisturbedImages, ImageBatch, VQABatch
from ivqa.data.dataset import VQADataset
from ivqa.data.encoded_split import EncodedSplit, ImageFeatures
from ivqa.data.loading import BatchLoader, OrderedBatches, Rows, ShuffledBatches, with_source
from ivqa.data.vqa_json import VQASplit
from ivqa.errors import UserError
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary


def build_vocabularies(train: VQASplit, min_count: int = 1) -> tuple[Vocabulary, Vocabulary]:
    """Vocabularies of the questions and of the words of the main answers of `train`.

    min_count applies to question words; answer words are all kept, since a generator is given
    the answer and must be able to tell rare answers apart.
    """
    questions = Vocabulary.build(train.questions, min_count=min_count)
    return questions, Vocabulary.build(train.require_answers().main_answers)


class VQADataModule(pl.LightningDataModule):
    """Question-answer pairs with image features in batches.

    dataset: where the splits come from. features: None for text-only data.
    question_vocabulary, answer_words: words of questions and of answers as texts.
    answer_vocabulary: the closed set A; None leaves `target` at -1.
    image_features: which of the features a batch carries, of "grid", "pooled", "concepts".
    batch_size, eval_batch_size: questions a batch in training and in evaluation, a process.
    length_window: training batches among which questions of like length are put together.
    max_question_length: words; longer questions keep their first ones.
    soft_targets: whether batches carry the accuracy of every answer (B, |A|).
    answer_counts: whether they carry how many annotators gave every answer (B, |A|).
    seed: of the training order, which depends on it and on the epoch only.
    num_workers: processes that assemble batches; 0 is fast enough for memory-mapped features.
    drop_unknown_answers: train only on questions whose main answer is in the vocabulary.
    encode_layouts: expert layouts as numbers (N, T), for batches that carry them; data without
    layouts have none.
    augmentation: other wordings of the training questions, drawn anew in every epoch.

    Training resumes in the middle of an epoch without repeating or skipping a sample. Create the
    Trainer with use_distributed_sampler=False: the batches are dealt out to processes here.
    Raises ValueError where features or an answer vocabulary are asked for but not given.
    """

    def __init__(
        self,
        dataset: VQADataset,
        features: ImageFeatures | None,
        question_vocabulary: Vocabulary,
        answer_words: Vocabulary,
        answer_vocabulary: AnswerVocabulary | None = None,
        *,
        image_features: Sequence[str] = (),
        batch_size: int = 64,
        eval_batch_size: int = 256,
        length_window: int = 1,
        max_question_length: int = 26,
        soft_targets: bool = False,
        answer_counts: bool = False,
        seed: int = 0,
        num_workers: int = 0,
        drop_unknown_answers: bool = False,
        encode_layouts: Callable[[Sequence[Sequence[str]]], Tensor] | None = None,
        augmentation: QuestionAugmentation | None = None,
    ) -> None:
        super().__init__()
        if image_features and features is None:
            raise UserError(
                f"image_features={list(image_features)} need features; "
                "choose features= that provide them, or image_features=[] for text only"
            )
        if features is not None and (unknown := sorted(set(image_features) - set(features.sizes))):
            raise UserError(
                f"image feature '{unknown[0]}' is not among those of features=, "
                f"which provide {', '.join(features.sizes)}"
            )
        closed = {
            "soft_targets": soft_targets,
            "answer_counts": answer_counts,
            "drop_unknown_answers": drop_unknown_answers,
        }
        if answer_vocabulary is None and any(closed.values()):
            name = next(name for name, asked in closed.items() if asked)
            raise ValueError(f"{name}=true needs an answer vocabulary; give answer_vocabulary")
        if min(batch_size, eval_batch_size, length_window) < 1:
            raise UserError(
                f"batch sizes must be at least 1, not {batch_size} and {eval_batch_size}, and so "
                f"must length_window, {length_window}"
            )
        self.dataset = dataset
        self.question_vocabulary = question_vocabulary
        self.answer_words = answer_words
        self.features = features
        self.answer_vocabulary = answer_vocabulary
        self.image_features = tuple(image_features)
        self.batch_size = batch_size
        self.eval_batch_size = eval_batch_size
        self.length_window = length_window
        self.max_question_length = max_question_length
        self.soft_targets = soft_targets
        self.answer_counts = answer_counts
        self.seed = seed
        self.num_workers = num_workers
        self.drop_unknown_answers = drop_unknown_answers
        self.encode_layouts = encode_layouts
        self.augmentation = augmentation
        self.evaluated: str | None = None
        self._encoded: dict[str, EncodedSplit] = {}
        self._augmented: AugmentedSplit | None = None

    def encoded(self, split: str) -> EncodedSplit:
        """The split of a stage or name as arrays: tokenised once, then kept."""
        name = self.dataset.name_of(split)
        if name not in self._encoded:
            self._encoded[name] = self._encode(self.dataset.split(name))
        return self._encoded[name]

    def batch_of(self, split: str, rows: Sequence[int] | Rows | Tensor) -> VQABatch:
        """The batch of the given rows (B,) of a split, pixels included."""
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
        """The images `image_ids` (B,) of a split, which may repeat, for questions of one's own.

        disturb: changes the images; the features are computed from the changed pixels.
        Raises ValueError for an image that no question of the split is about.
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
        if self.features is not None and self.image_features:
            pictures = [source.open(image_id) for image_id in images.ids.tolist()]
            features = self.features.extract(pictures, self.image_features)
        return replace(images, source=source, **features)

    def batches(self, split: str, batch_size: int | None = None) -> Iterator[VQABatch]:
        """All batches of a split in order, in this process, for evaluation."""
        encoded = self.encoded(split)
        ordered = OrderedBatches(len(encoded), batch_size or self.eval_batch_size)
        return iter(self._loader(encoded, ordered))

    def loader(self, split: str) -> BatchLoader:
        """Ordered batches of a stage or split name, shared by the processes, for evaluation."""
        encoded = self.encoded(split)
        ordered = OrderedBatches(len(encoded), self.eval_batch_size, *_replicas())
        return self._loader(encoded, ordered)

    def evaluating(self, split: str) -> "VQADataModule":
        """A copy for Trainer.validate on any split; callbacks find its name in `evaluated`."""
        other = copy(self)
        other.evaluated = split
        return other

    def training_rows(self) -> Rows:
        """Rows of the training split that are learnt from: all, or those with a known answer."""
        encoded = self.encoded("train")
        encoded.split.require_answers()
        if not self.drop_unknown_answers:
            return np.arange(len(encoded))
        rows = np.flatnonzero(encoded.target.numpy() >= 0)
        if not len(rows):
            raise UserError(
                f"no main answer of split '{encoded.split.name}' is in the answer vocabulary of "
                f"{len(self.answer_vocabulary or ())}; build the vocabulary on this split"
            )
        return rows

    def train_dataloader(self) -> BatchLoader:
        """Shuffled batches of the training split; stateful, so that training resumes exactly."""
        encoded = self.encoded("train")
        order = self.training_rows(), self.batch_size, self.seed, *_replicas()
        lengths: dict[str, Any] = {
            "lengths": encoded.question.lengths.numpy(),
            "window": self.length_window,
        }
        if self.augmentation is None:
            return self._loader(encoded, ShuffledBatches(*order, **lengths))
        if self._augmented is None:
            self._augmented = AugmentedSplit.build(
                encoded, self.augmentation, self.question_vocabulary, self.max_question_length
            )
        return self._loader(
            encoded, AugmentedBatches(self._augmented, *order, **lengths), self._augmented
        )

    def val_dataloader(self) -> BatchLoader:
        """Ordered batches of the validation split, or of the one that `evaluating` names."""
        return self.loader(self.evaluated or "val")

    def test_dataloader(self) -> BatchLoader:
        """Ordered batches of the test split."""
        return self.loader("test")

    def predict_dataloader(self) -> BatchLoader:
        """Ordered batches of the test split."""
        return self.loader("test")

    def _loader(
        self,
        encoded: EncodedSplit,
        batches: ShuffledBatches | OrderedBatches,
        augmented: AugmentedSplit | None = None,
    ) -> BatchLoader:
        return BatchLoader(
            augmented or encoded,
            batches,
            num_workers=self.num_workers,
            source=encoded.split.images,
            finished=None if self.trainer is None else self._finished_batches,
        )

    def _finished_batches(self) -> int:
        # `processed` counts optimiser steps done; batches handed out may be one ahead of it.
        trainer: Any = self.trainer
        return int(trainer.fit_loop.epoch_loop.batch_progress.current.processed)

    def _encode(self, split: VQASplit) -> EncodedSplit:
        answers, kinds = self.answer_vocabulary, {kind: i for i, kind in enumerate(ANSWER_TYPES)}
        soft = None
        if answers is not None and (self.soft_targets or self.answer_counts):
            soft = answers.soft_targets(split.answers)
        feature_rows = np.zeros(len(split), dtype=np.int64)
        if self.features is not None and self.image_features:
            distinct, inverse = np.unique(split.image_ids, return_inverse=True)
            feature_rows = self.features.rows(split.name, distinct)[inverse]
        return EncodedSplit(
            split=split,
            question=self.question_vocabulary.encode(split.questions, self.max_question_length),
            answer=self.answer_words.encode(split.main_answers),
            answer_type=torch.tensor([kinds.get(kind, -1) for kind in split.answer_types]),
            target=(
                torch.full((len(split),), -1)
                if answers is None
                else answers.encode(split.main_answers)
            ),
            soft_targets=soft,
            layout=self._layouts(split),
            features=self.features,
            feature_names=self.image_features,
            feature_rows=feature_rows,
            answer_counts=self.answer_counts,
        )

    def _layouts(self, split: VQASplit) -> Tensor | None:
        if self.encode_layouts is None or split.layouts is None:
            return None
        absent = [number for number in split.question_ids.tolist() if number not in split.layouts]
        if absent:
            raise UserError(
                f"split '{split.name}' has no layout for question {absent[0]} ({len(absent)} in "
                "all); add them or remove its layout file"
            )
        return self.encode_layouts([split.layouts[n] for n in split.question_ids.tolist()])


def _replicas() -> tuple[int, int]:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    return 1, 0
