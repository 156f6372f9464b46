"""The question generator as a policy that is trained on rewards by policy gradient [iVQA 5].

The file is a little over 300 lines, because the shapes of each step are listed.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch, VQABatch
from ivqa.diagnosis.candidates import Candidates
from ivqa.diagnosis.collapse import CollapseMonitor, sample_statistics
from ivqa.diagnosis.legality import LegalityModule
from ivqa.diagnosis.policy_objective import (
    PolicyObjective,
    drawn_words,
    greedy_questions,
    pair_mean_baseline,
    reinforce_loss,
)
from ivqa.diagnosis.rewards import Reward
from ivqa.errors import UserError
from ivqa.generators import QuestionGenerationModule, Questions, Sampling, Strategy
from ivqa.generators.objective import negative_elbo
from ivqa.text.answers import AnswerVocabulary
from ivqa.trained import OptimizerFactory, SchedulerFactory, TrainedModule
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
        judge: The legality model, for rewards that need one; it is not trained.
        answers: The answers to ask about, for an answerer without a closed set of answers.
        optimizer: Called with the parameters to train; None for inference.
        scheduler: Called with the optimiser; None keeps the learning rate.
        objective: Sampling, baseline and weights of the loss; None takes the defaults.

    Raises:
        UserError: There is no reward, or no set of answers.
    """

    def __init__(
        self,
        *,
        questioner: QuestionGenerationModule,
        answerer: Answerer,
        rewards: Mapping[str, Reward],
        judge: LegalityModule | None = None,
        answers: AnswerVocabulary | None = None,
        optimizer: OptimizerFactory | None = None,
        scheduler: SchedulerFactory | None = None,
        objective: PolicyObjective | None = None,
    ) -> None:
        super().__init__(optimizer, scheduler)
        if not rewards:
            raise UserError("a policy needs at least one reward; choose reward=full")
        known = answerer.answers if answerer.answers is not None else answers
        if known is None:
            raise UserError(
                "this VQA model answers in its own words: set vqa.pool_answers, how many of the "
                "training split's answers to ask it about"
            )
        self.questioner = copy.deepcopy(questioner).train()
        # In a tuple, so that PyTorch neither trains them nor stores them with the policy.
        self._frozen = (questioner.eval(), answerer, judge)
        self.rewards = dict(rewards)
        self.answers = known
        self.objective = PolicyObjective() if objective is None else objective
        self._collapse = CollapseMonitor()

    @property
    def reference(self) -> QuestionGenerationModule:
        """The supervised generator, unchanged."""
        return self._frozen[0]

    @property
    def answerer(self) -> Answerer:
        """The VQA model that is diagnosed."""
        return self._frozen[1]

    @property
    def judge(self) -> LegalityModule | None:
        """The legality model."""
        return self._frozen[2]

    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        """Samples questions of the policy.

        Args:
            images: Images of the P pairs.
            answers: Answers of the P pairs.
            num_samples: Questions of each pair.
            strategy: How a z becomes a question; None takes the generator's own strategy.
            generator: Random numbers; None takes torch's global generator.

        Returns:
            N = P * num_samples questions, pair by pair; see `QuestionGenerationModule.sample`.
        """
        return self.questioner.sample(images, answers, num_samples, strategy, generator)

    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Log-likelihoods of given questions; see `QuestionGenerationModule.log_likelihood`.

        Args:
            images: B images.
            answers: B answers.
            questions: B questions.

        Returns:
            (B,) float32, in nats.
        """
        return self.questioner.log_likelihood(images, answers, questions)

    def candidates(
        self, questions: Questions, images: ImageBatch, answers: list[str]
    ) -> Candidates:
        """Combines questions with the models that score them.

        Args:
            questions: N questions of P pairs.
            images: Images of the P pairs.
            answers: Answers of the P pairs.

        Returns:
            The questions, scored on demand by the VQA model and the legality model.
        """
        return Candidates(questions, images, answers, self.answerer, self.answers, self.judge)

    def compute_rewards(self, candidates: Candidates) -> dict[str, Tensor]:
        """Computes the rewards of N candidates.

        Args:
            candidates: The questions.

        Returns:
            Each reward by name and their product as "reward", (N,) float32 each.
        """
        terms = {name: reward(candidates) for name, reward in self.rewards.items()}
        product = torch.stack(list(terms.values())).prod(dim=0)  # (N,)
        return {**terms, "reward": product}

    def on_fit_start(self) -> None:
        """Moves the frozen models to the policy's device."""
        for part in self._frozen:
            # An answerer need not be a PyTorch module.
            if isinstance(part, nn.Module):
                part.to(self.device)

    def on_validation_start(self) -> None:
        """Moves the frozen models to the policy's device when only validation runs."""
        self.on_fit_start()

    def training_step(self, batch: VQABatch, batch_idx: int) -> Tensor:
        """Computes the policy's loss on sampled questions of the batch's pairs.

        Args:
            batch: B pairs; the answer of each is known to the VQA model.
            batch_idx: Number of the batch; not used.

        Returns:
            The loss, a scalar.

        Raises:
            UserError: The loss is not finite.
        """
        objective = self.objective
        answers = self._answers(batch.target)
        questions = self.questioner.sample(
            batch.images,
            answers,
            objective.num_samples,
            Sampling(temperature=objective.temperature),
        )
        candidates = self.candidates(questions, batch.images, answers)
        terms = self.compute_rewards(candidates)
        log_probs = objective.log_probs(self.questioner, batch.images, answers, questions)  # (N,)
        reward = terms["reward"].to(self.device)
        if objective.entropy_weight or objective.kl_weight:
            reward = reward - objective.penalty(
                self.questioner,
                self.reference,
                batch.images,
                answers,
                questions,
                log_probs.detach(),
            )
        # (N,), a constant for the gradient: only log_probs has one.
        advantage = reward - self._baseline(batch.images, answers, questions, reward)
        words = drawn_words(questions, self.questioner.max_length)
        loss = reinforce_loss(advantage, log_probs, words)
        if objective.supervised_weight:
            loss = loss + self._supervised_term(batch)
        if not torch.isfinite(loss):
            raise UserError(
                f"the policy's loss is not finite at step {self.global_step}; lower the learning "
                "rate or trainer.gradient_clip_val"
            )
        shown = {"loss": loss.detach(), **_summary(candidates, terms), "nats": -log_probs.mean()}
        self.log_dict({f"train/{name}": v for name, v in shown.items()}, batch_size=len(batch))
        self._collapse.check(shown, self.global_step)
        return loss

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """Names of the metrics that validation logs.

        Args:
            arguments: The constructor's arguments in the configuration.

        Returns:
            The names, such as "val/reward".
        """
        terms = ["reward", "unique", "empty", "words", *arguments.get("rewards", {})]
        return {f"val/{name}" for name in terms}

    def validation_step(self, batch: VQABatch, batch_idx: int) -> None:
        """Logs the rewards of the policy's samples, at temperature 1.

        Args:
            batch: B pairs; those whose answer the VQA model does not know are left out.
            batch_idx: Number of the batch. It seeds the sampling, so that every validation
                uses the same random numbers.
        """
        generator = torch.Generator().manual_seed(batch_idx)
        rows = (batch.target >= 0).nonzero()[:, 0]  # -1: not an answer of this model
        if not len(rows):
            return
        answers, images = self._answers(batch.target[rows]), batch.images.select(rows)
        questions = self.questioner.sample(
            images, answers, self.objective.num_samples, Sampling(), generator
        )
        candidates = self.candidates(questions, images, answers)
        summary = _summary(candidates, self.compute_rewards(candidates))
        self.log_dict(
            {f"val/{name}": value for name, value in summary.items()}, batch_size=len(answers)
        )

    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """The parameters of the policy that its generator trains; all other models are frozen."""
        return self.questioner.trained_parameters()

    def component(self) -> dict[str, Any]:
        """Describes the module in a checkpoint, in plain containers.

        Returns:
            The generator's description without feature sizes, which its parts check themselves.
        """
        return {**self.questioner.component(), "feature_sizes": {}}

    def _answers(self, target: Tensor) -> list[str]:
        return [self.answers.answers[index] for index in target.tolist()]

    def _supervised_term(self, batch: VQABatch) -> Tensor:
        """supervised_weight times the negative ELBO of the batch's own questions, per word."""
        output = self.questioner.network(batch.encoded(self.questioner.image_encoder))
        elbo = negative_elbo(
            output.log_likelihood,
            output.kl,
            free_nats=self.questioner.free_nats,
            per_dimension=self.questioner.free_nats_per_dimension,
            pull=self.questioner.free_nats_pull,
        )
        weight = self.objective.supervised_weight
        # negative_elbo is a mean over questions; this makes it a mean over words.
        return weight * elbo * len(batch) / output.num_tokens.sum()

    @torch.no_grad()
    def _baseline(
        self, images: ImageBatch, answers: list[str], questions: Questions, reward: Tensor
    ) -> Tensor:
        """The baseline b of N samples, (N,)."""
        if self.objective.baseline == "none":
            return torch.zeros_like(reward)
        if self.objective.baseline == "pair_mean":
            return pair_mean_baseline(reward, self.objective.num_samples)
        greedy = greedy_questions(self.questioner, images, answers, questions)
        return self.compute_rewards(self.candidates(greedy, images, answers))["reward"].to(reward)


def _summary(candidates: Candidates, terms: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Mean rewards and statistics of the samples."""
    return {**{name: r.mean() for name, r in terms.items()}, **sample_statistics(candidates)}
