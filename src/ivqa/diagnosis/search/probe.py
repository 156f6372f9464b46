"""A probe: the same sampled questions about the same images, put to any VQA model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ivqa.data import VQADataModule
from ivqa.diagnosis.beliefs.beliefs import (
    Belief,
    share_of_contradictions,
    shares_of_types,
    typed_by_oracle,
)
from ivqa.diagnosis.beliefs.pairs import Pairs, Pool, choose_pairs
from ivqa.diagnosis.candidates import LegalityJudge
from ivqa.diagnosis.search.proxy import typed_by_proxy
from ivqa.diagnosis.search.search import BeliefSearch
from ivqa.generators import Questioner
from ivqa.scenes import oracle_of
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa import Answerer, images_for

_PAIRS_AT_ONCE = 50  # bounds the memory of the sampled questions


@dataclass(frozen=True)
class BeliefProbe:
    """Finds what a VQA model believes about a few images, and judges each belief.

    Images, answers and questions depend on the seed and the generators alone, so that different
    models are asked the same. (The answers that a model does not know are left out.)

    Args:
        questioners: Generators by name; their samples are pooled.
        legality_model: The legality model.
        num_images: Number of images of the split, drawn at random; None for all.
        pool: The answers to ask for, see `choose_pairs`.
        num_top_answers: Size of the pool "top".
        num_latents: Number of z that each generator samples for an image-answer pair.
        legality: Threshold of p(legal), in [0, 1]. None takes the model's own limit, 0 keeps all.
        seed: Seed of the images and of the questions.
    """

    questioners: Mapping[str, Questioner]
    legality_model: LegalityJudge
    num_images: int | None = 50
    pool: Pool = "ground_truth"
    num_top_answers: int = 20
    num_latents: int = 20
    legality: float | None = None
    seed: int = 0

    def beliefs(
        self, answerer: Answerer, datamodule: VQADataModule, stage: str
    ) -> tuple[list[Belief], int]:
        """Asks a model about images of a split.

        Returns:
            The beliefs, typed by the oracle of the split or else by the proxy, and the number of
            image-answer pairs.

        Raises:
            UserError: The split has no annotations, no pair has an answer that the model knows,
                or the data lack an image feature that a generator reads.
        """
        pairs, known = self.pairs(answerer, datamodule, stage)
        search = BeliefSearch(
            self.questioners,
            answerer,
            known,
            self.legality_model,
            self.num_latents,
            legality=self.legality,
        )
        for part in (*self.questioners.values(), self.legality_model):
            if isinstance(part, nn.Module):
                part.to(getattr(answerer, "device", "cpu"))
        found: list[Belief] = []
        for start in range(0, len(pairs), _PAIRS_AT_ONCE):
            chosen = slice(start, start + _PAIRS_AT_ONCE)
            readers = [*self.questioners.values()]
            images = images_for(readers, datamodule, stage, pairs.images[chosen])
            seed = np.random.SeedSequence([self.seed, start]).generate_state(1)[0]
            generator = torch.Generator().manual_seed(int(seed))
            result = search(images, pairs.answers[chosen], generator)
            found += result.beliefs(pairs.images[chosen])
        oracle = oracle_of(datamodule.dataset, stage)
        if oracle is not None:
            return typed_by_oracle(found, oracle, pairs.references), len(pairs)
        split = datamodule.dataset.split(stage)
        return typed_by_proxy(found, split, pairs.references), len(pairs)

    def pairs(
        self, answerer: Answerer, datamodule: VQADataModule, stage: str
    ) -> tuple[Pairs, AnswerVocabulary]:
        """Chooses the image-answer pairs of a model about a split.

        Returns:
            The pairs, and the answers that the model can give.

        Raises:
            UserError: The split has no annotations, or no pair has an answer that the model knows.
        """
        dataset = datamodule.dataset
        split = dataset.split(stage).require_answers()
        known = answerer.answers or datamodule.answer_vocabulary
        if known is None:  # a model that writes its answers can give any
            known = AnswerVocabulary(sorted(set(split.main_answers)))
        training = () if self.pool == "ground_truth" else dataset.split("train").main_answers
        pairs = choose_pairs(
            split,
            known,
            training,
            num_images=self.num_images,
            pool=self.pool,
            num_top_answers=self.num_top_answers,
            seed=self.seed,
        )
        return pairs, known


def belief_figures(beliefs: Sequence[Belief], num_pairs: int) -> dict[str, float]:
    """Computes the figures of a belief set that are watched in training.

    Args:
        beliefs: The typed beliefs.
        num_pairs: Number of image-answer pairs that were searched.

    Returns:
        By name:

        - per_pair: Number of beliefs of a pair.
        - judged: Share of the beliefs that have a type.
        - wrong_rate: Share of these that are wrong, adversarial or irrelevant; `adversarial` and
          `irrelevant` are its two parts. `wrong_rate_low` and `wrong_rate_high` bound its 95
          percent bootstrap interval over images. If no belief has a type, it is NaN, which is
          the worst value for Lightning's checkpoints, and the others are absent.
        - contradictions: Share of the beliefs that certainly contradict another one.
    """
    judged = [belief for belief in beliefs if belief.type is not None]
    figures = {
        "per_pair": len(beliefs) / num_pairs,
        "judged": len(judged) / max(len(beliefs), 1),
        "wrong_rate": float("nan"),
        "contradictions": share_of_contradictions(beliefs),
    }
    if judged:
        shares = {name.removeprefix("beliefs/"): x for name, x in shares_of_types(judged).items()}
        figures |= {name: shares[name] for name in ("adversarial", "irrelevant")}
        figures["wrong_rate"] = shares["incorrect"]
        figures["wrong_rate_low"] = 1 - shares["correct_high"]
        figures["wrong_rate_high"] = 1 - shares["correct_low"]
    return figures
