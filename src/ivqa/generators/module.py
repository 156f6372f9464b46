"""Training of any question generator by the evidence lower bound."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from ivqa.data.batches.batch import VQABatch
from ivqa.errors import UserError
from ivqa.generators.elbo_terms import ElboTerms
from ivqa.generators.networks.network import GeneratorOutput
from ivqa.generators.objective import ConstantWeight, negative_elbo
from ivqa.generators.questioner import NetworkQuestioner
from ivqa.ranges import NonNegative

_SHOWN_ROWS = 10  # rows or image ids in a message


class GeneratorModule(NetworkQuestioner):
    """Maximises the ELBO of a network; a `Questioner` before and after training.

    Args:
        kl_schedule: Called with the optimiser step; returns the weight of the KL. None is a
            weight of 1 at every step.
        free_nats: Nats of the KL that are free, >= 0; see `objective.free_bits`.
        free_nats_per_dimension: Whether they are free in every latent dimension.
        free_nats_pull: Whether a KL below free_nats is raised to it.
        **options: Arguments of `NetworkQuestioner`, and of `TrainedModule` (optimizer, scheduler,
            image_encoder).
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        kl_schedule: Callable[[int], float] | None = None,
        free_nats: NonNegative = 0.0,
        free_nats_per_dimension: bool = False,
        free_nats_pull: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.kl_schedule = ConstantWeight() if kl_schedule is None else kl_schedule
        self.free_nats = free_nats
        self.free_nats_per_dimension = free_nats_per_dimension
        self.free_nats_pull = free_nats_pull
        self.terms = ElboTerms(self.network.latent_size)

    @override
    def training_step(self, batch: VQABatch, batch_idx: int) -> Tensor:
        """Computes the loss of a batch, and logs it with its terms.

        Raises:
            UserError: The loss is not finite; the message names the rows of the batch.
        """
        batch = batch.encoded(self.image_encoder)
        output: GeneratorOutput = self.network(batch)
        weight = self.kl_schedule(self.global_step)
        loss = negative_elbo(
            output.log_likelihood,
            output.kl,
            kl_weight=weight,
            free_nats=self.free_nats,
            per_dimension=self.free_nats_per_dimension,
            pull=self.free_nats_pull,
        )
        if output.penalty is not None:
            loss = loss + output.penalty.mean()
        if not torch.isfinite(loss):
            raise UserError(self._cause_of_infinite_loss(batch, output))
        terms = {
            "train/loss": loss.detach(),
            "train/nll_per_word": -output.log_likelihood.detach().sum() / output.num_tokens.sum(),
        }
        if output.kl is not None:
            terms["train/kl"] = output.kl.detach().sum(dim=1).mean()
            terms["train/kl_weight"] = loss.new_tensor(weight)
        self.log_dict(terms, batch_size=len(batch))
        return loss

    @override
    def validation_step(self, batch: VQABatch, batch_idx: int) -> None:
        self.terms.update(self.network(batch.encoded(self.image_encoder)))

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """Returns the names of the metrics that validation logs, such as val/loss."""
        latent = "latent_size" in arguments.get("network", {})
        terms = ["loss", "elbo", "nll_per_word", "perplexity", *["kl", "active_units"] * latent]
        return {f"val/{name}" for name in terms}

    @override
    def on_validation_epoch_end(self) -> None:
        self.log_dict({f"val/{name}": value for name, value in self.terms.compute().items()})
        self.terms.reset()

    def _cause_of_infinite_loss(self, batch: VQABatch, output: GeneratorOutput) -> str:
        """Names the image feature or the rows that are not finite, and a remedy."""
        for name in self.feature_sizes:
            feature = batch.images.feature(name)
            finite = torch.isfinite(feature).flatten(1).all(dim=1)
            if not finite.all():
                return (
                    f"the training loss is not finite at step {self.global_step}, because image "
                    f"feature '{name}' is not finite for image ids "
                    f"{_shown(batch.images.ids[~finite])}; compute the features again"
                )
        bad = ~torch.isfinite(output.elbo)  # (B,)
        return (
            f"the training loss is not finite at step {self.global_step}, for rows "
            f"{_shown(batch.rows[bad])} of the training split ({int(bad.sum())} of {len(batch)} in "
            "the batch); lower the learning rate or trainer.gradient_clip_val"
        )


def _shown(values: Tensor) -> str:
    listed = ", ".join(str(value) for value in values[:_SHOWN_ROWS].tolist())
    return listed + (", ..." if len(values) > _SHOWN_ROWS else "")
