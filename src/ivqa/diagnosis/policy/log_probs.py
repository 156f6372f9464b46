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

    Args:
        policy: The generator.
        images: Images of the P pairs.
        answers: Answers of the P pairs.
        pair: (N,) int64, the pair of each z.
        z: (N, d_z) latent values, None where the generator has none.
        strategy: How words are chosen.

    Returns:
        The N questions.
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
def evaluating(policy: GeneratorModule) -> Iterator[None]:
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


def conditions_of(
    questioner: GeneratorModule, images: ImageBatch, answers: list[str], pair: Tensor
) -> Conditions:
    """Computes the conditions of questions about pairs.

    Args:
        questioner: The generator.
        images: Images of the P pairs.
        answers: Answers of the P pairs.
        pair: (N,) int64, the pair of each question.

    Returns:
        The conditions of the N questions.
    """
    conditions, row = questioner.encode_pairs(images, answers)
    return conditions.select(row[pair])


def encoder_of(questioner: GeneratorModule, read: Tokens, given: Conditions) -> Posterior:
    """The encoder q(z | I, q) of a generator that has one.

    Args:
        questioner: The generator.
        read: (N, T) words of the questions q.
        given: Conditions of the N questions.

    Returns:
        The posterior of the N questions.
    """
    posterior = questioner.network.posterior(read, given)
    assert posterior is not None  # the generator has a latent variable
    return posterior
