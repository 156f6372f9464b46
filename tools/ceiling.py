"""How many confident wrong facts questions can find at most: the ceiling of docs/pictures.md.

    python -m tools.ceiling mlb n2nmn vanilla

Each model answers all simple questions about test images of the scenes, and the oracle judges. A
simple question is the only one with its meaning, so each wrong answer is a wrong fact. Prints a
table, for 1,000 questions each; "other property" is "Is there a red star?" where the model sees a
star and something red, and names another color, size or pattern of the star.
"""

import argparse
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import ivqa
from ivqa.api import LoadedAnswerer
from ivqa.diagnosis.search.search_figures import CONFIDENT
from ivqa.logic import contradictions
from ivqa.scenes.oracle import SceneOracle
from ivqa.scenes.programs import Noun, Program, Things

_SEEN = 30  # questions about each image in which contradictions are looked for
_AT_ONCE = 1024
_HEADER = (
    *("model", "all simple questions", '"Is there ..."', "other property"),
    *(f"found by {_SEEN} questions an image", "of these in a contradiction"),
)


@dataclass(frozen=True)
class _Answer:
    text: str
    answer: str
    found: bool  # a wrong fact about something that is there, and the model is confident


def main() -> None:
    """Prints the table of the models that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="+", help="names of conf/model")
    parser.add_argument("--seed", type=int, default=1, help="seed of training")
    parser.add_argument("--images", type=int, default=100, help="number of test images")
    chosen = parser.parse_args()
    print("| " + " | ".join(_HEADER) + " |\n" + "|---" * len(_HEADER) + "|")
    for name in chosen.models:
        row = measure(ivqa.load_vqa(name, seed=chosen.seed), chosen.images)
        print("| " + " | ".join([name, *(f"{value:.0f}" for value in row)]) + " |", flush=True)


def measure(model: LoadedAnswerer, images: int) -> list[float]:
    """The figures of one model, in the order of the header."""
    root = model.model.context.dataset.root
    oracle = SceneOracle.load(root, "test")
    files = {int(one.stem.rpartition("_")[2]): one for one in (root / "images/test").iterdir()}
    programs = cast("Mapping[Program, str]", oracle.simple_questions())
    rng = random.Random(7)
    every, exist, other, seen, caught = [], [], [], 0, 0
    for image in rng.sample(sorted(files), images):
        answers = _answers(model, oracle, image, files[image], programs)
        every += [one.found for one in answers.values()]
        exist += [one.found for program, one in answers.items() if program.kind == "exist"]
        other += [answers[one].found for one in answers if _is_other_property(one, answers)]
        some = rng.sample(list(answers.values()), _SEEN)
        denied = contradictions([(one.text, one.answer) for one in some])
        members = {row for one in denied for row in one.members}
        seen += sum(one.found for one in some)
        caught += sum(some[row].found for row in members)
    return [*(1000 * sum(one) / len(one) for one in (every, exist, other)), seen, caught]


def _answers(
    model: LoadedAnswerer,
    oracle: SceneOracle,
    image: int,
    file: Path,
    programs: Mapping[Program, str],
) -> dict[Program, _Answer]:
    assert model.answers is not None
    texts, found = list(programs.values()), list[_Answer]()
    for start in range(0, len(texts), _AT_ONCE):
        some = texts[start : start + _AT_ONCE]
        best = model.log_scores(str(file), some).exp().max(1)
        for text, at, phi in zip(some, best.indices.tolist(), best.values.tolist(), strict=True):
            judged, answer = oracle.judge(image, text), model.answers[at]
            wrong = judged.premise is True and answer not in judged.acceptable
            found.append(_Answer(text, answer, wrong and phi >= CONFIDENT))
    return dict(zip(programs, found, strict=True))


def _is_other_property(program: Program, answers: Mapping[Program, _Answer]) -> bool:
    if program.kind != "exist" or program.subject is None or program.subject.noun.shape is None:
        return False
    shape = program.subject.noun.shape
    named = {
        name: value
        for name in ("color", "size", "pattern")
        if (value := getattr(program.subject.noun, name)) is not None
    }
    if len(named) != 1:
        return False
    [(attribute, value)] = named.items()
    thing, red = Things(Noun(shape=shape)), Things(Noun(**named))
    return (
        answers[Program("exist", subject=thing)].answer == "yes"
        and answers[Program("exist", subject=red)].answer == "yes"
        and answers[Program("query", subject=thing, attribute=attribute)].answer != value
    )


if __name__ == "__main__":
    main()
