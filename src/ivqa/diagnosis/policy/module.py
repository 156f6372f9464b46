"""The question generator as a policy that is trained on rewards by policy gradient [iVQA 5]."""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.diagnosis.candidates import Candidates, LegalityJudge
from ivqa.diagnosis.legality.module import LegalityModule, TrainingArguments
from ivqa.diagnosis.policy.adversary import AdversarialJudge
from ivqa.diagnosis.policy.collapse import CollapseMonitor, sample_statistics
from ivqa.diagnosis.policy.objective import (
    PolicyObjective,
    decode,
    drawn_words,
    pair_mean_baseline,
    reinforce_loss,
)
from ivqa.diagnosis.policy.rewards import Reward
from ivqa.errors import UserError
from ivqa.generators import GeneratorModule, Greedy, Questions, Sampling, Strategy
from ivqa.scenes import oracle_of
from ivqa.text.answers import AnswerVocabulary
from ivqa.trained import TrainedModule
from ivqa.vqa import Answerer


class PolicyGradientModule(TrainedModule):
    """Trains a copy of a question generator to ask questions that earn rewards.

    The gradient is (r - b) grad log pi(w_t | w_<t; z, I, a), summed over the words of sampled
    questions [iVQA 5]; see `PolicyObjective`. The reward r of a question is the product of
    `rewards`.

    Args:
        questioner: The supervised generator. The policy starts as a copy of it; the generator
            itself is not trained and stays available as `reference`.
        answerer: The VQA model that is diagnosed; it is not trained.
        rewards: Rewards by name, at least one.
        legality_model: The legality model, for rewards that need one; it is not trained.
        adversary: Called with the legality model; returns a copy that replaces it and is trained
            further, on the policy's samples, in the same steps. None: the model stays frozen.
        answers: The answers to ask about, for an answerer without a closed set of answers.
        objective: Sampling, baseline and weights of the loss; None takes the defaults.
        training: `optimizer` and `scheduler` of `TrainedModule`.

    Raises:
        UserError: There is no reward, or no set of answers.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        questioner: GeneratorModule,
        answerer: Answerer,
        rewards: Mapping[str, Reward],
        legality_model: LegalityModule | None = None,
        answers: AnswerVocabulary | None = None,
        objective: PolicyObjective | None = None,
        adversary: Callable[[LegalityModule | None], AdversarialJudge] | None = None,
        **training: Unpack[TrainingArguments],
    ) -> None:
        super().__init__(**training)
        if not rewards:
            raise UserError("a policy needs at least one reward; choose reward=full")
        self.questioner = copy.deepcopy(questioner).train()
        # In a tuple, so that PyTorch neither trains them nor stores them with the policy.
        self._frozen = (questioner.eval(), answerer, legality_model)
        self.adversary = None if adversary is None else adversary(legality_model)
        self.rewards = dict(rewards)
        self.answers = known_answers(answerer, answers)
        self.objective = PolicyObjective() if objective is None else objective
        self._collapse = CollapseMonitor()
        self._validated: tuple[Any, Any] | None = None  # oracle, image ids of the split

    @property
    def reference(self) -> GeneratorModule:
        """The supervised generator, unchanged."""
        return self._frozen[0]

    @property
    def answerer(self) -> Answerer:
        """The VQA model that is diagnosed."""
        return self._frozen[1]

    @property
    def legality_model(self) -> LegalityJudge | None:
        """The legality model; with an adversary, the copy that is trained with the policy."""
        return self._frozen[2] if self.adversary is None else self.adversary

    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        """Samples questions of the policy; see `Questioner.sample`."""
        return self.questioner.sample(images, answers, num_samples, strategy, generator)

    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Scores given questions by the policy; see `Questioner.log_likelihood`."""
        return self.questioner.log_likelihood(images, answers, questions)

    def candidates(
        self, questions: Questions, images: ImageBatch, answers: list[str]
    ) -> Candidates:
        """N questions about P pairs, scored on demand by the VQA model and the legality model."""
        return Candidates(
            questions, images, answers, self.answerer, self.answers, self.legality_model
        )

    def compute_rewards(self, candidates: Candidates) -> dict[str, Tensor]:
        """The rewards of N candidates by name and their product as "reward", (N,) float32 each."""
        terms = {name: reward(candidates) for name, reward in self.rewards.items()}
        product = torch.stack(list(terms.values())).prod(dim=0)  # (N,)
        return {**terms, "reward": product}

    def _legal_shares(self, candidates: Candidates) -> dict[str, Tensor]:
        """The shares of samples that are legal by the adversary, and by the model it copied."""
        first = self._frozen[2]
        if self.adversary is None or first is None:
            return {}
        before = replace(candidates, legality_model=first).legality
        return {
            "legal": (candidates.legality > self.adversary.limit).float().mean(),
            "legal_at_first": (before > first.limit).float().mean(),
        }

    @override
    def on_fit_start(self) -> None:
        """Moves the frozen models to the policy's device, and shows the adversary questions."""
        self.on_validation_start()
        if self.adversary is not None:
            data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
            splits = [data.dataset.split(stage).questions for stage in ("train", "val")]
            self.adversary.prepare(*splits)

    @override
    def on_validation_start(self) -> None:
        """Moves the frozen models to the policy's device when only validation runs."""
        for part in self._frozen:
            # An answerer need not be a PyTorch module.
            if isinstance(part, nn.Module):
                part.to(self.device)

    @override
    def on_validation_epoch_start(self) -> None:
        """Finds the oracle of the validated split, where the data have one."""
        self._validated = None
        if (data := getattr(self.trainer, "datamodule", None)) is not None:
            split = data.evaluated or "val"
            if (oracle := oracle_of(data.dataset, split)) is not None:
                self._validated = oracle, data.dataset.split(split).image_ids

    @override
    def training_step(self, batch: VQABatch, batch_idx: int) -> Tensor:
        """Computes the policy's loss on sampled questions of the batch's pairs.

        Raises:
            UserError: The loss is not finite.
        """
        objective, policy, images = self.objective, self.questioner, batch.images
        answers = self._answers(batch.target)
        questions = objective.sample(policy, images, answers, batch.question)
        candidates = self.candidates(questions, images, answers)
        terms = self.compute_rewards(candidates)
        log_probs = objective.log_probs(policy, images, answers, questions, batch.question)  # (N,)
        reward = terms["reward"].to(self.device)
        if objective.entropy_weight or objective.kl_weight:
            reward = reward - objective.penalty(
                policy, self.reference, images, answers, questions, log_probs.detach()
            )
        # Only log_probs has a gradient.
        advantage = reward - self.baseline(images, answers, questions, reward)  # (N,)
        loss = reinforce_loss(advantage, log_probs, drawn_words(questions, policy.max_length))
        shown = {**summary(candidates, terms), **self._legal_shares(candidates)}
        shown["nats"] = -log_probs.detach().mean()
        self._collapse.check(shown, self.global_step)
        if objective.supervised_weight:
            loss = loss + objective.supervised_loss(policy, batch)
        if self.adversary is not None:
            # The rewards are constants for the policy's gradient, so that each of the two losses
            # has a gradient for its own network alone.
            own = self.adversary.loss(questions.text)
            shown["adversary_loss"] = own.detach()
            loss = loss + own
        if not torch.isfinite(loss):
            raise UserError(
                f"the policy's loss is not finite at step {self.global_step}; lower the learning "
                "rate or trainer.gradient_clip_val"
            )
        shown["loss"] = loss.detach()
        self.log_dict({f"train/{name}": v for name, v in shown.items()}, batch_size=len(batch))
        return loss

    @torch.no_grad()
    def baseline(
        self, images: ImageBatch, answers: list[str], questions: Questions, reward: Tensor
    ) -> Tensor:
        """The baselines (N,) that `PolicyObjective.baseline` chooses, for N samples."""
        if self.objective.baseline == "none":
            return torch.zeros_like(reward)
        if self.objective.baseline == "pair_mean":
            return pair_mean_baseline(reward, self.objective.num_samples)
        pair, z = questions.pair, questions.z
        greedy = decode(self.questioner, images, answers, pair, z, Greedy())
        earned = self.compute_rewards(self.candidates(greedy, images, answers))["reward"]
        return earned.to(reward)

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """Names of the metrics that validation logs, such as "val/reward"."""
        terms = ["reward", "unique", "empty", "words", *arguments.get("rewards", {})]
        return {f"val/{name}" for name in terms}

    @override
    def validation_step(self, batch: VQABatch, batch_idx: int) -> None:
        """Logs the rewards of the policy's samples, at temperature 1."""
        generator = torch.Generator().manual_seed(batch_idx)
        rows = (batch.target >= 0).nonzero()[:, 0]  # -1: not an answer of this model
        if not len(rows):
            return
        answers, images = self._answers(batch.target[rows]), batch.images.select(rows)
        questions = self.questioner.sample(
            images, answers, self.objective.num_samples, Sampling(), generator
        )
        candidates = self.candidates(questions, images, answers)
        shown = summary(candidates, self.compute_rewards(candidates))
        shown |= self._legal_shares(candidates)
        shown |= self._legal_by_grammar(batch.rows[rows], questions)
        self.log_dict(
            {f"val/{name}": value for name, value in shown.items()}, batch_size=len(answers)
        )

    @override
    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """The parameters of the policy that its generator trains, and those of the adversary."""
        own = [] if self.adversary is None else self.adversary.network.parameters()
        return chain(self.questioner.trained_parameters(), own)

    @override
    def component(self) -> dict[str, Any]:
        return {**self.questioner.component(), "feature_sizes": {}}

    def _legal_by_grammar(self, rows: Tensor, questions: Questions) -> dict[str, Tensor]:
        """The share of validation samples that an oracle understands, where the data have one."""
        if self._validated is None or not len(questions):
            return {}
        oracle, image_ids = self._validated
        ids = image_ids[rows.cpu().numpy()][questions.pair.cpu().numpy()]
        judged = oracle.judge_many(ids.tolist(), questions.text)
        understood = [float(judgement.understood) for judgement in judged]
        return {"legal_by_grammar": torch.tensor(understood).mean()}

    def _answers(self, target: Tensor) -> list[str]:
        return [self.answers.answers[index] for index in target.tolist()]


def known_answers(answerer: Answerer, answers: AnswerVocabulary | None) -> AnswerVocabulary:
    """The closed set of a VQA model; of a model without one, the answers to ask about.

    Raises:
        UserError: There is neither.
    """
    known = answerer.answers if answerer.answers is not None else answers
    if known is None:
        raise UserError(
            "this VQA model answers in its own words: set vqa.pool_answers, how many of the "
            "training split's answers to ask it about"
        )
    return known


def summary(candidates: Candidates, terms: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Mean rewards (scalars by name) and statistics of N sampled questions."""
    return {**{name: r.mean() for name, r in terms.items()}, **sample_statistics(candidates)}
