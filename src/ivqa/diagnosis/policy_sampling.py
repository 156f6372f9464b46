"""The samples of a training step of a policy, with their rewards and advantages."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ivqa.data.batch import ImageBatch, VQABatch
from ivqa.diagnosis.candidates import Candidates
from ivqa.diagnosis.collapse import sample_statistics
from ivqa.diagnosis.policy_log_probs import greedy_questions
from ivqa.diagnosis.policy_updates import PolicySamples, group_advantage, pair_mean_baseline
from ivqa.generators import Questions, Sampling

if TYPE_CHECKING:
    from ivqa.diagnosis.policy import PolicyGradientModule


def draw_samples(
    module: "PolicyGradientModule", batch: VQABatch
) -> tuple[PolicySamples, Tensor, dict[str, Tensor]]:
    """Samples questions of a batch's pairs, and scores them.

    Args:
        module: The policy with its models, rewards and objective.
        batch: B pairs; the answer of each is known to the VQA model.

    Returns:
        The N samples; the log-probabilities of their words (N, T), with gradients; and scalars to
        log, by name.
    """
    objective, policy, images = module.objective, module.questioner, batch.images
    answers = [module.answers.answers[index] for index in batch.target.tolist()]
    strategy = Sampling(temperature=objective.sampling_temperature or objective.temperature)
    questions = policy.sample(images, answers, objective.num_samples, strategy)
    candidates = module.candidates(questions, images, answers)
    terms = module.compute_rewards(candidates)
    log_probs = objective.word_log_probs(policy, images, answers, questions)  # (N, T)
    old = log_probs.detach()
    reward = terms["reward"].to(module.device)
    if objective.entropy_weight or objective.kl_weight:
        reward = reward - objective.penalty(
            policy, module.reference, images, answers, questions, old.sum(dim=1)
        )
    # (N,), a constant for the gradient: only log_probs has one.
    if module.update == "grpo":
        advantage = group_advantage(reward, objective.num_samples)
    else:
        advantage = reward - baseline(module, images, answers, questions, reward)
    importance = objective.importance(policy, images, answers, questions)
    samples = PolicySamples(images, answers, questions, advantage, old, importance)
    shown = {**summary(candidates, terms), **module.legal_shares(candidates)}
    return samples, log_probs, {**shown, "nats": -old.sum(dim=1).mean()}


@torch.no_grad()
def baseline(
    module: "PolicyGradientModule",
    images: ImageBatch,
    answers: list[str],
    questions: Questions,
    reward: Tensor,
) -> Tensor:
    """Computes the baseline b of update="reinforce".

    Args:
        module: The policy; `PolicyObjective.baseline` chooses the baseline.
        images: Images of the P pairs.
        answers: Answers of the P pairs.
        questions: N sampled questions of these pairs.
        reward: (N,) their rewards.

    Returns:
        (N,) baselines.
    """
    if module.objective.baseline == "none":
        return torch.zeros_like(reward)
    if module.objective.baseline == "pair_mean":
        return pair_mean_baseline(reward, module.objective.num_samples)
    greedy = greedy_questions(module.questioner, images, answers, questions)
    earned = module.compute_rewards(module.candidates(greedy, images, answers))["reward"]
    return earned.to(reward)


def summary(candidates: Candidates, terms: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Mean rewards and statistics of samples.

    Args:
        candidates: N sampled questions.
        terms: Their rewards by name, (N,) each.

    Returns:
        Scalars by name.
    """
    return {**{name: r.mean() for name, r in terms.items()}, **sample_statistics(candidates)}
