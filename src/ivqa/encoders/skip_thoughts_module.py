"""Training of skip-thought vectors on the questions of a data set (Kiros et al., NeurIPS 2015).

The neighbours of a question are the previous and the next question about the same image; the first
follows the last. The encoding h of a question is trained to predict the words of its neighbours: a
GRU for each neighbour reads w_t + C h and predicts w_{t+1}. The paper's decoder has one matrix for
each gate (C_r, C_u, C); here they are one.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence
from torchmetrics import MeanMetric

from ivqa.encoders.skip_thoughts import last_states
from ivqa.errors import UserError
from ivqa.ranges import Count, EvenCount, NonNegative, ShareBelowOne
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK, Tokens, Vocabulary
from ivqa.trained import OptimizerFactory, SchedulerFactory, TrainedModule, network_settings


def neighbours(image_ids: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Finds the previous and the next text about the same image, in a circle.

    Args:
        image_ids: (N,), the image of each text.

    Returns:
        Under "previous" and "next", the row of the neighbour of each text, (N,) int64; -1 if the
        image has one text only.

    Example:
        >>> {name: rows.tolist() for name, rows in neighbours(np.array([5, 7, 5, 5])).items()}
        {'previous': [3, -1, 0, 2], 'next': [2, -1, 3, 0]}
    """
    order = np.argsort(image_ids, kind="stable")
    _, starts, sizes = np.unique(image_ids[order], return_index=True, return_counts=True)
    # Position of each text among the texts of its image.
    within = np.arange(len(order)) - np.repeat(starts, sizes)
    first, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    found = {}
    for name, step in (("previous", -1), ("next", 1)):
        rows = np.full(len(order), -1)
        rows[order] = np.where(size > 1, order[first + (within + step) % size], -1)
        found[name] = rows
    return found


class Decoder(nn.Module):
    """Predicts each word of a text from the words before it and from a vector.

    Args:
        embedding_size: d_e, dimensions of a word embedding.
        condition_size: d, dimensions of the vector.
        size: Dimensions of the GRU.
        num_predicted: Number of the most frequent words that are predicted; the target of other
            words is <unk>.
    """

    def __init__(
        self, *, embedding_size: int, condition_size: int, size: int, num_predicted: int
    ) -> None:
        super().__init__()
        self.condition = nn.Linear(condition_size, embedding_size, bias=False)
        self.gru = nn.GRU(embedding_size, size, batch_first=True)
        self.output = nn.Linear(size, num_predicted)
        self.num_predicted = num_predicted

    def forward(self, embedding: nn.Embedding, condition: Tensor, text: Tokens) -> Tensor:
        """Computes the losses of all words and of <eos>.

        Args:
            embedding: The word embedding, shared with the encoder.
            condition: (B, d).
            text: (B, T) words to predict.

        Returns:
            -log p of each word and each <eos>, (n,) float32 in packed order, where n is the number
            of words plus B.
        """
        given = F.pad(text.ids, (1, 0), value=BOS)  # (B, T + 1)
        wanted = F.pad(text.ids, (0, 1), value=PAD).scatter(1, text.lengths[:, None], EOS)
        wanted = wanted.where(wanted < self.num_predicted, UNK)
        inputs = embedding(given) + self.condition(condition)[:, None]  # (B, T + 1, d_e)
        lengths = (text.lengths + 1).cpu()
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        target = pack_padded_sequence(wanted, lengths, batch_first=True, enforce_sorted=False)
        states, *_ = self.gru(packed)
        return F.cross_entropy(self.output(states.data).float(), target.data, reduction="none")


class SkipThoughtsNetwork(nn.Module):
    """An encoder and its training decoders, which share one word embedding.

    Args:
        num_words: Size of the vocabulary with its special tokens.
        tasks: Names of the decoders.
        bidirectional: Whether half of the encoding comes from a backward GRU.
        embedding_size: d_e, dimensions of a word embedding.
        size: d, dimensions of an encoding; even.
        decoder_size: Dimensions of the decoders' GRUs.
        num_predicted: See `Decoder`.

    Raises:
        UserError: `size` is odd.
    """

    def __init__(
        self,
        *,
        num_words: int,
        tasks: Iterable[str],
        bidirectional: bool,
        embedding_size: Count = 620,
        size: EvenCount = 2400,
        decoder_size: Count = 2400,
        num_predicted: Count = 20000,
    ) -> None:
        super().__init__()
        if size % 2:
            raise UserError(f"each direction gives half of the encoding: size={size} must be even")
        self.embedding = nn.Embedding(num_words, embedding_size, padding_idx=PAD)
        directed = size // 2 if bidirectional else size
        self.gru = nn.GRU(embedding_size, directed, batch_first=True, bidirectional=bidirectional)
        self.decoders = nn.ModuleDict(
            {
                task: Decoder(
                    embedding_size=embedding_size,
                    condition_size=size,
                    size=decoder_size,
                    num_predicted=min(num_predicted, num_words),
                )
                for task in tasks
            }
        )

    def encode(self, text: Tokens) -> Tensor:
        """Encodes questions.

        Args:
            text: (B, T) words.

        Returns:
            (B, d).
        """
        return last_states(self.gru, self.embedding(text.ids), text.lengths)

    def forward(self, text: Tokens, wanted: Mapping[str, tuple[Tensor, Tokens]]) -> dict:
        """Computes the losses of each task.

        Args:
            text: (B, T) words of the questions to encode.
            wanted: For each task rows of `text`, (B',), and the texts to predict from their
                encodings, (B', T').

        Returns:
            Losses of words by task; see `Decoder.forward`.
        """
        encoded = self.encode(text)
        return {
            task: self.decoders[task](self.embedding, encoded[rows], target)
            for task, (rows, target) in wanted.items()
        }


