"""A tiny model of each family that `hf_generative` is tested on, with its processor and prompt.

The configurations keep what makes a family special: tiles of one picture, positions with three
axes, sliding windows, a prefix that is read in both directions, an encoder-decoder. `FAMILIES` is
the table of docs/vqa_models.md: one row of it is one entry here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image
from tokenizers import processors as post_processors
from transformers import (
    BlipImageProcessor,
    CLIPImageProcessor,
    Florence2Config,
    Florence2ForConditionalGeneration,
    Florence2Processor,
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3ImageProcessor,
    Gemma3Processor,
    GotOcr2ImageProcessor,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3ImageProcessor,
    Idefics3Processor,
    InstructBlipConfig,
    InstructBlipForConditionalGeneration,
    InstructBlipProcessor,
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLProcessor,
    InternVLVideoProcessor,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    LlavaNextImageProcessor,
    LlavaNextProcessor,
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
    Molmo2Config,
    Molmo2ForConditionalGeneration,
    Molmo2ImageProcessor,
    Molmo2Processor,
    Molmo2VideoProcessor,
    PaliGemmaConfig,
    PaliGemmaForConditionalGeneration,
    PaliGemmaProcessor,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
    SiglipImageProcessor,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,
)
from transformers.models.smolvlm import processing_smolvlm

from tiny_transformers import (
    TEXT,
    VISION,
    save_tiny,
    tiny_blip2,
    tiny_llava,
    tiny_paligemma,
    tiny_qwen,
    tiny_tokenizer,
)

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


def _tokenizer(marks: list[str], *, begins: bool = False, **named: str) -> PreTrainedTokenizerFast:
    """A tokeniser with special `marks`; `begins`: it writes [CLS] before each text, as Llama's."""
    tokenizer = tiny_tokenizer(marks, extra_special_tokens=named)
    if begins:
        tokenizer._tokenizer.post_processor = post_processors.TemplateProcessing(
            single="[CLS] $A", special_tokens=[("[CLS]", 2)]
        )
    return tokenizer


def _chat(image: str, *, before: str = "", after: str = "answer :") -> str:
    """A chat template that writes `image`, the question, and the opening of an answer."""
    return (
        before + "{% for m in messages %}{% for c in m.content %}{% if c.type == 'image' %}"
        f"{image}"
        "{% else %}question : {{ c.text }} {% endif %}{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}" + after + "{% endif %}"
    )


_SIGLIP = {"model_type": "siglip_vision_model", **VISION}
_LLAMA = {"model_type": "llama", **TEXT}
_QWEN_MARKS = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
_QWEN_CHAT = _chat("<|vision_start|><|image_pad|><|vision_end|>")
_PATCHES = {"patch_size": 8, "merge_size": 2, "min_pixels": 256, "max_pixels": 4096}


def _qwen_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    return dict(zip(names, tokenizer.convert_tokens_to_ids(_QWEN_MARKS), strict=True))


def _qwen_text(tokenizer: PreTrainedTokenizerFast, **further: Any) -> dict[str, Any]:
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
    return {
        **TEXT, "vocab_size": len(tokenizer), "num_key_value_heads": 2, "rope_parameters": rope,
        **further,
    }  # fmt: skip


def _qwen25(folder: Path) -> Path:
    """Qwen2.5-VL: windows in the image encoder, with one layer that attends to everything."""
    tokenizer = _tokenizer(_QWEN_MARKS)
    config = Qwen2_5_VLConfig(
        text_config=_qwen_text(tokenizer),
        vision_config={
            "depth": 2, "hidden_size": 16, "out_hidden_size": 32, "num_heads": 2,
            "intermediate_size": 24, "patch_size": 8, "spatial_merge_size": 2, "window_size": 32,
            "fullatt_block_indexes": [1],
        },
        **_qwen_ids(tokenizer),
    )  # fmt: skip
    processor = Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(**_PATCHES), tokenizer, Qwen2VLVideoProcessor(**_PATCHES),
        chat_template=_QWEN_CHAT,
    )  # fmt: skip
    return save_tiny(Qwen2_5_VLForConditionalGeneration(config), processor, folder)


