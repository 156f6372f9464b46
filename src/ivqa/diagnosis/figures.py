"""The figures of a belief search: sums over chunks of pairs, and the metrics that they become."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ivqa.diagnosis.search import Found
from ivqa.metrics import CiderStatistics, Matches
from ivqa.scenes import Oracle

# Sums of one part of a search (a generator, or the pooled beliefs) over some pairs, by name.
Sums = dict[str, float]


@dataclass(frozen=True)
class SearchFigures:
    """Describes what a search found, chunk by chunk.

    Args:
        references: The data set's own questions of each (image, answer).
        statistics: Document frequencies of CIDEr, those of the data set's questions.
        oracle: Says which questions the grammar of the scenes understands; None without one.
    """

    references: Mapping[tuple[int, str], Sequence[str]]
    statistics: CiderStatistics
    oracle: Oracle | None = None

    def sums(self, found: Found, pairs: Sequence[tuple[int, str]]) -> dict[str, Sums]:
        """Sums over the P pairs of one chunk, for each generator and for the "beliefs" of all.

        Args:
            found: What the search found for the pairs.
            pairs: The (image, answer) of each of the P pairs.
        """
        candidates = found.candidates
        total, texts = len(candidates), candidates.questions.text
        groups = np.array(candidates.pairs, dtype=np.int64)
        own = [self.references.get(pair, ()) for pair in pairs]
        matches = Matches.of(texts, groups, own, self.statistics)
        understood = self._understood([pairs[pair][0] for pair in candidates.pairs], texts)
        belief = torch.zeros(total, dtype=torch.bool)
        belief[found.kept] = True
        figures = {}
        for name, samples in {**found.samples, "beliefs": found.kept}.items():
            rows = samples.unique()  # the distinct questions
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
            figures[name] = sums
        return figures

    def _understood(self, images: Sequence[int], texts: Sequence[str]) -> Tensor | None:
        if self.oracle is None:
            return None
        judged = self.oracle.judge_many(images, texts)
        return torch.tensor([one.understood for one in judged], dtype=torch.bool)


def search_metrics(chunks: Sequence[Mapping[str, Sums]]) -> dict[str, float]:
    """The metrics of a whole search from the sums of its chunks.

    Args:
        chunks: What `SearchFigures.sums` returned for each chunk of pairs.

    Returns:
        Of the pooled beliefs ("beliefs/...") and of each generator by its name:

        - count: Beliefs, of all pairs ("beliefs" only).
        - per_pair: Distinct beliefs a pair. understood_per_pair: those that the oracle understands.
        - unique_per_pair: Distinct questions among a pair's samples, U# of the papers.
        - mean_score: Mean of phi(a | I, q) over all samples, copies included, m-S of the papers.
        - legal, understood: Share of the samples that the legality model lets pass, and share
          that the oracle understands.
        - oracle_cider, oracle_bleu4: O-C and O-B4 of the papers. For each of the data set's own
          questions of the searched pairs, the highest score with a question found for its pair;
          the mean over these questions. "Found" are a generator's samples, and the beliefs
          themselves for "beliefs". A question for whose pair nothing was found scores 0.

        beliefs/unique_per_pair and beliefs/mean_score repeat those of the generator "rl", as the
        papers report them of the policy's own samples.
    """
    metrics: dict[str, float] = {}
    for name in ("beliefs", "rl", "supervised"):
        sums: Counter[str] = Counter()
        for chunk in chunks:
            sums.update(chunk[name])
        metrics |= {f"{name}/{term}": value for term, value in _means(name, sums).items()}
    for term in ("unique_per_pair", "mean_score"):
        metrics[f"beliefs/{term}"] = metrics[f"rl/{term}"]
    return metrics


def _means(name: str, sums: Mapping[str, Any]) -> dict[str, float]:
    found = {"per_pair": sums["beliefs"] / sums["pairs"]}
    if "understood" in sums:
        found["understood_per_pair"] = sums["understood_beliefs"] / sums["pairs"]
    if name == "beliefs":
        found["count"] = float(sums["beliefs"])
    else:
        found["unique_per_pair"] = sums["unique"] / sums["pairs"]
        found["mean_score"] = sums["phi"] / sums["samples"]
        found["legal"] = sums["legal"] / sums["samples"]
        if "understood" in sums:
            found["understood"] = sums["understood"] / sums["samples"]
    if sums["references"]:
        found["oracle_cider"] = sums["cider"] / sums["references"]
        found["oracle_bleu4"] = sums["bleu4"] / sums["references"]
    return found
