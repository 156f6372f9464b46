"""Training of any question generator, and the questioner that it becomes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.generators.decoding import Sampling, Strategy
from ivqa.generators.elbo_terms import ElboTerms
from ivqa.generators.likelihood import draw_questions, marginal_log_likelihood
from ivqa.generators.network import Conditions, GeneratorOutput, QuestionGenerator
from ivqa.generators.objective import ConstantWeight, negative_elbo
from ivqa.generators.protocol import Questions
from ivqa.ranges import Count, NonNegative
from ivqa.text.vocabulary import Vocabulary
from ivqa.trained import (
    OptimizerFactory,
    SchedulerFactory,
    TrainedModule,
    check_same_network,
    network_settings,
)
from ivqa.weights import load_into, read_weights, state_dict_of

_SHOWN_ROWS = 10


class QuestionGenerationModule(TrainedModule):
    """Maximises the ELBO of a network; a `Questioner` at its boundary.

    network: called with num_words, num_answer_words and feature_sizes; a partial of a class of
    this package. feature_sizes: last dimension of each image feature the network reads.
    optimizer: called with the parameters; None for inference. scheduler: called with the
    optimiser and stepped after each of its steps. kl_schedule: optimiser step -> weight of the
    KL, 1 at every step by default. free_nats, free_nats_per_dimension, free_nats_pull: see
    `objective.free_bits`. max_length: words of the longest question that `sample` makes (the
    published code decodes 20 steps). strategy: how `sample` decodes, plain sampling by default.
    likelihood_samples: K of the importance-weighted bound in `log_likelihood`.
    """

    def __init__(
        self,
        *,
        network: Callable[..., QuestionGenerator],
        question_vocabulary: Vocabulary,
        answer_words: Vocabulary,
        feature_sizes: Mapping[str, int],
        optimizer: OptimizerFactory | None = None,
        scheduler: SchedulerFactory | None = None,
        kl_schedule: Callable[[int], float] | None = None,
        free_nats: NonNegative = 0.0,
        free_nats_per_dimension: bool = False,
        free_nats_pull: bool = False,
        max_length: Count = 20,
        strategy: Strategy | None = None,
        likelihood_samples: Count = 16,
    ) -> None:
        super().__init__(optimizer, scheduler)
        for name, value in (("max_length", max_length), ("likelihood_samples", likelihood_samples)):
            if value < 1:
                raise UserError(f"{name} must be at least 1, not {value}")
        self.question_vocabulary = question_vocabulary
        self.answer_words = answer_words
        self.feature_sizes = {str(name): int(size) for name, size in feature_sizes.items()}
        self.network = network(
            num_words=len(question_vocabulary),
            num_answer_words=len(answer_words),
            feature_sizes=self.feature_sizes,
        )
        self.kl_schedule = ConstantWeight() if kl_schedule is None else kl_schedule
        self.free_nats = free_nats
        self.free_nats_per_dimension = free_nats_per_dimension
        self.free_nats_pull = free_nats_pull
        self.max_length = max_length
        self.strategy = Sampling() if strategy is None else strategy
        self.likelihood_samples = likelihood_samples
        self.terms = ElboTerms(self.network.latent_size)
        self._network_settings = network_settings(network)

    @torch.no_grad()
    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        """`num_samples` questions for each of the B pairs, each from its own z ~ N(0, I).

        The questions of a pair follow each other: N = B * num_samples. The same `generator` state
        gives the same questions; None uses torch's global one. Never with dropout.
        Raises ValueError where images and answers differ in number.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, not {num_samples}")
        strategy = self.strategy if strategy is None else strategy
        latent = self.network.latent_size > 0
        # Without z and chance, all questions of a pair are one question.
        repeats = num_samples if strategy.deterministic and not latent else 1
        with _evaluating(self.network):
            conditions, row = self.encode_pairs(images, answers)
            row = row.repeat_interleave(num_samples // repeats)
            z = self.network.prior(len(row), generator)
            tokens, log_likelihood = draw_questions(
                self.network, conditions, row, z, strategy, self.max_length, generator
            )
        if repeats > 1:
            tokens = tokens.repeat_interleave(repeats)
            log_likelihood = log_likelihood.repeat_interleave(repeats)
        pair = torch.arange(len(answers), device=self.device).repeat_interleave(num_samples)
        text = self.question_vocabulary.decode(tokens)
        return Questions(tokens, text, log_likelihood, pair, z)

    @torch.no_grad()
    def log_likelihood(
        self,
        images: ImageBatch,
        answers: list[str],
        questions: list[str],
        num_samples: int | None = None,
    ) -> Tensor:
        """Scores log p(q | I, a) of B questions, (B,) float32, words and <eos> summed.

        With a latent variable this is an importance-weighted bound: `num_samples` values of z
        (likelihood_samples by default), half of them from q(z | I, q), half from the prior. Their
        noise is fixed: a question always has the same score, whatever it is scored with.
        Raises ValueError where images, answers and questions differ in number.
        """
        if len(questions) != len(answers):
            raise ValueError(
                f"{len(questions)} questions for {len(answers)} answers; give one answer a question"
            )
        samples = self.likelihood_samples if num_samples is None else num_samples
        with _evaluating(self.network):
            conditions, row = self.encode_pairs(images, answers)
            noise = self.network.prior(samples, torch.Generator().manual_seed(0))
            tokens = self.question_vocabulary.encode(questions).to(self.device)
            return marginal_log_likelihood(self.network, tokens, conditions, row, noise)

    def encode_pairs(self, images: ImageBatch, answers: list[str]) -> tuple[Conditions, Tensor]:
        """Conditions of the P distinct pairs, and the row among them of each pair (B,).

        Raises ValueError where images and answers differ in number.
        """
        if len(images) != len(answers):
            raise ValueError(
                f"{len(answers)} answers for {len(images)} images; give one answer an image"
            )
        images = images.to(self.device)
        distinct = {answer: code for code, answer in enumerate(dict.fromkeys(answers))}
        codes = torch.tensor([distinct[answer] for answer in answers], dtype=torch.int64)
        count = max(len(distinct), 1)
        pairs, row = (images.index * count + codes.to(self.device)).unique(return_inverse=True)
        words = self.answer_words.encode(list(distinct)).to(self.device)
        conditions = self.network.conditions(
            replace(images, index=pairs // count), words.select(pairs % count)
        )
        return conditions, row

    def training_step(self, batch: VQABatch, batch_idx: int) -> Tensor:
        """The loss of a batch. Raises UserError, naming rows, where it is not finite."""
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
        if not torch.isfinite(loss):
            raise UserError(self._diagnosis(batch, output))
        terms = {
            "train/loss": loss.detach(),
            "train/nll_per_word": -output.log_likelihood.detach().sum() / output.num_tokens.sum(),
        }
        if output.kl is not None:
            terms["train/kl"] = output.kl.detach().sum(dim=1).mean()
            terms["train/kl_weight"] = loss.new_tensor(weight)
        self.log_dict(terms, batch_size=len(batch))
        return loss

    def validation_step(self, batch: VQABatch, batch_idx: int) -> None:
        """Adds a batch to the validation terms."""
        self.terms.update(self.network(batch))

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """The names that validation logs, by the constructor's arguments in the configuration."""
        latent = "latent_size" in arguments.get("network", {})
        terms = ["loss", "elbo", "nll_per_word", "perplexity", *["kl", "active_units"] * latent]
        return {f"val/{name}" for name in terms}

    def on_validation_epoch_end(self) -> None:
        """Logs the validation terms of the whole split; see `ElboTerms`."""
        self.log_dict({f"val/{name}": value for name, value in self.terms.compute().items()})
        self.terms.reset()

    def _diagnosis(self, batch: VQABatch, output: GeneratorOutput) -> str:
        """What is known about a loss that is not finite, in one sentence."""
        for name in self.feature_sizes:
            feature = batch.images.feature(name)
            finite = torch.isfinite(feature).flatten(1).all(dim=1)
            if not finite.all():
                return (
                    f"the training loss is not finite at step {self.global_step}, because image "
                    f"feature '{name}' is not finite for image ids "
                    f"{_shown(batch.images.ids[~finite])}; compute the features again"
                )
        bad = ~torch.isfinite(output.elbo)
        return (
            f"the training loss is not finite at step {self.global_step}, for rows "
            f"{_shown(batch.rows[bad])} of the training split ({int(bad.sum())} of {len(batch)} in "
            "the batch); lower the learning rate or trainer.gradient_clip_val"
        )

    def component(self) -> dict[str, Any]:
        """What a checkpoint says about itself, in plain containers."""
        return {
            "question_words": list(self.question_vocabulary.words),
            "answer_words": list(self.answer_words.words),
            "feature_sizes": dict(self.feature_sizes),
            "network": self._network_settings,
            "max_length": self.max_length,
        }

    @classmethod
    def from_checkpoint(
        cls, path: str | Path, network: Callable[..., QuestionGenerator], **arguments: Any
    ) -> Self:
        """The generator stored at `path`, in evaluation mode on the CPU.

        network: the class that was trained (or a partial of it); words, feature sizes and the
        network's settings come from the checkpoint. arguments: further ones of the constructor.
        Raises UserError without the file and where it holds another network.
        """
        if not Path(path).is_file():
            raise UserError(f"there is no checkpoint {path}")
        checkpoint = read_weights(path)
        component = checkpoint.get("component")
        if component is None:
            raise UserError(f"{path} names no component: it was not written by ivqa")
        stored = component["network"]
        check_same_network(stored, network_settings(network), str(path))
        module = cls(
            network=partial(network, **stored["arguments"]),
            question_vocabulary=Vocabulary(component["question_words"]),
            answer_words=Vocabulary(component["answer_words"]),
            feature_sizes=component["feature_sizes"],
            **{"max_length": component["max_length"], **arguments},
        )
        load_into(module, state_dict_of(checkpoint, path), path, stored["name"])
        return module.eval()


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    """Switches dropout off for a while."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)


def _shown(values: Tensor) -> str:
    listed = ", ".join(str(value) for value in values[:_SHOWN_ROWS].tolist())
    return listed + (", ..." if len(values) > _SHOWN_ROWS else "")
