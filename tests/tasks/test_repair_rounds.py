"""When the rounds of a repair end, on given shares of wrong beliefs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from ivqa.data.columns import Entry
from ivqa.tasks.repair import RepairRun, RepairSettings, Trained


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
