"""The families that `hf_generative` is tested on, each as a tiny model with its processor.

The configurations keep what makes a family special: tiles of one picture, positions with three
axes, sliding windows, a prefix that is read in both directions, an encoder-decoder. One row of the
table in docs/vqa_models.md is one entry of `FAMILIES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import tiny_vlm_pixels as pixels
import tiny_vlm_tiled as tiled
import tiny_vlm_whole as whole
from transformers.models.smolvlm import processing_smolvlm

from tiny_transformers import tiny_blip2, tiny_llava, tiny_paligemma


@dataclass(frozen=True)
class Family:
    """One row of the table.

    Args:
        build: Saves a tiny model with its processor into a folder, and returns the folder.
        prompt: What `model.prompt` is.
        chat: Whether the processor has a chat template.
        encoded: For what an image is encoded: once a "picture" of a batch, or once a "question".
        answers: For what a prompt is read: once for "all answers", or for "one answer".
    """

    build: Callable[[Path], Path]
    prompt: str = "{question}"
    chat: bool = True
    encoded: Literal["picture", "question"] = "picture"
    answers: Literal["all answers", "one answer"] = "all answers"


FAMILIES = {
    "LLaVA-1.5": Family(tiny_llava),
    "LLaVA-NeXT": Family(tiled.tiny_llava_next),
    "LLaVA-OneVision": Family(tiled.tiny_llava_onevision),
    "Qwen2-VL": Family(whole.tiny_qwen2),
    "Qwen2.5-VL": Family(whole.tiny_qwen25),
    "Qwen3-VL": Family(whole.tiny_qwen3),
    "Qwen3.5": Family(whole.tiny_qwen35),
    "GLM-4.1V": Family(whole.tiny_glm41),
    "SmolVLM": Family(tiled.tiny_smolvlm),
    "Idefics3": Family(tiled.tiny_idefics3),
    "InternVL": Family(tiled.tiny_internvl),
    "Gemma 3": Family(whole.tiny_gemma3),
    "Gemma 4": Family(whole.tiny_gemma4),
    "PaliGemma": Family(tiny_paligemma, "<image>answer en {question}", chat=False),
    "PaliGemma 2": Family(whole.tiny_paligemma2, "<image>answer en {question}", chat=False),
    "Mistral 3": Family(whole.tiny_mistral3),
    "Molmo 2": Family(tiled.tiny_molmo2),
    "LFM2-VL": Family(tiled.tiny_lfm2),
    "Llama 3.2 Vision": Family(tiled.tiny_llama32, encoded="question"),
    "BLIP-2": Family(
        tiny_blip2, "question : {question} answer :", chat=False, answers="one answer"
    ),
    "InstructBLIP": Family(
        pixels.tiny_instructblip, chat=False, encoded="question", answers="one answer"
    ),
    "Florence-2": Family(pixels.tiny_florence2, chat=False, encoded="question"),
}


def without_num2words(patch: pytest.MonkeyPatch) -> None:
    """Lets SmolVLM's processor load without num2words, which writes numbers of video frames."""
    if processing_smolvlm.num2words is None:
        patch.setattr(processing_smolvlm, "num2words", str)
