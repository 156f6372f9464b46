"""What a suspicion is worth: suspects, the bound and the estimated error against the oracle.

    python -m tools.suspicions mlb vanilla n2nmn --seeds 1 2
    python -m tools.suspicions mlb vanilla --seeds 1 2 --witness n2nmn
    python -m tools.suspicions mlb --seeds 2 --told 30

Each model answers questions about test images of the scenes, half of them drawn for another image,
so that premises are often false; then at most 500 follow-ups an image. Prints a table. `--told`:
a person also says of so many things in each image whether they are there, which proves more errors.
"""

import argparse
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import ivqa
from ivqa.api import LoadedAnswerer
from ivqa.logic import (
    Contradiction,
    PictureAnswers,
    contradictions,
    errors_at_least,
    follow_ups,
    suspicions,
)
from ivqa.scenes.grammar import realise
from ivqa.scenes.oracle import SceneOracle
from ivqa.scenes.questions import sample_program

_HEADER = (
    "model",
    "seed",
    "wrong",
    "estimated",
    "precision at recall .4",
    "at .5",
    "suspects",
    "precision",
    "recall",
    "bound / error of all answers",
    "follow-ups an image",
)
_BUDGET = 500


def main() -> None:
    """Prints the table of the models and seeds that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="+", help="names of conf/model")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], help="seeds of training")
    parser.add_argument("--witness", help="another model, of seed 1, that says what is there too")
    parser.add_argument("--told", type=int, default=0, help="yes/no questions a person answers")
    parser.add_argument("--images", type=int, default=100, help="number of test images")
    parser.add_argument("--questions", type=int, default=40, help="questions about each image")
    chosen = parser.parse_args()
    witness = ivqa.load_vqa(chosen.witness, seed=1) if chosen.witness else None
    print("| " + " | ".join(_HEADER) + " |\n" + "|---" * len(_HEADER) + "|")
    for name in chosen.models:
        for seed in chosen.seeds:
            model = ivqa.load_vqa(name, seed=seed)
            row = measure(model, chosen.images, chosen.questions, witness, chosen.told)
            cells = [f"{value:.3f}" for value in row[:-1]] + [f"{row[-1]:.0f}"]
            print("| " + " | ".join([name, str(seed), *cells]) + " |", flush=True)


def measure(
    model: LoadedAnswerer,
    images: int,
    questions: int,
    witness: LoadedAnswerer | None = None,
    told: int = 0,
) -> list[float]:
    """The figures of one model, in the order of the header."""
    root = model.model.context.dataset.root
    oracle = SceneOracle.load(root, "test")
    files = {int(one.stem.rpartition("_")[2]): one for one in (root / "images/test").iterdir()}
    rng = random.Random(7)
    pictures, said, wrong, main, bound = [], [], [], [], 0
    for image in rng.sample(sorted(files), images):
        asked = _questions(rng, oracle, image, questions)
        answers = _ask(model, files[image], asked)
        latest = answers
        for _ in range(2):
            further = [text for text, (one, _) in latest.items() for text in follow_ups(text, one)]
            new = [text for text in dict.fromkeys(further) if text not in answers]
            latest = _ask(model, files[image], new[: _BUDGET + questions - len(answers)])
            answers |= latest
            # What names something is asked about once more.
            latest = {q: one for q, one in latest.items() if one[0] not in ("yes", "no")}
        beliefs = [(text, one) for text, (one, _) in answers.items()]
        pictures.append(_picture(answers))
        if witness is not None:
            said.append(_picture(_ask(witness, files[image], list(answers))))
        judged = [_wrong(oracle, image, *belief) for belief in beliefs]
        bound += _proven(answers, judged, told)
        wrong += judged
        main += [text in asked for text in answers]
    found = suspicions(pictures, [said] if said else [])
    right = np.concatenate([one.right for one in found])
    suspect = np.concatenate([one.suspect for one in found])
    truth, own = np.array(wrong), np.array(main)
    error, flags, understood = truth[own] == 1, suspect[own], truth >= 0
    return [
        error.mean(),
        1 - right[own].mean(),
        *(_precision(1 - right[own], error, recall) for recall in (0.4, 0.5)),
        flags.mean(),
        error[flags].mean(),
        flags[error].mean(),
        bound / len(right) / (truth[understood] == 1).mean(),
        (len(right) - own.sum()) / images,
    ]


def _questions(rng: random.Random, oracle: SceneOracle, image: int, number: int) -> list[str]:
    scenes = list(oracle.scenes.values())
    found: dict[str, None] = {}
    while len(found) < number:
        scene = oracle.scenes[image] if rng.random() < 0.5 else rng.choice(scenes)
        found[realise(sample_program(rng, scene), rng)] = None
    return list(found)


def _ask(model: LoadedAnswerer, file: Path, texts: list[str]) -> dict[str, tuple[str, float]]:
    if not texts:
        return {}
    assert model.answers is not None
    best = model.log_scores(str(file), texts).exp().max(1)
    chosen = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return {text: (model.answers[at], phi) for text, (at, phi) in zip(texts, chosen, strict=True)}


def _picture(answers: dict[str, tuple[str, float]]) -> PictureAnswers:
    beliefs = [(text, answer) for text, (answer, _) in answers.items()]
    return PictureAnswers(beliefs, np.array([phi for _, phi in answers.values()]))


def _wrong(oracle: SceneOracle, image: int, question: str, answer: str) -> int:
    """1 for wrong, 0 for right, -1 where the oracle does not understand the question."""
    judged = oracle.judge(image, question)
    return int(answer not in judged.acceptable) if judged.understood else -1


def _proven(answers: dict[str, tuple[str, float]], wrong: list[int], told: int) -> int:
    """Answers about an image that must be wrong, given the truth about `told` yes/no questions.

    The person is asked first about those whose "no" would probably refute most answers.
    """
    beliefs = [(text, answer) for text, (answer, _) in answers.items()]
    count, gains, truths = len(beliefs), [], []
    for (text, (answer, phi)), judged in zip(answers.items(), wrong, strict=True):
        if told and judged >= 0 and answer in ("yes", "no"):
            truths.append((text, "yes" if (answer == "yes") != bool(judged) else "no"))
            gains.append(1 - phi if answer == "yes" else phi)
    denied = contradictions(beliefs + [(text, "no") for text, _ in truths])
    refuted = [one.members[1] - count for one in denied if _is_refuted(one, count)]
    order = np.argsort(-np.array(gains) * np.bincount(refuted, minlength=len(gains)), kind="stable")
    facts = [truths[row] for row in order[:told]]
    # A fact stays: what is left of a contradiction without it holds a wrong answer.
    found = [
        replace(one, members=tuple(row for row in one.members if row < count))
        for one in contradictions(beliefs + facts)
    ]
    return errors_at_least(count, [one for one in found if one.members])


def _is_refuted(one: Contradiction, count: int) -> bool:
    return one.certain and len(one.members) == 2 and one.members[0] < count <= one.members[1]


def _precision(suspicion: NDArray[np.float64], wrong: NDArray[np.bool_], recall: float) -> float:
    """Precision of the most suspicious answers that hold this share of the wrong ones."""
    found = np.cumsum(wrong[np.argsort(-suspicion, kind="stable")])
    number = int(np.searchsorted(found, recall * wrong.sum())) + 1
    return float(found[number - 1] / number)


if __name__ == "__main__":
    main()
