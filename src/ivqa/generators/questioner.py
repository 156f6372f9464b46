"""A generator network with its vocabularies as a `Questioner`: strings in, questions out."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.generators.decoding.strategies import Sampling, Strategy
from ivqa.generators.likelihood import Likelihood, draw_questions, marginal_log_likelihood
from ivqa.generators.networks.network import Conditions, GeneratorNetwork
from ivqa.generators.protocol import Questions
from ivqa.ranges import Count
from ivqa.store.weights import load_into, read_weights, state_dict_of
from ivqa.text.vocabulary import Vocabulary
from ivqa.trained import (
    TrainedModule,
    check_same_encoder,
    check_same_network,
    evaluation_mode,
    network_settings,
)


class NetworkQuestioner(TrainedModule):
    """The `Questioner` of a network; `GeneratorModule` adds the training.

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
        **training: Arguments of `TrainedModule`.

    Raises:
        UserError: `max_length` or `likelihood_samples` is below 1.
    """

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
