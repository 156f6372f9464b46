"""One question for each (image, answer) pair: the best one of several z."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.generators.decoding.beam import Beam
from ivqa.generators.decoding.strategies import Strategy
from ivqa.generators.module import GeneratorModule
from ivqa.generators.protocol import Questioner, Questions
from ivqa.trained import evaluation_mode

_SCORED_AT_ONCE = 4096


def most_probable(log_likelihood: Tensor, group: Tensor) -> Tensor:
    """Selects the question of highest log-likelihood (N,) of each group (N,) >= 0 of questions.

    Returns:
        The row of the question of each group, on the CPU, by ascending group. The first row of a
        tie is selected.
    """
    log_likelihood, group = log_likelihood.cpu(), group.cpu()
    # Rows by log-likelihood, then stably by group: the first row of each group is its maximum.
    order = log_likelihood.argsort(descending=True, stable=True)
    order = order[group[order].argsort(stable=True)]
    return order[_starts(group[order])]


def ask(
    questioner: Questioner,
    images: ImageBatch,
    answers: list[str],
    *,
    num_latents: int = 10,
    strategy: Strategy | None = None,
    generator: torch.Generator | None = None,
    alternatives: Sequence[Sequence[str]] | None = None,
    answer_weight: float = 1.0,
) -> Questions:
    """Asks the most probable question of each pair, or the one that fits its answer best.

    Args:
        questioner: The generator.
        images: Image features of B pairs.
        answers: The B answers.
        num_latents: Number of z ~ N(0, I) that are decoded for each pair. Neither the paper nor
            its code gives the number.
        strategy: How a question is decoded from each z; None is a beam of 3.
        generator: Source of the random numbers; None is torch's global one.
        alternatives: Other answers of each pair. The question of highest
            log p(q | z, I, a) + answer_weight * log p(a | q, z, I) is then chosen, see
            `answer_posterior`; only for a generator that is a network. None chooses the most
            probable question, as the paper does.
        answer_weight: Weight of the answer's probability.

    Returns:
        B questions, in the order of the pairs.
    """
    strategy = Beam(size=3) if strategy is None else strategy
    questions = questioner.sample(images, answers, num_latents, strategy, generator)
    if alternatives is None or not isinstance(questioner, GeneratorModule):
        return questions.select(most_probable(questions.log_likelihood, questions.pair))
    fit = answer_posterior(questioner, images, answers, questions, alternatives)
    score = questions.log_likelihood.cpu() + answer_weight * fit
    return questions.select(most_probable(score, questions.pair))


@torch.no_grad()
def answer_posterior(
    questioner: GeneratorModule,
    images: ImageBatch,
    answers: list[str],
    questions: Questions,
    alternatives: Sequence[Sequence[str]],
) -> Tensor:
    """Computes log p(a | q, z, I): how well each question fits its answer, (N,) float32 in nats.

    By Bayes' rule with equal priors, p(a | q, z, I) = p(q | z, I, a) / sum_a' p(q | z, I, a') over
    the answer and its alternatives. Choosing by it is decoding by maximum mutual information
    (Li et al. 2016, arXiv:1510.03055).
    """
    # The candidates of all questions in one list: its own answer first.
    asked, given = [], []
    for row, pair in enumerate(questions.pair.tolist()):
        others = [answer for answer in alternatives[pair] if answer != answers[pair]]
        asked += [row] * (1 + len(others))
        given += [answers[pair], *others]
    rows = torch.tensor(asked, dtype=torch.int64)
    parts = []
    with evaluation_mode(questioner.network, questioner.image_encoder):
        for some in torch.arange(len(rows)).split(_SCORED_AT_ONCE):
            own = rows[some]
            texts = [given[at] for at in some.tolist()]
            own_images = images.select(questions.pair[own].to(images.index.device))
            conditions, place = questioner.encode_pairs(own_images, texts)
            log_probs = questioner.network.token_log_probs(
                questions.tokens.select(own),
                None if questions.z is None else questions.z[own],
                conditions.select(place),
            )
            parts.append(log_probs.sum(dim=1))
    scores = torch.cat(parts).cpu()
    total = torch.full((len(questions),), -torch.inf).scatter_reduce(0, rows, scores, "amax")
    # log-sum-exp by question, relative to its largest score.
    sums = torch.zeros(len(questions)).scatter_add(0, rows, (scores - total[rows]).exp())
    return scores[_starts(rows)] - total - sums.log()


def _starts(groups: Tensor) -> Tensor:
    """Whether each of N group numbers >= 0 differs from the one before, (N,) bool."""
    return groups.diff(prepend=groups.new_full((1,), -1)) != 0
