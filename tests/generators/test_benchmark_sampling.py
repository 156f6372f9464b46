"""The benchmark samples at the configured temperature, and asks what `decoding` puts in place."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from ivqa.data import VQADataModule, VQADataset
from ivqa.data.batches.datamodule import build_vocabularies
from ivqa.generators import evaluation
from ivqa.generators.decoding.strategies import Sampling
from ivqa.generators.evaluation import QuestionBenchmark
from ivqa.generators.protocol import Questions
from ivqa.scenes import generate_scenes
from ivqa.text.vocabulary import Tokens


class _Module:
    """Records how it is asked to sample."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, float]] = []

    def sample(self, images: Any, answers: list[str], n: int, strategy: Any, generator: Any) -> Any:
        self.seen.append((n, getattr(strategy, "temperature", 0.0)))
        rows = torch.arange(len(answers)).repeat_interleave(n)
        tokens = Tokens(torch.zeros(len(rows), 1, dtype=torch.int64), torch.zeros(len(rows)).long())
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
    monkeypatch.setattr(evaluation, "ask", lambda *arguments, **options: best)
    monkeypatch.setattr(Questions, "concatenate", lambda batches: batches[0])
    datamodule: Any = SimpleNamespace(
        dataset=SimpleNamespace(split=lambda stage: _Split()),
        batch_of=lambda stage, rows: SimpleNamespace(images=rows),
    )
    runner = QuestionBenchmark(temperature=0.25, num_samples=3)
    runner._ask(module, datamodule, "test", Console())
    runner._unique_of_100(module, datamodule, "test")
    assert module.seen == [(3, 0.25), (100, 0.25)]


class _Wrapped(_Module):
    """Asks in place of another module; it has to see the training questions first."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module, self.remembered = module, 0

    def remember(self, datamodule: Any) -> None:
        assert datamodule.dataset.split("train").questions
        self.remembered += 1

    def sample(self, images: Any, answers: list[str], n: int, strategy: Any, generator: Any) -> Any:
        assert self.remembered == 1
        found = super().sample(images, answers, n, strategy, generator)
        return Questions(found.tokens, ["Is it?"] * len(found), found.log_likelihood, found.pair)


def test_everything_is_asked_of_what_decoding_puts_in_place(tmp_path: Path) -> None:
    root = generate_scenes(
        tmp_path / "scenes", images={"train": 2, "val": 2}, workers=1, progress=False
    )
    dataset = VQADataset(root, val="val")
    words = build_vocabularies(dataset.split("train"))
    wrapped: list[_Wrapped] = []
    ranked: list[Any] = []

    class Pools:
        def run(self, module: Any, *arguments: Any) -> dict[str, float]:
            ranked.append(module)
            return {"pools/acc_at_1": 0.5}

    def decoding(module: Any) -> Any:
        wrapped.append(_Wrapped(module))
        return wrapped[-1]

    module: Any = _Module()
    pools: Any = Pools()
    runner = QuestionBenchmark(decoding=decoding, pools=pools, num_samples=3)
    datamodule = VQADataModule(dataset, None, *words)
    found = runner.run(module, datamodule, "val", tmp_path, "title", Console(quiet=True))
    assert found["pools/acc_at_1"] == 0.5
    assert ranked == wrapped
    assert wrapped[0].module is module
    assert module.seen == []
    for line in (tmp_path / "questions.jsonl").read_text().splitlines():
        asked = json.loads(line)
        assert {asked["best"]["text"], *(one["text"] for one in asked["samples"])} == {"Is it?"}
    QuestionBenchmark(pools=pools, num_samples=3).run(
        module, datamodule, "val", tmp_path, "title", Console(quiet=True)
    )
    assert ranked[1] is module
    assert module.seen


@pytest.mark.parametrize(("source", "novel"), [("train", 0.0), ("val", 1.0)])
def test_novel_questions_are_not_in_the_training_split(
    source: str, novel: float, tmp_path: Path
) -> None:
    root = generate_scenes(
        tmp_path / "scenes", images={"train": 3, "val": 3}, workers=1, progress=False
    )
    dataset = VQADataset(root, val="val")
    training, texts = dataset.split("train").questions, dataset.split(source).questions
    known = {one.lower() for one in training}
    texts = [one for one in texts if (one.lower() in known) == (source == "train")]

    class Copying(_Module):
        def sample(self, images: Any, answers: list[str], n: int, *rest: Any) -> Any:
            found = super().sample(images, answers, n, *rest)
            asked = [texts[at % len(texts)] for at in range(len(found))]
            return Questions(found.tokens, asked, found.log_likelihood, found.pair)

    module: Any = Copying()
    datamodule = VQADataModule(dataset, None, *build_vocabularies(dataset.split("train")))
    figures = QuestionBenchmark(num_samples=3, num_alternatives=0).run(
        module, datamodule, "val", tmp_path, "title", Console(quiet=True)
    )
    assert figures["novel"] == novel
