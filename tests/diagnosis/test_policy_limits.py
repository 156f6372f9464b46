"""Bounds of collapse warnings, inputs of rewards, trained parameters and checkpoints."""

import warnings
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from toy_diagnosis import (
    ANSWERS,
    WORDS,
    LongIsLegal,
    toy_images,
    toy_policy,
    toy_questioner,
)

from ivqa.data.batches.batch import VQABatch
from ivqa.diagnosis import Candidates, GoalReward, LegalityReward, PolicyGradientModule
from ivqa.diagnosis.policy.collapse import CollapseMonitor
from ivqa.generators import Greedy, Sampling
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Tokens

ASKED = ["yes", "red", "no", "red"]
pytestmark = pytest.mark.filterwarnings("ignore:step 0. the policy asks")
SGD = partial(torch.optim.SGD, lr=0.5)


def _policy(**arguments: Any) -> PolicyGradientModule:
    policy = toy_policy(**{"latent": "prior", "num_samples": 3} | arguments)
    policy.log_dict = lambda *args, **kwargs: None  # type: ignore[method-assign]
    return policy


def _schedule(optimizer: Any, num_training_steps: int) -> Any:
    return torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=num_training_steps)


def _batch() -> VQABatch:
    size = len(ASKED)
    words = Tokens(torch.full((size, 2), 4), torch.full((size,), 2))
    none = torch.zeros(size, dtype=torch.int64)
    target = ANSWERS.encode(ASKED)
    return VQABatch(torch.arange(size), toy_images(size), words, words, none, target)


def _warned(monitor: CollapseMonitor, **statistics: float) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        monitor.check({"unique": 1.0, "empty": 0.0, "words": 5.0} | statistics, step=0)
    return [str(one.message) for one in seen]


@pytest.mark.parametrize(
    ("sign", "bound", "beyond", "text"),
    [
        ("unique", 0.15, 0.149, "the policy asks nearly the same question for every z; lower"),
        ("empty", 0.05, 0.051, "the policy asks empty questions; lower"),
        ("words", 2.0, 1.99, "the policy asks questions of under 2 words; lower"),
    ],
)
def test_a_warning_needs_a_value_beyond_its_bound(
    sign: str, bound: float, beyond: float, text: str
) -> None:
    """Each sign is reported once; the other two are reported after it."""
    monitor = CollapseMonitor()
    assert _warned(monitor, **{sign: bound}) == []
    (message,) = _warned(monitor, **{sign: beyond})
    assert text in message
    assert _warned(monitor, **{sign: beyond}) == []
    assert len(_warned(monitor, unique=0.0, empty=1.0, words=0.0)) == 2


