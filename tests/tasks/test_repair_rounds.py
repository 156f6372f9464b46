"""When the rounds of a repair end and which is kept, on given shares of wrong beliefs."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from ivqa.data.batches.columns import Entry
from ivqa.diagnosis import Belief
from ivqa.errors import UserError
from ivqa.tasks import repair
from ivqa.tasks.repair_run import RepairRun, RepairSettings, Trained


class _Rounds(RepairRun):
    """Rounds whose models have given wrong rates and whose beliefs are all new."""

    def __init__(self, rates: Sequence[float], settings: RepairSettings) -> None:
        super().__init__(cast(Any, Mock(cfg=Mock(split="test", seed=1))), Path(), settings)
        self._rates = list(rates)

    def trained(self, name: str, entries: Sequence[Entry]) -> Trained:
        return Trained(name, cast(Any, None), cast(Any, None), Path(name))

    def corrections(self, model: Trained, number: int) -> list[Entry]:
        return [cast(Any, Mock(image_id=number, question=model.name))]

    def ordinary(self, entries: Sequence[Entry]) -> list[Entry]:
        return []

    def wrong_rate(self, model: Trained) -> float:
        name = model.name.removeprefix("round_")
        return self._rates[0 if name == "before" else int(name)]


@pytest.mark.parametrize(
    ("rates", "patience", "trained"),
    [
        ([0.5, 0.4, 0.3, 0.2, 0.1], 1, 4),  # all rounds help
        ([0.5, 0.4, 0.4, 0.3, 0.1], 1, 2),  # the second round is no better
        ([0.5, 0.4, 0.45, 0.3, 0.1], 2, 4),  # one round in between is not
        ([0.5, 0.3, 0.45, 0.4, 0.1], 2, 3),  # the third is better than the second, not the first
        ([0.5, 0.6, 0.55, 0.1, 0.1], 2, 2),  # no round is better than the model before
    ],
)
def test_rounds_end_when_none_in_a_row_is_better_than_all_before(
    rates: list[float], patience: int, trained: int
) -> None:
    models = _Rounds(rates, RepairSettings(rounds=4, patience=patience)).rounds()
    assert [one.name for one in models] == [
        "before",
        *(f"round_{number}" for number in range(1, trained + 1)),
    ]


def test_a_round_adds_to_the_beliefs_of_those_before_it() -> None:
    found = [[(1, "a"), (1, "b")], [(1, "b"), (2, "b"), (3, "c")], [(1, "a")], []]
    trained: list[list[tuple[int, str]]] = []

    class Run(_Rounds):
        def trained(self, name: str, entries: Sequence[Entry]) -> Trained:
            trained.append([(entry.image_id, entry.question) for entry in entries])
            return super().trained(name, entries)

        def corrections(self, model: Trained, number: int) -> list[Entry]:
            assert model.name == (f"round_{number - 1}" if number > 1 else "before")
            return [Entry("1", 1, *key, ["no"]) for key in found[number - 1]]

        def ordinary(self, entries: Sequence[Entry]) -> list[Entry]:
            return [Entry("1", 1, 9, f"{len(entries)} beliefs", ["no"])]

    models = Run([0.5] * 9, RepairSettings(rounds=9, patience=9)).rounds()
    both = [(1, "a"), (1, "b"), (2, "b"), (3, "c"), (9, "4 beliefs")]
    assert trained == [[], [(1, "a"), (1, "b"), (9, "2 beliefs")], both, both]
    assert len(models) == 4  # nothing is found about the last


def test_without_a_judged_belief_nothing_is_repaired() -> None:
    with pytest.raises(UserError, match="no belief about the validation images can be judged"):
        _Rounds([math.inf, 0.5], RepairSettings()).rounds()


# Wrong rates on the validation images, and on the images of the report, of "before" and each round.
@pytest.mark.parametrize(
    ("rates", "reported", "best"),
    [
        ([0.5, 0.4, 0.2, 0.3], [0.6, 0.1, 0.5, 0.2], 2),  # neither the last nor the best reported
        ([0.5, 0.2, 0.3, 0.4], [0.6, 0.5, 0.1, 0.2], 1),
        ([0.1, 0.4, 0.3, 0.2], [0.1, 0.3, 0.5, 0.4], 3),  # "before" is no repair
    ],
)
def test_the_repaired_model_is_that_of_the_round_with_the_best_validation_images(
    rates: list[float],
    reported: list[float],
    best: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Run(_Rounds):
        def __init__(self, context: Any, run_dir: Path, settings: RepairSettings) -> None:
            super().__init__(rates, settings)

        def figures(self, model: Trained) -> dict[str, float]:
            name = model.name.removeprefix("round_")
            return {"wrong_rate": reported[0 if name == "before" else int(name)]}

    cfg: Any = Mock(output_dir=str(tmp_path), split="test", resume=None)
    monkeypatch.setattr(repair, "RepairRun", Run)
    settings = RepairSettings(rounds=3, patience=9, controls=False)
    monkeypatch.setattr(repair, "instantiate", lambda node: settings)
    for name in ("_check_trains", "open_context", "check_extensible", "with_features"):
        monkeypatch.setattr(repair, name, Mock())
    for name in ("begin_run", "write_table", "print_table", "log_results"):
        monkeypatch.setattr(repair, name, Mock())
    assert repair.repair(cfg) == reported[best]
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["repaired/wrong_rate"] == reported[best]
    assert metrics["round_3/wrong_rate"] == reported[3]


def test_rounds_are_compared_on_validation_images_alone() -> None:
    asked: list[tuple[Any, ...]] = []

    class Run(RepairRun):
        def beliefs(self, model: Trained, *where: Any) -> tuple[list[Belief], int]:
            asked.append(where)
            kinds = ["adversarial", "rephrase", "rephrase", "rephrase"]
            one = Belief(7, "yes", "Is it?", 0.5, -3.0, 0.9, "rl")
            return [Belief(**{**vars(one), "type": kind}) for kind in kinds], 4

    settings = RepairSettings(val_images=11, num_images=99, num_latents=3)
    run = Run(cast(Any, Mock(cfg=Mock(split="test", seed=1))), Path(), settings)
    assert run.wrong_rate(cast(Any, Mock())) == 0.25
    assert asked == [("val", "compared", 11, 3, 1)]
    Run.beliefs = lambda self, model, *where: ([Belief(7, "no", "It?", 0.5, -3, 0.9, "rl")], 1)  # type: ignore[method-assign]
    assert run.wrong_rate(cast(Any, Mock())) == math.inf
