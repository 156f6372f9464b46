"""The policy gradient of reward=paper reaches the encoder, and is that of the mean reward."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from torch import Tensor
from toy_diagnosis import ANSWERS, WORDS, toy_images, toy_policy

from ivqa.data.batches.batch import VQABatch
from ivqa.diagnosis import PolicyGradientModule
from ivqa.generators import Questions
from ivqa.text.vocabulary import BOS, EOS, UNK, Tokens

CONF = Path(__file__).parents[2] / "conf"
ASKED = ["yes", "red", "no", "red"]
SAMPLES = 8
OWN = [[4, 5, 6], [7], [8, 4, 8, 5], []]  # the data set's own questions


def _own() -> Tokens:
    ids = torch.tensor([[*words, *[0] * (4 - len(words))] for words in OWN])
    return Tokens(ids, torch.tensor([len(words) for words in OWN]))


def _policy(latent: str, **arguments: Any) -> PolicyGradientModule:
    policy = toy_policy(num_samples=SAMPLES, latent=latent, **arguments)
    policy.log_dict = lambda *args, **kwargs: None  # type: ignore[method-assign]
    torch.manual_seed(4)
    with torch.no_grad():  # weights that make z and the image matter
        for value in policy.questioner.parameters():
            value.normal_(std=0.7)
    return policy


def _batch() -> VQABatch:
    answer = Tokens(torch.full((4, 1), 4), torch.ones(4, dtype=torch.int64))
    none = torch.zeros(4, dtype=torch.int64)
    target = ANSWERS.encode(ASKED)
    return VQABatch(torch.arange(4), toy_images(4), _own(), answer, none, target)


def _cell(lstm: Any, word: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """One step of an LSTM, whose gates are i, f, g, o."""
    gates = lstm.weight_ih_l0 @ word + lstm.bias_ih_l0 + lstm.weight_hh_l0 @ hidden
    i, f, g, o = (gates + lstm.bias_hh_l0).chunk(4)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _encoded(network: Any, row: int, words: list[int]) -> tuple[Tensor, Tensor]:
    """Mean and scale of q(z | I, q), from an LSTM with h_0 = W_I f_I and c_0 = 0."""
    images = toy_images(4)
    feature = images.feature("concepts")[images.index[row]]
    projection = network.encoder_image.projection
    hidden, cell = projection.weight @ feature + projection.bias, torch.zeros(12)
    for word in words:
        hidden, cell = _cell(
            network.encoder_lstm, network.decoder.embedding.weight[word], hidden, cell
        )
    mean = network.encoder_mean.weight @ hidden + network.encoder_mean.bias
    raw = network.encoder_scale.weight @ hidden + network.encoder_scale.bias
    return mean, (1 + raw.exp()).log()


def _log_policy(policy: PolicyGradientModule, row: int, z: Tensor, words: list[int]) -> Tensor:
    """log pi(q | z, I, a) of one question of the pair `row`, word by word."""
    questioner = policy.questioner
    conditions, at = questioner.encode_pairs(toy_images(4), ASKED)
    step, state = questioner.network.decoding(conditions.select(at[[row]]), z[None])
    total, before = torch.zeros(()), torch.tensor([BOS])
    for word in [*words, EOS][: questioner.max_length]:
        log_probs, state = step(state, before)
        total = total + log_probs[0, word] - (1 - log_probs[0, UNK].exp()).log()
        before = torch.tensor([word])
    return total


def _encoder_parameters(policy: PolicyGradientModule) -> dict[str, Tensor]:
    named = policy.questioner.network.named_parameters()
    return {name: value for name, value in named if name.startswith("encoder_")}


def test_the_encoder_gets_the_gradient_of_equation_10() -> None:
    """(r - b) grad log p(w_t | w_<t; z, I, a) with z = mu + sigma * noise, computed by loops."""
    policy = _policy("encoder")
    seen: list[Questions] = []
    rewards = policy.compute_rewards

    def noted(candidates: Any) -> dict[str, Tensor]:
        seen.append(candidates.questions)
        return rewards(candidates)

    policy.compute_rewards = noted  # type: ignore[method-assign]
    torch.manual_seed(5)
    policy.training_step(_batch(), 0).backward()
    found = {name: value.grad for name, value in _encoder_parameters(policy).items()}
    assert {name.split(".")[0] for name in found} == {
        *("encoder_image", "encoder_lstm", "encoder_mean", "encoder_scale")
    }

    torch.manual_seed(5)
    noise = torch.randn(4 * SAMPLES, 4)
    (questions,) = seen
    assert questions.z is not None
    total, drawn = torch.zeros(()), 0
    for at in range(4 * SAMPLES):
        row = at // SAMPLES
        mean, scale = _encoded(policy.questioner.network, row, OWN[row])
        z = mean + scale * noise[at]
        torch.testing.assert_close(questions.z[at], z.detach(), atol=1e-5, rtol=1e-4)
        words = questions.tokens.ids[at, : questions.tokens.lengths[at]].tolist()
        texts = [questions.text[other] for other in range(row * SAMPLES, (row + 1) * SAMPLES)]
        earned = [_phi(text, ASKED[row]) for text in texts]
        own = earned.pop(at % SAMPLES)
        total = total - (own - sum(earned) / len(earned)) * _log_policy(policy, row, z, words)
        drawn += min(len(words) + 1, 5)
    policy.zero_grad()
    (total / drawn).backward()
    for name, value in _encoder_parameters(policy).items():
        assert value.grad is not None
        assert float(value.grad.abs().max()) > 1e-4, name
        torch.testing.assert_close(found[name], value.grad, atol=1e-5, rtol=1e-3)


def _phi(text: str, answer: str) -> float:
    best = "red" if "color" in text.lower() else "yes" if "star" in text.lower() else "no"
    return 0.8 if best == answer else 0.1


def test_a_fixed_encoder_samples_the_same_questions() -> None:
    asked = []
    for latent in ("encoder", "encoder_fixed"):
        policy = _policy(latent)
        torch.manual_seed(5)
        questions = policy.objective.sample(policy.questioner, toy_images(4), ASKED, _own())
        asked.append((questions.text, questions.z))
    assert asked[0][0] == asked[1][0]
    torch.testing.assert_close(asked[0][1], asked[1][1])


def _all_questions(pair: int, z: Tensor) -> Questions:
    """Every question of at most two words that a policy with max_length 2 can ask of one z."""
    words = range(4, 4 + len(WORDS.words))
    texts = [[], *([one] for one in words), *(list(two) for two in itertools.product(words, words))]
    ids = torch.tensor([[*text, 0, 0][:2] for text in texts])
    tokens = Tokens(ids, torch.tensor([len(text) for text in texts]))
    count = len(texts)
    of_pair = torch.full((count,), pair)
    return Questions(tokens, WORDS.decode(tokens), torch.zeros(count), of_pair, z.expand(count, -1))


def _enumerated(latent: str) -> tuple[PolicyGradientModule, Questions, Tensor, Tensor]:
    """A policy, its questions of one z of the first pair, their probabilities and log_probs."""
    policy = _policy(latent)
    policy.questioner.max_length = 2
    z = torch.tensor([0.4, -1.1, 0.3, 0.8])
    if latent.startswith("encoder"):
        mean, scale = _encoded(policy.questioner.network, 0, OWN[0])
        z = (mean + scale * z).detach()
    questions = _all_questions(0, z)
    log_probs = policy.objective.log_probs(
        policy.questioner, toy_images(4), ASKED, questions, _own()
    )
    with torch.no_grad():
        texts = [
            questions.tokens.ids[row, : questions.tokens.lengths[row]].tolist()
            for row in range(len(questions))
        ]
        chances = torch.stack([_log_policy(policy, 0, z, words) for words in texts]).exp()
    assert float(chances.sum()) == pytest.approx(1, abs=1e-5)
    return policy, questions, chances, log_probs


@pytest.mark.parametrize(
    ("latent", "unbiased"),
    [("prior", True), ("encoder", True), ("encoder_fixed", True), ("posterior", False)],
)
def test_a_constant_reward_has_no_gradient_where_z_is_the_sampled_one(
    latent: str, unbiased: bool
) -> None:
    """Sum_q pi(q | z) grad log pi(q | z) = 0. With "posterior" the two z differ."""
    policy, _, chances, log_probs = _enumerated(latent)
    (chances * log_probs).sum().backward()
    gradients = [v.grad for v in policy.questioner.network.parameters() if v.grad is not None]
    largest = max(float(gradient.abs().max()) for gradient in gradients)
    assert (largest < 1e-5) is unbiased
    assert unbiased or largest > 1e-2


def test_the_gradient_of_the_encoder_is_that_of_the_mean_reward() -> None:
    """By finite differences of sum_q pi(q | z(encoder), I, a) r(q), over all questions."""
    policy, questions, chances, log_probs = _enumerated("encoder")
    reward = torch.tensor([_phi(text, ASKED[0]) for text in questions.text])
    (chances * (reward - 0.3) * log_probs).sum().backward()
    parameters = _encoder_parameters(policy)
    gradients = {name: value.grad.clone() for name, value in parameters.items()}  # type: ignore[union-attr]
    norm = torch.stack([g.square().sum() for g in gradients.values()]).sum().sqrt()
    assert float(norm) > 1e-3
    noise = torch.tensor([0.4, -1.1, 0.3, 0.8])

    def mean_reward() -> float:
        mean, scale = _encoded(policy.questioner.network, 0, OWN[0])
        z = mean + scale * noise
        total = 0.0
        for row, earned in enumerate(reward.tolist()):
            words = questions.tokens.ids[row, : questions.tokens.lengths[row]].tolist()
            total += earned * float(_log_policy(policy, 0, z, words).exp())
        return total

    step, ends = 1e-2, []
    with torch.no_grad():
        for sign in (1, -2):  # to +step along the gradient, and from there to -step
            for name, value in parameters.items():
                value += sign * step * gradients[name] / norm
            ends.append(mean_reward())
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(float(norm), rel=0.02)


def test_the_papers_reward_sets_the_objective_and_a_sweep_may_change_it() -> None:
    def module(*overrides: str) -> Any:
        return compose("diagnose", list(overrides)).model.module

    reward = "reward@model.module.rewards"
    with initialize_config_dir(str(CONF), version_base=None):
        full, paper = module(f"{reward}=full"), module(f"{reward}=paper")
        changed = module(f"{reward}=paper", "model.module.objective.latent=prior")
    assert list(paper.rewards) == ["goal", "legality", "diversity"]
    assert paper.rewards == full.rewards
    assert (full.objective.latent, full.objective.entropy_weight) == ("prior", 0.05)
    assert (paper.objective.latent, paper.objective.entropy_weight) == ("encoder", 0.0)
    assert (changed.objective.latent, changed.objective.entropy_weight) == ("prior", 0.0)
    assert paper.objective.kl_weight == paper.objective.supervised_weight == 0
