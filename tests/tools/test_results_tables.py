"""What the page of results shows of finished runs: settings, metrics, tables and their origin."""

from pathlib import Path
from typing import Any

import pytest
from tools.experiments import Experiment, Record
from tools.result_keys import Keys
from tools.results_page import result_table, results_page

from ivqa.errors import UserError
from tools import results


def test_a_table_has_mean_and_deviation_over_seeds_and_intervals() -> None:
    experiment = Experiment(
        name="e",
        command="evaluate.py",
        metrics={"acc": ["acc", ".1%", "interval"], "n": ["n", ",.0f"], "KL": ["kl", ".2f"]},
        names={"b": "B"},
    )
    settings = {
        "a": [{"acc": 0.5, "n": 1000.0}, {"acc": 0.7, "n": 3000.0}],
        "b": [{"acc": 0.25, "acc_low": 0.2, "acc_high": 0.3, "n": 7.0, "kl": 1.234}],
    }
    assert result_table(experiment, settings).splitlines() == [
        "|  | acc | n | KL |",
        "| --- | ---: | ---: | ---: |",
        "| a | 60.0 ± 14.1 | 2,000 ± 1,414 | - |",
        "| B | 25.0 [20.0, 30.0] | 7 | 1.23 |",
    ]


def test_settings_become_sorted_columns_and_shared_rows_come_first() -> None:
    experiment = Experiment(
        name="e",
        command="diagnose.py",
        metrics={"U#": ["rl/unique", ".1f"]},
        settings_are="columns",
        shared_rows={"supervised": {"rl/": "supervised/"}},
    )
    settings = {
        "full": [{"rl/unique": 2.0, "supervised/unique": 3.0}],
        "goal": [{"rl/unique": 1.0, "supervised/unique": 3.0}],
    }
    table = result_table(experiment, settings).splitlines()
    assert table[0] == "|  | supervised | full | goal |"
    assert table[2] == "| U# | 3.0 | 2.0 | 1.0 |"
    by_mean = Experiment("e", "diagnose.py", {"U#": ["rl/unique", ".1f"]}, sort="rl/unique")
    assert [line[2:6] for line in result_table(by_mean, settings).splitlines()[2:]] == [
        "goal",
        "full",
    ]


def test_a_word_of_the_settings_becomes_columns_and_a_metric_a_table() -> None:
    experiment = Experiment(
        name="e",
        command="evaluate.py",
        metrics={"lost": ["acc_diff", ".1%"], "R": ["r", ".2f"]},
        columns={"lasso": "LASSO", "bleu1": "BLEU-1"},
        names={"mlb gbqd": "MLB, GBQD"},
    )
    settings = {
        "mlb gbqd bleu1": [{"acc_diff": 0.1, "r": 0.25}],
        "mlb gbqd lasso": [{"acc_diff": 0.2, "r": 0.5}],
        "mlb ynbqd lasso": [{"acc_diff": 0.3, "r": 0.75}],
    }
    assert result_table(experiment, settings).split("\n") == [
        "| lost | LASSO | BLEU-1 |",
        "| --- | ---: | ---: |",
        "| MLB, GBQD | 20.0 | 10.0 |",
        "| mlb ynbqd | 30.0 | - |",
        "",
        "| R | LASSO | BLEU-1 |",
        "| --- | ---: | ---: |",
        "| MLB, GBQD | 0.50 | 0.25 |",
        "| mlb ynbqd | 0.75 | - |",
    ]


def test_settings_are_sorted_by_the_mean_over_seeds() -> None:
    by_mean = Experiment("e", "evaluate.py", {"acc": ["acc", ".2f"]}, sort="acc")
    # The first seeds rise from a to c, and so do the last ones; the means fall.
    seeds = {"a": [0.1, 0.9, 0.2], "b": [0.2, 0.6, 0.3], "c": [0.3, 0.0, 0.4]}
    settings = {name: [{"acc": value} for value in own] for name, own in seeds.items()}
    table = result_table(by_mean, settings).splitlines()[2:]
    assert [line.split(" | ")[0] for line in table] == ["| c", "| b", "| a"]


def test_the_page_has_command_commit_machine_and_seconds() -> None:
    first = Experiment(
        "skip", "evaluate.py x={dir}/first", {"acc": ["acc", ".1%"]}, first="train.py"
    )
    other = Experiment("other", "evaluate.py", {"acc": ["acc", ".1%"]}, needs=["IVQA_DATA"])
    record = Record("abc1234", "2 cores with AVX2", 1234.4, {"mlb": [{"acc": 0.5}]})
    page = results_page([("Models", "Percent.", [first, other])], {"skip": record})
    assert "## Models\n\nPercent.\n\n" in page
    assert "python train.py output_dir=outputs/results/skip/first\n" in page
    assert "python evaluate.py x=outputs/results/skip/first\n" in page
    assert "Commit abc1234, 2 cores with AVX2, 1,234 s.\n\n|  | acc |" in page
    known = Record("abc1234", "2 cores", 0, {"mlb": [{"acc": 0.5}]}, "Python 3.11.7", [1, 3])
    page = results_page([("Models", "Percent.", [first, other])], {"skip": known})
    assert "Commit abc1234, 2 cores, Python 3.11.7, seeds 1, 3.\n\n|  | acc |" in page
    assert page.endswith("## Not measured\n\n- other; it needs data: set `IVQA_DATA`\n")


