"""All pages under axe-core, in light and dark, on a wide and a narrow screen."""

from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from browser import after, needs_chromium
from ivqa.consistency import ImageConsistency
from ivqa.consistency.records import JudgedAnswer
from ivqa.data import VQASplit
from ivqa.data.images import ImageFiles
from ivqa.diagnosis import Belief, Reasons
from ivqa.generators.evaluation import AskedPair, GeneratedQuestion
from ivqa.logic import Contradiction
from ivqa.report.belief_words import BeliefPageModel
from ivqa.report.contact_sheet import write_contact_sheet
from ivqa.report.pages.annotation_page import ToAnnotate, write_annotation_page, write_study_page
from ivqa.report.pages.belief_page import write_belief_page
from ivqa.report.pages.consistency_page import write_consistency_page
from ivqa.report.pages.noise_page import write_noise_page
from ivqa.report.tables import write_table
from ivqa.robustness.records import NoiseRecords

pytestmark = needs_chromium

KINDS = ("rephrase", "complementary", "adversarial", "irrelevant", None)


def _split(folder: Path) -> VQASplit:
    file = folder / "1.png"
    Image.new("RGB", (60, 40), "teal").save(file)
    ids = np.arange(1, 5)
    return VQASplit("val", ids, ids, ["Is it red?"] * 4, [["yes"] * 10] * 4, ["yes"] * 4,
                    ["yes/no"] * 4, ["is it"] * 4, images=ImageFiles(ids, [file] * 4))  # fmt: skip


def _belief_page(page: Path, split: VQASplit) -> None:
    beliefs = [
        Belief(1, "yes", f"Is {'very ' * (n % 3)}it {n}?", n / 200, -3.0, 0.9, "rl", kind, "oracle")  # type: ignore[arg-type]
        for n, kind in enumerate(KINDS * 40)
    ]
    beliefs[2] = replace(beliefs[2], suspect=True, contradicts=(1,))
    shares = {f"beliefs/{kind}": 0.25 for kind in (*KINDS[:4], "correct", "suspects")}
    noise = {f"robustness/partition_{level}/accuracy": 0.5 for level in range(3)}
    reasons = {3: Reasons((0.9, 0.5, 0.1), (0.1, 0.6, 0.3, 0.0))}
    models = [BeliefPageModel(name, beliefs, shares | noise, reasons) for name in ("A", "B")]
    curves = {"goal": [(1, 0.5), (2, 0.7)]}
    write_belief_page(page, "Beliefs", models, split, {(1, "yes"): ["Is it?"]}, curves)


def _untyped_page(page: Path, split: VQASplit) -> None:
    belief = Belief(1, "yes", "Is it?", 0.5, -3.0, 0.9, "plain_english", suspect=False)
    write_belief_page(page, "Beliefs", [BeliefPageModel("A", [belief], {})], split, {}, {})


def _annotation_page(page: Path, split: VQASplit) -> None:
    write_annotation_page(page, "Judge", [ToAnnotate(1, "yes", "Is it?", "Is it red?")], split)


def _study_page(page: Path, split: VQASplit) -> None:
    write_study_page(page, "study", [("a", ToAnnotate(1, "yes", "Is it?"))], split)


def _consistency_page(page: Path, split: VQASplit) -> None:
    found = {"suspects": 0.1, "questions": 2, "asked": 2, "unclear": 1, "implied": 2}
    for name in ("rate", "exclusion/rate", "errors_at_least", "error_estimate"):
        found |= {name: 0.5, f"{name}_low": 0.25, f"{name}_high": 0.75}
    metrics = {f"consistency/{name}": float(value) for name, value in found.items()}
    metrics["consistency/exclusion/implied"] = 2.0
    answers = [JudgedAnswer(1, "Is it?", answer, 0.9, 1, 0.4, True) for answer in ("yes", "no")]
    image = ImageConsistency(1, answers, [Contradiction((0, 1), "exclusion", True)], 1)
    write_consistency_page(page, "Answers", "A", [image], metrics, split)


def _noise_page(page: Path, split: VQASplit) -> None:
    questions = [split.questions, [f"{text} Is it old?" for text in split.questions]]
    records = NoiseRecords.scored(split, [["yes"] * 4, ["no"] * 4], questions)
    write_noise_page(page, "Noise", [("A", records), ("B", records)], split)


def _contact_sheet(page: Path, split: VQASplit) -> None:
    verdicts = ("consistent", "other answer", "false premise", "not understood")
    asked = [GeneratedQuestion("Is it?", -1.0, verdict) for verdict in verdicts]
    file = split.images.path(1)  # type: ignore[union-attr]
    items = [AskedPair(file, "yes", "yes/no", "Is it?", one, asked) for one in asked]
    write_contact_sheet(page, items, "Questions", "four", {"cider": 1.0})


def _table(page: Path, split: VQASplit) -> None:
    rows = [{"setting": "lambda=1", "value": 1.0}, {"setting": "lambda=2"}]
    write_table(page.parent, rows, "2 runs", page.stem, [[page.parent / "0"], []])


WRITERS = [_belief_page, _untyped_page, _annotation_page, _study_page, _consistency_page,
           _noise_page, _contact_sheet, _table]  # fmt: skip
DARK = "--blink-settings=preferredColorScheme=0"


@pytest.mark.parametrize("flags", [["--window-size=1300,900"], ["--window-size=400,900", DARK]])
@pytest.mark.parametrize("write", WRITERS)
def test_axe_finds_nothing(
    write: Callable[[Path, VQASplit], None], flags: list[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    write(page, _split(tmp_path))
    axe = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    script = """
        const { violations, passes } = await axe.run();
        const dark = matchMedia("(prefers-color-scheme: dark)").matches;
        const found = violations.map(one => [one.id, one.nodes[0].html]);
        return { dark, checked: passes.length, found,
                 wide: document.documentElement.scrollWidth - innerWidth };
    """
    seen = after(page, axe + script, *flags)
    assert seen["found"] == []
    assert seen["checked"] > 10  # type: ignore[operator]
    assert seen["dark"] == (DARK in flags)
    assert seen["wide"] <= 0  # type: ignore[operator]  # nothing scrolls sideways
