"""Ranking of question pools by p(q | I, a) [iVQA 3.3]: Acc@k, and what is asked instead."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from ivqa.data import VQADataModule
from ivqa.features import FeatureStore
from ivqa.generators.protocol import EstimatesLikelihood, Questioner
from ivqa.pools import (
    KINDS,
    GrammarReplacement,
    Pools,
    PoolSettings,
    Sources,
    TaggedReplacement,
    build_pools,
    read_pools,
    write_pools,
)
from ivqa.ranges import Count, Seed
from ivqa.scenes import SceneOracle, oracle_of
from ivqa.store.digests import digest, file_digest
from ivqa.store.files import write_json
from ivqa.store.locks import folder_lock

_PAIRS_AT_ONCE = 250


@dataclass(frozen=True, kw_only=True)
class PoolRanking:
    """Ranks the questions of each pool by their scores under a generator.

    The pools are drawn once for all models and kept in `folder`. Images are similar by their
    pooled features, or the concepts or the mean of the grid where there are none; for data without
    images, contrastive questions come from random images.

    Args:
        folder: Where the pools of all data are kept.
        num_pairs: Pairs with a pool; None takes all.
        likelihood_samples: Values of z that estimate p(q | I, a) of a model with a latent variable.
        seed: Seed of the pools.
    """

    version: ClassVar[int] = 1  # of the pools and the figures, which tables rest on

    folder: str
    num_pairs: Count | None = 5000
    likelihood_samples: Count = 4
    seed: Seed = 0

    def run(
        self,
        module: Questioner,
        datamodule: VQADataModule,
        stage: str,
        run_dir: Path,
        console: Console,
    ) -> dict[str, float]:
        """Draws the pools of the split `stage`, or reads them, and ranks their questions.

        Writes pools.json, which names the file of the pools and its digest.

        Returns:
            The metrics of `ranking_metrics`, named pools/..., and pools/standard_error, the mean
            standard error of log p(q | I, a) in nats, where it is an estimate.
        """
        pools, file = self._pools(datamodule, stage, console)
        scores, errors = self._scores(module, datamodule, stage, pools, console)
        write_json(
            run_dir / "pools.json",
            {"file": file.name, "digest": file_digest(file), "of": len(pools)},
        )
        metrics = ranking_metrics(scores, pools.pair, pools.kinds)
        if errors is not None:
            metrics["standard_error"] = float(errors.mean())
        return {f"pools/{name}": value for name, value in metrics.items()}

    def _scores(
        self,
        module: Questioner,
        datamodule: VQADataModule,
        stage: str,
        pools: Pools,
        console: Console,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """The score of each candidate, (N,), and its standard error if it is an estimate."""
        starts = range(0, len(pools), _PAIRS_AT_ONCE)
        first = np.searchsorted(pools.pair, np.arange(len(pools) + 1))
        scores: list[NDArray[np.float32]] = []
        errors: list[NDArray[np.float32]] = []
        for start in track(starts, description="ranking pools", console=console, transient=True):
            end = min(start + _PAIRS_AT_ONCE, len(pools))
            rows = slice(int(first[start]), int(first[end]))
            own = pools.pair[rows]
            images = datamodule.images_of(stage, pools.image_ids[own].tolist())
            answers = [pools.answers[pair] for pair in own.tolist()]
            questions = list(pools.questions[rows])
            if isinstance(module, EstimatesLikelihood):
                found = module.likelihood(images, answers, questions, self.likelihood_samples)
                scores.append(found.value.cpu().numpy())
                if found.standard_error is not None:
                    errors.append(found.standard_error.cpu().numpy())
            else:
                scores.append(module.log_likelihood(images, answers, questions).cpu().numpy())
        return np.concatenate(scores), np.concatenate(errors) if errors else None

    def _pools(self, datamodule: VQADataModule, stage: str, console: Console) -> tuple[Pools, Path]:
        """The pools of a split and their file; they are drawn if the file is absent."""
        dataset = datamodule.dataset
        settings = PoolSettings(num_pairs=self.num_pairs, seed=self.seed)
        split = dataset.split(stage).require_answers()
        features = datamodule.features
        key = digest(
            {
                "data": dataset.cache_key(),
                "split": split.name,
                "settings": vars(settings),
                "features": features.cache_key() if isinstance(features, FeatureStore) else None,
                "version": PoolSettings.version,
            }
        )
        file = Path(self.folder) / f"{split.name}-{key}.parquet"
        with folder_lock(Path(self.folder)):
            if not file.is_file():
                train = dataset.split("train").require_answers()
                oracle = oracle_of(dataset, stage)
                in_grammar = isinstance(oracle, SceneOracle)
                replacement = (
                    GrammarReplacement() if in_grammar else TaggedReplacement(train.questions)
                )
                ids = np.unique(split.image_ids)
                vectors = _vectors(features, split.name, ids)
                sources = Sources(split, train, vectors, ids, oracle, replacement)
                write_pools(file, build_pools(sources, settings, console))
        return read_pools(file), file


def _vectors(features: object, name: str, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """One vector for each image, by which images are similar; random ones without features."""
    if not isinstance(features, FeatureStore):
        return np.random.default_rng(0).normal(size=(len(ids), 64)).astype(np.float32)
    known = [feature for feature in ("pooled", "concepts", "grid") if feature in features.sizes]
    rows = features.rows(name, ids)
    values = features.gather(name, rows, known[:1])[known[0]]
    return (values.mean(dim=1) if values.dim() == 3 else values).numpy()


def ranking_metrics(
    scores: NDArray[np.floating], pair: NDArray[np.int64], kinds: NDArray[np.int64]
) -> dict[str, float]:
    """Computes the accuracy of a ranking, and the kinds of the questions in first place.

    A distractor that scores as high as a correct question is ranked before it: a model that gives
    all questions one score is not right.

    Args:
        scores: Scores of N candidates, (N,); higher is better. NaN ranks last.
        pair: (N,) int64, the pool of each candidate, ascending from 0.
        kinds: (N,) int64, index into `KINDS`; 0 is correct.

    Returns:
        acc_at_1 and acc_at_3: share of the pools with a correct question among the first 1 or 3;
        mean_reciprocal_rank of the best correct question; top/KIND: share of the pools whose first
        question is of this kind.

    Example:
        >>> kinds = np.array([0, 2, 4])
        >>> found = ranking_metrics(np.array([2.0, 3.0, 1.0]), np.zeros(3, int), kinds)
        >>> found["acc_at_1"], found["acc_at_3"], found["mean_reciprocal_rank"], found["top/pp"]
        (0.0, 1.0, 0.5, 1.0)
    """
    values = np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=-np.inf)
    correct = kinds == 0
    # By pool, then by falling score, then distractors before correct questions.
    order = np.lexsort((correct, -values, pair))
    first = np.flatnonzero(np.diff(pair[order], prepend=-1))  # the first place of each pool
    place = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    rank = np.full(len(first), np.inf)
    right = correct[order]
    np.minimum.at(rank, pair[order][right], place[right] + 1)
    top = kinds[order[first]]
    metrics = {
        "acc_at_1": float((rank <= 1).mean()),
        "acc_at_3": float((rank <= 3).mean()),
        "mean_reciprocal_rank": float((1 / rank).mean()),
    }
    return metrics | {
        f"top/{name}": float((top == number).mean()) for number, name in enumerate(KINDS)
    }
