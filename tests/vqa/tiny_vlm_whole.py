"""Tiny models of families that read a picture as a whole."""

from pathlib import Path
from typing import Any

from tiny_vlm_parts import SIGLIP, byte_pair_tokenizer, chat_template_of, marked_tokenizer
from transformers import (
    Gemma3Config,
    Gemma3ForConditionalGeneration,
    Gemma3ImageProcessor,
    Gemma3Processor,
    Gemma4AudioFeatureExtractor,
    Gemma4Config,
    Gemma4ForConditionalGeneration,
    Gemma4ImageProcessor,
    Gemma4Processor,
    Gemma4VideoProcessor,
    Glm4vConfig,
    Glm4vForConditionalGeneration,
    Glm4vImageProcessor,
    Glm4vProcessor,
    Glm4vVideoProcessor,
    Mistral3Config,
    Mistral3ForConditionalGeneration,
    PaliGemmaConfig,
    PaliGemmaForConditionalGeneration,
    PaliGemmaProcessor,
    PixtralImageProcessor,
    PixtralProcessor,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
    SiglipImageProcessor,
)

from tiny_transformers import TEXT, VISION, save_tiny, tiny_qwen

_QWEN_MARKS = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]

_QWEN_CHAT = chat_template_of("<|vision_start|><|image_pad|><|vision_end|>")

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


def tiny_qwen2(folder: Path) -> Path:
    """Qwen2-VL with a chat template."""
    tiny_qwen(folder)
    (folder / "chat_template.jinja").write_text(_QWEN_CHAT)
    return folder


def tiny_qwen25(folder: Path) -> Path:
    """Qwen2.5-VL: windows in the image encoder, with one layer that attends to everything."""
    tokenizer = marked_tokenizer(_QWEN_MARKS)
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


def tiny_qwen3(folder: Path) -> Path:
    """Qwen3-VL: features of inner layers of the image encoder go into layers of the text model."""
    tokenizer = marked_tokenizer(_QWEN_MARKS)
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


def tiny_qwen35(folder: Path) -> Path:
    """Qwen3.5: every other layer keeps one state instead of keys and values."""
    tokenizer = byte_pair_tokenizer(_QWEN_MARKS)
    config = Qwen3_5Config(
        text_config=_qwen_text(
            tokenizer, head_dim=8, layer_types=["linear_attention", "full_attention"],
            linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2,
            linear_num_value_heads=4,
        ),
        vision_config={
            "depth": 2, "hidden_size": 16, "out_hidden_size": 32, "num_heads": 2,
            "intermediate_size": 24, "patch_size": 8, "spatial_merge_size": 2,
            "num_position_embeddings": 16,
        },
        **_qwen_ids(tokenizer),
    )  # fmt: skip
    config.text_config.rope_parameters["partial_rotary_factor"] = 1.0
    processor = Qwen3VLProcessor(
        Qwen2VLImageProcessor(**_PATCHES), tokenizer, Qwen3VLVideoProcessor(**_PATCHES),
        chat_template=_QWEN_CHAT,
    )  # fmt: skip
    return save_tiny(Qwen3_5ForConditionalGeneration(config), processor, folder)


def tiny_glm41(folder: Path) -> Path:
    """GLM-4.1V: as Qwen-VL, with another encoder."""
    marks = [
        "<|image|>", "<|video|>", "<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>",
        "<|end_of_video|>",
    ]  # fmt: skip
    tokenizer = marked_tokenizer(marks, image_token="<|image|>", video_token="<|video|>")
    ids = tokenizer.convert_tokens_to_ids(marks)
    config = Glm4vConfig(
        vision_config={
            "depth": 2, "hidden_size": 16, "out_hidden_size": 32, "num_heads": 2,
            "intermediate_size": 24, "image_size": 32, "patch_size": 8, "spatial_merge_size": 2,
        },
        text_config=_qwen_text(tokenizer),
        image_token_id=ids[0], video_token_id=ids[1], image_start_token_id=ids[2],
        image_end_token_id=ids[3], video_start_token_id=ids[4], video_end_token_id=ids[5],
    )  # fmt: skip
    sizes = {"patch_size": 8, "merge_size": 2}
    processor = Glm4vProcessor(
        Glm4vImageProcessor(**sizes, size={"shortest_edge": 256, "longest_edge": 8192}), tokenizer,
        Glm4vVideoProcessor(**sizes),
        chat_template=chat_template_of("<|begin_of_image|><|image|><|end_of_image|>"),
    )  # fmt: skip
    config.text_config.rope_parameters["partial_rotary_factor"] = 1.0
    return save_tiny(Glm4vForConditionalGeneration(config), processor, folder)


