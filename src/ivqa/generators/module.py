"""A generator network with its vocabularies: it asks and scores questions, and is trained."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.generators.decoding.strategies import Sampling, Strategy
from ivqa.generators.elbo_terms import ElboTerms
from ivqa.generators.likelihood import Likelihood, draw_questions, marginal_log_likelihood
from ivqa.generators.networks.network import Conditions, GeneratorNetwork, GeneratorOutput
from ivqa.generators.objective import ConstantWeight, negative_elbo
from ivqa.generators.protocol import Questions
from ivqa.ranges import Count, NonNegative
from ivqa.store.weights import load_into, read_weights, state_dict_of
from ivqa.text.vocabulary import Vocabulary
from ivqa.trained import (
    TrainedModule,
    check_same_encoder,
    check_same_network,
    evaluation_mode,
    network_settings,
)

_SHOWN_ROWS = 10  # rows or image ids in a message


class GeneratorModule(TrainedModule):
    """A `Questioner` before and after training, which maximises the ELBO of a network.

    Args:
        network: Called with those of num_words, num_answer_words and feature_sizes that it takes,
            and with the vocabularies question_words and answer_words if it declares them; a class
            of this package or a partial of it.
        question_vocabulary: Words of the questions.
        answer_words: Words of the answers.
        feature_sizes: Last dimension of each image feature that the network reads.
        max_length: Words of the longest question that `sample` generates, >= 1; the published code
            decodes 20 steps.
        strategy: How `sample` decodes; None is plain sampling.
        likelihood_samples: K of the importance-weighted bound in `log_likelihood`, >= 1.
        kl_schedule: Called with the optimiser step; returns the weight of the KL. None is a
            weight of 1 at every step.
        free_nats: Nats of the KL that are free, >= 0; see `objective.free_bits`.
        free_nats_per_dimension: Whether they are free in every latent dimension.
        free_nats_pull: Whether a KL below free_nats is raised to it.
        **training: optimizer, scheduler and image_encoder, see `TrainedModule`.

    Raises:
        UserError: `max_length` or `likelihood_samples` is below 1.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        network: Callable[..., GeneratorNetwork],
        question_vocabulary: Vocabulary,
        answer_words: Vocabulary,
        feature_sizes: Mapping[str, int],
        max_length: Count = 20,
        strategy: Strategy | None = None,
        likelihood_samples: Count = 16,
        kl_schedule: Callable[[int], float] | None = None,
        free_nats: NonNegative = 0.0,
        free_nats_per_dimension: bool = False,
        free_nats_pull: bool = False,
        **training: Any,
    ) -> None:
        super().__init__(**training)
        for name, value in (("max_length", max_length), ("likelihood_samples", likelihood_samples)):
            if value < 1:
                raise UserError(f"{name} must be at least 1, not {value}")
        self.question_vocabulary = question_vocabulary
        self.answer_words = answer_words
        self.feature_sizes = {str(name): int(size) for name, size in feature_sizes.items()}
        given: dict[str, Any] = {
            "num_words": len(question_vocabulary),
            "num_answer_words": len(answer_words),
            "feature_sizes": self.feature_sizes,
        }
        taken = signature(network).parameters
        if not any(one.kind is one.VAR_KEYWORD for one in taken.values()):
            given = {name: value for name, value in given.items() if name in taken}
        for name, words in (
            ("question_words", question_vocabulary),
            ("answer_words", answer_words),
        ):
            if name in taken:
                given[name] = words
        self.network = network(**given)
        self.max_length = max_length
        self.strategy = Sampling() if strategy is None else strategy
        self.likelihood_samples = likelihood_samples
        self._network_settings = network_settings(network)
        self.kl_schedule = ConstantWeight() if kl_schedule is None else kl_schedule
        self.free_nats = free_nats
        self.free_nats_per_dimension = free_nats_per_dimension
        self.free_nats_pull = free_nats_pull
        self.terms = ElboTerms(self.network.latent_size)

    @torch.no_grad()
    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        """Generates questions, each from its own z ~ N(0, I), without dropout; see `Questioner`.

        A strategy that makes several questions of one state makes them of one z. The same state of
        `generator` gives the same questions.

        Raises:
            ValueError: `num_samples` is below 1 or no multiple of what the strategy makes of a z,
                or images and answers differ in number.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, not {num_samples}")
        strategy = self.strategy if strategy is None else strategy
        per_state = strategy.per_state
        if num_samples % per_state:
            raise ValueError(f"{num_samples} samples cannot come {per_state} at a time from each z")
        latent = self.network.latent_size > 0
        # Without z and random numbers, all questions of a pair are equal: one is decoded.
        repeats = num_samples if strategy.deterministic and not latent else 1
        with evaluation_mode(self.network, self.image_encoder):
            conditions, row = self.encode_pairs(images, answers)
            row = row.repeat_interleave(num_samples // (repeats * per_state))  # one for each z
            z = self.network.prior(len(row), generator)
            tokens, log_likelihood = draw_questions(
                self.network, conditions, row, z, strategy, self.max_length, generator
            )
        z = z if z is None else z.repeat_interleave(per_state, 0)
        if repeats > 1:
            tokens = tokens.repeat_interleave(repeats)
            log_likelihood = log_likelihood.repeat_interleave(repeats)
        pair = torch.arange(len(answers), device=self.device).repeat_interleave(num_samples)
        text = self.question_vocabulary.decode(tokens)
        return Questions(tokens, text, log_likelihood, pair, z)

    @torch.no_grad()
    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Scores given questions; see `Questioner.log_likelihood`.

        With a latent variable the score is an importance-weighted bound: half of the
        `likelihood_samples` values of z come from q(z | I, q), half from the prior. Their noise is
        fixed, so a question always gets the same score.

        Raises:
            ValueError: Images, answers and questions differ in number.
        """
        return self.likelihood(images, answers, questions).value

    @torch.no_grad()
    def likelihood(
        self,
        images: ImageBatch,
        answers: list[str],
        questions: list[str],
        samples: int | None = None,
    ) -> Likelihood:
        """Scores given questions with the error of the estimate; see `EstimatesLikelihood`.

        Raises:
            ValueError: Images, answers and questions differ in number.
        """
        if len(questions) != len(answers):
            raise ValueError(
                f"{len(questions)} questions for {len(answers)} answers; give one answer for each "
                "question"
            )
        with evaluation_mode(self.network, self.image_encoder):
            conditions, row = self.encode_pairs(images, answers)
            # The same noise for every question and call.
            fixed = torch.Generator().manual_seed(0)
            noise = self.network.prior(samples or self.likelihood_samples, fixed)
            tokens = self.question_vocabulary.encode(questions).to(self.device)
            return marginal_log_likelihood(self.network, tokens, conditions, row, noise)

    def encode_pairs(self, images: ImageBatch, answers: list[str]) -> tuple[Conditions, Tensor]:
        """Computes the conditions of each distinct (image, answer) pair once.

        Returns:
            The conditions of the P distinct pairs, and the row of each of B pairs among them, (B,)
            int64.

        Raises:
            ValueError: Images and answers differ in number.
        """
        if len(images) != len(answers):
            raise ValueError(
                f"{len(answers)} answers for {len(images)} images; give one answer for each image"
            )
        images = images.to(self.device).encoded(self.image_encoder)
        distinct = {answer: code for code, answer in enumerate(dict.fromkeys(answers))}
        codes = torch.tensor([distinct[answer] for answer in answers], dtype=torch.int64)
        # One integer for each pair: image index * number of answers + answer code.
        count = max(len(distinct), 1)
        pairs, row = (images.index * count + codes.to(self.device)).unique(return_inverse=True)
        words = self.answer_words.encode(list(distinct)).to(self.device)
        conditions = self.network.conditions(
            replace(images, index=pairs // count), words.select(pairs % count)
        )
        return conditions, row

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

    @override
    def component(self) -> dict[str, Any]:
        return {
            "question_words": list(self.question_vocabulary.words),
            "answer_words": list(self.answer_words.words),
            "feature_sizes": dict(self.feature_sizes),
            "network": self._network_settings,
            "max_length": self.max_length,
        }

    @classmethod
    def from_checkpoint(
        cls, path: str | Path, network: Callable[..., GeneratorNetwork], **arguments: Any
    ) -> Self:
        """Loads a trained generator in evaluation mode, on the CPU.

        Args:
            path: A checkpoint that ivqa wrote.
            network: The class that was trained, or a partial of it. Words, feature sizes and the
                settings of the network come from the checkpoint.
            **arguments: Further arguments of the constructor.

        Raises:
            UserError: The file does not exist, or holds another network or other settings.
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
            # The caller may override the stored length.
            **{"max_length": component["max_length"], **arguments},
        )
        check_same_encoder(component, module.image_encoder, str(path))
        load_into(module, state_dict_of(checkpoint, path), path, stored["name"])
        return module.eval()

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
