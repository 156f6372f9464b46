"""The summary of a diagnosis in sentences."""

from dataclasses import replace

from ivqa.diagnosis import Belief, Mistake
from ivqa.report import BeliefPageModel, summary
from ivqa.report.belief_words import sentence

METRICS = {
    "vqa/accuracy": 0.807,
    "robustness/partition_1/accuracy": 0.588,
    "robustness/r_score": 0.04,
    "beliefs/count": 12345.0,
    "beliefs/per_pair": 66.2,
    "rl/per_pair": 39.53,
    "supervised/per_pair": 32.03,
    "beliefs/correct": 0.59,
    "beliefs/incorrect": 0.41,
    "beliefs/rephrase": 0.07,
    "beliefs/complementary": 0.52,
    "beliefs/adversarial": 0.2,
    "beliefs/irrelevant": 0.21,
    "beliefs/contradictions": 0.18,
}
WRONG = Belief(1, "2", "How many stars are there?", 0.5, -3.0, 0.9, "rl", "adversarial", "oracle")


def test_the_summary_says_what_the_metrics_say() -> None:
    assert summary(BeliefPageModel("mlb", [WRONG], METRICS), None) == [
        "mlb answers 81% of the questions correctly.",
        "With basic questions appended, 59% (noise level 1; R_score 0.04).",
        "12,345 beliefs, 66.2 for each image and answer: the policy found 39.5, the generator "
        "before it 32.0.",
        "59% are correct (7% rephrase, 52% complementary), 41% are wrong (20% adversarial, "
        "21% irrelevant); typed by: oracle.",
        "18% contradict another belief about the same image.",
        "Of its wrong beliefs:",
        "  100%  mlb answers “how many …” wrongly (most often “2”)",
    ]


def test_types_of_some_beliefs_are_not_those_of_all() -> None:
    untyped = Belief(1, "2", "How many?", 0.5, -3.0, 0.9, "rl")
    by_proxy = replace(WRONG, type_by="proxy")
    lines = summary(BeliefPageModel("mlb", [untyped, by_proxy, untyped], METRICS), None)
    assert lines[3].startswith("Of the 1 that could be typed, 59% are correct (7% rephrase, ")
    assert lines[3].endswith("21% irrelevant); typed by: proxy, 1 of 3.")


def test_what_was_not_measured_is_not_said() -> None:
    absent = ("robustness/", "beliefs/contradictions", "beliefs/correct")
    metrics = {name: value for name, value in METRICS.items() if not name.startswith(absent)}
    untyped = Belief(1, "2", "How many?", 0.5, -3.0, 0.9, "rl")
    assert len(summary(BeliefPageModel("mlb", [untyped], metrics), None)) == 2


def test_a_sentence_names_three_things_at_most() -> None:
    things = [("stars", 5), ("hearts", 3), ("crosses", 2), ("circles", 1)]
    mistake = Mistake("counts too many things", things, 11, 0.5, 0.6, [], (0.4, 0.6))
    assert sentence(mistake) == "counts too many things (most often stars, hearts, crosses)"
    assert (
        sentence(Mistake("confuses places", [], 1, 0.5, 0.6, [], (0.4, 0.6))) == "confuses places"
    )
