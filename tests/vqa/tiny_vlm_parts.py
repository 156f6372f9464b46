"""What the tiny models of several families share."""

import numpy as np
from PIL import Image
from tokenizers import processors as post_processors
from transformers import (
    PreTrainedTokenizerFast,
)

from tiny_transformers import TEXT, VISION, tiny_tokenizer

_SIZES = {7: (32, 32), 8: (32, 96), 9: (80, 48)}


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


def chat_template_of(image: str, *, before: str = "", after: str = "answer :") -> str:
    """A chat template that writes `image`, the question, and the opening of an answer."""
    return (
        before + "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %}"
        f"{image}"
        "{% else %}question : {{ c.text }} {% endif %}{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}" + after + "{% endif %}"
    )