class SkipThoughtsModule(TrainedModule):
    """Trains uni and bi skip-thoughts together; they share no weights.

    Args:
        network: Called with num_words, tasks and bidirectional, once for each of uni and bi.
        question_vocabulary: Words of the questions.
        optimizer: See `TrainedModule`.
        scheduler: See `TrainedModule`.
        reconstruction: Weight of a third decoder, >= 0, which predicts the question itself (Hill et
            al. 2016). It is the only loss of questions without neighbours; 0 leaves it out.
        unknown: Share of the words, in [0, 1), that the encoders read as <unk> in training, so
            that <unk> gets a vector.
    """

    def __init__(
        self,
        *,
        network: Callable[..., SkipThoughtsNetwork],
        question_vocabulary: Vocabulary,
        optimizer: OptimizerFactory | None = None,
        scheduler: SchedulerFactory | None = None,
        reconstruction: NonNegative = 0.0,
        unknown: ShareBelowOne = 0.02,
    ) -> None:
        super().__init__(optimizer, scheduler)
        self.question_vocabulary = question_vocabulary
        self.weights = {"previous": 1.0, "next": 1.0}
        if reconstruction:
            self.weights["own"] = reconstruction
        build = {"num_words": len(question_vocabulary), "tasks": list(self.weights)}
        self.network = nn.ModuleDict(
            {
                "uni": network(bidirectional=False, **build),
                "bi": network(bidirectional=True, **build),
            }
        )
        self.unknown = unknown
        self.nll: Any = nn.ModuleDict({task: MeanMetric() for task in self.weights})
        self._network_settings = network_settings(network)
        self._neighbours: dict[str, dict[str, NDArray[np.int64]]] = {}

    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        """Computes and logs the loss of a batch.

        Args:
            batch: A `VQABatch` of B questions.
            batch_idx: Ignored.

        Returns:
            The weighted sum of the mean losses per word, a scalar; None if no question has a
            neighbour and there is no reconstruction.
        """
        text = batch.question
        hidden = (torch.rand(text.ids.shape, device=self.device) < self.unknown) & text.mask
        seen = Tokens(text.ids.masked_fill(hidden, UNK), text.lengths)
        terms = self._losses("train", batch, seen)
        if not terms:
            return None
        loss = torch.stack([self.weights[task] * value.mean() for task, value in terms]).sum()
        self.log("train/loss", loss.detach(), batch_size=len(batch))
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Adds the losses of a batch to the validation means."""
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        for task, value in self._losses(datamodule.evaluated or "val", batch, batch.question):
            self.nll[task].update(value)

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """Returns the names of the metrics that validation logs.

        Args:
            arguments: Arguments of the constructor, as in the configuration.

        Returns:
            Names such as val/loss.
        """
        own = {"val/own"} if arguments.get("reconstruction") else set()
        return {"val/loss", "val/previous", "val/next"} | own

    def on_validation_epoch_end(self) -> None:
        """Logs -log p per word of each task, averaged over uni and bi, and their weighted sum."""
        found = {
            task: metric.compute() for task, metric in self.nll.items() if metric.update_called
        }
        total = sum(self.weights[task] * value for task, value in found.items())
        self.log_dict(
            {"val/loss": total, **{f"val/{task}": value for task, value in found.items()}}
        )
        for metric in self.nll.values():
            metric.reset()

    def component(self) -> dict[str, Any]:
        """Returns words and network settings, which a checkpoint stores."""
        return {
            "question_words": list(self.question_vocabulary.words),
            "feature_sizes": {},
            "network": self._network_settings,
        }

    def _losses(self, stage: str, batch: Any, seen: Tokens) -> list[tuple[str, Tensor]]:
        """Task and losses of words, for uni and bi; empty without a target."""
        wanted = self._wanted(stage, batch)
        if not wanted:
            return []
        return [item for part in self.network.values() for item in part(seen, wanted).items()]

    def _wanted(self, stage: str, batch: Any) -> dict[str, tuple[Tensor, Tokens]]:
        """For each task rows of the batch and their target texts."""
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        encoded = datamodule.encoded(stage)
        if stage not in self._neighbours:
            self._neighbours[stage] = self._checked(neighbours(encoded.split.image_ids), stage)
        all_rows = torch.arange(len(batch), device=self.device)
        wanted = {"own": (all_rows, batch.question)} if "own" in self.weights else {}
        for task, rows in self._neighbours[stage].items():
            of_batch = torch.from_numpy(rows[batch.rows.cpu().numpy()])
            known = (of_batch >= 0).nonzero()[:, 0]
            if len(known):
                target = encoded.question.select(of_batch[known]).to(self.device)
                wanted[task] = known.to(self.device), target
        return wanted

    def _checked(self, rows: dict[str, NDArray[np.int64]], stage: str) -> dict:
        if "own" not in self.weights and not (rows["next"] >= 0).any():
            raise UserError(
                f"no image of the {stage} split has two questions, so no question has a neighbour; "
                "set model.module.reconstruction=1 to train on the questions themselves"
            )
        return rows
