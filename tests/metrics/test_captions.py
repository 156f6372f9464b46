"""Caption metrics equal the COCO caption evaluation: stored values and the library itself.

`python tests/metrics/test_captions.py` writes the stored values again; it needs pycocoevalcap.
"""

import json
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from nltk.stem import PorterStemmer
from nltk.translate.meteor_score import single_meteor_score

from ivqa.metrics import (
    CiderStatistics,
    bleu,
    cider,
    meteor_nltk,
    meteor_stages,
    rouge_l,
)
from ivqa.text.tokens import tokenise

GOLDEN = Path(__file__).with_name("golden_captions.json")
NAMES = ("bleu1", "bleu2", "bleu3", "bleu4", "rouge_l", "cider")


def made_up_pairs() -> tuple[list[str], list[list[str]]]:
    """Template questions with changed, dropped and repeated words; one to three references."""
    rng = random.Random(7)
    colors, shapes = ("red", "blue", "green", "black"), ("star", "heart", "circle", "old dog")
    frames = (
        "What color is the {s}?", "Is there a {c} {s} in the picture?", "How many {c} {s}s?",
        "Is the {c} {s} to the left of the {s}?", "Why?", "What is it, a {s} or a {c} {s}?",
    )  # fmt: skip

    def question() -> str:
        return rng.choice(frames).format(c=rng.choice(colors), s=rng.choice(shapes))

    hypotheses, references = [], []
    for _ in range(120):
        reference = [question() for _ in range(rng.choice((1, 1, 2, 3)))]
        words = rng.choice([*reference, question()]).split()
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(words))
            words = words[:at] + rng.choice(([], [words[at]] * 3, ["what"])) + words[at + 1 :]
            words = words or ["is"]
        hypotheses.append(" ".join(words))
        references.append(reference)
    return hypotheses, references


def reference_values(
    hypotheses: list[str], references: list[list[str]]
) -> dict[str, float]:  # pragma: no cover
    """The same metrics by pycocoevalcap, on tokenised text."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    found = {i: [" ".join(tokenise(text))] for i, text in enumerate(hypotheses)}
    wanted = {i: [" ".join(tokenise(t)) for t in texts] for i, texts in enumerate(references)}
    scores = Bleu(4).compute_score(wanted, found, verbose=0)[0]
    rouge, cider_d = (kind.compute_score(wanted, found)[0] for kind in (Rouge(), Cider()))
    return dict(zip(NAMES, (*map(float, scores), float(rouge), float(cider_d)), strict=True))


def ours(hypotheses: list[str], references: list[list[str]]) -> dict[str, float]:
    values = (*bleu(hypotheses, references), rouge_l(hypotheses, references))
    return dict(zip(NAMES, (*values, cider(hypotheses, references)), strict=True))


def golden() -> tuple[list[str], list[list[str]], dict[str, float]]:
    stored = json.loads(GOLDEN.read_text())
    return stored["hypotheses"], stored["references"], stored["values"]


def test_equals_the_stored_values_of_pycocoevalcap() -> None:
    hypotheses, references, values = golden()
    assert set(values) == set(NAMES)
    assert ours(hypotheses, references) == pytest.approx(values, abs=1e-6)


def test_the_stored_values_are_those_of_the_library() -> None:
    pytest.importorskip("pycocoevalcap")
    hypotheses, references, values = golden()
    assert reference_values(hypotheses, references) == pytest.approx(values, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_equals_the_library_on_real_questions(shared_data: Path, seed: int) -> None:
    pytest.importorskip("pycocoevalcap")
    questions = json.loads((shared_data / "daquar" / "questions_val.json").read_text())["questions"]
    texts = [question["question"] for question in questions]
    rng = random.Random(seed)
    hypotheses = [rng.choice(texts) for _ in range(300)]
    references = [rng.sample(texts, rng.choice((1, 3))) for _ in hypotheses]
    assert ours(hypotheses, references) == pytest.approx(
        reference_values(hypotheses, references), abs=1e-6
    )


def test_perfect_and_disjoint_questions() -> None:
    questions, strangers = ["What color is it now?", "Is the dog asleep?"], ["Why not?", "Who?"]
    assert bleu(questions, [[q] for q in questions]) == pytest.approx([1] * 4)
    assert rouge_l(questions, [[q] for q in questions]) == 1
    assert meteor_nltk(questions, [[q] for q in questions]) > 0.98
    assert bleu(questions, [[q] for q in strangers])[0] == pytest.approx(0, abs=1e-6)
    assert rouge_l(questions, [[q] for q in strangers]) == 0
    assert meteor_nltk(questions, [[q] for q in strangers]) == 0


def test_cider_uses_given_statistics() -> None:
    hypotheses, references = made_up_pairs()
    statistics = CiderStatistics.of(references)
    few = cider(hypotheses[:3], references[:3], statistics)
    assert few > 0
    with pytest.warns(UserWarning, match="document frequencies of fewer than"):
        assert cider(hypotheses[:1], references[:1]) == 0


def test_the_stem_stage_of_meteor_runs() -> None:
    assert meteor_nltk(["dogs running"], [["dog runs"]]) > 0


def test_meteor_stages_names_the_stages() -> None:
    assert meteor_stages() in (("exact", "stem"), ("exact", "stem", "synonym"))
    # They match only as WordNet synonyms, which NLTK looks up by stems: "image" is "imag" there.
    assert (meteor_nltk(["car"], [["auto"]]) > 0) == ("synonym" in meteor_stages())


def test_meteor_equals_the_best_reference_of_nltk_without_caches() -> None:
    hypotheses, references = made_up_pairs()
    wordnet = SimpleNamespace(synsets=lambda word: [])
    if "synonym" in meteor_stages():
        from nltk.corpus import wordnet
    expected = [
        max(
            single_meteor_score(
                tokenise(t), tokenise(text), stemmer=PorterStemmer(), wordnet=wordnet
            )
            for t in texts
        )
        for text, texts in zip(hypotheses, references, strict=True)
    ]
    assert meteor_nltk(hypotheses, references) == pytest.approx(sum(expected) / len(expected))


def test_hypotheses_and_references_must_match() -> None:
    with pytest.raises(ValueError, match="2 hypotheses for 1 lists"):
        bleu(["a", "b"], [["a"]])
    with pytest.raises(ValueError, match="pair 1: references must be a non-empty list"):
        cider(["a", "b"], [["a"], []])
    for metric in (bleu, rouge_l, cider, meteor_nltk):
        with pytest.raises(ValueError, match="at least one hypothesis"):
            metric([], [])
    with pytest.raises(ValueError, match="at least 1 document, not 0"):
        CiderStatistics.of([])


if __name__ == "__main__":
    pairs = dict(zip(("hypotheses", "references"), made_up_pairs(), strict=True))
    values = reference_values(*made_up_pairs())
    GOLDEN.write_text(json.dumps(pairs | {"values": values}, indent=1) + "\n")
