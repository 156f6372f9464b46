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
import tiny_vlm_tiled as tiled
import tiny_vlm_whole as whole
from transformers.models.smolvlm import processing_smolvlm

from tiny_transformers import tiny_blip2, tiny_llava, tiny_paligemma, tiny_qwen


@dataclass(frozen=True)
class Family:
    """One row of the table.

    Args:
        build: Saves a tiny model with its processor into a folder, and returns the folder.
        prompt: What `model.prompt` must be.
        keeps: Whether the keys and values of a prompt are kept for all answers.
        encoded: For what an image is encoded: once a "picture" of a batch, or once a "question".
    """

    build: Callable[[Path], Path]
    prompt: str = "{question}"
    keeps: bool = True
    encoded: Literal["picture", "question"] = "picture"


FAMILIES = {
    "LLaVA-1.5": Family(tiny_llava),
    "LLaVA-NeXT": Family(tiled.tiny_llava_next),
    "LLaVA-OneVision": Family(tiled.tiny_llava_onevision),
    "Qwen2-VL": Family(
        tiny_qwen, "<|vision_start|> <|image_pad|> <|vision_end|> {question} answer :"
    ),
    "Qwen2.5-VL": Family(whole.tiny_qwen25),
    "Qwen3-VL": Family(whole.tiny_qwen3),
    "Qwen3.5": Family(whole.tiny_qwen35),
    "SmolVLM": Family(tiled.tiny_smolvlm),
    "Idefics3": Family(tiled.tiny_idefics3),
    "InternVL": Family(tiled.tiny_internvl),
    "Gemma 3": Family(whole.tiny_gemma3),
    "Gemma 4": Family(whole.tiny_gemma4),
    "PaliGemma": Family(tiny_paligemma, "<image>answer en {question}"),
    "PaliGemma 2": Family(whole.tiny_paligemma2, "<image>answer en {question}"),
    "Mistral 3": Family(whole.tiny_mistral3),
    "Molmo 2": Family(tiled.tiny_molmo2),
    "Llama 3.2 Vision": Family(tiled.tiny_llama32, encoded="question"),
    "BLIP-2": Family(tiny_blip2, "question : {question} answer :", keeps=False),
    "InstructBLIP": Family(whole.tiny_instructblip, keeps=False, encoded="question"),
    "Florence-2": Family(whole.tiny_florence2, keeps=False, encoded="question"),
}


def without_num2words(patch: pytest.MonkeyPatch) -> None:
    """Lets SmolVLM's processor load without num2words, which writes numbers of video frames."""
    if processing_smolvlm.num2words is None:
        patch.setattr(processing_smolvlm, "num2words", str)