def tiny_paligemma2(folder: Path) -> Path:
    """PaliGemma 2: Gemma 2 with a window of 6 tokens, shorter than the prompt."""
    image_processor = SiglipImageProcessor(size={"height": 32, "width": 32})
    image_processor.image_seq_length = 4
    processor = PaliGemmaProcessor(image_processor, marked_tokenizer(["<image>"]))
    config = PaliGemmaConfig(
        vision_config={**SIGLIP, "projection_dim": 32, "vision_use_head": False},
        text_config={
            "model_type": "gemma2", **TEXT, "vocab_size": len(processor.tokenizer),
            "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 6,
            "query_pre_attn_scalar": 8,
        },
        image_token_index=processor.tokenizer.convert_tokens_to_ids("<image>"),
        projection_dim=32,
    )  # fmt: skip
    return save_tiny(PaliGemmaForConditionalGeneration(config), processor, folder)


def tiny_gemma3(folder: Path) -> Path:
    """Gemma 3: images are read in both directions, text in one; one layer has a window."""
    marks = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>",
             "image_token": "<image_soft_token>"}  # fmt: skip
    tokenizer = marked_tokenizer(list(marks.values()), begins=True, **marks)
    ids = tokenizer.convert_tokens_to_ids(list(marks.values()))
    config = Gemma3Config(
        vision_config={**SIGLIP, "patch_size": 8, "vision_use_head": False},
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
        chat_template=chat_template_of("<start_of_image>", before="[CLS]"),
    )  # fmt: skip
    return save_tiny(Gemma3ForConditionalGeneration(config), processor, folder)


def tiny_gemma4(folder: Path) -> Path:
    """Gemma 4: as many tokens as a picture's shape asks for; each layer has words of its own."""
    marks = {
        "boi_token": "<|image>", "eoi_token": "<image|>", "image_token": "<|image|>",
        "boa_token": "<|audio>", "eoa_token": "<audio|>", "audio_token": "<|audio|>",
    }  # fmt: skip
    tokenizer = marked_tokenizer([*marks.values(), "<|video|>"], begins=True, **marks)
    ids = dict(zip(marks, tokenizer.convert_tokens_to_ids(list(marks.values())), strict=True))
    config = Gemma4Config(
        vision_config={
            **VISION, "patch_size": 8, "num_key_value_heads": 4, "head_dim": 8,
            "pooling_kernel_size": 2, "position_embedding_size": 64,
        },
        text_config={
            **TEXT, "vocab_size": len(tokenizer), "num_key_value_heads": 2, "head_dim": 8,
            "sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"],
            "vocab_size_per_layer_input": len(tokenizer), "hidden_size_per_layer_input": 4,
        },
        audio_config=None,
        boi_token_id=ids["boi_token"], eoi_token_id=ids["eoi_token"],
        image_token_id=ids["image_token"], audio_token_id=ids["audio_token"],
        boa_token_id=ids["boa_token"], eoa_token_index=ids["eoa_token"],
        video_token_id=tokenizer.convert_tokens_to_ids("<|video|>"),
    )  # fmt: skip
    sizes = {"patch_size": 8, "pooling_kernel_size": 2, "max_soft_tokens": 70}
    processor = Gemma4Processor(
        Gemma4AudioFeatureExtractor(), Gemma4ImageProcessor(**sizes), tokenizer,
        Gemma4VideoProcessor(**sizes), chat_template=chat_template_of("<|image|>", before="[CLS]"),
    )  # fmt: skip
    return save_tiny(Gemma4ForConditionalGeneration(config), processor, folder)


def tiny_mistral3(folder: Path) -> Path:
    """Mistral 3: pictures of any size, with a mark after each row of patches."""
    tokenizer = marked_tokenizer(["[IMG]", "[IMG_BREAK]", "[IMG_END]"], begins=True)
    config = Mistral3Config(
        vision_config={
            "model_type": "pixtral", **VISION, "image_size": 64, "patch_size": 8, "head_dim": 8,
        },
        text_config={
            "model_type": "mistral", **TEXT, "vocab_size": len(tokenizer),
            "num_key_value_heads": 2, "head_dim": 8, "sliding_window": None,
        },
        image_token_index=tokenizer.convert_tokens_to_ids("[IMG]"),
        spatial_merge_size=2,
    )  # fmt: skip
    processor = PixtralProcessor(
        PixtralImageProcessor(size={"longest_edge": 64}, patch_size=8), tokenizer, patch_size=8,
        spatial_merge_size=2, chat_template=chat_template_of("[IMG]", before="[CLS]"),
    )  # fmt: skip
    return save_tiny(Mistral3ForConditionalGeneration(config), processor, folder)
