"""The benchmark samples at the configured temperature."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from ivqa.generators import benchmark
from ivqa.generators.benchmark import QuestionBenchmark
from ivqa.generators.decoding import Sampling
from ivqa.generators.protocol import Questions


class _Module:
    """Records how it is asked to sample."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, float]] = []

    def sample(self, images: Any, answers: list[str], n: int, strategy: Any, generator: Any) -> Any:
        self.seen.append((n, strategy.temperature))
        rows = torch.arange(len(answers)).repeat_interleave(n)
        tokens: Any = torch.zeros(len(rows), 1)
        return Questions(tokens, ["Why?"] * len(rows), torch.zeros(len(rows)), rows)


class _Split:
    """One pair."""

    main_answers = ("x",)
    answer_types = ("other",)

    def __len__(self) -> int:
        return 1


def test_all_samples_have_the_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = _Module()
    best = _Module().sample(None, ["x"], 1, Sampling(), None)
    monkeypatch.setattr(benchmark, "ask", lambda *arguments, **options: best)
    monkeypatch.setattr(Questions, "concatenate", lambda batches: batches[0])
    datamodule: Any = SimpleNamespace(
        dataset=SimpleNamespace(split=lambda stage: _Split()),
        batch_of=lambda stage, rows: SimpleNamespace(images=rows),
    )
    runner = QuestionBenchmark(temperature=0.25, num_samples=3)
    runner._ask(module, datamodule, "test", Console())
    runner._unique_of_100(module, datamodule, "test")
    assert module.seen == [(3, 0.25), (100, 0.25)]