def _qwen3(folder: Path) -> Path:
    """Qwen3-VL: features of inner layers of the image encoder go into layers of the text model."""
    tokenizer = _tokenizer(_QWEN_MARKS)
    config = Qwen3VLConfig(
        text_config=_qwen_text(tokenizer, head_dim=8),
        vision_config={
            "depth": 3, "hidden_size": 16, "out_hidden_size": 32, "num_heads": 2,
            "intermediate_size": 24, "patch_size": 8, "spatial_merge_size": 2,
            "num_position_embeddings": 16, "deepstack_visual_indexes": [0, 1],
        },
        **_qwen_ids(tokenizer),
    )  # fmt: skip
    processor = Qwen3VLProcessor(
        Qwen2VLImageProcessor(**_PATCHES), tokenizer, Qwen3VLVideoProcessor(**_PATCHES),
        chat_template=_QWEN_CHAT,
    )  # fmt: skip
    return save_tiny(Qwen3VLForConditionalGeneration(config), processor, folder)


_IDEFICS_MARKS = [
    "<image>", "<fake_token_around_image>", "<end_of_utterance>", "<global-img>",
    *(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)),
]  # fmt: skip
_TILES = {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}}


def _idefics_config(kind: Any, tokenizer: PreTrainedTokenizerFast) -> Any:
    return kind(
        vision_config={**VISION, "patch_size": 8},
        text_config={**_LLAMA, "vocab_size": len(tokenizer), "max_position_embeddings": 512},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=0,
    )


def _smolvlm(folder: Path) -> Path:
    """SmolVLM: a picture is cut into up to four tiles, and a smaller copy of it."""
    tokenizer = _tokenizer(_IDEFICS_MARKS)
    processor = SmolVLMProcessor(
        SmolVLMImageProcessor(**_TILES), tokenizer, SmolVLMVideoProcessor(**_TILES),
        image_seq_len=4, chat_template=_chat("<image>", after="<end_of_utterance> answer :"),
    )  # fmt: skip
    config = _idefics_config(SmolVLMConfig, tokenizer)
    return save_tiny(SmolVLMForConditionalGeneration(config), processor, folder)


def _idefics3(folder: Path) -> Path:
    """Idefics3: as SmolVLM, with a Llama tokeniser whose [CLS] is in the chat template too."""
    tokenizer = _tokenizer(_IDEFICS_MARKS, begins=True)
    processor = Idefics3Processor(
        Idefics3ImageProcessor(**_TILES), tokenizer, image_seq_len=4,
        chat_template=_chat("<image>", before="[CLS]", after="<end_of_utterance> answer :"),
    )  # fmt: skip
    config = _idefics_config(Idefics3Config, processor.tokenizer)
    return save_tiny(Idefics3ForConditionalGeneration(config), processor, folder)


_PINPOINTS = [[32, 64], [64, 32], [64, 64], [32, 96]]


def _llava_next(folder: Path) -> Path:
    """LLaVA-NeXT: tiles of the best of several shapes, without the padding around the picture."""
    tokenizer = _tokenizer(["<image>"], begins=True)
    config = LlavaNextConfig(
        vision_config={"model_type": "clip_vision_model", **VISION, "patch_size": 8},
        text_config={**_LLAMA, "vocab_size": len(tokenizer)},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
        image_grid_pinpoints=_PINPOINTS,
    )
    processor = LlavaNextProcessor(
        LlavaNextImageProcessor(
            size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32},
            image_grid_pinpoints=_PINPOINTS,
        ),
        tokenizer, patch_size=8, vision_feature_select_strategy="default",
        num_additional_image_tokens=1, chat_template=_chat("<image>"),
    )  # fmt: skip
    return save_tiny(LlavaNextForConditionalGeneration(config), processor, folder)


