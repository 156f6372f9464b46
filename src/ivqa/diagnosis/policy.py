"""The generator as a policy: learns by policy gradient to ask what a VQA model believes."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch, VQABatch
from ivqa.diagnosis.candidates import Candidates
from ivqa.diagnosis.legality import LegalityModule
from ivqa.diagnosis.rewards import Reward
from ivqa.errors import UserError
from ivqa.generators import Greedy, QuestionGenerationModule, Questions, Sampling, Strategy
from ivqa.generators.likelihood import draw_questions
from ivqa.generators.network import Conditions
from ivqa.generators.objective import negative_elbo
from ivqa.ranges import Count, NonNegative, Positive
from ivqa.text.answers import AnswerVocabulary
from ivqa.trained import OptimizerFactory, SchedulerFactory, TrainedModule
from ivqa.vqa import Answerer

# Below these a policy counts as collapsed, and a warning says so.
_FEWEST_UNIQUE, _MOST_EMPTY, _SHORTEST = 0.15, 0.05, 2.0


class PolicyGradientModule(TrainedModule):
    """Gradient (r - b) grad log p(w_t | w_<t; z, I, a) summed over the words of samples [iVQA 5].

    questioner: the supervised generator that the policy starts from; kept as `reference`.
    answerer, judge: the VQA model and the legality model that rewards ask; both stay as they are.
    rewards: by name; a sample earns their product. answers: what an answerer without a closed set
    is asked about. num_samples: z for each pair and step. temperature: of the sampling; the
    gradient is that of the distribution so drawn from. baseline b: the mean reward of the pair's
    other samples ("pair_mean"), the reward of the greedy question of the same z ("greedy", the
    self-critical one) or 0 ("none").
    latent: where gradients meet z. "prior" takes z as drawn; "posterior" draws it again as
    mu(I, q) + sigma(I, q) * noise of the sampled question, so that the encoder learns too, which
    is what the published code seems to do.
    entropy_weight, kl_weight: added to the reward, per word drawn: -log pi, and minus the log-ratio
    log pi - log p to the supervised generator.
    supervised_weight: of the negative ELBO of the batch's own questions.
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
        num_samples: Count = 10,
        temperature: Positive = 1.0,
        baseline: Literal["pair_mean", "greedy", "none"] = "pair_mean",
        latent: Literal["prior", "posterior"] = "posterior",
        entropy_weight: NonNegative = 0.0,
        kl_weight: NonNegative = 0.0,
        supervised_weight: NonNegative = 0.0,
    ) -> None:
        super().__init__(optimizer, scheduler)
        if not rewards:
            raise UserError("a policy needs at least one reward; choose reward=full")
        if baseline not in ("pair_mean", "greedy", "none"):
            raise UserError(f"baseline must be pair_mean, greedy or none, not {baseline}")
        if latent not in ("prior", "posterior"):
            raise UserError(f"latent must be prior or posterior, not {latent}")
        self.check_arguments({"baseline": baseline, "num_samples": num_samples})
        known = answerer.answers if answerer.answers is not None else answers
        if known is None:
            raise UserError(
                "this VQA model answers in its own words: set vqa.pool_answers, how many of the "
                "training split's answers to ask it about"
            )
        self.questioner = copy.deepcopy(questioner).train()
        # In a tuple: they are not trained, and not stored with the policy.
        self._frozen = (questioner.eval(), answerer, judge)
        self.rewards = dict(rewards)
        self.answers = known
        self.num_samples = num_samples
        self.temperature = temperature
        self.baseline = baseline
        self.latent = latent
        self.entropy_weight = entropy_weight
        self.kl_weight = kl_weight
        self.supervised_weight = supervised_weight
        self._alarmed: set[str] = set()

    @property
    def reference(self) -> QuestionGenerationModule:
        """The supervised generator, as it was."""
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
        """Questions of the policy; see `QuestionGenerationModule.sample`."""
        return self.questioner.sample(images, answers, num_samples, strategy, generator)

    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Scores of given questions; see `QuestionGenerationModule.log_likelihood`."""
        return self.questioner.log_likelihood(images, answers, questions)

    def judged(self, questions: Questions, images: ImageBatch, answers: list[str]) -> Candidates:
        """The questions with what the VQA model and the legality model say of them."""
        return Candidates(questions, images, answers, self.answerer, self.answers, self.judge)

    def earned(self, candidates: Candidates) -> dict[str, Tensor]:
        """The rewards of N candidates by name, (N,) each, and their product as "reward"."""
        terms = {name: reward(candidates) for name, reward in self.rewards.items()}
        product = torch.stack(list(terms.values())).prod(dim=0)
        return {**terms, "reward": product}

    def on_fit_start(self) -> None:
        """Moves the frozen models to the policy's device."""
        for part in self._frozen:
            if isinstance(part, nn.Module):
                part.to(self.device)

    def on_validation_start(self) -> None:
        """Moves the frozen models to the policy's device, without training too."""
        self.on_fit_start()

    def training_step(self, batch: VQABatch, batch_idx: int) -> Tensor:
        """The policy's loss on `num_samples` questions of each of the batch's pairs."""
        answers = self._answers(batch.target)
        questions = self.questioner.sample(
            batch.images, answers, self.num_samples, Sampling(temperature=self.temperature)
        )
        candidates = self.judged(questions, batch.images, answers)
        terms = self.earned(candidates)
        total = self._log_probs(batch.images, answers, questions)  # (N,)
        words = self._words_chosen(questions)
        reward = terms["reward"].to(self.device)
        if self.entropy_weight or self.kl_weight:
            reward = reward - self._penalty(batch.images, answers, questions, total.detach())
        advantage = reward - self._baseline(batch.images, answers, questions, reward)
        loss = -(advantage * total).sum() / words.sum()
        if self.supervised_weight:
            output = self.questioner.network(batch)
            elbo = negative_elbo(
                output.log_likelihood,
                output.kl,
                free_nats=self.questioner.free_nats,
                per_dimension=self.questioner.free_nats_per_dimension,
                pull=self.questioner.free_nats_pull,
            )
            loss = loss + self.supervised_weight * elbo * len(batch) / output.num_tokens.sum()
        if not torch.isfinite(loss):
            raise UserError(
                f"the policy's loss is not finite at step {self.global_step}; lower the learning "
                "rate or trainer.gradient_clip_val"
            )
        shown = {"loss": loss.detach(), **_summary(candidates, terms), "nats": -total.mean()}
        self.log_dict(
            {f"train/{name}": value for name, value in shown.items()}, batch_size=len(batch)
        )
        self._alarm(shown)
        return loss

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Raises UserError where a baseline has no other sample; before a command starts, too."""
        baseline, num_samples = arguments["baseline"], arguments["num_samples"]
        if num_samples < 2 and baseline == "pair_mean":
            raise UserError(f"baseline=pair_mean needs num_samples of 2 or more, not {num_samples}")

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """The names that validation logs, by the constructor's arguments in the configuration."""
        terms = ["reward", "unique", "empty", "words", *arguments.get("rewards", {})]
        return {f"val/{name}" for name in terms}

    def validation_step(self, batch: VQABatch, batch_idx: int) -> None:
        """Adds what the policy's samples earn; the same random numbers every time."""
        generator = torch.Generator().manual_seed(batch_idx)
        rows = (batch.target >= 0).nonzero()[:, 0]  # the others are no answers of this model
        if not len(rows):
            return
        answers, images = self._answers(batch.target[rows]), batch.images.select(rows)
        questions = self.questioner.sample(images, answers, self.num_samples, Sampling(), generator)
        candidates = self.judged(questions, images, answers)
        summary = _summary(candidates, self.earned(candidates))
        self.log_dict(
            {f"val/{name}": value for name, value in summary.items()}, batch_size=len(answers)
        )

    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """Those of the policy; answerer, judge and the supervised generator stay as they are."""
        return self.questioner.parameters()

    def component(self) -> dict[str, Any]:
        """What a checkpoint says about itself: the generator's description.

        Features are its parts' business.
        """
        return {**self.questioner.component(), "feature_sizes": {}}

    def _answers(self, target: Tensor) -> list[str]:
        return [self.answers.answers[index] for index in target.tolist()]

    def _log_probs(self, images: ImageBatch, answers: list[str], questions: Questions) -> Tensor:
        """Log p of the samples (N,), with gradients, of the distribution they were drawn from."""
        network = self.questioner.network
        with _evaluating(network):
            conditions, row = self.questioner.encode_pairs(images, answers)
            given = conditions.select(row[questions.pair])
            z = questions.z
            if z is not None and self.latent == "posterior":
                posterior = network.posterior(questions.tokens, given)
                assert posterior is not None
                z = posterior.sample(z)
            return self._score(self.questioner, questions, z, given)

    def _score(
        self,
        questioner: QuestionGenerationModule,
        questions: Questions,
        z: Tensor | None,
        given: Conditions,
    ) -> Tensor:
        """Log p of the samples at the sampling temperature, summed over the words drawn, (N,).

        At `max_length` words the end is forced, not drawn: it has no part in the sum.
        """
        log_probs = questioner.network.token_log_probs(
            questions.tokens, z, given, self.temperature
        )  # (N, T + 1)
        return log_probs[:, : self.questioner.max_length].sum(dim=1)

    def _words_chosen(self, questions: Questions) -> Tensor:
        """How many words the policy drew for each sample, (N,): with <eos> unless it was forced."""
        return (questions.tokens.lengths + 1).clamp_max(self.questioner.max_length).float()

    @torch.no_grad()
    def _penalty(
        self, images: ImageBatch, answers: list[str], questions: Questions, total: Tensor
    ) -> Tensor:
        """What entropy_weight and kl_weight take off the reward of each sample, (N,), per word.

        entropy_weight * log pi(q) + kl_weight * (log pi(q) - log p(q)), pi the policy and p the
        supervised generator, both at the sampling temperature.
        total: log pi(q) under the z of the gradient, (N,).
        """
        if self.latent == "posterior" and questions.z is not None:
            conditions, row = self.questioner.encode_pairs(images, answers)
            given = conditions.select(row[questions.pair])
            with _evaluating(self.questioner.network):
                total = self._score(self.questioner, questions, questions.z, given)
        penalty = self.entropy_weight * total
        if self.kl_weight:
            conditions, row = self.reference.encode_pairs(images, answers)
            given = conditions.select(row[questions.pair])
            before = self._score(self.reference, questions, questions.z, given)
            penalty = penalty + self.kl_weight * (total - before)
        return penalty / self._words_chosen(questions)

    @torch.no_grad()
    def _baseline(
        self, images: ImageBatch, answers: list[str], questions: Questions, reward: Tensor
    ) -> Tensor:
        """What the rewards of N samples are compared with, (N,)."""
        if self.baseline == "none":
            return torch.zeros_like(reward)
        if self.baseline == "pair_mean":
            by_pair = reward.view(-1, self.num_samples)
            others = by_pair.sum(dim=1, keepdim=True) - by_pair
            return (others / (self.num_samples - 1)).flatten()
        with _evaluating(self.questioner.network):
            conditions, row = self.questioner.encode_pairs(images, answers)
            tokens, likelihood = draw_questions(
                self.questioner.network,
                conditions,
                row[questions.pair],
                questions.z,
                Greedy(),
                self.questioner.max_length,
            )
        text = self.questioner.question_vocabulary.decode(tokens)
        greedy = Questions(tokens, text, likelihood, questions.pair, questions.z)
        return self.earned(self.judged(greedy, images, answers))["reward"].to(reward)

    def _alarm(self, shown: Mapping[str, Any]) -> None:
        """Warns once of each sign that the policy has collapsed."""
        signs = {
            "asks nearly the same question for every z": float(shown["unique"]) < _FEWEST_UNIQUE,
            "asks empty questions": float(shown["empty"]) > _MOST_EMPTY,
            "asks questions of hardly a word": float(shown["words"]) < _SHORTEST,
        }
        for sign, seen in signs.items():
            if seen and sign not in self._alarmed:
                self._alarmed.add(sign)
                rank_zero_warn(
                    f"step {self.global_step}: the policy {sign}; lower the learning rate, or add "
                    "a reward (reward=full), entropy_weight or supervised_weight"
                )


def _summary(candidates: Candidates, terms: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Means of the rewards, and what the samples look like."""
    lengths = candidates.questions.tokens.lengths.float()
    return {
        **{name: value.mean() for name, value in terms.items()},
        "unique": torch.tensor(len(candidates.first) / max(len(candidates), 1)),
        "empty": (lengths == 0).float().mean(),
        "words": lengths.mean(),
    }


@contextmanager
def _evaluating(network: nn.Module) -> Iterator[None]:
    """Without dropout, but with gradients: cuDNN's recurrences have those only in training."""
    training = network.training
    network.eval()
    try:
        with torch.backends.cudnn.flags(enabled=False):
            yield
    finally:
        network.train(training)
