"""Questions of given z, the z of given questions, and log-probabilities of sampled questions."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.generators import GeneratorModule, Questions, Strategy
from ivqa.generators.likelihood import draw_questions
from ivqa.generators.networks.network import Conditions, Posterior
from ivqa.text.vocabulary import Tokens
from ivqa.trained import evaluation_mode


@torch.no_grad()
def questions_of(
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
    with evaluating(policy):
        conditions, row = policy.encode_pairs(images, answers)
        tokens, log_likelihood = draw_questions(
            policy.network, conditions, row[pair], z, strategy, policy.max_length
        )
    text = policy.question_vocabulary.decode(tokens)
    return Questions(tokens, text, log_likelihood, pair, z)


def question_log_probs(
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


def drawn_words(questions: Questions, max_length: int) -> Tensor:
    """Number of words that a generator drew for each of N questions, (N,) float32.

    <eos> counts unless the question has `max_length` words, after which it ends without a draw.
    """
    return (questions.tokens.lengths + 1).clamp_max(max_length).float()


@contextmanager
def evaluating(policy: GeneratorModule) -> Iterator[None]:
    """Disables dropout of a generator inside, but keeps gradients.

    cuDNN's recurrent layers have no backward pass in evaluation mode, so cuDNN is off inside.
    """
    with (
        evaluation_mode(policy.network, policy.image_encoder),
        torch.backends.cudnn.flags(enabled=False),
    ):
        yield


def conditions_of(
    questioner: GeneratorModule, images: ImageBatch, answers: list[str], pair: Tensor
) -> Conditions:
    """The conditions of N questions about P pairs; `pair` (N,) is the pair of each."""
    conditions, row = questioner.encode_pairs(images, answers)
    return conditions.select(row[pair])


def encoder_of(questioner: GeneratorModule, read: Tokens, given: Conditions) -> Posterior:
    """The posterior q(z | I, q) of N questions q, by a generator that has an encoder."""
    posterior = questioner.network.posterior(read, given)
    assert posterior is not None  # the generator has a latent variable
    return posterior
