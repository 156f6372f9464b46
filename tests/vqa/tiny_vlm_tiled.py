"""Tiny models of families that cut a picture into tiles."""

from pathlib import Path
from typing import Any

from tiny_vlm_parts import LLAMA, SIGLIP, chat_template_of, marked_tokenizer
from transformers import (
    GotOcr2ImageProcessor,
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3ImageProcessor,
    Idefics3Processor,
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLProcessor,
    InternVLVideoProcessor,
    Lfm2VlConfig,
    Lfm2VlForConditionalGeneration,
    Lfm2VlImageProcessor,
    Lfm2VlProcessor,
    LlavaNextConfig,
    LlavaNextForConditionalGeneration,
    LlavaNextImageProcessor,
    LlavaNextProcessor,
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
    MllamaConfig,
    MllamaForConditionalGeneration,
    MllamaImageProcessor,
    MllamaProcessor,
    Molmo2Config,
    Molmo2ForConditionalGeneration,
    Molmo2ImageProcessor,
    Molmo2Processor,
    Molmo2VideoProcessor,
    PreTrainedTokenizerFast,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,
)

from tiny_transformers import TEXT, VISION, save_tiny

_IDEFICS_MARKS = [
    "<image>", "<fake_token_around_image>", "<end_of_utterance>", "<global-img>",
    *(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)),
]  # fmt: skip

_TILES = {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}}


def _idefics_config(kind: Any, tokenizer: PreTrainedTokenizerFast) -> Any:
    return kind(
        vision_config={**VISION, "patch_size": 8},
        text_config={**LLAMA, "vocab_size": len(tokenizer), "max_position_embeddings": 512},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
        pad_token_id=0,
    )


def tiny_smolvlm(folder: Path) -> Path:
    """SmolVLM: a picture is cut into up to four tiles, and a smaller copy of it."""
    tokenizer = marked_tokenizer(_IDEFICS_MARKS)
    processor = SmolVLMProcessor(
        SmolVLMImageProcessor(**_TILES), tokenizer, SmolVLMVideoProcessor(**_TILES),
        image_seq_len=4,
        chat_template=chat_template_of("<image>", after="<end_of_utterance> answer :"),
    )  # fmt: skip
    config = _idefics_config(SmolVLMConfig, tokenizer)
    return save_tiny(SmolVLMForConditionalGeneration(config), processor, folder)


def tiny_idefics3(folder: Path) -> Path:
    """Idefics3: as SmolVLM, with a Llama tokeniser whose [CLS] is in the chat template too."""
    tokenizer = marked_tokenizer(_IDEFICS_MARKS, begins=True)
    processor = Idefics3Processor(
        Idefics3ImageProcessor(**_TILES), tokenizer, image_seq_len=4,
        chat_template=chat_template_of(
            "<image>", before="[CLS]", after="<end_of_utterance> answer :"
        ),
    )  # fmt: skip
    config = _idefics_config(Idefics3Config, processor.tokenizer)
    return save_tiny(Idefics3ForConditionalGeneration(config), processor, folder)


_PINPOINTS = [[32, 64], [64, 32], [64, 64], [32, 96]]


def tiny_llava_next(folder: Path) -> Path:
    """LLaVA-NeXT: tiles of the best of several shapes, without the padding around the picture."""
    tokenizer = marked_tokenizer(["<image>"], begins=True)
    config = LlavaNextConfig(
        vision_config={"model_type": "clip_vision_model", **VISION, "patch_size": 8},
        text_config={**LLAMA, "vocab_size": len(tokenizer)},
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
        num_additional_image_tokens=1, chat_template=chat_template_of("<image>"),
    )  # fmt: skip
    return save_tiny(LlavaNextForConditionalGeneration(config), processor, folder)


def tiny_llava_onevision(folder: Path) -> Path:
    """LLaVA-OneVision: as NeXT with SigLIP and Qwen2; tiles above a limit are shrunk."""
    tokenizer = marked_tokenizer(["<image>", "<video>"])
    config = LlavaOnevisionConfig(
        vision_config={**SIGLIP, "patch_size": 8, "vision_use_head": False},
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
        chat_template=chat_template_of("<image>"),
    )  # fmt: skip
    return save_tiny(LlavaOnevisionForConditionalGeneration(config), processor, folder)


