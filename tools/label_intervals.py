"""How narrow the interval of the share of wrong beliefs is after 100 labels: docs/diagnosis.md.

    python diagnose.py vqa=mlb judge=n2nmn
    python -m tools.label_intervals outputs/diagnose/mlb/...

The oracle of the scenes stands for the people who label. Prints a table: the mean width of the
interval over 1,000 draws, and how often it holds the share of all beliefs.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

import ivqa
from ivqa.diagnosis import drawn_for_labels, read_beliefs, typed_by_oracle
from ivqa.diagnosis.beliefs.beliefs import WRONG
from ivqa.diagnosis.beliefs.labelling import doubts
from ivqa.metrics.prediction_powered import PredictionPowered, prediction_powered
from ivqa.scenes.oracle import SceneOracle

_LABELS, _DRAWS = 100, 1000


def main() -> None:
    """Prints the table of the run that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run", type=Path, help="a run of diagnose.py with judge=n2nmn")
    beliefs = read_beliefs(parser.parse_args().run / "beliefs.jsonl")
    root = ivqa.load_vqa("mlb", seed=1).model.context.dataset.root
    found = typed_by_oracle(beliefs, SceneOracle.load(root, "test"), {})
    known = [row for row, one in enumerate(found) if one.type is not None]
    beliefs = [beliefs[row] for row in known]
    wrong = np.array([float(found[row].type in WRONG) for row in known])
    typed, unsure = np.array([float(one.type in WRONG) for one in beliefs]), doubts(beliefs)

    def evenly(judged: np.ndarray | None, seed: int) -> PredictionPowered:
        rows = np.random.default_rng(seed).permutation(len(wrong))
        some, rest = rows[:_LABELS], rows[_LABELS:]
        said = np.zeros(len(wrong)) if judged is None else judged
        return prediction_powered(wrong[some], said[some], () if judged is None else said[rest])

    def unsure_first(seed: int) -> PredictionPowered:
        rows, weights = zip(*drawn_for_labels(beliefs, _LABELS, seed), strict=True)
        return prediction_powered(wrong[[*rows]], unsure[[*rows]], unsure, weights)

    ways: dict[str, Callable[[int], PredictionPowered]] = {
        "labels alone": lambda seed: evenly(None, seed),
        "with the types of N2NMN, right or wrong": lambda seed: evenly(typed, seed),
        "with its probabilities, `judge_wrong`": lambda seed: evenly(unsure, seed),
        "the same, the unsure beliefs first, as on the page": unsure_first,
    }
    print("| | width of the interval | it holds, percent |\n|---|---:|---:|")
    for name, way in ways.items():
        draws = [way(seed) for seed in range(_DRAWS)]
        width = np.mean([one.high - one.low for one in draws])
        holds = np.mean([one.low <= wrong.mean() <= one.high for one in draws])
        print(f"| {name} | {width:.3f} | {100 * holds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
