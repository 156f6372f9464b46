"""The VQA models of a repair: trained with corrected beliefs, and measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from omegaconf import open_dict

from ivqa.consistency import (
    ConsistencyCallback,
    implied_beliefs,
    typed_by_consistency,
)
from ivqa.data import VQADataModule, VQADataset, VQASplit
from ivqa.data.batches.columns import Entry
from ivqa.data.extended import ExtendedDataset, questions_of, write_questions
from ivqa.diagnosis import (
    Belief,
    BeliefProbe,
    Irrelevant,
    RightAnswers,
    belief_figures,
    confirmed_questions,
    corrected_questions,
    noisy_questions,
    ordinary_questions,
    ordinary_share,
    read_beliefs,
    right_answers,
    write_beliefs,
)
from ivqa.errors import UserError
from ivqa.ranges import Count, NonNegative
from ivqa.robustness import RobustnessCallback
from ivqa.robustness.noise import DisturbsImages
from ivqa.runs.callbacks import applicable, build_callbacks
from ivqa.runs.context import RunContext
from ivqa.runs.trained_models import obtain_module
from ivqa.scenes import Oracle, oracle_of
from ivqa.store.digests import digest
from ivqa.store.files import write_json
from ivqa.tasks.diagnose import search_origin
from ivqa.vqa import Answerer, MeasuringCallback
from ivqa.vqa.evaluation import accuracy_of

Callback = TypeVar("Callback", bound=MeasuringCallback)


@dataclass(frozen=True)
class RepairSettings:
    """How wrong beliefs are collected and corrected.

    Args:
        rounds: Rounds at most.
        teacher: What corrects the beliefs: "labels", the oracle or the annotations; "consistency",
            the most probable world of the model's own answers, see `typed_by_consistency`, which
            also teaches a question that follows from each taught one.
        num_images: Training images, drawn at random for each round, whose beliefs are searched;
            None for all.
        num_latents: Samples of each generator for an image-answer pair of these images.
        irrelevant: What to teach about an irrelevant belief, see `corrected_questions`.
        right_beliefs: Right beliefs that are added for each wrong one, at most, so that the model
            keeps what it rightly believes; None for all.
        ordinary: Ordinary questions about the same images that are added for each belief, so that
            the model keeps its accuracy on them.
        policy: Whether a policy that is trained against each model asks too; without it, the
            supervised generator asks every model the same questions.
        val_images: Validation images on which the rounds are compared; None for all.
        patience: Rounds in a row that do not lower the wrong rate of the validation images
            below that of all models before them, after which the repair ends.
        controls: Whether the controls are trained too.
    """

    rounds: Count = 5
    teacher: Literal["labels", "consistency"] = "labels"
    num_images: Count | None = 500
    num_latents: Count = 20
    irrelevant: Irrelevant = "no_such_thing"
    right_beliefs: NonNegative | None = 1.0
    ordinary: NonNegative = 0.3
    policy: bool = False
    val_images: Count | None = 200
    patience: Count = 2
    controls: bool = True


@dataclass(frozen=True)
class Trained:
    """A VQA model of one round or control, with its weights.

    `datamodule` has the data without the added questions, in the words of the model; `added` are
    these questions; None for none.
    """

    name: str
    module: Answerer
    datamodule: VQADataModule
    checkpoint: Path
    added: VQASplit | None = None


class RepairRun:
    """Trains and measures the models of a repair. All that it computes is stored and reused."""

    def __init__(self, context: RunContext, run_dir: Path, settings: RepairSettings) -> None:
        self.context = context
        self.run_dir = run_dir
        self.settings = settings
        self.split = str(context.cfg.split)
        self.seed = int(context.cfg.seed)
        self.console = context.console
        self._names: list[str] = []  # of the models that are trained

    def rounds(self) -> list[Trained]:
        """Trains the model before the repair ("before") and that of each round ("round_1", ...).

        Raises:
            UserError: No belief of the first model can be judged.
        """
        models = [self.trained("before", [])]
        rates = [self.wrong_rate(models[0])]
        if math.isinf(rates[0]):
            raise UserError(
                "no belief about the validation images can be judged: a repair needs data with an "
                "oracle, or with captions and several questions an image"
            )
        entries: list[Entry] = []
        for number in range(1, self.settings.rounds + 1):
            new = self.corrections(models[-1], number)
            known = {(entry.image_id, entry.question) for entry in entries}
            entries += [one for one in new if (one.image_id, one.question) not in known]
            if not new:
                break
            models.append(self.trained(f"round_{number}", entries + self.ordinary(entries)))
            rates.append(self.wrong_rate(models[-1]))
            wrong = "wrong" if self.settings.teacher == "labels" else "suspected"
            self.console.print(
                f"round {number}: {len(entries):,} beliefs added; {rates[-2]:.1%} of the "
                f"beliefs were {wrong}, {rates[-1]:.1%} are {wrong} now (validation images)",
                soft_wrap=True,
            )
            if number - rates.index(min(rates)) >= self.settings.patience:
                break
        return models

    def controls(self, repaired: Trained) -> list[Trained]:
        """Trains "ordinary", and "noisy" where callbacks=robustness names a noise on questions."""
        assert repaired.added is not None
        train, oracle = self.context.dataset.split("train"), self.oracle("train")
        images = repaired.added.image_ids.tolist()
        models = [self.trained("ordinary", ordinary_questions(images, train, oracle, self.seed))]
        callback = self.robustness
        if callback is not None and not isinstance(callback.noise, DisturbsImages):
            pool = callback.pool(self.context.dataset) if callback.pool else train.questions
            noise = callback.noise
            entries = noisy_questions(
                images, train, lambda texts: noise.disturbed(texts, pool), self.seed
            )
            models.append(self.trained("noisy", entries))
        return models

    def trained(self, name: str, entries: Sequence[Entry]) -> Trained:
        """The VQA model trained with added questions, from the artifact store if it is there."""
        part, added = self.context.parts["answerer"], None
        if entries:
            numbered = [
                one._replace(name=str(at), question_id=at) for at, one in enumerate(entries, 1)
            ]
            added = questions_of(numbered, name)
            write_questions(self.run_dir / "added", added)
            self.console.print(
                f"{name}: {self.context.cfg.vqa.name} with {len(added):,} added training questions"
            )
        dataset: VQADataset = self.context.dataset
        extended = dataset if added is None else ExtendedDataset(dataset, added)
        module, vocabularies, checkpoint = obtain_module(replace(part, dataset=extended))
        datamodule = part.datamodule(vocabularies, module)
        self._names.append(name)
        write_json(self.run_dir / "progress.json", {"models": self._names})
        return Trained(name, module, datamodule, checkpoint, added)

    def corrections(self, model: Trained, number: int) -> list[Entry]:
        """Corrects wrong beliefs about training images that a round draws; adds right ones."""
        settings = self.settings
        seed = int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
        images, latents = settings.num_images, settings.num_latents
        beliefs, _ = self.beliefs(model, "train", "corrected", images, latents, seed)
        oracle = self.oracle("train")
        right = right_answers(oracle, self.context.dataset.split("train"))
        if settings.teacher == "consistency":
            beliefs, right = self.typed(beliefs, model, "train")
        known = getattr(model.module, "answers", None)
        assert known is not None  # a model that is trained here chooses from a closed set
        corrected = corrected_questions(
            beliefs, right, irrelevant=settings.irrelevant, known=known, oracle=oracle, seed=seed
        )
        most = settings.right_beliefs
        confirmed = confirmed_questions(
            beliefs, right, corrected, most=most, oracle=oracle, seed=seed
        )
        taught = corrected + confirmed
        if settings.teacher == "labels":
            return taught
        following = implied_beliefs(taught, beliefs, seed)
        return taught + confirmed_questions(following, right, taught, oracle=oracle, seed=seed)

    def typed(
        self, beliefs: Sequence[Belief], model: Trained, stage: str
    ) -> tuple[list[Belief], RightAnswers]:
        """Types beliefs without labels, see `typed_by_consistency`."""
        callback = self._callback(ConsistencyCallback) or ConsistencyCallback()
        return typed_by_consistency(beliefs, callback, model.module, model.datamodule, stage)

    def ordinary(self, entries: Sequence[Entry]) -> list[Entry]:
        """Draws ordinary questions about the images of added beliefs, see `ordinary_share`."""
        train = self.context.dataset.split("train")
        # An oracle would answer new questions: labels.
        oracle = self.oracle("train") if self.settings.teacher == "labels" else None
        return ordinary_share(entries, self.settings.ordinary, train, oracle, self.seed)

    def wrong_rate(self, model: Trained) -> float:
        """The share of wrong beliefs about validation images; infinite where none can be judged.

        With teacher=consistency, that of suspected ones.
        """
        latents = self.settings.num_latents
        images = self.settings.val_images
        found = self.beliefs(model, "val", "compared", images, latents, self.seed)
        if self.settings.teacher == "consistency":
            typed, _ = self.typed(found[0], model, "val")
            return float(np.mean([one.type != "complementary" for one in typed]))
        figures = belief_figures(*found)
        return figures["wrong_rate"] if figures["judged"] else math.inf

    def figures(self, model: Trained) -> dict[str, float]:
        """Measures a model on the held-out split.

        The figures of `belief_figures`, "correct_per_pair", "accuracy", "added_questions", with
        callbacks=robustness "r_score", "acc_diff" and "below_blind", and with callbacks.consistency
        "consistency".
        """
        cfg = self.context.cfg
        images, latents = cfg.num_images, cfg.num_latents
        found = self.beliefs(model, self.split, "reported", images, latents, self.seed)
        figures = applicable(belief_figures(*found))
        correct = [one for one in found[0] if one.type in ("rephrase", "complementary")]
        figures["correct_per_pair"] = len(correct) / found[1]
        figures["added_questions"] = float(len(model.added) if model.added else 0)
        accuracy = accuracy_of(model.module, model.datamodule, self.split, None, self.console)
        figures["accuracy"] = accuracy["vqa/accuracy"]
        if self.robustness is not None:
            noise = self.robustness.metrics(model.module, model.datamodule, self.split)
            ends = ("", "_low", "_high")
            figures |= {f"r_score{end}": noise[f"robustness/r_score{end}"] for end in ends}
            # R_score alone is 0 for any large loss, and 1 for a model that is always wrong.
            figures |= {name: noise[f"robustness/{name}"] for name in ("acc_diff", "below_blind")}
        if (callback := self._callback(ConsistencyCallback)) is not None:
            rates = applicable(callback.metrics(model.module, model.datamodule, self.split))
            names = {f"consistency{end}": f"consistency/rate{end}" for end in ("", "_low", "_high")}
            figures |= {name: rates[rate] for name, rate in names.items() if rate in rates}
        return figures

    def beliefs(
        self,
        model: Trained,
        stage: str,
        purpose: str,
        num_images: int | None,
        num_latents: int,
        seed: int,
    ) -> tuple[list[Belief], int]:
        """Searches the beliefs of a model about images of a split, or reads those found before.

        beliefs/MODEL_PURPOSE_KEY.jsonl holds them; the key is a digest of all that determines them.
        Returns the typed beliefs, and the number of image-answer pairs.
        """
        cfg = self.context.cfg
        probe = BeliefProbe(
            questioners={},
            legality_model=self._supervised["legality_model"],
            num_images=num_images,
            pool=cfg.pool,
            num_top_answers=cfg.num_top_answers,
            num_latents=num_latents,
            legality=cfg.legality,
            seed=seed,
        )
        origin = [
            search_origin(cfg, self.context.dataset, model.checkpoint),
            [stage, num_images, num_latents, seed, self.settings.policy],
        ]
        file = self.run_dir / "beliefs" / f"{model.name}_{purpose}_{digest(origin)}.jsonl"
        pairs = probe.pairs(model.module, model.datamodule, stage)[0]
        if file.is_file():
            return read_beliefs(file), len(pairs)
        self.console.print(
            f"{model.name}: searching beliefs about {len(set(pairs.images)):,} images of split "
            f"{stage}",
            soft_wrap=True,
        )
        probe = replace(probe, questioners=self._questioners(model))
        beliefs, _ = probe.beliefs(model.module, model.datamodule, stage)
        write_beliefs(file, beliefs)
        return beliefs, len(pairs)

    def oracle(self, stage: str) -> Oracle | None:
        """The oracle of a split; None without one."""
        return oracle_of(self.context.dataset, stage)

    @cached_property
    def robustness(self) -> RobustnessCallback | None:
        """The configured robustness callback; None without one."""
        return self._callback(RobustnessCallback)

    def _callback(self, kind: type[Callback]) -> Callback | None:
        """The configured callback of a class; None without one."""
        callbacks = build_callbacks(self.context.cfg, {})
        return next((one for one in callbacks if isinstance(one, kind)), None)

    @cached_property
    def _supervised(self) -> dict[str, Any]:
        """The generator and the legality model."""
        parts = self.context.parts
        return {name: obtain_module(parts[name])[0] for name in ("questioner", "legality_model")}

    def _questioners(self, model: Trained) -> dict[str, Any]:
        """The generators that ask a model."""
        if not self.settings.policy:
            return {"supervised": self._supervised["questioner"]}
        cfg = self.context.cfg.copy()
        with open_dict(cfg):
            cfg.model.part_ckpt.answerer = str(model.checkpoint)
        policy = obtain_module(replace(self.context, cfg=cfg))[0]
        return {"supervised": policy.reference, "rl": policy.questioner}