def tiny_internvl(folder: Path) -> Path:
    """InternVL: all tiles of all pictures are in one array, which does not say whose they are."""
    marks = {"start_image_token": "<img>", "end_image_token": "</img>",
             "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}  # fmt: skip
    tokenizer = marked_tokenizer(list(marks.values()), **marks)
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
        chat_template=chat_template_of("<IMG_CONTEXT>"),
    )  # fmt: skip
    return save_tiny(InternVLForConditionalGeneration(config), processor, folder)


def tiny_molmo2(folder: Path) -> Path:
    """Molmo 2: overlapping crops, pooled by attention; its own words are in a second table."""
    marks = [
        "<|image|>", "<|video|>", "<im_start>", "<im_end>", "<im_patch>", "<im_col>",
        "<low_res_im_start>", "<frame_start>", "<frame_end>", "<im_low>",
    ]  # fmt: skip
    tokenizer = marked_tokenizer(marks)
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
        Molmo2VideoProcessor(**sizes), tokenizer, chat_template=chat_template_of("<|image|>"),
    )  # fmt: skip
    return save_tiny(Molmo2ForConditionalGeneration(config), processor, folder)


def tiny_llama32(folder: Path) -> Path:
    """Llama 3.2 Vision: one layer looks at the tiles of the picture, by a mask of each token."""
    tokenizer = marked_tokenizer(["<|image|>", "<|python_tag|>"], begins=True)
    config = MllamaConfig(
        vision_config={
            "hidden_size": 32, "attention_heads": 4, "num_hidden_layers": 2,
            "num_global_layers": 1, "intermediate_size": 37, "image_size": 32, "patch_size": 8,
            "max_num_tiles": 4, "vision_output_dim": 64, "intermediate_layers_indices": [0],
            "supported_aspect_ratios": [
                [1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1],
            ],
        },
        text_config={
            **TEXT, "vocab_size": len(tokenizer), "num_key_value_heads": 2,
            "cross_attention_layers": [1],
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<|image|>"),
    )  # fmt: skip
    processor = MllamaProcessor(
        MllamaImageProcessor(size={"height": 32, "width": 32}, max_image_tiles=4), tokenizer,
        chat_template=chat_template_of("<|image|>", before="[CLS]"),
    )  # fmt: skip
    return save_tiny(MllamaForConditionalGeneration(config), processor, folder)


def tiny_lfm2(folder: Path) -> Path:
    """LFM2-VL: convolutions instead of attention in one layer; tiles of several sizes."""
    tiles = [f"<|img_row_{row}_col_{column}|>" for row in range(1, 5) for column in range(1, 5)]
    marks = ["<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>", *tiles]
    tokenizer = marked_tokenizer(marks)
    config = Lfm2VlConfig(
        vision_config={
            "model_type": "siglip2_vision_model", "hidden_size": 32, "intermediate_size": 37,
            "num_hidden_layers": 2, "num_attention_heads": 4, "patch_size": 8, "num_patches": 16,
            "vision_use_head": False,
        },
        text_config={
            "model_type": "lfm2", **TEXT, "vocab_size": len(tokenizer), "num_key_value_heads": 2,
            "layer_types": ["conv", "full_attention"], "block_multiple_of": 8,
            "max_position_embeddings": 512,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        projector_hidden_size=32,
    )  # fmt: skip
    image_processor = Lfm2VlImageProcessor(
        size={"height": 32, "width": 32}, tile_size=32, encoder_patch_size=8, min_image_tokens=1,
        max_image_tokens=4, max_tiles=4,
    )  # fmt: skip
    processor = Lfm2VlProcessor(
        image_processor, tokenizer, chat_template=chat_template_of("<image>")
    )
    return save_tiny(Lfm2VlForConditionalGeneration(config), processor, folder)
