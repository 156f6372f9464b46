"""Charts as SVG: places by hand, and what they say to screen readers."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from ivqa.diagnosis import Belief
from ivqa.report.belief_charts import (
    calibration_chart,
    confidence_chart,
    policy_chart,
    read_curves,
)
from ivqa.report.belief_words import BeliefPageModel
from ivqa.report.charts import Line, Part, bar_chart, line_chart, noise_chart

BASE = Belief(1, "yes", "Is it red?", 0.9, -3.0, 0.9, "rl", "adversarial", "oracle")


def _svg(chart: Markup | None) -> ElementTree.Element:
    assert chart is not None
    svg = ElementTree.fromstring(str(chart)).find("svg")
    assert svg is not None
    assert svg.get("role") == "img"
    return svg


def _said(chart: Markup | None) -> str:
    return str(_svg(chart).get("aria-label"))


def test_a_line_and_its_intervals_are_where_their_values_are() -> None:
    """The area is 370 wide from 58, and 210 high up from 222; names are escaped."""
    line = Line("a < b", [0, 1], [0.5, 1.0], [(0.25, 0.75), (1.0, 1.0)])
    chart = line_chart("Shares", [line], "x", "y", [0, 0.5, 1], diagonal="even")
    svg = _svg(chart)
    (drawn,) = svg.findall("polyline")
    assert drawn.get("points") == "58.0,117.0 428.0,12.0"
    assert [one.get("d") for one in svg.findall("path[@class='interval s0']")] == [
        "M58.0 169.5V64.5",
        "M428.0 12.0V12.0",
    ]
    assert _said(chart) == "Shares. a < b: 0: 50% (25% to 75%), 1: 100%."
    assert "a &lt; b" in chart
    assert {"x", "y", "0%", "25%", "100%", "0.5"} <= {text.text for text in svg.findall("text")}


def test_lines_differ_by_more_than_their_colour() -> None:
    lines = [Line(name, [0, 1], [0.5, 0.5]) for name in "abcd"]
    found = _svg(line_chart("t", lines, "x", "y", [0, 1])).findall("polyline")
    assert len({one.get("stroke-dasharray") for one in found}) == 4


def test_the_parts_of_a_bar_stand_upon_each_other() -> None:
    """The axis ends at 30: 10 is a third of 210 pixels."""
    parts = [Part("right", "right", [10, 0]), Part("wrong", "wrong", [20, 0])]
    chart = bar_chart("Bars", parts, "x", "y")
    low, high = _svg(chart).findall("rect")
    assert (low.get("y"), low.get("height")) == ("152.0", "70.0")
    assert (high.get("y"), high.get("height")) == ("12.0", "140.0")
    assert "wrong, above" in chart
    assert _said(chart) == "Bars. 0 to 0.5: 10 right, 20 wrong."


@pytest.mark.parametrize(("highest", "last"), [(0, 1), (1, 1), (4, 4), (5, 6), (12_700, 15_000)])
def test_the_axis_of_bars_has_few_round_numbers(highest: int, last: int) -> None:
    chart = bar_chart("t", [Part("p", "s0", [highest])], "", "")
    ticks = re.findall(r'text-anchor="end">([\d,]+)<', chart)
    assert int(ticks[-1].replace(",", "")) == last
    assert 2 <= len(ticks) <= 5


def test_calibration_is_that_of_bands_with_enough_judged_beliefs() -> None:
    """Of 40 beliefs with a confidence of 0.95, 10 are right; 29 with 0.15 are too few."""
    right = [Belief(n, "a", "q", 0.95, 0, 1, "rl", "rephrase", "oracle") for n in range(10)]
    wrong = [Belief(n, "a", "q", 0.95, 0, 1, "rl", "irrelevant", "oracle") for n in range(30)]
    few = [Belief(n, "a", "q", 0.15, 0, 1, "rl", "rephrase", "oracle") for n in range(29)]
    said = _said(calibration_chart([BeliefPageModel("m", [*right, *wrong, *few], {})]))
    assert re.fullmatch(r"Right beliefs by confidence. m: 0.95: 25% \(\d+% to \d+%\).", said)
    assert calibration_chart([BeliefPageModel("m", few, {})]) is None
    people = [Belief(1, "a", "q", 0.95, 0, 1, "rl", "rephrase", "human")] * 40
    assert calibration_chart([BeliefPageModel("m", people, {})]) is None
    assert calibration_chart([BeliefPageModel("m", people, {}, weights=[1.0] * 40)]) is not None


def test_confidences_are_split_into_right_and_wrong_or_suspects() -> None:
    untyped = [Belief(1, "a", "q", phi, 0, 1, "rl", suspect=phi < 0.5) for phi in (0.2, 0.2, 1.0)]
    said = _said(confidence_chart(BeliefPageModel("m", [BASE, *untyped], {})))
    assert "0.2 to 0.25: 0 wrong, 2 not judged." in said
    assert "0.9 to 0.95: 1 wrong, 0 not judged." in said
    said = _said(confidence_chart(BeliefPageModel("m", untyped, {})))
    assert said.endswith(
        "0.2 to 0.25: 0 not suspected, 2 suspected. 0.95 to 1: 1 not suspected, 0 suspected."
    )
    assert confidence_chart(BeliefPageModel("m", [], {})) is None


def test_noise_and_rewards() -> None:
    at = "robustness/partition_{}/accuracy{}"
    metrics = {at.format(0, ""): 0.8, at.format(1, ""): 0.5}
    assert _said(noise_chart({"m": metrics})) == "Accuracy under noise. m: 0: 80%, 1: 50%."
    ends = {
        at.format(level, end): x for level in (0, 1) for end, x in (("_low", 0.4), ("_high", 0.9))
    }
    assert "m: 0: 80% (40% to 90%)" in _said(noise_chart({"m": metrics | ends, "other": {}}))
    assert noise_chart({"m": {}}) is None
    rewards = policy_chart({"goal": [(100, 0.5), (200, 0.75)]})
    assert _said(rewards) == "Rewards of the policy. goal: 100: 50%, 200: 75%."


def test_all_rewards_of_a_run_are_drawn(tmp_path: Path) -> None:
    """Also one of the user, and a fifth line: there are four colours and four dashes."""
    names = ["reward", "goal", "legality", "diversity", "short"]
    cells = [f"val/{name}" for name in [*names, "unique"]]
    rows = [f"{step},{','.join([f'0.{step}'] * len(cells))}" for step in (1, 2)]
    file = tmp_path / "metrics.csv"
    file.write_text("\n".join([f"step,{','.join(cells)}", *rows]))
    curves = read_curves(file, [*names, "of another run"])
    assert curves == {name: [(1, 0.1), (2, 0.2)] for name in names}
    lines = _svg(policy_chart(curves)).findall("polyline")
    styles = {(line.get("class"), line.get("stroke-dasharray")) for line in lines}
    assert len(styles) == len(lines) == len(names)
    assert {name for name, _ in styles} == {f"line s{color}" for color in range(4)}
