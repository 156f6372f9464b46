"""The legality model that is trained on with the policy: its loss, threshold and gradients."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toy_diagnosis import WORDS, toy_images, toy_policy

from ivqa.diagnosis import AdversarialJudge, LegalityCNN, LegalityModule, LegalityReward
from ivqa.diagnosis.policy.collapse import CollapseMonitor
from ivqa.errors import UserError
from ivqa.text.vocabulary import Tokens

REAL = ["what color is it", "is it red", "what is it"]


class FirstWord(nn.Module):
    """The logit of a text is a weight of its first word."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Embedding(len(WORDS), 1)

    def forward(self, questions: Tokens) -> Tensor:
        logits: Tensor = self.output(questions.ids[:, 0])[:, 0]
        return logits


def _judge(**network: Any) -> LegalityModule:
    torch.manual_seed(0)
    settings = {"widths": [1, 2], "maps": [8, 8], "max_length": 6, "dropout": 0.0} | network
    return LegalityModule(network=partial(LegalityCNN, **settings), question_vocabulary=WORDS)


def _adversary(**settings: Any) -> AdversarialJudge:
    """An adversary whose logit is 1 for "what", -2 for "is" and 0 for other first words."""
    adversary = AdversarialJudge(_judge(), **{"num_real": 4000, "num_damaged": 0} | settings)
    network: Any = FirstWord()
    weights = torch.zeros(len(WORDS), 1)
    weights[WORDS.encode(["what"]).ids[0, 0]] = 1.0
    weights[WORDS.encode(["is"]).ids[0, 0]] = -2.0
    network.output.weight.data.copy_(weights)
    adversary.network = network
    return adversary


def _softplus(x: float) -> float:
    return float(torch.tensor(x).exp().add(1).log())


def test_loss_of_a_step_by_hand() -> None:
    """Real questions begin with what, is, what. Copies count once, training questions do not."""
    adversary = _adversary()
    adversary.prepare(REAL, REAL)
    torch.manual_seed(0)
    loss = adversary.loss(["star star", "star star", "is is", "is it red"])
    real = (2 * _softplus(-1.0) + _softplus(2.0)) / 3
    fake = (_softplus(0.0) + _softplus(-2.0)) / 2
    # 4,000 draws of three questions: the mean of the draws has a standard error of 0.013.
    assert float(loss.detach()) == pytest.approx(0.5 * (real + fake), abs=0.04)


def test_no_negatives_leave_the_real_questions() -> None:
    adversary = _adversary()
    adversary.prepare(["what is it"], REAL)
    assert float(adversary.loss(["what is it"]).detach()) == pytest.approx(
        0.5 * _softplus(-1.0), abs=1e-5
    )


def test_damaged_questions_are_negatives_too() -> None:
    """Every damage but one leaves the first word of a long question with a chance of its own."""
    adversary = _adversary(num_damaged=3000)
    adversary.prepare(["what color is it"], REAL)
    torch.manual_seed(0)
    without = 0.5 * (_softplus(-1.0) + _softplus(-2.0))
    # 1 negative of the policy with softplus(-2) = 0.13, thousands with mostly softplus(1) = 1.31.
    assert float(adversary.loss(["is is"]).detach()) > without + 0.3


def test_threshold_keeps_the_share_of_held_out_questions() -> None:
    """95 percent of 40 questions: the 5 percent quantile of 2 low and 38 high scores."""
    adversary = _adversary(calibrate_every=2)
    held_out = [f"is {'it ' * n}" for n in range(1, 3)] + [f"what {'it ' * n}" for n in range(38)]
    adversary.prepare(REAL, held_out)
    first = adversary.limit
    assert first == 0.5  # that of the model it started from, until the first step
    adversary.loss(["star"])
    scores = torch.tensor([-2.0] * 2 + [1.0] * 38).sigmoid()
    assert adversary.limit == pytest.approx(float(scores.quantile(0.05)), abs=1e-6)
    assert adversary.network.output.weight.grad is None
    adversary.network.output.weight.data.zero_()
    adversary.loss(["star"])  # the second step leaves the threshold
    assert adversary.limit == pytest.approx(float(scores.quantile(0.05)), abs=1e-6)
    adversary.loss(["star"])
    assert adversary.limit == pytest.approx(0.5)