def test_the_page_says_what_is_out_of_date() -> None:
    experiment = Experiment("e", "evaluate.py", {"acc": ["acc", ".1%"]})
    then = Keys({"mlb": ["a", "b"], "data": ["d"], "gone": ["c"]}, {"MLB": 1, "Gone": 3})
    settings = {"mlb": [{"acc": 0.5}]}

    def said(now: Keys, **changed: Any) -> str:
        known: dict[str, Any] = {"commit": "abc", "keys": then.keys, "code": then.code}
        record = Record(**{"machine": "", "seconds": 0.0, "settings": settings, **known, **changed})
        page = results_page([("M", "", [experiment])], {"e": record}, {"e": now})
        return page.partition("**Out of date**: ")[2].partition(".\n")[0]

    assert said(then) == ""
    assert said(Keys({**then.keys, "mlb": ["a"]}, {"MLB": 2})) == (
        "`MLB` had version 1, has version 2; mlb"
    )
    here = {name: key for name, key in then.keys.items() if name != "data"}
    assert said(Keys(here, then.code)) == ""  # the data are on another machine
    assert said(Keys({"mlb": ["a", "b"], "new": ["x"], "data": ["e"]})) == "data; gone; new"
    assert said(then, keys={}) == "its cache keys were not recorded"
    assert said(then, commit="abc+") == "it was measured by code with uncommitted changes"


def test_the_page_says_how_long_training_had_taken() -> None:
    experiment = Experiment("e", "evaluate.py", {"acc": ["acc", ".1%"]})
    record = Record("abc", "", 1234.4, {"mlb": [{"acc": 0.5}]}, stored_training=5000.6)
    page = results_page([("M", "", [experiment])], {"e": record})
    assert "Commit abc, 1,234 s and 5,001 s before to train the models.\n" in page


def _settings(overrides: list[list[str]], **values: Any) -> list[str]:
    jobs = [{"overrides": own, "metrics": {"acc": 1.0}} for own in overrides]
    experiment = Experiment("e", "evaluate.py", {"acc": ["acc", ".1%"]}, **values)
    return list(results.settings_of(jobs, experiment))


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        ([["model=a", "seed=1"], ["model=b", "seed=1"]], ["a", "b"]),
        ([["model=a", "x=1"], ["model=a", "x=2"]], ["x=1", "x=2"]),
        ([["model=a", "x=1", "seed=1"], ["model=a", "x=1", "seed=2"]], ["a"]),
        ([["model@vqa=a", "ranker=b", "data.root=/x"]], ["a b"]),
        ([["model=a", "experiment=t"], ["model=b", "experiment=u"]], ["a", "b"]),
        ([["model=a"], ["model=a", "output_dir=x"]], ["default"]),
    ],
)
def test_a_setting_is_named_by_what_tells_it_from_others(
    overrides: list[list[str]], names: list[str]
) -> None:
    assert _settings(overrides) == names


def test_only_metrics_of_the_table_are_kept() -> None:
    values = {"rl/x": 1.0, "rl/x_low": 0.5, "rl/x_high": 1.5, "rl/y": 2.0, "sup/x": 3.0}
    values |= {"sup/x_high": 4.0, "sup/y": 5.0, "cost": 6.0, "": 7.0}
    jobs = [{"overrides": ["model=a"], "metrics": values}]
    experiment = Experiment(
        "e",
        "evaluate.py",
        {"X": ["rl/x", ".1f"]},
        sort="cost",
        shared_rows={"supervised": {"rl/": "sup/"}},
    )
    (kept,) = results.settings_of(jobs, experiment)["a"]
    assert kept == {name: values[name] for name in values if name and name[-1] != "y"}
    absent = Experiment("e", "", {name: [name, ""] for name in ("b", "rl/x", "a")})
    with pytest.raises(UserError, match=r"e: no job measured a, b$"):
        results.settings_of(jobs, absent)


def test_jobs_are_those_of_a_multirun_or_a_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"neither results\.json nor metrics\.json"):
        results.jobs_in(tmp_path)
    (tmp_path / "metrics.json").write_text('{"acc": 0.5}')
    (tmp_path / "overrides.yaml").write_text("- model=mlb\n- seed=2\n")
    assert results.jobs_in(tmp_path) == [
        {"overrides": ["model=mlb", "seed=2"], "metrics": {"acc": 0.5}}
    ]
    (tmp_path / "results.json").write_text("[]")
    assert results.jobs_in(tmp_path) == []
