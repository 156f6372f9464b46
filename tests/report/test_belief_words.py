"""The summary of a diagnosis in sentences."""

from dataclasses import replace
from pathlib import Path

from ivqa.data import ClevrDataset, VQADataset, official_vqa
from ivqa.diagnosis import Belief, Mistake, commonest_mistakes
from ivqa.report.belief_words import BeliefPageModel, headline, mostly_illegal, sentence, summary
from ivqa.report.model_names import title_of

METRICS = {
    "vqa/accuracy": 0.807,
    "robustness/partition_0/accuracy": 0.807,
    "robustness/partition_1/accuracy": 0.588,
    "robustness/r_score": 0.0,
    "robustness/blind_accuracy": 0.331,
    "robustness/below_blind": 0.0,
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
    assert summary(BeliefPageModel("mlb", [WRONG] * 30, METRICS), None) == [
        "mlb answers 81% of the questions correctly.",
        "Under noise of level 1, 59%: the accuracy falls by 21.9 points (R_score 0.00, because it "
        "falls by 20 points or more).",
        "12,345 beliefs, 66.2 for each image and answer: the policy found 39.5, the generator "
        "before it 32.0.",
        "59% are correct (7% rephrase, 52% complementary), 41% are wrong (20% adversarial, "
        "21% irrelevant); typed by: oracle.",
        "18% contradict another belief about the same image.",
        "Of its wrong beliefs:",
        "  100%  mlb answers “how many …” wrongly, most often “2”",
    ]


def test_the_summary_warns_of_a_model_that_is_not_better_than_a_blind_one() -> None:
    wrong = {"robustness/partition_0/accuracy": 0.0, "robustness/partition_1/accuracy": 0.0}
    metrics = {**METRICS, **wrong, "robustness/r_score": 1.0, "robustness/below_blind": 1.0}
    lines = summary(BeliefPageModel("mlb", [WRONG], metrics), None)
    assert lines[1] == (
        "Under noise of level 1, 0%: the accuracy does not change (R_score 1.00, because it "
        "changes by 0.05 points or less)."
    )
    assert lines[2].startswith("R_score says nothing about mlb: without noise its accuracy is 0.0%")
    assert "33.1%" in lines[2]


def test_types_of_some_beliefs_are_not_those_of_all() -> None:
    untyped = Belief(1, "2", "How many?", 0.5, -3.0, 0.9, "rl")
    by_proxy = [replace(WRONG, type_by="proxy")] * 30
    lines = summary(BeliefPageModel("mlb", [untyped, *by_proxy, untyped], METRICS), None)
    assert lines[3].startswith("Of the 30 that could be typed, 59% are correct (7% rephrase, ")
    assert lines[3].endswith("21% irrelevant); typed by: proxy, 30 of 32.")
    few = summary(BeliefPageModel("mlb", [untyped, *by_proxy[1:], untyped], METRICS), None)
    assert few[3:] == [
        "Only 29 are judged, too few for a share; typed by: proxy, 29 of 31.",
        "18% contradict another belief about the same image.",
    ]


def test_what_was_not_measured_is_not_said() -> None:
    absent = ("robustness/", "beliefs/contradictions", "beliefs/correct")
    metrics = {name: value for name, value in METRICS.items() if not name.startswith(absent)}
    untyped = Belief(1, "2", "How many?", 0.5, -3.0, 0.9, "rl")
    assert len(summary(BeliefPageModel("mlb", [untyped], metrics), None)) == 2


def test_a_sentence_names_three_things_at_most() -> None:
    things = [("stars", 5), ("hearts", 3), ("crosses", 2), ("circles", 1)]
    mistake = Mistake("counts too many things", things, 11, 0.5, 0.6, [], (0.4, 0.6))
    assert sentence(mistake) == "counts too many things, most often stars, hearts and crosses"
    sides = replace(mistake, things=[("left and right", 2), ("above and below", 1)])
    assert sentence(sides).endswith(", most often left and right, above and below")
    assert (
        sentence(Mistake("confuses places", [], 1, 0.5, 0.6, [], (0.4, 0.6))) == "confuses places"
    )


def test_the_headline_says_what_is_wrong_and_how_much_confidence_is_worth() -> None:
    """90 of 120 typed beliefs are wrong; of the 60 that are sure, 30."""
    count = [replace(WRONG, phi=0.9, image_id=number) for number in range(30)]
    other = [replace(one, phi=0.5, question="Is it red?", type="irrelevant") for one in count]
    right = [replace(one, phi=0.8, type="rephrase") for one in count]
    untyped = replace(WRONG, phi=1.0, type=None, type_by=None)
    beliefs = [*count, *[WRONG] * 30, *other, *right]
    mistakes = commonest_mistakes(beliefs, None)
    lines = headline(BeliefPageModel("MLB", beliefs, METRICS), mistakes)
    assert lines == [
        "MLB answers 81% of the questions correctly, and 75% of its 120 beliefs are wrong.",
        "In 67% of these, it answers “how many …” wrongly, most often “2”.",
        "Where it is most confident, at 75% or more, 50% of its beliefs are wrong.",
    ]
    ends = {f"beliefs/incorrect_ppi{end}": at for end, at in (("_low", 0.25), ("_high", 0.5))}
    labelled = METRICS | ends | {"beliefs/incorrect_ppi": 0.375, "beliefs/labels": 30.0}
    page = BeliefPageModel("MLB", [*beliefs, untyped], labelled)
    assert headline(page, [])[0].endswith("and 25% to 50% of its 121 beliefs are wrong.")
    assert (
        "Corrected by labels of 30 beliefs, 38% of all beliefs are wrong "
        "(95 percent interval: 25% to 50%)."
    ) in summary(page, None)
    few = replace(page, metrics={**labelled, "beliefs/labels": 29.0})
    assert "75% of its 120 beliefs that could be typed" in headline(few, [])[0]
    model = BeliefPageModel("MLB", [*beliefs, untyped], {})
    assert headline(model, [])[0] == "MLB: 75% of its 120 beliefs that could be typed are wrong."
    assert headline(BeliefPageModel("MLB", [untyped], METRICS), []) == [
        "MLB answers 81% of the questions correctly."
    ]


def test_no_headline_rests_on_fewer_than_30_judged_beliefs() -> None:
    sure, unsure = replace(WRONG, phi=0.9), replace(WRONG, phi=0.1)
    few = BeliefPageModel("MLB", [sure] * 29, {"beliefs/errors_at_least": 1 / 29})
    assert headline(few, commonest_mistakes(few.beliefs, None)) == [
        "Only 29 of its 29 beliefs are judged, too few for a share.",
        "At least 1 of its 29 answers is wrong (3.4%), because they contradict each other; "
        "0 are suspected.",
    ]
    one = replace(few, beliefs=[replace(sure, suspect=True), *[sure] * 28])
    none = replace(one, metrics={"beliefs/errors_at_least": 0.0})
    assert headline(none, [])[1] == (
        "No two of its 29 answers certainly contradict each other; 1 is suspected."
    )
    suspects = [replace(sure, suspect=True)] * 27
    useless = replace(none, beliefs=[*suspects, sure, sure])
    assert headline(useless, [])[2].startswith("Its answers hardly ever agree with each other")
    doubtful = replace(none, beliefs=[*suspects[1:], sure, sure, sure])
    assert len(headline(doubtful, [])) == 2
    # Enough are judged, but 29 of them are sure, and then 29 are wrong.
    many = BeliefPageModel("MLB", [sure] * 29 + [unsure], {})
    assert len(headline(many, commonest_mistakes(many.beliefs, None))) == 2
    right = [replace(sure, type="rephrase")] * 29
    mixed = BeliefPageModel("MLB", [*right, sure, *[unsure] * 28], {})
    assert headline(mixed, commonest_mistakes(mixed.beliefs, None)) == [
        "MLB: 50% of its 58 beliefs are wrong.",
        "Where it is most confident, at 75% or more, 3% of its beliefs are wrong.",
    ]


def test_a_share_of_those_drawn_by_chance_rests_on_30_of_them() -> None:
    """A search found 60 wrong beliefs of another kind; chance found 29 or 30, of two kinds."""
    searched = [replace(WRONG, question="Is it red?", source="plain_english")] * 60
    drawn = [replace(WRONG, source="by_chance")] * 24
    other = [replace(WRONG, source="by_chance", question="Where is it?")]
    for number, said in ((5, 1), (6, 2)):
        model = BeliefPageModel("MLB", [*searched, *drawn, *other * number], {})
        lines = headline(model, commonest_mistakes(model.beliefs, None))
        assert len(lines) == said
        assert ("drawn by chance" in " ".join(lines)) == (said == 2)
    assert lines[1] == (
        "In 80% of the 30 of these drawn by chance, it answers “how many …” wrongly, "
        "most often “2”."
    )


def test_what_limits_a_diagnosis_stands_in_the_headline() -> None:
    noted = BeliefPageModel("MLB", [WRONG], {"rl/legal": 0.1}, note="Few pictures.")
    assert headline(noted, [])[1:] == ["Few pictures.", mostly_illegal({"rl/legal": 0.1})]


def test_mostly_illegal_questions_are_said() -> None:
    assert mostly_illegal({"rl/legal": 0.5, "supervised/legal": 0.5}) == ""
    assert mostly_illegal({"rl/legal": 0.8, "supervised/legal": 0.49}).startswith(
        "Only 49% of the questions of the generator are legal"
    )


def test_what_one_hundred_more_questions_would_bring_is_said() -> None:
    ends = {"search/next_100": 6.6, "search/next_100_low": 2.0, "search/next_100_high": 13.0}
    page = BeliefPageModel("MLB", [WRONG], {"beliefs/errors_at_least": 0.0, **ends})
    assert headline(page, [])[-1] == (
        "One hundred more questions would prove about 7 more wrong answers (2 to 13)."
    )


def test_models_and_data_have_the_names_that_people_use(tmp_path: Path) -> None:
    assert [title_of(name) for name in ("n2nmn", "mutan", "mine")] == ["N2NMN", "MUTAN", "mine"]
    assert official_vqa(tmp_path, 1).title == "VQA v1"
    assert ClevrDataset(tmp_path).title == "CLEVR"
    assert VQADataset(tmp_path / "my_data").title == "my_data"
