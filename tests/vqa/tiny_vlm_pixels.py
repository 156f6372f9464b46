"""Tiny models of families that take pixels, and no encoded pictures, for each question."""

from pathlib import Path

from tiny_vlm_parts import LLAMA, marked_tokenizer
from transformers import (
    BlipImageProcessor,
    CLIPImageProcessor,
    Florence2Config,
    Florence2ForConditionalGeneration,
    Florence2Processor,
    InstructBlipConfig,
    InstructBlipForConditionalGeneration,
    InstructBlipProcessor,
)

from tiny_transformers import VISION, save_tiny

_QFORMER = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
    "encoder_hidden_size": 32,
}  # fmt: skip


def tiny_instructblip(folder: Path) -> Path:
    """InstructBLIP with a decoder: its image encoder reads the question, with its own tokeniser."""
    tokenizer, question_tokenizer = marked_tokenizer(["<image>"], begins=True), marked_tokenizer([])
    config = InstructBlipConfig(
        vision_config=VISION,
        qformer_config={**_QFORMER, "vocab_size": len(question_tokenizer)},
        text_config={**LLAMA, "vocab_size": len(tokenizer)},
        num_query_tokens=3,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    processor = InstructBlipProcessor(
        BlipImageProcessor(size={"height": 32, "width": 32}), tokenizer, question_tokenizer,
        num_query_tokens=3,
    )  # fmt: skip
    return save_tiny(InstructBlipForConditionalGeneration(config), processor, folder)


def tiny_florence2(folder: Path) -> Path:
    """Florence-2: an encoder-decoder whose answers all begin with a forced token."""
    tokenizer = marked_tokenizer(["<image>"], image_token="<image>")
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