def _llava_onevision(folder: Path) -> Path:
    """LLaVA-OneVision: as NeXT with SigLIP and Qwen2; tiles above a limit are shrunk."""
    tokenizer = _tokenizer(["<image>", "<video>"])
    config = LlavaOnevisionConfig(
        vision_config={**_SIGLIP, "patch_size": 8, "vision_use_head": False},
        text_config={
            "model_type": "qwen2", **TEXT, "vocab_size": len(tokenizer), "num_key_value_heads": 2,
            "max_position_embeddings": 256,
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=_PINPOINTS,
        vision_aspect_ratio="anyres_max_2",
    )  # fmt: skip
    square = {"height": 32, "width": 32}
    processor = LlavaOnevisionProcessor(
        LlavaOnevisionImageProcessor(size=square, image_grid_pinpoints=_PINPOINTS), tokenizer,
        LlavaOnevisionVideoProcessor(size=square), num_image_tokens=16,
        vision_feature_select_strategy="full", vision_aspect_ratio="anyres_max_2",
        chat_template=_chat("<image>"),
    )  # fmt: skip
    return save_tiny(LlavaOnevisionForConditionalGeneration(config), processor, folder)


def _paligemma2(folder: Path) -> Path:
    """PaliGemma 2: Gemma 2 with a window of 6 tokens, shorter than the prompt."""
    image_processor = SiglipImageProcessor(size={"height": 32, "width": 32})
    image_processor.image_seq_length = 4
    processor = PaliGemmaProcessor(image_processor, _tokenizer(["<image>"]))
    config = PaliGemmaConfig(
        vision_config={**_SIGLIP, "projection_dim": 32, "vision_use_head": False},
        text_config={
            "model_type": "gemma2", **TEXT, "vocab_size": len(processor.tokenizer),
            "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 6,
            "query_pre_attn_scalar": 8,
        },
        image_token_index=processor.tokenizer.convert_tokens_to_ids("<image>"),
        projection_dim=32,
    )  # fmt: skip
    return save_tiny(PaliGemmaForConditionalGeneration(config), processor, folder)


def _gemma3(folder: Path) -> Path:
    """Gemma 3: images are read in both directions, text in one; one layer has a window."""
    marks = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>",
             "image_token": "<image_soft_token>"}  # fmt: skip
    tokenizer = _tokenizer(list(marks.values()), begins=True, **marks)
    ids = tokenizer.convert_tokens_to_ids(list(marks.values()))
    config = Gemma3Config(
        vision_config={**_SIGLIP, "patch_size": 8, "vision_use_head": False},
        text_config={
            **TEXT, "vocab_size": len(tokenizer), "num_key_value_heads": 2, "head_dim": 8,
            "query_pre_attn_scalar": 8, "sliding_window": 6,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        mm_tokens_per_image=4, boi_token_index=ids[0], eoi_token_index=ids[1],
        image_token_index=ids[2],
    )  # fmt: skip
    processor = Gemma3Processor(
        Gemma3ImageProcessor(size={"height": 32, "width": 32}), tokenizer, image_seq_length=4,
        chat_template=_chat("<start_of_image>", before="[CLS]"),
    )  # fmt: skip
    return save_tiny(Gemma3ForConditionalGeneration(config), processor, folder)


def _internvl(folder: Path) -> Path:
    """InternVL: all tiles of all pictures are in one array, which does not say whose they are."""
    marks = {"start_image_token": "<img>", "end_image_token": "</img>",
             "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}  # fmt: skip
    tokenizer = _tokenizer(list(marks.values()), **marks)
    config = InternVLConfig(
        vision_config={**VISION, "image_size": [32, 32], "patch_size": [8, 8]},
        text_config={
            "model_type": "qwen2", **TEXT, "vocab_size": len(tokenizer), "num_key_value_heads": 2,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
    )  # fmt: skip
    square = {"height": 32, "width": 32}
    processor = InternVLProcessor(
        GotOcr2ImageProcessor(size=square, crop_to_patches=True, max_patches=4), tokenizer,
        InternVLVideoProcessor(size=square), image_seq_length=4,
        chat_template=_chat("<IMG_CONTEXT>"),
    )  # fmt: skip
    return save_tiny(InternVLForConditionalGeneration(config), processor, folder)


_QFORMER = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
    "encoder_hidden_size": 32,
}  # fmt: skip


def _instructblip(folder: Path) -> Path:
    """InstructBLIP with a decoder: its image encoder reads the question, with its own tokeniser."""
    tokenizer, question_tokenizer = _tokenizer(["<image>"], begins=True), _tokenizer([])
    config = InstructBlipConfig(
        vision_config=VISION,
        qformer_config={**_QFORMER, "vocab_size": len(question_tokenizer)},
        text_config={**_LLAMA, "vocab_size": len(tokenizer)},
        num_query_tokens=3,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    processor = InstructBlipProcessor(
        BlipImageProcessor(size={"height": 32, "width": 32}), tokenizer, question_tokenizer,
        num_query_tokens=3,
    )  # fmt: skip
    return save_tiny(InstructBlipForConditionalGeneration(config), processor, folder)


def _florence2(folder: Path) -> Path:
    """Florence-2: an encoder-decoder whose answers all begin with a forced token."""
    tokenizer = _tokenizer(["<image>"], image_token="<image>")
    config = Florence2Config(
        vision_config={
            "depths": [1, 1], "patch_size": [7, 3], "patch_stride": [4, 2], "patch_padding": [3, 1],
            "patch_prenorm": [False, True], "embed_dim": [8, 16], "num_heads": [2, 2],
            "num_groups": [2, 2], "window_size": 4, "projection_dim": 32,
            "max_position_embeddings": 8, "max_temporal_embeddings": 4,
        },
        text_config={
            "model_type": "bart", "vocab_size": len(tokenizer), "d_model": 32,
            "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37,
            "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 2,
            "eos_token_id": 3, "decoder_start_token_id": 3, "forced_bos_token_id": 2,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    image_processor = CLIPImageProcessor(
        size={"height": 32, "width": 32}, crop_size={"height": 32, "width": 32}
    )
    image_processor.image_seq_length = 17
    model = Florence2ForConditionalGeneration(config)
    model.generation_config.forced_bos_token_id = 2
    return save_tiny(model, Florence2Processor(image_processor, tokenizer), folder)


def _molmo2(folder: Path) -> Path:
    """Molmo 2: overlapping crops, pooled by attention; its own words are in a second table."""
    marks = [
        "<|image|>", "<|video|>", "<im_start>", "<im_end>", "<im_patch>", "<im_col>",
        "<low_res_im_start>", "<frame_start>", "<frame_end>", "<im_low>",
    ]  # fmt: skip
    tokenizer = _tokenizer(marks)
    ids = dict(zip(marks, tokenizer.convert_tokens_to_ids(marks), strict=True))
    config = Molmo2Config(
        vision_config={
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 4, "head_dim": 8, "intermediate_size": 37,
            "image_size": [32, 32], "patch_size": 8, "num_position_embeddings": 16,
        },
        adapter_config={
            "vision_feature_layer": [-1, 0], "hidden_size": 32, "num_attention_heads": 4,
            "num_key_value_heads": 4, "head_dim": 8, "intermediate_size": 37,
            "text_hidden_size": 32,
        },
        text_config={
            **TEXT, "vocab_size": len(tokenizer), "additional_vocab_size": 8,
            "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512,
        },
        image_start_token_id=ids["<im_start>"],
        low_res_image_start_token_id=ids["<low_res_im_start>"],
        image_end_token_id=ids["<im_end>"],
        image_patch_id=ids["<im_patch>"],
        frame_start_token_id=ids["<frame_start>"],
        frame_end_token_id=ids["<frame_end>"],
    )  # fmt: skip
    sizes = {"size": {"height": 32, "width": 32}, "patch_size": 8, "pooling_size": [2, 2]}
    processor = Molmo2Processor(
        Molmo2ImageProcessor(**sizes, overlap_margins=[1, 1], max_crops=4),
        Molmo2VideoProcessor(**sizes), tokenizer, chat_template=_chat("<|image|>"),
    )  # fmt: skip
    return save_tiny(Molmo2ForConditionalGeneration(config), processor, folder)


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
    "Qwen2.5-VL": Family(_qwen25),
    "SmolVLM": Family(_smolvlm),
    "LLaVA-NeXT": Family(_llava_next),
    "LLaVA-OneVision": Family(_llava_onevision),
    "Qwen2-VL": Family(
        tiny_qwen, "<|vision_start|> <|image_pad|> <|vision_end|> {question} answer :"
    ),
    "Qwen3-VL": Family(_qwen3),
    "Idefics3": Family(_idefics3),
    "InternVL": Family(_internvl),
    "Gemma 3": Family(_gemma3),
    "PaliGemma": Family(tiny_paligemma, "<image>answer en {question}"),
    "PaliGemma 2": Family(_paligemma2, "<image>answer en {question}"),
    "Molmo 2": Family(_molmo2),
    "BLIP-2": Family(tiny_blip2, "question : {question} answer :", keeps=False),
    "InstructBLIP": Family(_instructblip, keeps=False, encoded="question"),
    "Florence-2": Family(_florence2, keeps=False, encoded="question"),
}


def without_num2words(patch: Any) -> None:
    """Lets SmolVLM's processor load without num2words, which writes numbers of video frames."""
    if processing_smolvlm.num2words is None:
        patch.setattr(processing_smolvlm, "num2words", str)
