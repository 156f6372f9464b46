"""The questions of one picture: p(q | I, a) of a generator, and what a VQA model answers."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis.search.search import pooled
from ivqa.errors import UserError
from ivqa.generators import Beam, Questioner, Sampling
from ivqa.generators.likelihood import marginal_log_likelihood
from ivqa.generators.module import GeneratorModule
from ivqa.text.tokens import tokenise
from ivqa.text.vocabulary import Vocabulary
from ivqa.vqa import Answerer
from ivqa.vqa.likelihood import answers_with_phi

_SHORTLIST = 3  # candidates with a final estimate, for each question that is returned
_QUESTIONS_PER_PASS = 256  # answered together: attention over a grid needs 150 kB for each


@dataclass(frozen=True)
class AskedQuestion:
    """A question about a picture, and p(q | I, a) in [0, 1]."""

    question: str
    probability: float


@dataclass(frozen=True)
class GivenAnswer:
    """The answer of a VQA model to a question.

    Attributes:
        answer: argmax_a phi(a | I, q).
        probability: phi of this answer, in [0, 1].
    """

    answer: str
    probability: float


def likely_questions(
    questioner: GeneratorModule,
    image: ImageBatch,
    answer: str,
    *,
    n: int,
    num_latents: int = 100,
    likelihood_samples: int = 512,
    seed: int = 1,
) -> list[AskedQuestion]:
    """Finds the `n` most probable questions of one (image, answer) pair.

    The candidates are, for each of `num_latents` values of z, one sampled question and the best
    question of a beam of 3. A question of probability p is missing with a probability of at most
    (1 - p)^num_latents. Each candidate is scored by p(q | I, a), the probability of the whole
    question with its end. It is exact for a generator without latent variable. Otherwise it is an
    importance-weighted estimate: a first one selects 3 n candidates, a second one with
    `likelihood_samples` values of z decides. The first alone would be misleading: of many noisy
    estimates the largest are too large. Equal arguments give equal questions.

    Returns:
        At most n distinct questions, by falling probability.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = [
        questioner.sample(image, [answer], num_latents, strategy, generator)
        for strategy in (Sampling(), Beam(size=3))
    ]
    texts = [text for text in pooled(drawn)[0].text if tokenise(text)]
    if not texts:
        return []
    images = image.repeat_interleave(len(texts))
    scores = questioner.log_likelihood(images, [answer] * len(texts), texts).cpu()
    noise = questioner.network.prior(likelihood_samples, generator)
    if noise is not None:
        rough = scores.argsort(descending=True, stable=True)[: _SHORTLIST * n].tolist()
        texts = [texts[row] for row in rough]
        conditions, _ = questioner.encode_pairs(image, [answer])
        tokens = questioner.question_vocabulary.encode(texts).to(questioner.device)
        pair = torch.zeros(len(texts), dtype=torch.int64, device=questioner.device)
        found = marginal_log_likelihood(questioner.network, tokens, conditions, pair, noise)
        scores = found.value.cpu()
    best = scores.argsort(descending=True, stable=True)[:n].tolist()
    return [AskedQuestion(texts[row], float(scores[row].exp())) for row in best]


def given_answers(
    answerer: Answerer, images: ImageBatch, questions: Sequence[str]
) -> list[GivenAnswer]:
    """Asks a VQA model questions.

    Args:
        answerer: The VQA model.
        images: The images of the N questions, or one for all of them.
        questions: N questions.

    Returns:
        N answers with their probabilities: phi over the closed set, or, for a model that writes
        its answers, the probability of writing this one.
    """
    given: list[GivenAnswer] = []
    whole = images.repeat_interleave(len(questions)) if len(images) == 1 else images
    for rows in torch.arange(len(questions)).split(_QUESTIONS_PER_PASS):
        texts, part = [questions[row] for row in rows.tolist()], whole.select(rows)
        answers, values = answers_with_phi(answerer, part, texts)
        given += [GivenAnswer(*pair) for pair in zip(answers, values, strict=True)]
    return given


def checked_answer(returned: Any, question: str) -> GivenAnswer:
    """Checks what a model that is a function returned for a question.

    Returns:
        The answer, with its probability if the model gives a tuple of both; else phi is 1.

    Raises:
        UserError: It is neither, or the probability lies outside [0, 1].
    """
    answer, phi = (
        returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, 1.0)
    )
    if not isinstance(answer, str):
        raise UserError(
            f"the model returned {returned!r} to '{question}'; return an answer as a text, or a "
            "tuple of an answer and its probability"
        )
    try:
        value = float(phi)
    except (TypeError, ValueError):
        value = float("nan")
    if not 0 <= value <= 1:
        raise UserError(
            f"the model returned the probability {phi!r} to '{question}'; it must be in [0, 1]"
        )
    return GivenAnswer(answer, value)


def answer_marginal(
    questioner: Questioner,
    answerer: Answerer,
    image: ImageBatch,
    prior: Mapping[str, float],
    *,
    num_questions: int = 400,
    seed: int = 1,
) -> dict[str, float]:
    """Estimates which answers a VQA model gives about an image, over the generator's questions.

    p(a | I) = sum_a' p(a') sum_q p(q | I, a') phi(a | I, q)

    A generator has no p(a | I) of its own: averaged over its own questions, the answer keeps its
    prior. The VQA model therefore decides, and `prior`, the frequencies of the answers in the
    training split, only says what questions are about. `num_questions` pairs of a' and q are
    sampled. If the VQA model writes its answers, phi is 1 for the written one.

    Returns:
        p(a | I) by answer, falling; it sums to 1.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = torch.tensor(list(prior.values()), dtype=torch.float64)
    rows = torch.multinomial(weights, num_questions, replacement=True, generator=generator)
    wanted = [list(prior)[row] for row in rows.sort().values.tolist()]
    images = image.repeat_interleave(num_questions)
    drawn = questioner.sample(images, wanted, 1, Sampling(), generator).text
    counts = Counter(drawn)
    shares: Counter[str] = Counter()
    texts = list(counts)
    for start in range(0, len(texts), _QUESTIONS_PER_PASS):
        asked = texts[start : start + _QUESTIONS_PER_PASS]
        copies = torch.tensor([counts[text] for text in asked]) / num_questions
        images = image.repeat_interleave(len(asked))
        if answerer.answers is not None:
            phi = answerer.log_scores(images, asked).cpu().exp()  # (M, |A|)
            masses = (copies @ phi).tolist()
            shares.update(dict(zip(answerer.answers.answers, masses, strict=True)))
        else:
            for answer, share in zip(answerer.answer(images, asked), copies.tolist(), strict=True):
                shares[answer] += share
    return dict(shares.most_common())


def check_answer(answer: str, words: Vocabulary, known: Callable[[], Iterable[str]]) -> None:
    """Checks that a generator knows the words of an answer.

    Args:
        known: Returns the answers of the training, the most frequent one first; called for the
            message alone.

    Raises:
        UserError: The answer has no words, or one that is not in `words`; names the nearest answers
            of the training.
    """
    found = tokenise(answer)
    unknown = [word for word in found if word not in words]
    if found and not unknown:
        return
    answers = list(known())
    choices = list(dict.fromkeys([*answers, *words.words]))
    close = difflib.get_close_matches(answer.lower(), choices, n=3, cutoff=0.6)
    frequent = ", ".join(answers[:5])
    hint = f"did you mean {' or '.join(close)}?" if close else f"frequent are {frequent}"
    reason = f"does not know the word '{unknown[0]}'" if unknown else "needs at least one word"
    raise UserError(f"answer '{answer}': the generator {reason}; {hint}")
