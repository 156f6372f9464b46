"""Metrics of two real processes equal the metrics of all their batches in one process."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import distributed, multiprocessing

from ivqa.metrics import CaptionMetrics, OracleConsistency, QuestionDiversity

# Texts of different lengths, different shares; no batch in the second process of the last case.
QUESTIONS = ["Où est l’étoile?", "", "Is it red?", "What is it, a star or a red heart?", "Why?"]
SPLITS = (2, 5)


def _values(texts: list[str]) -> list[dict[str, float]]:
    """All metrics of a process with `texts`; of all processes if they are connected."""
    captions, diversity = CaptionMetrics(), QuestionDiversity(QUESTIONS[:2])
    consistency = OracleConsistency()
    for text in texts:
        captions.update([text], [[QUESTIONS[2], text + " now"]])
        diversity.update([[text, text.upper(), QUESTIONS[3]]])
        consistency.update(["consistent" if "red" in text else "other answer"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [captions.compute(), diversity.compute(), consistency.compute()]


def _run(rank: int, rendezvous: str, results: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
    found = [_values(QUESTIONS[:at] if rank == 0 else QUESTIONS[at:]) for at in SPLITS]
    torch.save(found, f"{results}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.skipif(not distributed.is_gloo_available(), reason="torch was built without gloo")
def test_two_processes_equal_one(tmp_path: Path) -> None:
    rendezvous = (tmp_path / "rendezvous").as_uri()
    multiprocessing.spawn(_run, args=(rendezvous, str(tmp_path)), nprocs=2)
    alone = _values(QUESTIONS)
    for rank in range(2):
        for found in torch.load(tmp_path / f"{rank}.pt"):
            assert found == [pytest.approx(one) for one in alone]
