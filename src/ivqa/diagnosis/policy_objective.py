"""The objective of policy-gradient training: sampling, baseline, penalties and loss [iVQA 5]."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ivqa.data.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.generators import Greedy, QuestionGenerationModule, Questions
from ivqa.generators.likelihood import draw_questions
from ivqa.generators.network import Conditions
from ivqa.ranges import Count, NonNegative, Positive
from ivqa.trained import evaluation_mode


@dataclass(frozen=True, kw_only=True)
class PolicyObjective:
    """Settings of REINFORCE with a baseline, and the log-probabilities that it needs.

    For N sampled questions q with rewards r, baselines b and w drawn words each, the loss is

        -sum_n (r'_n - b_n) log pi(q_n | z_n, I, a) / sum_n w_n + supervised_weight * ELBO term

        r'_n = r_n - (entropy_weight * log pi(q_n) + kl_weight * log(pi(q_n) / p(q_n))) / w_n

    where pi is the policy and p the supervised generator that it started from. The first term is
    the gradient (r - b) grad log pi(w_t | w_<t; z, I, a) of [iVQA 5], summed over the words.

    Args:
        num_samples: Questions sampled for each (image, answer) pair and step, each from its own z.
        temperature: Temperature of the sampling, above 0. Log-probabilities are those of the
            distribution at this temperature.
        baseline: b. "pair_mean" is the mean reward of the pair's other samples, "greedy" the
            reward of the greedy question of the same z (self-critical), "none" is 0.
        latent: Which z the gradient uses. "prior" uses the sampled z. "posterior" recomputes
            z = mu(I, q) + sigma(I, q) * noise from the sampled question, so that the encoder gets
            a gradient too, as the published code seems to do.
        entropy_weight: Weight of the entropy bonus -log pi, per drawn word.
        kl_weight: Weight of the log-ratio log pi - log p, per drawn word.
        supervised_weight: Weight of the negative ELBO of the batch's own questions, per word.

    Raises:
        UserError: `baseline` or `latent` is unknown, or "pair_mean" has a single sample.
    """

    num_samples: Count = 10
    temperature: Positive = 1.0
    baseline: Literal["pair_mean", "greedy", "none"] = "pair_mean"
    latent: Literal["prior", "posterior"] = "posterior"
    entropy_weight: NonNegative = 0.0
    kl_weight: NonNegative = 0.0
    supervised_weight: NonNegative = 0.0

    def __post_init__(self) -> None:
        if self.baseline not in ("pair_mean", "greedy", "none"):
            raise UserError(f"baseline must be pair_mean, greedy or none, not {self.baseline}")
        if self.latent not in ("prior", "posterior"):
            raise UserError(f"latent must be prior or posterior, not {self.latent}")
        self.check_arguments(vars(self))

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks the arguments against each other; every command calls this before it starts.

        Args:
            arguments: The constructor's arguments by name.

        Raises:
            UserError: "pair_mean" has no other sample of the pair to average.
        """
        baseline, num_samples = arguments["baseline"], arguments["num_samples"]
        if num_samples < 2 and baseline == "pair_mean":
            raise UserError(f"baseline=pair_mean needs num_samples of 2 or more, not {num_samples}")

    def log_probs(
        self,
        policy: QuestionGenerationModule,
        images: ImageBatch,
        answers: list[str],
        questions: Questions,
    ) -> Tensor:
        """Log-probabilities of sampled questions under the distribution they were sampled from.

        Args:
            policy: The generator that sampled them.
            images: Images of the P pairs.
            answers: Answers of the P pairs.
            questions: N sampled questions of these pairs.

        Returns:
            (N,) float32, in nats, with gradients, without dropout.
        """
        network = policy.network
        with evaluating(policy):
            given = _conditions(policy, images, answers, questions)
            z = questions.z
            if z is not None and self.latent == "posterior":
                posterior = network.posterior(questions.tokens, given)
                assert posterior is not None
                # The sampled z ~ N(0, I) is the noise of z = mu + sigma * noise.
                z = posterior.sample(z)
            return question_log_probs(policy, questions, z, given, self.temperature)

    @torch.no_grad()
    def penalty(
        self,
        policy: QuestionGenerationModule,
        reference: QuestionGenerationModule,
        images: ImageBatch,
        answers: list[str],
        questions: Questions,
        log_probs: Tensor,
    ) -> Tensor:
        """What entropy_weight and kl_weight subtract from the reward of each sample.

        Args:
            policy: The generator pi that is trained.
            reference: The supervised generator p.
            images: Images of the P pairs.
            answers: Answers of the P pairs.
            questions: N sampled questions of these pairs.
            log_probs: (N,) what `PolicyObjective.log_probs` returned for them.

        Returns:
            (N,) float32: (entropy_weight * log pi + kl_weight * (log pi - log p)) / drawn words.
        """
        if self.latent == "posterior" and questions.z is not None:
            # The penalty compares pi and p at the sampled z, not at the recomputed one.
            with evaluating(policy):
                given = _conditions(policy, images, answers, questions)
                log_probs = question_log_probs(
                    policy, questions, questions.z, given, self.temperature
                )
        penalty = self.entropy_weight * log_probs
        if self.kl_weight:
            given = _conditions(reference, images, answers, questions)
            before = question_log_probs(reference, questions, questions.z, given, self.temperature)
            penalty = penalty + self.kl_weight * (log_probs - before)
        return penalty / drawn_words(questions, policy.max_length)


def reinforce_loss(advantage: Tensor, log_probs: Tensor, words: Tensor) -> Tensor:
    """Loss whose gradient is that of REINFORCE, per drawn word.

    Args:
        advantage: (N,) reward minus baseline, without gradients.
        log_probs: (N,) log pi of the samples, with gradients.
        words: (N,) number of words that the policy drew for each sample.

    Returns:
        Scalar: -sum(advantage * log_probs) / sum(words).

    Example:
        >>> reinforce_loss(torch.tensor([1.0]), torch.tensor([-6.0]), torch.tensor([3.0])).item()
        2.0
    """
    return -(advantage * log_probs).sum() / words.sum()


def pair_mean_baseline(reward: Tensor, num_samples: int) -> Tensor:
    """Mean reward of the other samples of the same pair (leave-one-out).

    Args:
        reward: (N,) rewards; the `num_samples` samples of a pair follow each other.
        num_samples: Samples of each pair, at least 2.

    Returns:
        (N,) baselines.

    Example:
        >>> pair_mean_baseline(torch.tensor([0.0, 1.0, 2.0]), num_samples=3).tolist()
        [1.5, 1.0, 0.5]
    """
    by_pair = reward.view(-1, num_samples)  # (P, num_samples)
    others = by_pair.sum(dim=1, keepdim=True) - by_pair
    return (others / (num_samples - 1)).flatten()


@torch.no_grad()
def greedy_questions(
    policy: QuestionGenerationModule,
    images: ImageBatch,
    answers: list[str],
    questions: Questions,
) -> Questions:
    """The greedy question for the z of each sampled question.

    Args:
        policy: The generator.
        images: Images of the P pairs.
        answers: Answers of the P pairs.
        questions: N sampled questions of these pairs.

    Returns:
        N questions with the pairs and z of `questions`.
    """
    with evaluating(policy):
        conditions, row = policy.encode_pairs(images, answers)
        tokens, log_likelihood = draw_questions(
            policy.network,
            conditions,
            row[questions.pair],
            questions.z,
            Greedy(),
            policy.max_length,
        )
    text = policy.question_vocabulary.decode(tokens)
    return Questions(tokens, text, log_likelihood, questions.pair, questions.z)


def question_log_probs(
    questioner: QuestionGenerationModule,
    questions: Questions,
    z: Tensor | None,
    given: Conditions,
    temperature: float,
) -> Tensor:
    """Log-probabilities of questions at a temperature, summed over the drawn words.

    A question of `max_length` words ends there without a draw, so its <eos> is not in the sum.

    Args:
        questioner: The generator.
        questions: N questions.
        z: (N, d_z) latent values, None where the generator has none.
        given: Conditions of the N questions.
        temperature: Temperature of the sampling, above 0.

    Returns:
        (N,) float32, in nats.
    """
    network = questioner.network
    log_probs = network.token_log_probs(questions.tokens, z, given, temperature)  # (N, T + 1)
    return log_probs[:, : questioner.max_length].sum(dim=1)


def drawn_words(questions: Questions, max_length: int) -> Tensor:
    """Number of words that a generator drew for each question.

    Args:
        questions: N questions.
        max_length: Words after which a question ends without a draw.

    Returns:
        (N,) float32; <eos> counts unless the question has `max_length` words.
    """
    return (questions.tokens.lengths + 1).clamp_max(max_length).float()


@contextmanager
def evaluating(policy: QuestionGenerationModule) -> Iterator[None]:
    """Disables dropout but keeps gradients.

    cuDNN's recurrent layers have no backward pass in evaluation mode, so cuDNN is off inside.

    Args:
        policy: The generator; its networks return to their modes afterwards.
    """
    with (
        evaluation_mode(policy.network, policy.image_encoder),
        torch.backends.cudnn.flags(enabled=False),
    ):
        yield


def _conditions(
    questioner: QuestionGenerationModule,
    images: ImageBatch,
    answers: list[str],
    questions: Questions,
) -> Conditions:
    """Conditions of each of the N questions."""
    conditions, row = questioner.encode_pairs(images, answers)
    return conditions.select(row[questions.pair])
