"""The table of a repair, on given figures."""

from ivqa.tasks.repair import repair_table


def test_rows_and_metrics_name_the_model_that_is_kept() -> None:
    figures = {
        "before": {"wrong_rate": 0.5, "accuracy": 0.7, "judged": 0.9},
        "round_1": {"wrong_rate": 0.2, "accuracy": 0.8, "r_score": 0.0, "added_questions": 12.0}
        | {"below_blind": 1.0},
        "ordinary": {"accuracy": 0.75},
    }
    rows, metrics = repair_table(figures, "round_1")
    assert metrics == {
        "before/wrong_rate": 0.5,
        "before/accuracy": 0.7,
        "before/judged": 0.9,
        "round_1/wrong_rate": 0.2,
        "round_1/accuracy": 0.8,
        "round_1/r_score": 0.0,
        "round_1/added_questions": 12.0,
        "round_1/below_blind": 1.0,
        "repaired/wrong_rate": 0.2,
        "repaired/accuracy": 0.8,
        "repaired/r_score": 0.0,
        "repaired/added_questions": 12.0,
        "repaired/below_blind": 1.0,
        "ordinary/accuracy": 0.75,
    }
    assert [row["model"] for row in rows] == ["before", "round 1, repaired", "ordinary"]
    assert [row["accuracy"] for row in rows] == [0.7, 0.8, 0.75]
    assert [row["wrong"] for row in rows] == [0.5, 0.2, ""]
    assert [row["R_score"] for row in rows] == ["", 0.0, ""]
    assert [row["not above blind"] for row in rows] == ["", 1.0, ""]
    assert [row["added questions"] for row in rows] == ["", 12.0, ""]
