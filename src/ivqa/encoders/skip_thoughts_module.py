"""Training of skip-thought vectors on a data set's own questions.

A question's neighbours are the questions before and after it about the same image, in a circle.
The encoding h of a question is learnt by what it tells about its neighbours' words: a GRU for each
of the two reads w_t + C h and predicts w_{t+1} (the paper's decoder, its C_r, C_u, C sharing C).
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
    """Rows (N,) of the previous and the next text about the same image, in a circle; -1: none.

    >>> {name: rows.tolist() for name, rows in neighbours(np.array([5, 7, 5, 5])).items()}
    {'previous': [3, -1, 0, 2], 'next': [2, -1, 3, 0]}
    """
    order = np.argsort(image_ids, kind="stable")
    _, starts, sizes = np.unique(image_ids[order], return_index=True, return_counts=True)
    within = np.arange(len(order)) - np.repeat(starts, sizes)
    first, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    found = {}
    for name, step in (("previous", -1), ("next", 1)):
        rows = np.full(len(order), -1)
        rows[order] = np.where(size > 1, order[first + (within + step) % size], -1)
        found[name] = rows
    return found


class Decoder(nn.Module):
    """Predicts the words of a text, word by word, from those before it and from a vector.

    num_predicted: the most frequent words; the others are predicted as <unk>.
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
        """Losses -log p (n,) of all words of B texts and their ends; condition: (B, d)."""
        given = F.pad(text.ids, (1, 0), value=BOS)  # (B, T + 1)
        wanted = F.pad(text.ids, (0, 1), value=PAD).scatter(1, text.lengths[:, None], EOS)
        wanted = wanted.where(wanted < self.num_predicted, UNK)
        inputs = embedding(given) + self.condition(condition)[:, None]
        lengths = (text.lengths + 1).cpu()
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        target = pack_padded_sequence(wanted, lengths, batch_first=True, enforce_sorted=False)
        states, *_ = self.gru(packed)
        return F.cross_entropy(self.output(states.data).float(), target.data, reduction="none")


class SkipThoughtsNetwork(nn.Module):
    """An encoder and the decoders that teach it, with one word embedding for all.

    size: of a question's encoding. bidirectional: half of it from each direction. tasks: names of
    the decoders. decoder_size: of their states.
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
            raise UserError(f"half of the encoding is of each direction: size={size} must be even")
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
        """Encodings (B, size)."""
        return last_states(self.gru, self.embedding(text.ids), text.lengths)

    def forward(self, text: Tokens, wanted: Mapping[str, tuple[Tensor, Tokens]]) -> dict:
        """Losses of words by task; wanted: texts (B', T), each of a row (B',) of `text`."""
        encoded = self.encode(text)
        return {
            task: self.decoders[task](self.embedding, encoded[rows], target)
            for task, (rows, target) in wanted.items()
        }


class SkipThoughtsModule(TrainedModule):
    """Trains uni and bi skip-thoughts side by side; their losses share no weight.

    network: called with num_words, tasks and bidirectional. reconstruction: weight of a third
    decoder, which predicts the question itself (as in Hill et al. 2016): all that questions
    without neighbours teach; 0 leaves it and them out. unknown: share of the words that the
    encoders read as <unk>, which so gets a vector.
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
        """The loss per word of a VQABatch; none where no question of it teaches anything."""
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
        """Adds the losses of a batch."""
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        for task, value in self._losses(datamodule.evaluated or "val", batch, batch.question):
            self.nll[task].update(value)

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """The names that validation logs, by the constructor's arguments in the configuration."""
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
        """What a checkpoint says about itself, in plain containers."""
        return {
            "question_words": list(self.question_vocabulary.words),
            "feature_sizes": {},
            "network": self._network_settings,
        }

    def _losses(self, stage: str, batch: Any, seen: Tokens) -> list[tuple[str, Tensor]]:
        wanted = self._wanted(stage, batch)
        if not wanted:
            return []
        return [item for part in self.network.values() for item in part(seen, wanted).items()]

    def _wanted(self, stage: str, batch: Any) -> dict[str, tuple[Tensor, Tokens]]:
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        encoded = datamodule.encoded(stage)
        if stage not in self._neighbours:
            self._neighbours[stage] = self._checked(neighbours(encoded.split.image_ids), stage)
        everyone = torch.arange(len(batch), device=self.device)
        wanted = {"own": (everyone, batch.question)} if "own" in self.weights else {}
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
                f"no image of the {stage} split has two questions, so that none has a neighbour; "
                "set model.module.reconstruction=1 to learn from the questions themselves"
            )
        return rows
