"""What the tiny models of several families share."""

import json

import numpy as np
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers import processors as post_processors
from transformers import PreTrainedTokenizerFast, Qwen3_5Tokenizer

from tiny_transformers import ANSWERS, QUESTIONS, SPECIAL, TEXT, VISION, tiny_tokenizer

_SIZES = {7: (32, 32), 8: (32, 96), 9: (80, 48), 10: (32, 32)}


class Photographs:
    """Random pictures of three shapes, which the families cut into 1 to 4 tiles."""

    def __init__(self) -> None:
        self.opened: list[int] = []

    def open(self, image_id: int) -> Image.Image:
        self.opened.append(image_id)
        height, width = _SIZES[image_id]
        coarse = np.random.default_rng(image_id).integers(0, 255, (4, 4, 3), dtype=np.uint8)
        return Image.fromarray(coarse).resize((width, height))


SIGLIP = {"model_type": "siglip_vision_model", **VISION}

LLAMA = {"model_type": "llama", **TEXT}


def marked_tokenizer(
    marks: list[str], *, begins: bool = False, **named: str
) -> PreTrainedTokenizerFast:
    """A tokeniser with special `marks`; `begins`: it writes [CLS] before each text, as Llama's."""
    tokenizer = tiny_tokenizer(marks, extra_special_tokens=named)
    if begins:
        tokenizer._tokenizer.post_processor = post_processors.TemplateProcessing(
            single="[CLS] $A", special_tokens=[("[CLS]", 2)]
        )
    return tokenizer


def byte_pair_tokenizer(marks: list[str]) -> Qwen3_5Tokenizer:
    """Qwen's tokeniser, whose words begin with their space, with special `marks`."""
    learnt = Tokenizer(models.BPE())
    learnt.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        special_tokens=[*SPECIAL, *marks], vocab_size=500, min_frequency=1, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    learnt.train_from_iterator([f" {text}" for text in (*QUESTIONS, *ANSWERS)], trainer)
    model = json.loads(learnt.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    tokenizer = Qwen3_5Tokenizer(
        vocab=model["vocab"], merges=merges, unk_token="[UNK]", pad_token="[PAD]", eos_token="[SEP]"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    return tokenizer


def chat_template_of(image: str, *, before: str = "", after: str = "answer :") -> str:
    """A chat template that writes `image`, the question, and the opening of an answer."""
    return (
        before + "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %}"
        f"{image}"
        "{% else %}question : {{ c.text }} {% endif %}{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}" + after + "{% endif %}"
    )
