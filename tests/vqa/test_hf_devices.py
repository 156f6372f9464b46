"""Scores and answers of transformers models on the CPU and on a CUDA device."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from devices import on_devices
from ivqa.data.batches.batch import ImageBatch
from ivqa.vqa.transformers.hf_blip import HFBlip
from ivqa.vqa.transformers.hf_classifier import HFClassifier
from ivqa.vqa.transformers.hf_generative import HFGenerative
from tiny_transformers import (
    ANSWERS,
    QUESTIONS,
    Pictures,
    tiny_blip,
    tiny_blip2,
    tiny_llava,
    tiny_paligemma,
    tiny_qwen,
    tiny_vilt,
)

IMAGES = ImageBatch(torch.tensor([7, 8, 9]), torch.tensor([0, 2, 1, 1, 0]), source=Pictures())
QWEN = "<|vision_start|> <|image_pad|> <|vision_end|> {question} answer :"
KINDS: dict[str, tuple[Any, Callable[[Path], Path], dict[str, Any]]] = {
    "blip": (HFBlip, tiny_blip, {}),
    "blip2": (HFGenerative, tiny_blip2, {"prompt": "question : {question} answer :"}),
    "llava": (HFGenerative, tiny_llava, {}),
    "paligemma": (HFGenerative, tiny_paligemma, {"prompt": "<image>answer en {question}"}),
    "qwen": (HFGenerative, tiny_qwen, {"prompt": QWEN}),
    "vilt": (HFClassifier, lambda path: tiny_vilt(path, ANSWERS), {}),
}


@on_devices
@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_answers_are_those_of_the_cpu(kind: str, device: str, tmp_path: Path) -> None:
    model, build, arguments = KINDS[kind]
    folder = str(build(tmp_path))
    here, there = (model.load(folder, device=one, **arguments) for one in ("cpu", device))
    scores = [one.log_scores(IMAGES, QUESTIONS, ANSWERS) for one in (here, there)]
    assert scores[1].device.type == device
    # A GPU may convolve the pixels in TF32, which has 10 bits.
    torch.testing.assert_close(scores[1].cpu(), scores[0], atol=1e-2, rtol=1e-2)
    assert there.answer(IMAGES, QUESTIONS) == here.answer(IMAGES, QUESTIONS)
