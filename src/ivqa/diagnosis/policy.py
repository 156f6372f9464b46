"""The question generator as a policy that is trained on rewards by policy gradient [iVQA 5]."""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, Literal, Unpack

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batch import ImageBatch, VQABatch
from ivqa.diagnosis.adversary import AdversarialJudge
from ivqa.diagnosis.candidates import Candidates, LegalityJudge
from ivqa.diagnosis.collapse import CollapseMonitor
from ivqa.diagnosis.legality import LegalityModule, TrainingArguments
from ivqa.diagnosis.policy_log_probs import drawn_words
from ivqa.diagnosis.policy_objective import PolicyObjective
from ivqa.diagnosis.policy_sampling import draw_samples, summary
from ivqa.diagnosis.policy_updates import PolicySamples, clipped_loss, reinforce_loss
from ivqa.diagnosis.rewards import Reward
from ivqa.errors import UserError
from ivqa.generators import QuestionGenerationModule, Questions, Sampling, Strategy
from ivqa.scenes import oracle_of
from ivqa.text.answers import AnswerVocabulary
from ivqa.trained import TrainedModule
from ivqa.vqa import Answerer


class PolicyGradientModule(TrainedModule):
    """Trains a copy of a question generator to ask questions that earn rewards.

    The gradient is (r - b) grad log pi(w_t | w_<t; z, I, a), summed over the words of sampled
    questions [iVQA 5]; see `PolicyObjective`. The reward r of a question is the product of
    `rewards`. With update="grpo", several clipped steps are made on one batch of samples, and the
    advantage of a sample is relative to the samples of its pair; see `policy_updates`. The pairs
    of the batches that these steps receive are then not used.

    Args:
        questioner: The supervised generator. The policy starts as a copy of it; the generator
            itself is not trained and stays available as `reference`.
        answerer: The VQA model that is diagnosed; it is not trained.
        rewards: Rewards by name, at least one.
        judge: The legality model, for rewards that need one; it is not trained.
        adversary: Called with the legality model; returns a copy that is trained on with the
            policy's samples, in the same steps, and takes the place of `judge`. None leaves the
            legality model as it is.
        answers: The answers to ask about, for an answerer without a closed set of answers.
        objective: Sampling, baseline and weights of the loss; None takes the defaults.
        update: "reinforce" makes one step on each batch of samples, "grpo" several.
        training: `optimizer` and `scheduler` of `TrainedModule`.

    Raises:
        UserError: There is no reward, no set of answers, `update` is unknown, or "grpo" has a
            single sample of each pair.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        questioner: QuestionGenerationModule,
        answerer: Answerer,
        rewards: Mapping[str, Reward],
        judge: LegalityModule | None = None,
        answers: AnswerVocabulary | None = None,
        objective: PolicyObjective | None = None,
        update: Literal["reinforce", "grpo"] = "reinforce",
        adversary: Callable[[LegalityModule | None], AdversarialJudge] | None = None,
        **training: Unpack[TrainingArguments],
    ) -> None:
        super().__init__(**training)
        if update not in ("reinforce", "grpo"):
            raise UserError(f"update must be reinforce or grpo, not {update}")
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
        self.adversary = None if adversary is None else adversary(judge)
        self.rewards = dict(rewards)
        self.answers = known
        self.objective = PolicyObjective() if objective is None else objective
        if update == "grpo" and self.objective.num_samples < 2:
            raise UserError("update=grpo compares samples of a pair: set num_samples to 2 or more")
        self.update = update
        self._collapse = CollapseMonitor()
        self._validated: tuple[Any, Any] | None = None  # oracle, image ids of the split
        self._samples: PolicySamples | None = None  # of a further step of update="grpo"
        self._steps_made = 0  # on these samples

    @property
    def reference(self) -> QuestionGenerationModule:
        """The supervised generator, unchanged."""
        return self._frozen[0]

    @property
    def answerer(self) -> Answerer:
        """The VQA model that is diagnosed."""
        return self._frozen[1]

    @property
    def judge(self) -> LegalityJudge | None:
        """The legality model; where it is trained on with the policy, its latest state."""
        return self._frozen[2] if self.adversary is None else self.adversary

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

    def legal_shares(self, candidates: Candidates) -> dict[str, Tensor]:
        """Shares of samples that are legal by the adversary, and by the model that it started from.

        Args:
            candidates: N sampled questions.

        Returns:
            "legal" and "legal_at_first", scalars; nothing without an adversary.
        """
        first = self._frozen[2]
        if self.adversary is None or first is None:
            return {}
        before = replace(candidates, judge=first).legality
        return {
            "legal": (candidates.legality > self.adversary.limit).float().mean(),
            "legal_at_first": (before > first.limit).float().mean(),
        }

    def on_fit_start(self) -> None:
        """Moves the frozen models to the policy's device, and shows the adversary questions."""
        self.on_validation_start()
        if self.adversary is not None:
            data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
            splits = [data.dataset.split(stage).questions for stage in ("train", "val")]
            self.adversary.prepare(*splits)

    def on_validation_start(self) -> None:
        """Moves the frozen models to the policy's device when only validation runs."""
        for part in self._frozen:
            # An answerer need not be a PyTorch module.
            if isinstance(part, nn.Module):
                part.to(self.device)

    def on_validation_epoch_start(self) -> None:
        """Finds the oracle of the validated split, where the data have one."""
        data: Any = getattr(self.trainer, "datamodule", None)
        split = None if data is None else data.evaluated or "val"
        oracle = None if split is None else oracle_of(data.dataset, split)
        image_ids = None if oracle is None else data.dataset.split(split).image_ids
        self._validated = None if oracle is None else (oracle, image_ids)

    def training_step(self, batch: VQABatch, batch_idx: int) -> Tensor:
        """Computes the policy's loss on sampled questions of the batch's pairs.

        Args:
            batch: B pairs; the answer of each is known to the VQA model. Not used where
                update="grpo" makes a further step on the samples of an earlier batch.
            batch_idx: Number of the batch; not used.

        Returns:
            The loss, a scalar.

        Raises:
            UserError: The loss is not finite.
        """
        objective, samples = self.objective, self._samples
        shown: dict[str, Tensor] = {}
        if samples is None:
            samples, log_probs, shown = draw_samples(self, batch)
            self._collapse.check(shown, self.global_step)
            texts = samples.questions.text
        else:
            log_probs = objective.word_log_probs(
                self.questioner, samples.images, samples.answers, samples.questions
            )  # (N, T)
            texts = []  # the adversary has learnt from them
        words = drawn_words(samples.questions, self.questioner.max_length)  # (N,)
        advantage = samples.advantage * samples.importance
        if self.update == "grpo":
            # At the first step on new samples, every ratio is 1.
            ratio = (log_probs - samples.old).exp()
            loss, shown["clipped"] = clipped_loss(advantage, ratio, words, objective.clip)
            self._steps_made += 1
            kept = self._steps_made < objective.inner_steps
            self._samples = samples if kept else None
            self._steps_made *= kept
        else:
            loss = reinforce_loss(advantage, log_probs.sum(dim=1), words)
        if objective.supervised_weight:
            loss = loss + objective.supervised_loss(self.questioner, batch)
        if self.adversary is not None and texts:
            # The rewards are constants for the policy's gradient, so that each of the two losses
            # has a gradient for its own network alone.
            own = self.adversary.loss(texts)
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

    def on_train_start(self) -> None:
        """Refuses gradients that are accumulated over several batches for update="grpo".

        Raises:
            UserError: trainer.accumulate_grad_batches is not 1.
        """
        if self.update == "grpo" and self.trainer.accumulate_grad_batches != 1:
            raise UserError(
                "model.module.update=grpo steps after every batch: set "
                "trainer.accumulate_grad_batches=1 and raise model.batch_size instead"
            )

    @override
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Stores samples that further steps are to be made on, beside the component."""
        super().on_save_checkpoint(checkpoint)
        if self._samples is not None:
            state = {"samples": self._samples.state(), "steps_made": self._steps_made}
            checkpoint["policy_samples"] = state

    @override
    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restores the samples of a run that was interrupted between the steps on them."""
        super().on_load_checkpoint(checkpoint)
        state = checkpoint.get("policy_samples")
        self._samples, self._steps_made = None, 0
        if state is not None and self.update == "grpo":
            self._samples = PolicySamples.restored(state["samples"], self.device)
            self._steps_made = int(state["steps_made"])

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
        shown = summary(candidates, self.compute_rewards(candidates))
        shown |= self.legal_shares(candidates) | self._legal_by_grammar(batch.rows[rows], questions)
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
        """Describes the module in a checkpoint, in plain containers."""
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
