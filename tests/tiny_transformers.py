"""Tiny models of transformers, saved in the format of the hub; each word is a token."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    Blip2Config,
    Blip2ForConditionalGeneration,
    Blip2Processor,
    BlipConfig,
    BlipForQuestionAnswering,
    BlipImageProcessor,
    BlipProcessor,
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PaliGemmaConfig,
    PaliGemmaForConditionalGeneration,
    PaliGemmaProcessor,
    PreTrainedTokenizerFast,
    Qwen2VLConfig,
    Qwen2VLForConditionalGeneration,
    Qwen2VLImageProcessor,
    Qwen2VLProcessor,
    Qwen2VLVideoProcessor,
    SiglipImageProcessor,
    ViltConfig,
    ViltForQuestionAnswering,
    ViltImageProcessor,
    ViltProcessor,
)

QUESTIONS = ["is it red", "what color is it", "how many are there", "is it", "what"]
ANSWERS = ["yes", "no", "dark red", "blue", "2", "a big cat", "cat"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[DEC]"]


class Pictures:
    """Random images of two sizes; counts how often one is opened."""

    def __init__(self) -> None:
        self.opened: list[int] = []

    def open(self, image_id: int) -> Image.Image:
        self.opened.append(image_id)
        shape = (32, 32 + 16 * (image_id % 2), 3)
        noise = np.random.default_rng(image_id).integers(0, 255, shape, dtype=np.uint8)
        return Image.fromarray(noise)


def tiny_tokenizer(
    extra: Sequence[str] = (), *, bert: bool = False, **special: str
) -> PreTrainedTokenizerFast:
    texts = [*QUESTIONS, *ANSWERS, "answer en question :"]
    words = sorted({word for text in texts for word in text.split()})
    table = {word: at for at, word in enumerate([*SPECIAL, *extra, *words, "\n"])}
    tokenizer = Tokenizer(models.WordLevel(table, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if bert:
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", bos_token="[CLS]",
        eos_token="[SEP]", **special,
    )  # fmt: skip
    fast.add_special_tokens({"additional_special_tokens": list(extra)})
    return fast


TEXT = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 37, "max_position_embeddings": 128, "pad_token_id": 0,
    "bos_token_id": 2, "eos_token_id": 3,
}  # fmt: skip
VISION = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 37, "image_size": 32, "patch_size": 16,
}  # fmt: skip


def save_tiny(model: Any, processor: Any, folder: Path) -> Path:
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1 or "norm" not in name.lower():
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def tiny_vilt(folder: Path, answers: Sequence[str]) -> Path:
    tokenizer = tiny_tokenizer(bert=True, cls_token="[CLS]", sep_token="[SEP]")
    config = ViltConfig(
        **{**TEXT, **VISION, "max_position_embeddings": 8}, vocab_size=len(tokenizer),
        id2label=dict(enumerate(answers)), label2id={a: at for at, a in enumerate(answers)},
    )  # fmt: skip
    processor = ViltProcessor(ViltImageProcessor(size={"shortest_edge": 32}), tokenizer)
    return save_tiny(ViltForQuestionAnswering(config), processor, folder)


def tiny_blip(folder: Path, *, positions: int = 12) -> Path:
    tokenizer = tiny_tokenizer(bert=True, cls_token="[CLS]", sep_token="[SEP]")
    config = BlipConfig(
        text_config={
            **TEXT, "vocab_size": len(tokenizer), "encoder_hidden_size": 32, "bos_token_id": 4,
            "sep_token_id": 3, "max_position_embeddings": positions, "projection_dim": 16,
        },
        vision_config={**VISION, "projection_dim": 16},
        projection_dim=16,
    )  # fmt: skip
    processor = BlipProcessor(BlipImageProcessor(size={"height": 32, "width": 32}), tokenizer)
    return save_tiny(BlipForQuestionAnswering(config), processor, folder)


def tiny_llava(folder: Path) -> Path:
    """LLaVA with a chat template: a CLIP encoder, and a Llama that reads 4 tokens per image."""
    tokenizer = tiny_tokenizer(["<image>"])
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**VISION),
        text_config=LlamaConfig(**TEXT, vocab_size=len(tokenizer)),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
    )
    processor = LlavaProcessor(
        CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}),
        tokenizer,
        patch_size=16,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=(
            "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %}<image> "
            "{% else %}question : {{ c.text }} {% endif %}{% endfor %}{% endfor %}answer :"
        ),
    )
    return save_tiny(LlavaForConditionalGeneration(config), processor, folder)


def tiny_qwen(folder: Path) -> Path:
    """Qwen2-VL: the number of image tokens depends on the size; positions are three-dimensional."""
    marks = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
    tokenizer = tiny_tokenizer(marks)
    ids = tokenizer.convert_tokens_to_ids(marks)
    config = Qwen2VLConfig(
        text_config={
            **TEXT, "vocab_size": len(tokenizer), "num_key_value_heads": 2,
            "rope_parameters": {
                "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]
            },
        },
        vision_config={
            "depth": 2, "embed_dim": 16, "hidden_size": 32, "num_heads": 2, "mlp_ratio": 2,
            "patch_size": 8, "spatial_merge_size": 2,
        },
        image_token_id=ids[0], video_token_id=ids[1],
        vision_start_token_id=ids[2], vision_end_token_id=ids[3],
    )  # fmt: skip
    shape = {"patch_size": 8, "merge_size": 2, "min_pixels": 256, "max_pixels": 4096}
    processor = Qwen2VLProcessor(
        Qwen2VLImageProcessor(**shape), tokenizer, Qwen2VLVideoProcessor(**shape)
    )
    return save_tiny(Qwen2VLForConditionalGeneration(config), processor, folder)


def tiny_paligemma(folder: Path) -> Path:
    """PaliGemma: bidirectional attention between image and question."""
    image_processor = SiglipImageProcessor(size={"height": 32, "width": 32})
    image_processor.image_seq_length = 4
    processor = PaliGemmaProcessor(image_processor, tiny_tokenizer(["<image>"]))
    vision = {"model_type": "siglip_vision_model", **VISION, "projection_dim": 32}
    config = PaliGemmaConfig(
        vision_config=vision,
        text_config={
            "model_type": "gemma", **TEXT, "vocab_size": len(processor.tokenizer),
            "num_key_value_heads": 2, "head_dim": 8,
        },
        image_token_index=processor.tokenizer.convert_tokens_to_ids("<image>"),
        projection_dim=32,
    )  # fmt: skip
    return save_tiny(PaliGemmaForConditionalGeneration(config), processor, folder)


def tiny_blip2(folder: Path) -> Path:
    """BLIP-2 with T5, an encoder-decoder."""
    tokenizer = tiny_tokenizer(["<image>"])
    image_token = tokenizer.convert_tokens_to_ids("<image>")
    config = Blip2Config(
        vision_config=VISION,
        qformer_config={
            "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 37, "encoder_hidden_size": 32, "vocab_size": 10,
        },
        text_config={
            "model_type": "t5", "vocab_size": len(tokenizer), "d_model": 32, "d_kv": 8,
            "d_ff": 37, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0,
            "pad_token_id": 0, "eos_token_id": 3,
        },
        num_query_tokens=3,
        image_token_index=image_token,
    )  # fmt: skip
    processor = Blip2Processor(
        BlipImageProcessor(size={"height": 32, "width": 32}), tokenizer, num_query_tokens=3
    )
    return save_tiny(Blip2ForConditionalGeneration(config), processor, folder)
