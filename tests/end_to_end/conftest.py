"""The commands as a user runs them, on data small enough for seconds."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.core.global_hydra import GlobalHydra

from ivqa.command_line import entry_point
from ivqa.generators import Questions
from ivqa.generators.module import GeneratorModule
from ivqa.scenes import generate_scenes
from ivqa.text.vocabulary import UNK

PROJECT = Path(__file__).parents[2]
# A model and features that learn in seconds; what they learn is tested elsewhere.
TINY_FEATURES = ["features.image_size=32", "features.width=16", "features.epochs=1"]
TINY = [
    *TINY_FEATURES,
    "model.epochs=3",
    "model.module.network.embedding_size=16",
    "model.module.network.hidden_size=16",
    "model.batch_size=16",
]
TINY_MODEL = [override for override in TINY if override not in TINY_FEATURES]
TINY_BENCHMARK = ["model.benchmark.num_latents=2", "model.benchmark.num_samples=3"]
TINY_QUESTIONER = [
    "model.parts.questioner.epochs=3",
    "model.parts.questioner.module.network.embedding_size=16",
    "model.parts.questioner.module.network.hidden_size=16",
]
TINY_DIAGNOSIS = [
    *TINY_FEATURES,
    *TINY_QUESTIONER,
    "model.parts.legality_model.epochs=1",
    "model.epochs=2",
    "model.epoch_steps=3",
    "model.val_batches=1",
    "vqa.epochs=1",
    "num_images=4",
    "num_latents=12",
    "legality=0",
    "num_noisy_questions=20",
]
# Of a policy, where it does not matter what it learns: its questions cost the VQA model most.
ONE_STEP = ["model.epochs=1", "model.epoch_steps=1", "model.batch_size=4"]

# Questions that the oracle of the scenes understands; a tiny generator would ask none.
KNOWN_QUESTIONS = [
    "Is there a star?",
    "Is there a circle?",
    "How many stars are there?",
    "How many things are there?",
    "What color is the star?",
    "What color is the heart?",
    "Is it night?",
    "Is it raining?",
]

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="session")
def tiny_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data") / "tiny"
    sizes = {"train": 40, "val": 10}
    return generate_scenes(root, images=sizes, workers=1, progress=False)


@pytest.fixture
def root(tiny_root: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(tiny_root, tmp_path / "root"))


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("artifacts")


@pytest.fixture
def known_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every generator ask `KNOWN_QUESTIONS`."""

    def sample(
        self: GeneratorModule,
        images: Any,
        answers: list[str],
        num_samples: int = 1,
        strategy: Any = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        ids = self.question_vocabulary.encode(KNOWN_QUESTIONS).ids
        # A policy in training needs the log-probability, which an unknown word does not have.
        asked = [
            text
            for text, words in zip(KNOWN_QUESTIONS, ids, strict=True)
            if not self.training or UNK not in words
        ]
        texts = [asked[number % len(asked)] for number in range(num_samples)] * len(answers)
        pair = torch.arange(len(answers), device=self.device).repeat_interleave(num_samples)
        tokens = self.question_vocabulary.encode(texts).to(self.device)
        z = self.network.prior(len(texts), generator)
        return Questions(tokens, texts, torch.zeros(len(texts), device=self.device), pair, z)

    monkeypatch.setattr(GeneratorModule, "sample", sample)


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    artifacts: Path,
) -> Run:
    """Runs a command in this process; returns its exit status and what it printed.

    The line with the run directory, which comes first, is left out.
    """

    def call(command: str, *overrides: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("IVQA_ARTIFACTS", str(artifacts))
        monkeypatch.setattr(sys, "argv", [f"{command}.py", *overrides])
        monkeypatch.setattr("ivqa.command_line._say_start", lambda: None)
        GlobalHydra.instance().clear()
        status = 0
        try:
            entry_point(PROJECT / "conf", command)
        except SystemExit as stop:
            status = int(stop.code or 0)
        printed = capfd.readouterr()
        return status, printed.out + printed.err

    return call


def start(command: str, *overrides: str, cwd: Path, artifacts: Path) -> subprocess.Popen[str]:
    """Starts a command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, str(PROJECT / f"{command}.py"), *overrides],
        cwd=cwd,
        env={**os.environ, "IVQA_ARTIFACTS": str(artifacts)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Background jobs of a shell ignore Ctrl-C, and would pass this on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def metrics_of(run_dir: Path) -> dict[str, float]:
    return json.loads((run_dir / "metrics.json").read_text())
