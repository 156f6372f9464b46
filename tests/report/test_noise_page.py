"""robustness.html: what changes under noise, counted by hand."""

import re
from pathlib import Path

import numpy as np

from ivqa.data import VQASplit
from ivqa.report.pages.noise_page import write_noise_page
from ivqa.robustness.records import NoiseRecords

QUESTIONS = [["Is it red?", "Is it blue?", "How many?", "Is it big?"]]
QUESTIONS.append([f"{text} Is it old?" for text in QUESTIONS[0]])
HUMAN = [["yes"] * 10, ["no"] * 10, ["2"] * 9 + ["3"], ["<b>no</b>"] * 10]
IDS = np.array([11, 12, 13, 14])


def _split(kinds: list[str]) -> VQASplit:
    return VQASplit("val", IDS, np.array([1, 1, 2, 2]), QUESTIONS[0], HUMAN,
                    [human[0] for human in HUMAN], kinds, ["is it"] * 4)  # fmt: skip


def _records(clean: list[str], noisy: list[str]) -> NoiseRecords:
    kinds = ["yes/no", "yes/no", "number", "yes/no"]
    return NoiseRecords.scored(_split(kinds), [clean, noisy], QUESTIONS)


# Right, wrong, right, wrong without noise; then wrong, right, right (as a word), wrong otherwise.
MODEL = _records(["yes", "yes", "2", "a"], ["no", "no", "two", "b"])
OTHER = _records(["yes", "no", "3", "a"], ["yes", "no", "3", "a"])


def test_the_page_counts_and_shows_answers_that_flip(tmp_path: Path) -> None:
    split = _split(["yes/no"] * 4)
    page = tmp_path / "robustness.html"
    models = [("MLB", MODEL), ("B & C", OTHER)]
    write_noise_page(page, "Noise", models, split)
    text = page.read_text()
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text.split("</style>")[1]))
    # Two of MLB's four answers are right without noise and two with it; R_score is 1 at no loss.
    assert (
        "MLB answers 50% of the questions correctly, and 50% with the least noise: "
        "1 of 2 right answers become wrong."
    ) in plain
    assert (
        "The accuracy of MLB does not change (R_score 1.00, because it changes by 0.05 points or "
        "less). MLB changes 75% of its answers: 1 from right to wrong, 1 from wrong to right."
    ) in plain
    chart = re.search(r'<svg viewBox[^>]* aria-label="([^"]*)"', text)
    assert chart is not None
    # Either image of MLB has the accuracy 1/2; 57.5 percent is the mean of 100 and 15.
    assert re.fullmatch(
        r"Accuracy under noise. MLB: 0: 50%, 1: 50%. "
        r"B &amp; C: 0: 5[78]% \(15% to 100%\), 1: 5[78]% \(15% to 100%\).",
        chart[1],
    )
    # The table of MLB: all, yes/no and number by hand; no level of the intervals has room to vary.
    table = re.findall(r"<table>(.*?)</table>", text, re.DOTALL)[0]
    assert "MLB by level and answer type" in table
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in table.split("<tr>")[1:]]
    assert [row[:2] + row[3:] for row in rows] == [
        ["level", "all", "yes/no", "number", "points lost", "R_score"],
        ["clean", "0.500", "0.333", "1.000", "", ""],
        ["1", "0.500", "0.333", "1.000", "0.0", "1.000"],
    ]
    assert "4 questions, official accuracy of the data set" in plain
    # The blind baseline: "yes" to the yes/no questions, "2" to the number.
    assert "R_score says nothing about MLB: without noise its accuracy is 50.0%" in plain
    assert "R_score says nothing about B" not in plain  # 57.5 percent
    assert "B &amp; C changes 0% of its answers" in plain
    first, second = re.findall(r'<article id="([^"]+)">(.*?)</article>', text, re.DOTALL)
    assert (first[0], second[0]) == ("question-11-level-1", "question-12-level-1")
    assert 'asked">Is it red?</span> <mark>Is it old?</mark>' in first[1]
    answers = re.findall(r'<span class="(right|wrong)">(\S+) [✓✗]</span>', first[1])
    assert answers == [("right", "yes"), ("wrong", "no"), ("right", "yes"), ("right", "yes")]
    assert "in the data set: yes" in first[1]
    assert "script-src 'none'" in text
    assert not re.search(r"https?://", text)
