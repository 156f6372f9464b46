"""The log-likelihoods of answers: that a VQA model gives, and that one writes token by token."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.vqa.protocol import Answerer


def log_phi(
    answerer: Answerer, images: ImageBatch, questions: Sequence[str], answers: Sequence[str]
) -> Tensor:
    """Computes log phi(a | I, q) of one answer for each of B questions.

    Returns:
        (B,) float32 on the CPU; -inf for an answer outside of a closed set.
    """
    found = torch.full((len(questions),), -torch.inf)
    if answerer.answers is not None:
        columns = answerer.answers.encode(list(answers))
        scores = answerer.log_scores(images, list(questions)).cpu()
        known = columns >= 0
        found[known] = scores[known, columns[known]]
        return found
    # log_scores takes one list of answers for all questions, so each answer has its own call.
    for answer in dict.fromkeys(answers):
        rows = [row for row, own in enumerate(answers) if own == answer]
        own_images = images.select(torch.tensor(rows, device=images.index.device))
        scores = answerer.log_scores(own_images, [questions[row] for row in rows], [answer])
        found[rows] = scores[:, 0].cpu()
    return found


def answers_with_phi(
    answerer: Answerer, images: ImageBatch, questions: Sequence[str]
) -> tuple[list[str], list[float]]:
    """Answers B questions, with the confidence in each answer.

    Returns:
        B answers, and B times phi of the answer in [0, 1]: over the closed set, or, for a model
        that writes its answers, the probability of writing this one.
    """
    texts = list(questions)
    if answerer.answers is not None:
        best = answerer.log_scores(images, texts).max(dim=1)
        answers = [answerer.answers.answers[index] for index in best.indices.tolist()]
        return answers, best.values.exp().tolist()
    answers = answerer.answer(images, texts)
    return answers, log_phi(answerer, images, texts, answers).exp().tolist()


def answer_log_likelihood(
    logits: Tensor, tokens: Tensor, lengths: Tensor, ends: Sequence[int]
) -> Tensor:
    """Computes log p(a) of N answers, (N,) float32: the sum over their tokens and the end token.

    Without the end token it would be the probability of all answers with this beginning.

    Args:
        logits: (N, T + 1, V); position t predicts token t.
        tokens: (N, T) int64; what follows `lengths` is ignored.
        lengths: Number of tokens of each answer, (N,) int64.
        ends: Tokens that end an answer; their probabilities are added.

    Example:
        >>> logits = torch.zeros(2, 2, 4)
        >>> tokens, lengths = torch.tensor([[3], [0]]), torch.tensor([1, 0])
        >>> answer_log_likelihood(logits, tokens, lengths, ends=[1]).exp()
        tensor([0.0625, 0.2500])
    """
    log_probs = logits.float().log_softmax(dim=2)
    own = log_probs[:, :-1].gather(2, tokens[:, :, None])[:, :, 0]  # (N, T)
    beyond = torch.arange(tokens.shape[1], device=tokens.device) >= lengths[:, None]
    rows = torch.arange(len(tokens), device=tokens.device)
    end = log_probs[rows, lengths][:, list(ends)].logsumexp(dim=1)
    return own.masked_fill(beyond, 0.0).sum(dim=1) + end


def answer_batches(
    answers: Sequence[Sequence[int]], size: int, filler: int
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Groups answers, given as tokens, in batches of `size` answers of similar length.

    Yields:
        Positions of n answers in `answers`, their tokens, (n, T) int64, with `filler` behind
        shorter answers, and lengths, (n,) int64.

    Example:
        >>> [(at, tokens.tolist()) for at, tokens, _ in answer_batches([[5, 6], [7]], 2, 0)]
        [([1, 0], [[7, 0], [5, 6]])]
    """
    order = sorted(range(len(answers)), key=lambda at: len(answers[at]))
    for start in range(0, len(order), size):
        positions = order[start : start + size]
        longest = len(answers[positions[-1]])
        rows = [[*answers[at], *[filler] * (longest - len(answers[at]))] for at in positions]
        lengths = torch.tensor([len(answers[at]) for at in positions], dtype=torch.int64)
        yield positions, torch.tensor(rows, dtype=torch.int64).view(len(rows), longest), lengths
