"""The accuracy of the papers in data sets with evaluations of their own."""

import pytest

from ivqa.data.formats.aokvqa import AOKVQAMetric
from ivqa.data.formats.vizwiz import VizWizMetric
from ivqa.data.split import AnswerMetric, ExactMatch
from ivqa.metrics.vqa_accuracy import vqa_accuracies


@pytest.mark.parametrize(
    ("metric", "answer", "given", "official", "paper"),
    [
        (AnswerMetric(), "red", ["red"] + ["blue"] * 9, 0.3, 1 / 3),
        (AnswerMetric(), "red", ["red"] * 3 + ["blue"] * 7, 0.9, 1),
        (AnswerMetric(), "red", ["red", "blue"], 0.5, 0.5),  # n / 2 of two annotators
        # VizWiz normalises the answer and not those of the annotators.
        (VizWizMetric(), "Red.", ["red"] * 2 + ["Red"] * 8, 0.6, 2 / 3),
        # A-OKVQA has n / 3 already, letter by letter.
        (AOKVQAMetric(), "red", ["red"] * 2 + ["Red"] * 8, 2 / 3, 2 / 3),
        (ExactMatch(), "red", ["red"], 1, 1),
        (ExactMatch(), "red", ["Red"], 0, 0),
    ],
)
def test_only_the_worth_of_matches_changes(
    metric: AnswerMetric, answer: str, given: list[str], official: float, paper: float
) -> None:
    own, other = metric.with_accuracy("official"), metric.with_accuracy("paper")
    assert type(other) is type(metric)
    found = [vqa_accuracies([answer], [given], rule=one.rule)[0] for one in (own, other, metric)]
    assert found == pytest.approx([official, paper, official])
