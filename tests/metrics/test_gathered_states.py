"""States of metrics that two processes gather, tested with the hook of torchmetrics.

`test_processes` starts real processes, which takes longer and runs with the slow tests.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import Metric

from ivqa.metrics import CaptionMetrics, OracleConsistency, QuestionDiversity, VQAAccuracy

ACCURACIES = torch.tensor([1.0, 0.5, 0.0, 0.25]), torch.tensor([0, 2, 0, -1])
VERDICTS = ["consistent", "other answer", "consistent", "not understood", "false premise"]
QUESTIONS = [["Is it red?", "Où est l’étoile?"], ["Is it red?"], ["Why?", ""]]


def computed_with(first: Metric, second: Metric) -> dict[str, Any]:
    """The value of `first` if the process of `second` is the only other one."""
    others = iter(list(second.metric_state.values()))

    def all_gather(mine: Tensor, group: Any) -> list[Tensor]:
        theirs = next(others)
        return [mine, torch.cat(theirs) if isinstance(theirs, list) else theirs]

    first.dist_sync_fn, first.distributed_available_fn = all_gather, lambda: True
    return first.compute()


def accuracies(metric: VQAAccuracy, part: slice) -> None:
    metric.update(ACCURACIES[0][part], ACCURACIES[1][part])


def verdicts(metric: OracleConsistency, part: slice) -> None:
    metric.update(VERDICTS[part])


def questions(metric: QuestionDiversity, part: slice) -> None:
    metric.update(QUESTIONS[part])


def captions(metric: CaptionMetrics, part: slice) -> None:
    metric.update(
        [texts[0] for texts in QUESTIONS[part]], [["Is it blue?"] for _ in QUESTIONS[part]]
    )


@pytest.mark.filterwarnings("ignore:CIDEr of")
@pytest.mark.parametrize(
    ("kind", "update"),
    [
        (VQAAccuracy, accuracies),
        (OracleConsistency, verdicts),
        (QuestionDiversity, questions),
        (CaptionMetrics, captions),
    ],
)
def test_two_gathered_states_equal_the_state_of_all_batches(
    kind: type[Metric], update: Callable[[Any, slice], None]
) -> None:
    whole, first, second = kind(), kind(), kind()
    update(whole, slice(None))
    update(first, slice(0, 1))
    update(second, slice(1, None))
    expected = {name: float(value) for name, value in whole.compute().items()}
    found = {name: float(value) for name, value in computed_with(first, second).items()}
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_a_process_without_a_batch_gets_the_texts_of_the_other() -> None:
    empty, full = QuestionDiversity(), QuestionDiversity()
    full.update(QUESTIONS)
    assert computed_with(empty, full) == pytest.approx(full.compute(), nan_ok=True)


@pytest.mark.parametrize(
    ("metric", "update"),
    [(OracleConsistency(), verdicts), (QuestionDiversity(), questions)],
)
def test_states_stay_on_the_metrics_device(metric: Metric, update: Callable) -> None:
    metric.to("meta")
    update(metric, slice(None))
    (state,) = metric.metric_state.values()
    assert {part.device.type for part in (state if isinstance(state, list) else [state])} == {
        "meta"
    }


def test_an_empty_state_is_sent_on_the_metrics_device() -> None:
    metric, sent = QuestionDiversity().to("meta"), []

    def all_gather(mine: Tensor, group: Any) -> list[Tensor]:
        sent.append(mine)
        return [mine, mine]

    metric.sync(dist_sync_fn=all_gather, distributed_available=lambda: True)
    assert [(part.device.type, part.dtype, part.numel()) for part in sent] == [
        ("meta", torch.uint8, 0)
    ]


def test_verdicts_are_counted_as_integers() -> None:
    metric = OracleConsistency()
    metric.update(VERDICTS)
    metric.update(VERDICTS[:1])
    assert metric.counts.dtype == torch.int64  # float32 cannot count above 2 ** 24
    assert metric.counts.tolist() == [3, 1, 1, 1]
