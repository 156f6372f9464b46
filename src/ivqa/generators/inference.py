"""One question for each image and answer: several z, a beam for each, one of them kept."""

from collections.abc import Callable

import torch
from torch import Tensor

from ivqa.data.batch import ImageBatch
from ivqa.generators.decoding import Beam, Strategy
from ivqa.generators.protocol import Questioner, Questions


def most_probable(questions: Questions) -> Tensor:
    """The row of each pair's question of highest log-likelihood, (P,); the paper's choice.

    Pairs are those that occur in `questions.pair`, in ascending order; ties go to the first row.
    """
    return _argmax_of_groups(questions.pair, [questions.log_likelihood])


def most_frequent(questions: Questions) -> Tensor:
    """The row of the question that most z agree on, for each pair (P,); the published code's.

    Among equally frequent questions the one of highest log-likelihood counts.
    """
    rows = torch.cat([questions.pair[:, None], questions.tokens.ids], dim=1)
    _, same, counts = rows.unique(dim=0, return_inverse=True, return_counts=True)
    keys = [counts[same], questions.log_likelihood]
    return _argmax_of_groups(questions.pair, keys)


def ask(
    questioner: Questioner,
    images: ImageBatch,
    answers: list[str],
    *,
    num_latents: int = 10,
    strategy: Strategy | None = None,
    select: Callable[[Questions], Tensor] = most_probable,
    generator: torch.Generator | None = None,
) -> Questions:
    """One question for each of the B pairs, in their order.

    num_latents: how many z ~ N(0, I) are tried (neither the paper nor its code gives the number).
    strategy: how each z is decoded; None is a beam of 3. select: which of the questions is kept.
    """
    strategy = Beam(size=3) if strategy is None else strategy
    questions = questioner.sample(images, answers, num_latents, strategy, generator)
    return questions.select(select(questions))


def _argmax_of_groups(group: Tensor, keys: list[Tensor]) -> Tensor:
    """The first row of each group that is greatest by the first key, then by the next ones."""
    order = torch.arange(len(group), device=group.device)
    for key in reversed(keys):
        order = order[key[order].argsort(descending=True, stable=True)]
    order = order[group[order].argsort(stable=True)]
    ranked = group[order]
    first = torch.ones_like(ranked, dtype=torch.bool)
    first[1:] = ranked[1:] != ranked[:-1]
    return order[first]
