"""Metrics of a belief search, computed from sums over chunks of pairs."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ivqa.diagnosis.beliefs.recall import ListedBeliefs, estimated_total, found_once
from ivqa.diagnosis.search.search import Found
from ivqa.metrics import CiderStatistics, Matches
from ivqa.scenes import Oracle

# Sums over some pairs, by name, for one generator or for the beliefs of all generators.
Sums = dict[str, float]

_BEST = 20  # questions of a pair whose scores the published code averages


@dataclass(frozen=True)
class SearchFigures:
    """Computes the sums that the metrics of a search need, chunk by chunk.

    Args:
        references: The data set's own questions of each (image, answer).
        statistics: Document frequencies of CIDEr, from the data set's questions.
        oracle: Tells which questions the grammar of the scenes understands; None without one.
        listed: All simple questions, to compute the recall of the search; None computes none.
    """

    references: Mapping[tuple[int, str], Sequence[str]]
    statistics: CiderStatistics
    oracle: Oracle | None = None
    listed: ListedBeliefs | None = None

    def sums(self, found: Found, pairs: Sequence[tuple[int, str]]) -> dict[str, Sums]:
        """Computes the sums of one chunk of P (image, answer) pairs from their search.

        Returns:
            Sums by generator name, and those of all generators' beliefs as "beliefs".
        """
        candidates = found.candidates
        total, texts = len(candidates), candidates.questions.text
        groups = np.array(candidates.pairs, dtype=np.int64)
        own = [self.references.get(pair, ()) for pair in pairs]
        matches = Matches.of(texts, groups, own, self.statistics)
        understood = self._understood([pairs[pair][0] for pair in candidates.pairs], texts)
        facts = None if self.oracle is None else [self.oracle.fact(text) for text in texts]
        true = None
        if self.listed is not None and facts is not None:
            true = self.listed.of(candidates.answerer, candidates.images, pairs)
        belief = torch.zeros(total, dtype=torch.bool)
        belief[found.kept] = True
        figures = {}
        for name, samples in {**found.samples, "beliefs": found.kept}.items():
            rows = samples.unique()  # distinct questions
            chosen = torch.zeros(total, dtype=torch.bool)
            chosen[rows] = True
            sums: Sums = {
                "pairs": len(pairs),
                "samples": len(samples),
                "unique": len(rows),
                "phi": float(candidates.phi[samples].double().sum()),
                "legal": int(found.legal[samples].sum()),
                "beliefs": int(belief[rows].sum()),
                "references": matches.num_references,
                "cider": float(matches.best_cider(chosen.numpy()).sum()),
                "bleu4": float(matches.best_bleu4(chosen.numpy()).sum()),
            }
            if understood is not None:
                sums["understood"] = int(understood[samples].sum())
                sums["understood_beliefs"] = int((belief & understood)[rows].sum())
            if facts is not None:
                meanings = _by_pair(rows[belief[rows]].tolist(), candidates.pairs, facts)
                sums["meanings"] = sum(map(len, meanings.values()))
                if true is not None:
                    sums |= _recall(meanings, true)
            if name != "beliefs":
                sums |= _unseen(samples[belief[samples]].numpy(), groups)
                legal = rows[found.legal[rows]]
                sums |= _best_scores(candidates.phi[legal].numpy(), groups[legal])
            figures[name] = sums
        figures["beliefs"]["asked"] = len(candidates.first)
        return figures

    def _understood(self, images: Sequence[int], texts: Sequence[str]) -> Tensor | None:
        """(N,) bool: whether the grammar understands each text; None without an oracle."""
        if self.oracle is None:
            return None
        judged = self.oracle.judge_many(images, texts)
        return torch.tensor([one.understood for one in judged], dtype=torch.bool)


def _by_pair(
    rows: Sequence[int], pairs: Sequence[int], facts: Sequence[Hashable | None]
) -> dict[int, set[Hashable]]:
    """The distinct facts that questions state, by pair."""
    found: dict[int, set[Hashable]] = {}
    for row in rows:
        if facts[row] is not None:
            found.setdefault(pairs[row], set()).add(facts[row])
    return found


def _recall(meanings: Mapping[int, set[Hashable]], true: Sequence[set[Hashable]]) -> Sums:
    """The sum of the recalls of all pairs with a listed belief, and their number."""
    shares = [
        len(own & meanings.get(pair, set())) / len(own) for pair, own in enumerate(true) if own
    ]
    return {"recall": sum(shares), "recalled_pairs": len(shares)}


def _unseen(samples: NDArray[np.int64], groups: NDArray[np.int64]) -> Sums:
    """What the samples that are beliefs, copies included, say about beliefs not yet sampled."""
    rows, counts = np.unique(samples, return_counts=True)
    own = groups[rows]
    return {
        "believed": len(samples),
        "once": found_once(counts),
        "estimated": sum(estimated_total(counts[own == pair]) for pair in np.unique(own)),
    }


def _best_scores(phi: NDArray[np.float32], groups: NDArray[np.int64]) -> Sums:
    """The sum of the `_BEST` highest scores of each pair, and how many these are."""
    order = np.lexsort((-phi, groups))
    _, first, counts = np.unique(groups[order], return_index=True, return_counts=True)
    place = np.arange(len(phi)) - np.repeat(first, counts)  # of a question within its pair
    best = phi[order][place < _BEST]
    return {"best_phi": float(best.sum(dtype=np.float64)), "best": len(best)}


def search_metrics(chunks: Sequence[Mapping[str, Sums]]) -> dict[str, float]:
    """Computes the metrics of a whole search from the sums of its chunks.

    Args:
        chunks: The results of `SearchFigures.sums` for all chunks of pairs.

    Returns:
        Metrics named "beliefs/<term>" for the beliefs of all generators, and "<name>/<term>" for
        the samples of each generator:

        - count: Number of beliefs of all pairs ("beliefs" only).
        - per_pair: Mean number of distinct beliefs of a pair.
        - understood_per_pair: Mean number of these that the oracle understands.
        - unique_per_pair: Mean number of distinct samples of a pair, U# of the papers.
        - mean_score: Mean of phi(a | I, q) over all samples, copies included, m-S of the papers.
        - mean_score_of_20: Mean of phi over the 20 legal distinct samples of each pair with the
          highest phi, as the published code computes m-S; copies count once.
        - meanings_per_pair: Mean number of distinct facts (`Oracle.fact`) that the beliefs of a
          pair state.
        - recall: Share of the listed facts that the model believes which the search found in any
          phrasing; mean over the pairs with such a fact.
        - found: Distinct beliefs as a share of those that this generator can find, of which Chao's
          estimate is a lower bound; so this share is an upper bound.
        - next_is_new: Estimated probability that the next belief sampled is a new one (Good 1953).
        - legal: Share of the samples that are legal.
        - understood: Share of the samples that the oracle understands.
        - oracle_cider, oracle_bleu4: O-C and O-B4 of the papers. The score of a question of the
          data set is its highest CIDEr-D or BLEU-4 with a sample (for "beliefs": a belief) of the
          same pair, 0 without one; the metric is the mean over the questions of all pairs.

        beliefs/unique_per_pair and beliefs/mean_score repeat those of the generator "rl", because
        the papers report them for the policy's own samples; without a policy, of the only one.
    """
    metrics: dict[str, float] = {}
    names = [name for name in ("rl", "supervised") if name in chunks[0]]
    for name in ("beliefs", *names):
        sums: Counter[str] = Counter()
        # Counter.update adds values instead of replacing them.
        for chunk in chunks:
            sums.update(chunk[name])
        metrics |= {f"{name}/{term}": value for term, value in _means(name, sums).items()}
    for term in ("unique_per_pair", "mean_score"):
        metrics[f"beliefs/{term}"] = metrics[f"{names[0]}/{term}"]
    return metrics


def _means(name: str, sums: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of one generator, or of "beliefs", from its sums."""
    found = {"per_pair": sums["beliefs"] / sums["pairs"]}
    if "understood" in sums:
        found["understood_per_pair"] = sums["understood_beliefs"] / sums["pairs"]
        found["meanings_per_pair"] = sums["meanings"] / sums["pairs"]
    if sums.get("recalled_pairs"):
        found["recall"] = sums["recall"] / sums["recalled_pairs"]
    if sums.get("believed"):
        found["found"] = sums["beliefs"] / sums["estimated"]
        found["next_is_new"] = sums["once"] / sums["believed"]
    if name == "beliefs":
        found["count"] = float(sums["beliefs"])
    else:
        found["unique_per_pair"] = sums["unique"] / sums["pairs"]
        found["mean_score"] = sums["phi"] / sums["samples"]
        if sums.get("best"):
            found[f"mean_score_of_{_BEST}"] = sums["best_phi"] / sums["best"]
        found["legal"] = sums["legal"] / sums["samples"]
        if "understood" in sums:
            found["understood"] = sums["understood"] / sums["samples"]
    if sums["references"]:
        found["oracle_cider"] = sums["cider"] / sums["references"]
        found["oracle_bleu4"] = sums["bleu4"] / sums["references"]
    return found
