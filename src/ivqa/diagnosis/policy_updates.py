"""The steps of policy-gradient training: REINFORCE, and clipped steps with a group baseline.

REINFORCE follows [iVQA 5]. The clipped steps are those of GRPO (Shao et al. 2024,
arXiv:2402.03300), which are PPO (Schulman et al. 2017, arXiv:1707.06347) with the mean reward of a
group of samples as the baseline, here the samples of one (image, answer) pair.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from ivqa.data.batch import ImageBatch
from ivqa.generators import Questions
from ivqa.text.vocabulary import Tokens

MAX_IMPORTANCE = 10.0  # truncation bounds the variance of importance weights (Ionides 2008)
_LEAST_SPREAD = 1e-6  # a pair whose samples earn the same has advantages of 0, not of 0 / 0


@dataclass(frozen=True)
class PolicySamples:
    """Samples of P pairs that one or several steps are made on.

    Args:
        images: Images of the P pairs.
        answers: Answers of the P pairs.
        questions: N sampled questions.
        advantage: (N,) what the gradient of log pi is multiplied with.
        old: (N, T) log-probabilities of the words under the policy that drew them, in nats.
        importance: (N,) importance weights of the samples; 1 without another temperature.
    """

    images: ImageBatch
    answers: list[str]
    questions: Questions
    advantage: Tensor
    old: Tensor
    importance: Tensor

    def state(self) -> dict[str, Any]:
        """Returns the samples in plain containers and tensors, for a checkpoint."""
        images = {
            name: value for name, value in vars(self.images).items() if isinstance(value, Tensor)
        }
        questions = {**vars(self.questions), "tokens": vars(self.questions.tokens)}
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**own, "images": images, "questions": questions}

    @classmethod
    def restored(cls, state: Mapping[str, Any], device: torch.device) -> "PolicySamples":
        """Rebuilds samples from a checkpoint.

        Args:
            state: What `state` returned.
            device: Where the tensors are needed.

        Returns:
            The samples; their images carry features, not files.
        """
        moved = _moved(state, device)
        words = moved["questions"].pop("tokens")
        questions = Questions(tokens=Tokens(**words), **moved["questions"])
        return cls(**{**moved, "images": ImageBatch(**moved["images"]), "questions": questions})


def reinforce_loss(advantage: Tensor, log_probs: Tensor, words: Tensor) -> Tensor:
    """Loss whose gradient is that of REINFORCE, per drawn word.

    Args:
        advantage: (N,) reward minus baseline, without gradients.
        log_probs: (N,) log pi of the samples, with gradients.
        words: (N,) number of words that the policy drew for each sample.

    Returns:
        Scalar: -sum(advantage * log_probs) / sum(words).

    Example:
        >>> reinforce_loss(torch.tensor([1.0]), torch.tensor([-6.0]), torch.tensor([3.0])).item()
        2.0
    """
    return -(advantage * log_probs).sum() / words.sum()


def pair_mean_baseline(reward: Tensor, num_samples: int) -> Tensor:
    """Mean reward of the other samples of the same pair (leave-one-out).

    Args:
        reward: (N,) rewards; the `num_samples` samples of a pair follow each other.
        num_samples: Samples of each pair, at least 2.

    Returns:
        (N,) baselines.

    Example:
        >>> pair_mean_baseline(torch.tensor([0.0, 1.0, 2.0]), num_samples=3).tolist()
        [1.5, 1.0, 0.5]
    """
    by_pair = reward.view(-1, num_samples)  # (P, num_samples)
    others = by_pair.sum(dim=1, keepdim=True) - by_pair
    return (others / (num_samples - 1)).flatten()


def group_advantage(reward: Tensor, num_samples: int) -> Tensor:
    """Reward minus the mean of the pair's samples, divided by their standard deviation.

    Args:
        reward: (N,) rewards; the `num_samples` samples of a pair follow each other.
        num_samples: Samples of each pair.

    Returns:
        (N,) advantages; 0 for the samples of a pair that all earn the same.

    Example:
        >>> group_advantage(torch.tensor([0.0, 1.0, 0.0, 1.0]), num_samples=4).round().tolist()
        [-1.0, 1.0, -1.0, 1.0]
    """
    by_pair = reward.view(-1, num_samples)  # (P, num_samples)
    centred = by_pair - by_pair.mean(dim=1, keepdim=True)
    spread = centred.square().mean(dim=1, keepdim=True).sqrt()
    return (centred / (spread + _LEAST_SPREAD)).flatten()


def importance_weights(log_probs: Tensor, sampled_log_probs: Tensor) -> Tensor:
    """Weights that turn samples of one distribution into samples of another.

    Args:
        log_probs: (N,) log pi of the samples, in nats.
        sampled_log_probs: (N,) their log-probabilities when they were sampled, in nats.

    Returns:
        (N,) pi divided by the probability of the sampling, at most `MAX_IMPORTANCE`.

    Example:
        >>> importance_weights(torch.tensor([-1.0, -1.0]), torch.tensor([-1.0, -9.0])).tolist()
        [1.0, 10.0]
    """
    return (log_probs - sampled_log_probs).exp().clamp_max(MAX_IMPORTANCE)


def clipped_loss(
    advantage: Tensor, ratio: Tensor, words: Tensor, clip: float
) -> tuple[Tensor, Tensor]:
    """PPO's clipped surrogate, per drawn word.

        -sum_n sum_t min(rho_nt A_n, clip(rho_nt, 1 - clip, 1 + clip) A_n) / sum_n w_n

    Where every ratio rho is 1, its gradient is that of `reinforce_loss`.

    Args:
        advantage: (N,) A, without gradients.
        ratio: (N, T) rho = exp(log pi_new - log pi_old) of each word, with gradients.
        words: (N,) number w of words that the policy drew for each sample; words after them in
            `ratio` are left out.
        clip: How far a ratio may leave 1 for gain.

    Returns:
        The loss, a scalar; and the share of words whose gradient the clipping removes, a scalar.
    """
    drawn = torch.arange(ratio.shape[1], device=ratio.device) < words[:, None]  # (N, T)
    gain = ratio * advantage[:, None]
    bounded = ratio.clamp(1 - clip, 1 + clip) * advantage[:, None]
    total = torch.where(drawn, torch.minimum(gain, bounded), 0).sum()
    removed = (drawn & (bounded < gain)).sum() / words.sum()
    return -total / words.sum(), removed


def _moved(value: Any, device: torch.device) -> Any:
    """Moves the tensors of nested mappings to a device."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _moved(item, device) for key, item in value.items()}
    return value
