"""The objective of policy-gradient training: sampling, baseline, penalties and loss [iVQA 5]."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.generators import GeneratorModule, Questions, Sampling, Strategy
from ivqa.generators.likelihood import draw_questions
from ivqa.generators.networks.network import Conditions, Posterior
from ivqa.generators.objective import negative_elbo
from ivqa.ranges import Count, NonNegative, Positive
from ivqa.text.vocabulary import Tokens
from ivqa.trained import evaluation_mode

Baseline = Literal["pair_mean", "greedy", "none"]
Latent = Literal["prior", "encoder", "encoder_fixed", "posterior"]


@dataclass(frozen=True, kw_only=True)
class PolicyObjective:
    """Settings of REINFORCE with a baseline, and the log-probabilities that it needs.

    For N sampled questions q with rewards r, baselines b and w drawn words each, the loss is

        -sum_n (r'_n - b_n) log pi(q_n | z_n, I, a) / sum_n w_n + supervised_weight * ELBO term

        r'_n = r_n - (entropy_weight * log pi(q_n) + kl_weight * log(pi(q_n) / p(q_n))) / w_n

    where pi is the policy and p the supervised generator that it started from. The gradient of the
    first term is (r - b) grad log pi(w_t | w_<t; z, I, a) of [iVQA 5], summed over the words. Each
    batch of samples gives one step, so unlike PPO it needs no importance ratio and no clipping;
    unlike GRPO it does not divide r - b by the standard deviation of r.

    Args:
        num_samples: Questions sampled for each (image, answer) pair and step, each from its own z.
        temperature: Temperature of the policy, above 0. Log-probabilities are those of the
            distribution at this temperature.
        baseline: b. "pair_mean" is the mean reward of the pair's other samples (leave-one-out),
            "greedy" the reward of the greedy question of the same z (self-critical), "none" is 0.
        latent: Where z comes from. "prior" draws z ~ N(0, I), and the encoder gets no gradient.
            "encoder" draws z = mu(I, q) + sigma(I, q) * noise from the data set's own question q of
            the pair, and the gradient passes through mu and sigma: equation 10 with the encoder,
            an unbiased gradient of the mean reward. "encoder_fixed" draws the same z without a
            gradient to mu and sigma. "posterior" draws noise ~ N(0, I) as z, but takes the gradient
            at z' = mu(I, q') + sigma(I, q') * noise of the sampled question q', as the published
            code seems to do. This gradient is biased, because q' was not sampled from z'.
        entropy_weight: Weight of the entropy bonus -log pi, per drawn word.
        kl_weight: Weight of the log-ratio log pi - log p, per drawn word.
        supervised_weight: Weight of the negative ELBO of the batch's own questions, per word.

    Raises:
        UserError: `baseline` or `latent` is unknown, or "pair_mean" has a single sample.
    """

    version: ClassVar[int] = 1

    num_samples: Count = 10
    temperature: Positive = 1.0
    baseline: Baseline = "pair_mean"
    latent: Latent = "posterior"
    entropy_weight: NonNegative = 0.0
    kl_weight: NonNegative = 0.0
    supervised_weight: NonNegative = 0.0

    def __post_init__(self) -> None:
        for name, choices in (("baseline", get_args(Baseline)), ("latent", get_args(Latent))):
            if (chosen := getattr(self, name)) not in choices:
                raise UserError(f"{name} must be one of {', '.join(choices)}, not {chosen}")
        self.check_arguments(vars(self))

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks the arguments against each other; every command calls this before it starts.

        Raises:
            UserError: "pair_mean" has no other sample of the pair to average.
        """
        baseline, num_samples = arguments["baseline"], arguments["num_samples"]
        if num_samples < 2 and baseline == "pair_mean":
            raise UserError(f"baseline=pair_mean needs num_samples of 2 or more, not {num_samples}")

    @torch.no_grad()
    def sample(
        self, policy: GeneratorModule, images: ImageBatch, answers: list[str], own: Tokens
    ) -> Questions:
        """Samples `num_samples` questions for each of P pairs, each from its own z.

        `own` (P, T) are the words of the data set's own questions of the pairs.

        Returns:
            N = P * num_samples questions; those of one pair follow each other.
        """
        strategy = Sampling(temperature=self.temperature)
        if not self.latent.startswith("encoder") or not policy.network.latent_size:
            return policy.sample(images, answers, self.num_samples, strategy)
        pair = torch.arange(len(answers), device=policy.device)
        pair = pair.repeat_interleave(self.num_samples)
        with without_dropout(policy):
            given = conditions_of(policy, images, answers, pair)
            posterior = posterior_of(policy, own.select(pair), given)
        z = posterior.sample(torch.randn_like(posterior.mean))
        return decode(policy, images, answers, pair, z, strategy)

    def log_probs(
        self,
        policy: GeneratorModule,
        images: ImageBatch,
        answers: list[str],
        questions: Questions,
        own: Tokens,
    ) -> Tensor:
        """Log-probabilities of sampled questions under the distribution they were sampled from.

        They are N questions of `sample` about P pairs; `own` (P, T) are the words of the data set's
        own questions of the pairs.

        Returns:
            (N,) float32, in nats, with gradients, without dropout.
        """
        z, pair = questions.z, questions.pair
        with without_dropout(policy):
            given = conditions_of(policy, images, answers, pair)
            if z is not None and self.latent == "encoder":
                posterior = posterior_of(policy, own.select(pair), given)
                z = posterior.sample(posterior.noise(z).detach())  # the same z, with a gradient
            elif z is not None and self.latent == "posterior":
                z = posterior_of(policy, questions.tokens, given).sample(z)  # z is the noise
            return log_probs_at(policy, questions, z, given, self.temperature)

    @torch.no_grad()
    def penalty(
        self,
        policy: GeneratorModule,
        reference: GeneratorModule,
        images: ImageBatch,
        answers: list[str],
        questions: Questions,
        log_probs: Tensor,
    ) -> Tensor:
        """What entropy_weight and kl_weight subtract from the reward of each of N samples.

        `reference` is the supervised generator p, `log_probs` (N,) what `PolicyObjective.log_probs`
        returned for the samples.

        Returns:
            (N,) float32: (entropy_weight * log pi + kl_weight * (log pi - log p)) / drawn words.
        """
        if self.latent == "posterior" and questions.z is not None:
            # The penalty compares pi and p at the sampled z, not at the recomputed one.
            with without_dropout(policy):
                given = conditions_of(policy, images, answers, questions.pair)
                log_probs = log_probs_at(policy, questions, questions.z, given, self.temperature)
        penalty = self.entropy_weight * log_probs
        if self.kl_weight:
            given = conditions_of(reference, images, answers, questions.pair)
            before = log_probs_at(reference, questions, questions.z, given, self.temperature)
            penalty = penalty + self.kl_weight * (log_probs - before)
        return penalty / drawn_words(questions, policy.max_length)

    def supervised_loss(self, policy: GeneratorModule, batch: VQABatch) -> Tensor:
        """supervised_weight times the negative ELBO of the batch's own questions, in nats per word.

        A scalar with gradients.
        """
        output = policy.network(batch.encoded(policy.image_encoder))
        elbo = negative_elbo(
            output.log_likelihood,
            output.kl,
            free_nats=policy.free_nats,
            per_dimension=policy.free_nats_per_dimension,
            pull=policy.free_nats_pull,
        )
        # negative_elbo is a mean over questions; this makes it a mean over words.
        return self.supervised_weight * elbo * len(batch) / output.num_tokens.sum()


def reinforce_loss(advantage: Tensor, log_probs: Tensor, words: Tensor) -> Tensor:
    """Loss whose gradient is that of REINFORCE, per drawn word: -sum(A log pi) / sum(words).

    Of N samples: A, reward minus baseline, without gradients; log pi, with gradients; and the
    number of words that the policy drew; (N,) each.

    Example:
        >>> reinforce_loss(torch.tensor([1.0]), torch.tensor([-6.0]), torch.tensor([3.0])).item()
        2.0
    """
    return -(advantage * log_probs).sum() / words.sum()


def pair_mean_baseline(reward: Tensor, num_samples: int) -> Tensor:
    """Mean reward of the other samples of the same pair (leave-one-out), (N,).

    `reward` (N,) has the `num_samples` >= 2 samples of a pair one after another.

    Example:
        >>> pair_mean_baseline(torch.tensor([0.0, 1.0, 2.0]), num_samples=3).tolist()
        [1.5, 1.0, 0.5]
    """
    by_pair = reward.view(-1, num_samples)  # (P, num_samples)
    others = by_pair.sum(dim=1, keepdim=True) - by_pair
    return (others / (num_samples - 1)).flatten()


def drawn_words(questions: Questions, max_length: int) -> Tensor:
    """Number of words that a generator drew for each of N questions, (N,) float32.

    <eos> counts unless the question has `max_length` words, after which it ends without a draw.
    """
    return (questions.tokens.lengths + 1).clamp_max(max_length).float()


@torch.no_grad()
def decode(
    policy: GeneratorModule,
    images: ImageBatch,
    answers: list[str],
    pair: Tensor,
    z: Tensor | None,
    strategy: Strategy,
) -> Questions:
    """Decodes one question from each of N given z, without dropout.

    `pair` (N,) is the pair of each; z is (N, d_z), None where the generator has none.
    """
    with without_dropout(policy):
        conditions, row = policy.encode_pairs(images, answers)
        tokens, log_likelihood = draw_questions(
            policy.network, conditions, row[pair], z, strategy, policy.max_length
        )
    text = policy.question_vocabulary.decode(tokens)
    return Questions(tokens, text, log_likelihood, pair, z)


def log_probs_at(
    questioner: GeneratorModule,
    questions: Questions,
    z: Tensor | None,
    given: Conditions,
    temperature: float,
) -> Tensor:
    """Log-probabilities of N questions, summed over the drawn words, (N,) float32 in nats.

    They are those of the sampling at `temperature`, under the conditions `given` of the questions.
    A question of `max_length` words ends there without a draw, so its <eos> is not in the sum. z is
    (N, d_z), None where the generator has none.
    """
    network = questioner.network
    log_probs = network.token_log_probs(questions.tokens, z, given, temperature)  # (N, T + 1)
    return log_probs[:, : questioner.max_length].sum(dim=1)


def conditions_of(
    questioner: GeneratorModule, images: ImageBatch, answers: list[str], pair: Tensor
) -> Conditions:
    """The conditions of N questions about P pairs; `pair` (N,) is the pair of each."""
    conditions, row = questioner.encode_pairs(images, answers)
    return conditions.select(row[pair])


def posterior_of(questioner: GeneratorModule, read: Tokens, given: Conditions) -> Posterior:
    """The posterior q(z | I, q) of N questions q, by a generator that has an encoder."""
    posterior = questioner.network.posterior(read, given)
    assert posterior is not None  # the generator has a latent variable
    return posterior


@contextmanager
def without_dropout(policy: GeneratorModule) -> Iterator[None]:
    """Disables dropout of a generator inside, but keeps gradients.

    cuDNN's recurrent layers have no backward pass in evaluation mode, so cuDNN is off inside.
    """
    with (
        evaluation_mode(policy.network, policy.image_encoder),
        torch.backends.cudnn.flags(enabled=False),
    ):
        yield
