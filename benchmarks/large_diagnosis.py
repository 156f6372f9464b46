"""Claim: what follows the search of a diagnosis grows no faster than the number of its beliefs.

Each step describes the beliefs of images of scenes, 450 about each as in `diagnose.py vqa=mlb`:
simple questions, with the right answer in six of ten cases and else one of the other questions.
Each runs at two sizes in one thread. The exponent is log(time ratio) / log(size ratio): 1 is
linear. A million beliefs are computed from the slope. Memory is the peak of Python's objects, those
that a step returns included; the beliefs themselves are there before. The page shows at most 100
images, so that its cost levels off.
"""

import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ivqa.data import VQADataset
from ivqa.diagnosis import Belief, read_beliefs, typed_by_oracle, with_suspects, write_beliefs
from ivqa.report.belief_words import BeliefPageModel
from ivqa.report.pages.belief_page import write_belief_page
from ivqa.runs.memory import collect_seldom
from ivqa.scenes import generate_scenes
from ivqa.scenes.oracle import SceneOracle, simple_questions

SIZES = (22_500, 67_500)
MILLION = 1_000_000
_EACH = 450  # beliefs about an image
_RIGHT = 0.6  # share of right answers


def run(sizes: tuple[int, int] = SIZES) -> list[dict[str, Any]]:
    """One row a step."""
    torch.set_num_threads(1)
    collect_seldom()  # as every command does
    with tempfile.TemporaryDirectory() as folder:
        images = sizes[1] // _EACH
        root = generate_scenes(Path(folder) / "data", images={"train": 1, "val": images})
        oracle, split = SceneOracle.load(root, "val"), VQADataset(str(root)).split("val")
        beliefs = random_beliefs(oracle, sorted(set(split.image_ids.tolist())))
        typed = typed_by_oracle(beliefs, oracle, {})
        described, _ = with_suspects(typed)
        file, page = Path(folder) / "beliefs.jsonl", Path(folder) / "report.html"

        def write_and_read(some: list[Belief]) -> None:
            write_beliefs(file, some)
            read_beliefs(file)

        def write_page(some: list[Belief]) -> None:
            model = BeliefPageModel("model", some, {})
            write_belief_page(page, "title", [model], split, {}, {}, oracle)

        return [
            _row("types", lambda some: typed_by_oracle(some, oracle, {}), beliefs, sizes),
            _row("contradictions and suspects", with_suspects, typed, sizes),
            _row("beliefs.jsonl, written and read", write_and_read, described, sizes),
            _row("report.html", write_page, described, sizes),
        ]


def random_beliefs(oracle: SceneOracle, image_ids: Sequence[int]) -> list[Belief]:
    """`_EACH` beliefs about each image."""
    rng = np.random.default_rng(0)
    questions = list(simple_questions().values())
    beliefs = []
    for image_id in image_ids:
        chosen = [questions[at] for at in rng.choice(len(questions), _EACH, replace=False)]
        answers = [oracle.judge(image_id, question).answer or "no" for question in chosen]
        given = rng.random(_EACH) < _RIGHT
        wrong = rng.permutation(answers)
        beliefs += [
            Belief(
                image_id=image_id,
                answer=right if keeps else str(other),
                question=question,
                phi=round(float(phi), 6),
                log_likelihood=-1.0,
                legality=1.0,
                source="rl",
            )
            for question, right, other, keeps, phi in zip(
                chosen, answers, wrong, given, rng.random(_EACH), strict=True
            )
        ]
    return beliefs


def _row(
    name: str, step: Callable[[list[Belief]], object], beliefs: list[Belief], sizes: tuple[int, int]
) -> dict[str, Any]:
    costs = [_cost(step, beliefs[:size]) for size in sizes]
    (few_s, few_mb), (many_s, many_mb) = costs
    units = (MILLION - sizes[1]) / (sizes[1] - sizes[0])
    return {
        "step": name,
        f"{sizes[0]:,} beliefs, s": few_s,
        f"{sizes[1]:,} beliefs, s": many_s,
        "exponent": log(many_s / few_s) / log(sizes[1] / sizes[0]),
        "a million, s": round(many_s + units * (many_s - few_s)),
        "a million, MB": round(many_mb + units * (many_mb - few_mb)),
    }


def _cost(step: Callable[[list[Belief]], object], beliefs: list[Belief]) -> tuple[float, float]:
    """Seconds of processor time, and MB of memory at the peak, in a second run."""
    start = time.process_time()
    step(beliefs)
    seconds = time.process_time() - start
    tracemalloc.start()
    kept = step(beliefs)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    del kept
    return seconds, peak
