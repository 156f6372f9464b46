"""The table of accuracy under noise in the terminal."""

import io

from rich.console import Console

from ivqa.metrics import RScore
from ivqa.report.tables import print_noise_curve


def _metrics(**more: float) -> dict[str, float]:
    metrics = {"robustness/r_score_partition_1": 0.25}
    for level, accuracy in enumerate((0.8, 0.5)):
        figures = {
            "accuracy": accuracy,
            "accuracy_low": accuracy - 0.1,
            "accuracy_high": accuracy + 0.1,
        }
        figures |= {"yes_no": 0.9, "number": 0.4, "other": 0.5, "flips": 0.125, "acc_diff": 0.3}
        figures["truncated"] = (0.002, 0.608)[level]
        metrics |= {f"robustness/partition_{level}/{key}": value for key, value in figures.items()}
        metrics |= {f"robustness/partition_{level}/{key}": value for key, value in more.items()}
    return metrics


def _printed(metrics: dict[str, float], r_score: RScore) -> list[str]:
    stream = io.StringIO()
    print_noise_curve(metrics, "MLB", r_score, console=Console(file=stream, width=80))
    return stream.getvalue().splitlines()


def test_one_table_of_80_characters_has_types_losses_and_cut_questions() -> None:
    lines = _printed(_metrics(), RScore())
    assert lines[0].strip() == "accuracy under noise: official accuracy of the data set"
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    assert rows == [
        ["clean", "0.800", ".700-.900", "0.900", "0.400", "0.500", "", "", "<1"],
        ["1", "0.500", ".400-.600", "0.900", "0.400", "0.500", "30.0", "0.250", "61"],
    ]


def test_the_title_names_the_papers_accuracy_and_choices_have_a_column() -> None:
    lines = _printed(_metrics(multiple_choice=0.75), RScore(accuracy="paper"))
    assert lines[0].strip() == "accuracy under noise: accuracy min(n / 3, 1) of the papers"
    assert sum("0.750" in line for line in lines) == 2
