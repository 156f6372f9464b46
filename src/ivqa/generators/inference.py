"""One question for each (image, answer) pair: the most probable one of several z."""

import torch
from torch import Tensor

from ivqa.data.batch import ImageBatch
from ivqa.generators.beam import Beam
from ivqa.generators.decoding import Strategy
from ivqa.generators.protocol import Questioner, Questions


def most_probable(questions: Questions) -> Tensor:
    """Selects the question of highest log-likelihood of each pair, as the paper does.

    Args:
        questions: Questions of P pairs.

    Returns:
        (P,) int64, the row of the question of each pair that occurs in `questions.pair`, in
        ascending order of the pairs. The first row of a tie is selected.
    """
    # Rows by log-likelihood, then stably by pair: the first row of each pair is its maximum.
    order = questions.log_likelihood.argsort(descending=True, stable=True)
    order = order[questions.pair[order].argsort(stable=True)]
    ranked = questions.pair[order]
    first = torch.ones_like(ranked, dtype=torch.bool)
    first[1:] = ranked[1:] != ranked[:-1]
    return order[first]


def ask(
    questioner: Questioner,
    images: ImageBatch,
    answers: list[str],
    *,
    num_latents: int = 10,
    strategy: Strategy | None = None,
    generator: torch.Generator | None = None,
) -> Questions:
    """Asks the most probable question of each pair.

    Args:
        questioner: The generator.
        images: Image features of B pairs.
        answers: The B answers.
        num_latents: Number of z ~ N(0, I) that are decoded for each pair. Neither the paper nor
            its code gives the number.
        strategy: How a question is decoded from each z; None is a beam of 3.
        generator: Source of the random numbers; None is torch's global one.

    Returns:
        B questions, in the order of the pairs.
    """
    strategy = Beam(size=3) if strategy is None else strategy
    questions = questioner.sample(images, answers, num_latents, strategy, generator)
    return questions.select(most_probable(questions))
