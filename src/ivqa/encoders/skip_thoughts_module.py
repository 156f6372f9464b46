"""Training of skip-thought vectors on the questions of a data set (Kiros et al., NeurIPS 2015).

The neighbours of a question are the previous and the next question about the same image; the first
follows the last. See `skip_thoughts_network` for the equations.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torchmetrics import MeanMetric
from typing_extensions import override

from ivqa.encoders.skip_thoughts_network import SkipThoughtsNetwork
from ivqa.errors import UserError
from ivqa.ranges import NonNegative, ShareBelowOne
from ivqa.text.vocabulary import UNK, Tokens, Vocabulary
from ivqa.trained import OptimizerFactory, SchedulerFactory, TrainedModule, network_settings


def neighbours(image_ids: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Finds the previous and the next text about the same image, in a circle.

    Under "previous" and "next" are the rows (N,) int64 of the neighbour of each text; -1 if the
    image has one text only.

    Example:
        >>> {name: rows.tolist() for name, rows in neighbours(np.array([5, 7, 5, 5])).items()}
        {'previous': [3, -1, 0, 2], 'next': [2, -1, 3, 0]}
    """
    # A stable sort keeps the order of the texts of an image.
    order = np.argsort(image_ids, kind="stable")
    _, starts, sizes = np.unique(image_ids[order], return_index=True, return_counts=True)
    # Position of each text among the texts of its image.
    within = np.arange(len(order)) - np.repeat(starts, sizes)
    first, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    found = {}
    for name, step in (("previous", -1), ("next", 1)):
        rows = np.full(len(order), -1)
        # Modulo the number of texts of the image: the first text follows the last.
        rows[order] = np.where(size > 1, order[first + (within + step) % size], -1)
        found[name] = rows
    return found


class SkipThoughtsModule(TrainedModule):
    """Trains uni and bi skip-thoughts together; they share no weights.

    Args:
        network: Called with num_words, tasks and bidirectional, once for each of uni and bi.
        question_vocabulary: Words of the questions.
        optimizer, scheduler: See `TrainedModule`.
        reconstruction: Weight of a third decoder, >= 0, which predicts the question itself (Hill et
            al. 2016). It is the only loss of questions without neighbours; 0 leaves it out.
        unknown: Share of the words, in [0, 1), that the encoders read as <unk> in training, so
            that <unk> gets a vector.
    """

    version: ClassVar[int] = 1

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

    @override
    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        text = batch.question
        hidden = (torch.rand(text.ids.shape, device=self.device) < self.unknown) & text.mask
        seen = Tokens(text.ids.masked_fill(hidden, UNK), text.lengths)
        terms = self._losses("train", batch, seen)
        if not terms:
            return None
        loss = torch.stack([self.weights[task] * value.mean() for task, value in terms]).sum()
        self.log("train/loss", loss.detach(), batch_size=len(batch))
        return loss

    @override
    def validation_step(self, batch: Any, batch_idx: int) -> None:
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        for task, value in self._losses(datamodule.evaluated or "val", batch, batch.question):
            self.nll[task].update(value)

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """Returns the names of the metrics that validation logs, such as val/loss."""
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

    @override
    def component(self) -> dict[str, Any]:
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
            # (B,): row of the neighbour in the split, -1 without one.
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