def test_rewards_use_the_judge_and_are_multiplied() -> None:
    """`LongIsLegal` judges a question of two words or more as legal."""
    legality_model: Any = LongIsLegal()
    rewards = {"goal": GoalReward(), "legality": LegalityReward()}
    policy = _policy(legality_model=legality_model, rewards=rewards)
    questions = policy.sample(toy_images(4), ASKED, 30, generator=torch.Generator().manual_seed(1))
    judged = policy.candidates(questions, toy_images(4), ASKED)
    assert judged.legality_model is legality_model
    assert judged.answers_known is ANSWERS
    terms = policy.compute_rewards(judged)
    legal = [float(len(text.split()) > 1) for text in questions.text]
    assert 0 < sum(legal) < 120
    best = ["red" if "color" in text.lower() else "yes" if "star" in text.lower() else "no"
            for text in questions.text]  # fmt: skip
    goal = [0.8 if best[row] == ASKED[row // 30] else 0.1 for row in range(120)]
    assert set(terms) == {"goal", "legality", "reward"}
    assert terms["legality"].tolist() == legal
    assert terms["goal"].tolist() == pytest.approx(goal)
    product = [one * other for one, other in zip(goal, legal, strict=True)]
    assert terms["reward"].tolist() == pytest.approx(product)


def test_legality_without_a_judge_names_the_missing_key() -> None:
    policy = _policy()
    questions = policy.sample(toy_images(4), ASKED, 1)
    with pytest.raises(ValueError, match=r"name one in model\.parts\.legality_model"):
        LegalityReward(threshold=0.5)(policy.candidates(questions, toy_images(4), ASKED))


def test_the_greedy_baseline_scores_complete_questions() -> None:
    """The reward receives the greedy words, their likelihood, pair and z."""
    seen: list[Candidates] = []

    class Noted:
        def __call__(self, candidates: Candidates) -> torch.Tensor:
            seen.append(candidates)
            return torch.ones(len(candidates))

    policy = _policy(rewards={"noted": Noted()}, baseline="greedy")
    images = toy_images(4)
    questions = policy.sample(images, ASKED, 3, generator=torch.Generator().manual_seed(1))
    earned = policy.baseline(images, ASKED, questions, torch.zeros(12, dtype=torch.float64))
    assert earned.dtype == torch.float64
    (candidates,) = seen
    greedy = candidates.questions
    assert greedy.z is questions.z
    assert greedy.pair is questions.pair
    assert questions.z is not None
    network, questioner = policy.questioner.network, policy.questioner
    conditions, row = questioner.encode_pairs(images, ASKED)
    for at in range(12):
        given = conditions.select(row[questions.pair[[at]]])
        step, state = network.decoding(given, questions.z[[at]])
        alone = Greedy()(step, state, 5)
        assert greedy.text[at] == WORDS.decode(alone.tokens)[0]
        assert float(greedy.log_likelihood[at]) == pytest.approx(
            float(alone.log_likelihood[0].detach()), abs=1e-4
        )


@pytest.mark.parametrize("per_dimension", [False, True])
@pytest.mark.parametrize("pull", [False, True])
def test_the_supervised_loss_has_the_generators_free_nats(per_dimension: bool, pull: bool) -> None:
    """Max(free, KL), in total or by dimension; free + |KL - free| with free_nats_pull."""

    class Constant:
        def __call__(self, candidates: Any) -> torch.Tensor:
            return torch.ones(len(candidates))

    free = 0.1 if per_dimension else 0.7
    questioner = toy_questioner(
        free_nats=free, free_nats_per_dimension=per_dimension, free_nats_pull=pull
    )
    policy = _policy(questioner=questioner, rewards={"same": Constant()}, supervised_weight=0.5)
    torch.manual_seed(5)
    loss = policy.training_step(_batch(), 0)
    torch.manual_seed(5)
    policy.sample(toy_images(4), ASKED, 3)
    output = policy.questioner.network(_batch())
    means = output.kl.detach().mean(dim=0).tolist()
    rates = means if per_dimension else [sum(means)]
    paid = [free + abs(rate - free) if pull else max(free, rate) for rate in rates]
    assert paid != rates  # some nats are free
    bound = float(output.log_likelihood.detach().mean()) - sum(paid)
    assert float(loss.detach()) == pytest.approx(-0.5 * bound * 4 / 12, abs=1e-5)


def test_validation_samples_at_temperature_1(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    policy = _policy(temperature=0.5)
    sample = policy.questioner.sample

    def noted(images: Any, answers: Any, number: int, strategy: Any, generator: Any = None) -> Any:
        asked.append((number, strategy, None if generator is None else generator.initial_seed()))
        return sample(images, answers, number, strategy, generator)

    monkeypatch.setattr(policy.questioner, "sample", noted)
    policy.training_step(_batch(), 3)
    policy.validation_step(_batch(), 3)
    assert asked == [(3, Sampling(temperature=0.5), None), (3, Sampling(), 3)]
    policy.validation_step(VQABatch(**{**_batch().__dict__, "target": torch.full((4,), -1)}), 4)
    assert len(asked) == 2  # no answer of this batch is known


def test_validation_metrics_names_what_validation_logs() -> None:
    policy, logged = _policy(), {}
    policy.log_dict = lambda values, batch_size: logged.update(values)  # type: ignore[method-assign]
    policy.validation_step(_batch(), 0)
    declared = PolicyGradientModule.validation_metrics({"rewards": {"goal": None}})
    assert set(logged) == declared
    assert declared == {"val/reward", "val/unique", "val/empty", "val/words", "val/goal"}
    assert PolicyGradientModule.validation_metrics({}) == declared - {"val/goal"}


def test_the_optimizer_gets_the_policys_parameters_and_the_scheduler_the_steps() -> None:
    with pytest.raises(ValueError, match="without an optimizer"):
        _policy().configure_optimizers()
    policy = _policy(optimizer=SGD)
    (group,) = policy.configure_optimizers().param_groups
    assert list(map(id, group["params"])) == list(map(id, policy.questioner.parameters()))
    policy = _policy(optimizer=SGD, scheduler=_schedule)
    policy._trainer = SimpleNamespace(estimated_stepping_batches=7.0)  # type: ignore[assignment]
    found = policy.configure_optimizers()
    assert set(found) == {"optimizer", "lr_scheduler"}
    assert set(found["lr_scheduler"]) == {"scheduler", "interval"}
    assert found["lr_scheduler"]["interval"] == "step"
    scheduler = found["lr_scheduler"]["scheduler"]
    assert scheduler.total_iters == 7
    assert isinstance(scheduler.total_iters, int)
    assert scheduler.optimizer is found["optimizer"]
    plain = partial(torch.optim.lr_scheduler.StepLR, step_size=3)
    found = _policy(optimizer=SGD, scheduler=plain).configure_optimizers()
    assert found["lr_scheduler"]["scheduler"].step_size == 3


def test_the_copy_is_trained_and_the_other_models_are_not() -> None:
    questioner = toy_questioner()
    policy = _policy(questioner=questioner)
    assert policy.questioner is not questioner
    assert policy.questioner.training
    assert policy.reference is questioner
    assert not questioner.training
    moved: list[Any] = []

    class Part(nn.Module):
        def to(self, *args: Any, **kwargs: Any) -> Any:
            moved.append(args)
            return self

    part: Any = Part()
    part.answers = ANSWERS
    policy = _policy(answerer=part, legality_model=part)
    policy.on_validation_start()
    assert moved == [(torch.device("cpu"),)] * 2


def test_an_open_answerer_uses_the_given_answers() -> None:
    class Open:
        answers = None

    own: Any = Open()
    few = AnswerVocabulary(["green"])
    with pytest.raises(ValueError, match="answers in its own words"):
        _policy(answerer=own)
    assert _policy(answerer=own, answers=few).answers is few
    assert _policy(answers=few).answers is ANSWERS  # the answerer has a closed set


def test_a_loss_that_is_not_finite_stops_training() -> None:
    class Broken:
        def __call__(self, candidates: Any) -> torch.Tensor:
            return torch.full((len(candidates),), torch.nan)

    policy = _policy(rewards={"broken": Broken()})
    policy._trainer = None
    with pytest.raises(ValueError, match="loss is not finite at step 0"):
        policy.training_step(_batch(), 0)


def test_a_checkpoint_holds_the_generators_description() -> None:
    checkpoint: dict[str, Any] = {}
    policy = _policy()
    policy.on_save_checkpoint(checkpoint)
    expected = {**toy_questioner().component(), "feature_sizes": {}}
    assert checkpoint == {"component": expected}
    policy.on_load_checkpoint(checkpoint)
    with pytest.raises(ValueError, match="other question_words"):
        policy.on_load_checkpoint({"component": {**expected, "question_words": ["why"]}})


def test_logged_values_are_weighted_by_the_pairs_of_the_batch() -> None:
    policy, logged = _policy(), []
    policy.log_dict = lambda values, **options: logged.append((set(values), options))  # type: ignore[method-assign]
    policy.training_step(_batch(), 0)
    batch = _batch()
    batch.target[1] = -1
    policy.validation_step(batch, 0)
    terms = {"goal", "reward", "unique", "empty", "words"}
    training = {f"train/{name}" for name in terms | {"loss", "nats"}}
    assert logged[0] == (training, {"batch_size": 4})
    assert logged[1] == ({f"val/{name}" for name in terms}, {"batch_size": 3})
