"""Log-probabilities of sampled questions, and the greedy question of each z."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.generators import GeneratorModule, Greedy, Questions
from ivqa.generators.likelihood import draw_questions
from ivqa.generators.networks.network import Conditions
from ivqa.trained import evaluation_mode


@torch.no_grad()
def greedy_questions(
    policy: GeneratorModule,
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
    questioner: GeneratorModule,
    images: ImageBatch,
    answers: list[str],
    questions: Questions,
) -> Conditions:
    """Computes the conditions of sampled questions.

    Args:
        questioner: The generator.
        images: Images of the P pairs.
        answers: Answers of the P pairs.
        questions: N questions of these pairs.

    Returns:
        The conditions of the N questions.
    """
    conditions, row = questioner.encode_pairs(images, answers)
    return conditions.select(row[questions.pair])
