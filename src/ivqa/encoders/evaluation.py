"""Benchmark of a trained sentence encoder: the types of the nearest neighbours of questions."""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from ivqa.data import VQADataModule, VQASplit
from ivqa.encoders.encoder import unit_rows
from ivqa.encoders.skip_thoughts import from_weights
from ivqa.encoders.skip_thoughts_module import SkipThoughtsModule
from ivqa.ranges import Count, CountOrZero, Seed
from ivqa.store.files import write_json
from ivqa.text.duplicates import duplicates_of

_BATCH = 128  # questions that are encoded and compared together


@dataclass(frozen=True, kw_only=True)
class EncoderBenchmark:
    """Finds the nearest training question of random questions of a split, by cosine similarity.

    Training questions with the same words as the question are excluded.

    Args:
        num_questions: Questions that are drawn from the split.
        num_shown: Pairs of questions that are printed.
        seed: Of the draw.
        headline: Name of the metric that summarises the benchmark.
    """

    num_questions: Count = 1000
    num_shown: CountOrZero = 10
    seed: Seed = 0
    headline: str = "neighbours/same_question_type"

    def run(
        self,
        module: SkipThoughtsModule,
        datamodule: VQADataModule,
        stage: str,
        run_dir: Path,
        title: str,
        console: Console,
    ) -> dict[str, float]:
        """Runs the benchmark on the split `stage`, writes neighbours.json and prints some pairs.

        Returns:
            Shares, in [0, 1], of the questions whose neighbour among the training questions has the
            same question type (neighbours/same_question_type) and answer type
            (neighbours/same_answer_type). The same shares follow with the prefix untrained_ for the
            network before training, and with chance_ for random training questions.
        """
        train, split = datamodule.dataset.split("train"), datamodule.dataset.split(stage)
        chosen = np.random.default_rng(self.seed).permutation(len(split))[: self.num_questions]
        questions = [split.questions[row] for row in chosen]
        state, words = module.state_dict(), module.question_vocabulary.words
        nearest = _nearest(state, words, questions, train.questions)
        metrics = _agreement("", split, chosen, train, nearest)
        untrained = _nearest(_untrained(module), words, questions, train.questions)
        metrics |= _agreement("untrained_", split, chosen, train, untrained)
        any_row = np.random.default_rng(self.seed).integers(len(train), size=len(chosen))
        metrics |= _agreement("chance_", split, chosen, train, any_row)
        pairs = [
            {"question": question, "nearest": train.questions[row]}
            for question, row in zip(questions, nearest.tolist(), strict=True)
        ]
        write_json(run_dir / "neighbours.json", pairs)
        for pair in pairs[: self.num_shown]:
            console.print(f"{pair['question']}  ->  {pair['nearest']}")
        return metrics


def _untrained(module: SkipThoughtsModule) -> dict[str, torch.Tensor]:
    """New random weights of the module, as before training."""
    network = deepcopy(module.network)
    # Only the new weights use this seed; the random numbers of the run go on as before.
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for layer in network.modules():
            if isinstance(layer, torch.nn.Embedding | torch.nn.RNNBase | torch.nn.Linear):
                layer.reset_parameters()
    return {f"network.{name}": value for name, value in network.state_dict().items()}


def _nearest(
    state: dict[str, torch.Tensor], words: list[str], questions: list[str], pool: list[str]
) -> NDArray[np.int64]:
    """Row in the pool of the nearest question of each question, (N,)."""
    model = from_weights(state, words)

    def encode(texts: list[str]) -> NDArray[np.float32]:
        return unit_rows(model.encode(texts, ("uni", "bi"), eos=False, batch_size=_BATCH))

    vectors, nearest = encode(pool), np.empty(len(questions), dtype=np.int64)
    same = duplicates_of(questions, pool)
    for start in range(0, len(questions), _BATCH):
        products = encode(questions[start : start + _BATCH]) @ vectors.T  # cosines (B, pool)
        # A question must not find its own copy.
        for row, rows in enumerate(same[start : start + _BATCH]):
            products[row, rows] = -np.inf
        nearest[start : start + len(products)] = products.argmax(axis=1)
    return nearest


def _agreement(
    name: str,
    split: VQASplit,
    chosen: NDArray[np.int64],
    train: VQASplit,
    nearest: NDArray[np.int64],
) -> dict[str, float]:
    """Shares of pairs with the same types; chosen: rows of split, nearest: rows of train."""
    pairs = list(zip(chosen.tolist(), nearest.tolist(), strict=True))
    types = [split.question_types[row] == train.question_types[at] for row, at in pairs]
    answers = [split.answer_types[row] == train.answer_types[at] for row, at in pairs]
    return {
        f"neighbours/{name}same_question_type": float(np.mean(types)),
        f"neighbours/{name}same_answer_type": float(np.mean(answers)),
    }