def test_it_learns_what_the_frozen_model_takes_for_questions() -> None:
    frozen = _judge()
    adversary = AdversarialJudge(frozen, num_real=30, num_damaged=0)
    adversary.prepare(REAL, REAL)
    nonsense = ["star star star", "it it color"]
    before = frozen.probabilities(nonsense)
    optimizer = torch.optim.Adam(adversary.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        adversary.loss(nonsense).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert (adversary.probabilities(nonsense) < 0.1).all()
    assert (adversary.probabilities(REAL) > 0.9).all()
    assert torch.equal(frozen.probabilities(nonsense), before)


def test_policy_and_adversary_have_gradients_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy's gradient is the same with a frozen and with a trained legality model."""
    from test_policy import _batch

    grads = []
    for adversary in (None, partial(AdversarialJudge, num_real=5, num_damaged=0)):
        policy = toy_policy(
            rewards={"legality": LegalityReward(threshold=0.5)},
            legality_model=_judge(),
            adversary=adversary,
            latent="prior",
        )
        monkeypatch.setattr(policy, "log_dict", lambda *args, **kwargs: None)
        if policy.adversary is not None:
            policy.adversary.prepare(REAL, REAL)
            monkeypatch.setattr(policy.adversary, "calibrate", lambda: None)
        torch.manual_seed(3)
        policy.training_step(_batch(), 0).backward()  # type: ignore[no-untyped-call]
        grads.append([value.grad for value in policy.questioner.parameters()])
    for one, other in zip(*grads, strict=True):
        assert (one is None and other is None) or torch.allclose(one, other)
    own = [value.grad for value in policy.adversary.network.parameters()]
    assert all(value is not None and value.abs().sum() > 0 for value in own[-2:])
    trained = {id(value) for value in policy.trained_parameters()}
    assert {id(value) for value in policy.adversary.network.parameters()} <= trained


def test_it_is_stored_with_the_policy_and_judges_its_questions(tmp_path: Path) -> None:
    build = partial(
        toy_policy,
        legality_model=_judge(),
        adversary=partial(AdversarialJudge, num_real=5, num_damaged=0),
    )
    policy = build()
    policy.adversary.threshold.fill_(0.123)
    with torch.no_grad():
        policy.adversary.network.output.bias.fill_(7.0)
    torch.save(policy.state_dict(), tmp_path / "weights.pt")
    other = build()
    other.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    assert other.legality_model.limit == pytest.approx(0.123)
    questions = policy.sample(toy_images(3), ["yes", "no", "red"], 2)
    judged = other.candidates(questions, toy_images(3), ["yes", "no", "red"]).legality
    assert torch.allclose(judged, policy.adversary.probabilities(questions.text))
    assert not torch.allclose(judged, _judge().probabilities(questions.text))


def test_an_adversary_needs_a_legality_model() -> None:
    with pytest.raises(UserError, match="adversary needs a legality model"):
        toy_policy(adversary=AdversarialJudge)


def test_a_warning_where_the_two_models_part() -> None:
    common = {"unique": 1.0, "empty": 0.0, "words": 5.0}
    monitor = CollapseMonitor()
    monitor.check(common | {"legal": 0.9, "legal_at_first": 0.65}, 1)
    assert not monitor.reported
    with pytest.warns(UserWarning, match=r"40% by the one trained on, 93% by the first"):
        monitor.check(common | {"legal": 0.4, "legal_at_first": 0.93}, 2)
    monitor.check(common | {"legal": 0.3, "legal_at_first": 0.93}, 3)  # reported once
