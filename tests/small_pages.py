"""All pages that ivqa writes, from 12 scenes and models that answer by rule: nothing is trained."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ivqa.consistency import AnsweredQuestion
from ivqa.consistency.measure import ConsistencyMeasure
from ivqa.data import VQADataset, VQASplit
from ivqa.diagnosis import (
    Belief,
    Reasons,
    shares_of_types,
    typed_by_oracle,
    with_suspects,
)
from ivqa.generators.evaluation import AskedPair, GeneratedQuestion
from ivqa.report.belief_words import BeliefPageModel
from ivqa.report.contact_sheet import NotedQuestion, write_contact_sheet
from ivqa.report.pages.annotation_page import ToAnnotate, write_annotation_page, write_study_page
from ivqa.report.pages.belief_page import beliefs_to_explain, write_belief_page
from ivqa.report.pages.consistency_page import write_consistency_page
from ivqa.report.pages.noise_page import write_noise_page
from ivqa.report.tables import write_table
from ivqa.robustness.records import NoiseRecords
from ivqa.scenes import SceneOracle, generate_scenes
from ivqa.store.digests import digest

Questions = Sequence[tuple[int, str]]


class Model:
    """Answers as the oracle does, but for a share of the questions that their digest chooses.

    A wrong answer is the right one about another image.
    """

    def __init__(self, name: str, oracle: SceneOracle, wrong: float) -> None:
        self.name, self.oracle, self.wrong = name, oracle, wrong

    def answer(self, image_id: int, question: str) -> tuple[str, float]:
        """The answer, and its confidence."""
        drawn = int(digest([self.name, image_id, question]), 16)
        share, chance = drawn % 1000 / 1000, drawn // 1000 % 1000 / 1000
        right = self.oracle.judge(image_id, question).answer
        if right is not None and share >= self.wrong:
            return right, 0.4 + 0.59 * chance
        images = list(self.oracle.scenes)
        places = [(drawn + step) % len(images) for step in range(len(images))]
        others = (self.oracle.judge(images[place], question).answer for place in places)
        return next((one for one in others if one not in (None, right)), "no") or "", 0.95 * chance

    def answered(self, questions: Questions) -> list[AnsweredQuestion]:
        return [AnsweredQuestion(*one, *self.answer(*one)) for one in questions]


def write_pages(folder: Path) -> list[Path]:
    """Writes every kind of page into `folder` and returns their files."""
    root = generate_scenes(folder / "scenes", images={"val": 12}, workers=1, progress=False)
    split = VQADataset(root, train=None).split("val")
    oracle = SceneOracle.load(root, "val")
    models = [Model("MLB", oracle, 0.15), Model("Vanilla VQA", oracle, 0.3)]
    sets, records = [_beliefs(one, split) for one in models], [_noise(one, split) for one in models]
    pages: list[Path] = []

    def page(name: str) -> Path:
        pages.append(folder / f"{name}.html")
        return pages[-1]

    references = _references(split)
    curves = {"reward": [(step, 0.3 + step / 300) for step in range(0, 101, 20)]}
    for name, shown in (("report", sets[:1]), ("report_of_two_models", sets)):
        title = "What MLB believes about scenes"
        write_belief_page(page(name), title, shown, split, references, curves, oracle)
    _untyped_page(page("report_without_oracle"), sets[0], split)
    write_noise_page(page("robustness"), "MLB under noise", records[:1], split)
    write_noise_page(page("robustness_of_two_models"), "Two models under noise", records, split)
    _consistency_page(page("consistency"), models[0], None, split)
    _consistency_page(page("consistency_with_a_witness"), models[0], models[1], split)
    asked = [
        ToAnnotate(one.image_id, one.answer, one.question, own[0] if own else "")
        for one in sets[0].beliefs[:20]
        for own in [references.get((one.image_id, one.answer))]
    ]
    write_annotation_page(page("annotate"), "What MLB believes about scenes", asked, split)
    numbered = [(str(number), one) for number, one in enumerate(asked)]
    write_study_page(page("annotate_study"), "study", numbered, split)
    _contact_sheets(page("questions"), page("questions_ask"), sets[0].beliefs, split)
    _sweep(page("table"))
    return pages


def _references(split: VQASplit) -> dict[tuple[int, str], list[str]]:
    found: dict[tuple[int, str], list[str]] = {}
    rows = zip(split.image_ids.tolist(), split.main_answers, split.questions, strict=True)
    for image, answer, question in rows:
        found.setdefault((image, answer), []).append(question)
    return found


def _beliefs(model: Model, split: VQASplit) -> BeliefPageModel:
    """The answers to the questions of each image and of the seven images after it."""
    images = np.unique(split.image_ids).tolist()
    found = {
        (image, split.questions[row])
        for at, image in enumerate(images)
        for near in (images * 2)[at : at + 8]
        for row in np.flatnonzero(split.image_ids == near)
    }
    beliefs = [
        Belief(one.image_id, one.answer, one.question, one.confidence or 0.0, -3.0, 0.9, "rl")
        for one in model.answered(sorted(found))
    ]
    typed, metrics = with_suspects(typed_by_oracle(beliefs, model.oracle, _references(split)))
    metrics |= shares_of_types(typed) | {"beliefs/count": len(typed), "vqa/accuracy": 0.71}
    metrics |= {"beliefs/per_pair": 3.2, "robustness/r_score": 0.53}
    for level in range(4):
        for end, more in (("", 0), ("_low", -0.05), ("_high", 0.05)):
            at = f"robustness/partition_{level}/accuracy{end}"
            metrics[at] = 0.71 + more - 0.05 * level
    explained = set(beliefs_to_explain(typed, model.oracle))
    reasons = {line: _reasons(one) for line, one in enumerate(typed, 1) if one in explained}
    return BeliefPageModel(model.name, typed, metrics, reasons)


def _reasons(belief: Belief) -> Reasons:
    falls = [belief.phi * (at % 3) / 3 for at, _ in enumerate(belief.question.split())]
    places = np.exp(-np.square(np.arange(49) - 24) / 90)
    return Reasons(tuple(falls), tuple(places / places.sum()))


def _untyped_page(page: Path, model: BeliefPageModel, split: VQASplit) -> None:
    """As of a folder of pictures: nobody knows which beliefs are right."""
    untyped = [
        replace(one, type=None, type_by=None, source="plain_english") for one in model.beliefs
    ]
    found, metrics = with_suspects(untyped)
    metrics["beliefs/count"] = len(found)
    note = "3 of 12 pictures are unlike the pictures that MLB was trained on."
    models = [BeliefPageModel("MLB", found, metrics, note=note)]
    write_belief_page(page, "What MLB believes about pictures", models, split, {}, {})


def _noise(model: Model, split: VQASplit) -> tuple[str, NoiseRecords]:
    """Answers under appended questions: each level replaces a further fifth by "2"."""
    own = [one.answer for one in model.answered(_asked(split))]
    asked, answers = [list(split.questions)], [own]
    for level in range(1, 4):
        others = split.questions[level:] + split.questions[:level]
        asked.append([f"{text} {other}" for text, other in zip(asked[-1], others, strict=True)])
        lost = [int(digest([model.name, text]), 16) % 5 < level for text in split.questions]
        answers.append(["2" if gone else one for one, gone in zip(own, lost, strict=True)])
    return model.name, NoiseRecords.scored(split, answers, asked)


def _asked(split: VQASplit) -> list[tuple[int, str]]:
    return list(zip(split.image_ids.tolist(), split.questions, strict=True))


def _consistency_page(page: Path, model: Model, witness: Model | None, split: VQASplit) -> None:
    measure, ids = ConsistencyMeasure(), split.question_ids.tolist()
    own = model.answered(_asked(split))
    own = [replace(one, question_id=number) for one, number in zip(own, ids, strict=True)]
    said = None if witness is None else witness.answered
    records = measure.asked(own, model.answered, ask_witness=said)
    metrics = measure.figures(records, split, model.oracle)
    title = f"Answers of {model.name} that cannot all be true"
    write_consistency_page(page, title, model.name, records.images, metrics, split)


def _contact_sheets(benchmark: Path, ask: Path, beliefs: Sequence[Belief], split: VQASplit) -> None:
    assert split.images is not None
    verdicts = ("consistent", "other answer", "false premise", "not understood")
    items, cards = [], []
    for at, belief in enumerate(beliefs[::24][:12]):
        picture = split.images.path(belief.image_id)
        texts = [one.question for one in beliefs[24 * at :][:5]]
        judged = [
            GeneratedQuestion(text, -1, verdicts[(at + n) % 4]) for n, text in enumerate(texts)
        ]
        items.append(AskedPair(picture, belief.answer, "other", texts[0], judged[0], judged[1:]))
        noted = [NotedQuestion(text, -1, note=f"{0.4 / n:.2f}") for n, text in enumerate(texts, 1)]
        cards.append(AskedPair(picture, belief.answer, "", "", noted[0], noted[1:]))
    title, figures = (
        "Questions generated from image and answer",
        {"cider": 1.02, "unique of 10": 6.4},
    )
    write_contact_sheet(benchmark, items, title, "ivqa_vae: 12 of 96 pairs", figures)
    title, note = "Questions about pictures", "questions of ivqa_vae and answers of mlb"
    write_contact_sheet(ask, cards, title, note, {"pictures": "12", "cards": "12"})


def _sweep(page: Path) -> None:
    scores = {1e-6: "0.312 ± 0.021", 1e-5: "0.297 ± 0.033", 1e-4: "failed"}
    rows = [
        {"setting": f"ranker.lam={lam}", "R_score": score, "vqa/accuracy": 0.7}
        for lam, score in scores.items()
    ]
    runs = [[page.parent / str(3 * row + seed) for seed in range(3)] for row in range(3)]
    write_table(page.parent, rows, "9 of 9 runs", page.stem, runs)
