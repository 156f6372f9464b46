"""The page of results, against text that is written by hand."""

from typing import Any

import pytest
from tools.experiments import Experiment, Record
from tools.results_page import result_table, results_page

ACC = {"accuracy": ["acc", ".1%"]}


def _section(experiment: Experiment, record: Record | None = None) -> str:
    """The part of the page below the title of the only section."""
    records = {} if record is None else {experiment.name: record}
    page = results_page([("Models", "", [experiment])], records)
    return page.partition("## Models\n\n")[2]


def test_the_page_of_two_sections_by_hand() -> None:
    first = Experiment(
        "a", "evaluate.py x={dir}/1", ACC, before=" Above.\n", after="Below.\n", names={"b": "B"}
    )
    seeds = [{"acc": 0.4}, {"acc": 0.6}]
    record = Record("abc", "2 cores", 1234.4, {"b": seeds}, "Python 3.11", [1, 3])
    other = Experiment("c", "train.py", ACC, needs=["DATA", "MORE"])
    sections = [("Models", " Percent.\n", [first, other]), ("Empty", "", [])]
    page = results_page(sections, {"a": record, "unknown": record})
    title, _, body = page.partition("## Models")
    assert title.startswith("# Results\n\n`make results`")
    assert title.endswith(" intervals.\n\n")
    assert (
        body
        == """

Percent.

Above.

```bash
python evaluate.py x=outputs/results/a/1
```

Commit abc, 2 cores, Python 3.11, seeds 1, 3, 1,234 s.

|  | accuracy |
| --- | ---: |
| B | 50.0 ± 14.1 |

Below.

## Not measured

- c; it needs data: set `DATA` and `MORE`
"""
    )


@pytest.mark.parametrize(
    ("extra", "commands"),
    [
        ({}, ["python e.py"]),
        (
            {"first": "train.py a=b"},
            ["python train.py a=b output_dir=outputs/results/n/first", "python e.py"],
        ),
        ({"baseline": "e.py blind"}, ["python e.py blind", "python e.py"]),
        (
            {"first": "train.py", "baseline": "e.py x={dir}/first"},
            [
                "python train.py output_dir=outputs/results/n/first",
                "python e.py x=outputs/results/n/first",
                "python e.py",
            ],
        ),
    ],
)
def test_commands_come_in_the_order_in_which_they_run(
    extra: dict[str, Any], commands: list[str]
) -> None:
    record = Record("abc", "", 0, {"mlb": [{"acc": 0.5}]})
    section = _section(Experiment("n", "e.py", ACC, **extra), record)
    assert section.startswith("```bash\n" + "\n".join(commands) + "\n```\n\nCommit abc.\n")


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (Record("abc", "2 cores", 0, {"b": [{"acc": 1.0}]}), "Commit abc, 2 cores."),
        (Record("abc", "2 cores", 59.6, {"b": [{"acc": 1.0}]}), "Commit abc, 2 cores, 60 s."),
        (Record("a", "m", 0, {"b": [{"acc": 1.0}]}, "", [4]), "Commit a, m, seed 4."),
        (
            Record("a", "m", 0, {"b": [{"acc": 1.0}]}, "v 1", [4, 5]),
            "Commit a, m, v 1, seeds 4, 5.",
        ),
    ],
)
def test_what_is_not_recorded_is_left_out(record: Record, line: str) -> None:
    assert f"\n```\n\n{line}\n\n|  | accuracy |" in _section(Experiment("n", "e.py", ACC), record)


def test_long_commands_are_folded_between_words() -> None:
    def folded(command: str) -> list[str]:
        record = Record("abc", "", 0, {"mlb": [{"acc": 0.5}]})
        return (
            _section(Experiment("n", command, ACC), record)
            .split("```bash\n")[1]
            .split("```")[0]
            .splitlines()
        )

    whole = "e.py " + "x" * (92 - len("python e.py "))
    assert folded(whole) == [f"python {whole}"]
    assert folded(whole + "x") == ["python e.py \\", "    " + "x" * 81]
    dashes = "data.root=" + "a-" * 50  # longer than a line
    assert folded(f"e.py {dashes} y=1") == ["python e.py \\", f"    {dashes} \\", "    y=1"]


def test_cells_show_what_was_measured() -> None:
    experiment = Experiment(
        "n",
        "e.py",
        {"acc": ["acc", ".1%", "interval"], "n": ["n", ",.0f"], "plain": ["acc", ".2f"]},
    )
    ends = {"acc_low": 0.4, "acc_high": 0.6}
    settings = {
        "one": [{"acc": 0.5, **ends}],
        "no interval": [{"acc": 0.5, "n": 1234.0}],
        "some seeds": [{"acc": 0.5, **ends}, {"acc": 0.7, **ends}, {"n": 3.0}],
        "none": [{}],
    }
    assert result_table(experiment, settings).splitlines() == [
        "|  | acc | n | plain |",
        "| --- | ---: | ---: | ---: |",
        "| one | 50.0 [40.0, 60.0] | - | 0.50 |",
        "| no interval | 50.0 | 1,234 | 0.50 |",
        "| some seeds | 60.0 ± 14.1 | 3 | 0.60 ± 0.14 |",
        "| none | - | - | - |",
    ]


def test_a_shared_row_takes_all_its_prefixes_from_every_seed_of_the_first_setting() -> None:
    experiment = Experiment(
        "n",
        "e.py",
        {"X": ["rl/x", ".1f"], "Y": ["new/y", ".1f"], "Z": ["z", ".1f"]},
        shared_rows={"old": {"rl/": "sup/", "new/": "was/"}},
        names={"old": "before"},
    )
    settings = {
        "a": [{"rl/x": 1.0, "sup/x": 2.0, "was/y": 3.0, "z": 9.0}, {"sup/x": 4.0, "was/y": 3.0}],
        "b": [{"rl/x": 5.0, "sup/x": 7.0}],
    }
    assert result_table(experiment, settings).splitlines()[2:] == [
        "| before | 3.0 ± 1.4 | 3.0 ± 0.0 | - |",
        "| a | 1.0 | - | 9.0 |",
        "| b | 5.0 | - | - |",
    ]
