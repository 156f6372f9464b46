"""A tiny model with its processor of any family that AutoModelForImageTextToText loads.

It starts from the defaults of the configuration class, so that pictures have the sizes that
the image processor gives them, and makes widths and depths small. `_SETTINGS` has what a family
needs beside that. Nothing is downloaded.
"""

import inspect
import json
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import transformers
from tiny_vlm_parts import chat_template_of, marked_tokenizer
from transformers import CONFIG_MAPPING, AutoModelForImageTextToText, PreTrainedTokenizerFast
from transformers.models.auto import image_processing_auto, processing_auto, video_processing_auto
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from tiny_transformers import save_tiny

TYPES = list(MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)

# The first expression that fits the name of a setting gives its value.
_SIZES: list[tuple[str, Callable[[Any], Any]]] = [
    (r"(vision_)?vocab_size|.*vocab_size.*", lambda _: None),
    (r".*(num_key_value_heads|n_kv_heads|num_kv_heads)|kv_heads", lambda _: 2),
    (r".*(num_(attention_)?heads|n_heads?|attention_heads|_nheads)", lambda _: 4),
    (r"(global_|swa_|v_|qk_)?head_dim|kv_channels|d_kv", lambda _: 8),
    (
        r".*(intermediate|ffn|mlp|feed_forward)_?(hidden_)?(size|dim)|d_ff",
        lambda size: [64] * len(size) if isinstance(size, list) else 64,
    ),
    (r"activation_sparsity_pattern", lambda values: list(values)[:2]),
    (r"per_layer_config", lambda own: {k: v for k, v in own.items() if int(k) < 2}),
    (r"num_(local_|routed_)?experts|n_routed_experts|moe_num_experts", lambda _: 4),
    (r"num_experts_per_tok|moe_topk|moe_k|top_k_experts", lambda _: 2),
    (r"n_shared_experts|n_group|topk_group|first_k_dense_replace", lambda _: 1),
    (r"(num_|n_)?(hidden_)?(layers?|depth|blocks)|num_.*layers|.*_layers_count|depth", lambda _: 2),
    (r"layer_types|mlp_layer_types|layers_block_type", lambda kinds: _two_kinds(list(kinds))),
    (r".*(hidden_size|hidden_dim|embed_dim|d_model|_width|projection_dim)|width", lambda _: 32),
    (r"mrope_section", lambda _: [2, 1, 1]),
    (r"deepstack_visual_indexes|fullatt_block_indexes", lambda _: [1]),
    (r"max_position_embeddings", lambda size: min(size, 4096)),
]  # fmt: skip

_MROPE = {
    "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1],
    "partial_rotary_factor": 1.0,
}  # fmt: skip
_QWEN2 = ("Qwen2VLImageProcessor", "Qwen2VLVideoProcessor")
_QWEN3 = ("Qwen3VLProcessor", "Qwen2VLImageProcessor", "Qwen3VLVideoProcessor")
_GLM = ("Glm46VProcessor", "Glm46VImageProcessor", "Glm46VVideoProcessor")

# Processors that the mappings of transformers do not name: of text, pictures and videos.
_PROCESSORS = {
    "cosmos3_omni": _QWEN3,
    "fast_vlm": ("LlavaProcessor", "CLIPImageProcessor"),
    "glm4v_moe": ("Glm4vProcessor", "Glm4vImageProcessor", "Glm4vVideoProcessor"),
    "glm_ocr": _GLM,
    "glmga": ("Glm46VProcessor", "GlmgaImageProcessor", "GlmgaVideoProcessor"),
    "kosmos-2": ("Kosmos2Processor", "CLIPImageProcessor"),
    "qwen2_5_omni_thinker": ("Qwen2_5OmniProcessor", *_QWEN2),
    "qwen3_omni_moe_thinker": ("Qwen3OmniMoeProcessor", *_QWEN2),
    "qwen3_vl_moe": _QWEN3,
    "qwen3_5_moe": _QWEN3,
    "qwen4_exp": _QWEN3,
}

# Settings of a model type, by dotted name; "image_size" is that of processor and encoder.
_SETTINGS: dict[str, dict[str, Any]] = {
    "aria": {"vision_config.patch_size": 14},
    "aya_vision": {"image_size": 364},
    "gemma3n": {"text_config.num_kv_shared_layers": 0},
    "gemma4_unified": {"text_config.num_kv_shared_layers": 0},
    "glm5_next": {"text_config.num_key_value_heads": 4},
    "glm46v": {"text_config.rope_parameters": _MROPE},
    "glm4v_moe": {"text_config.rope_parameters": _MROPE},
    "glm_ocr": {"text_config.rope_parameters": _MROPE},
    "glmga": {"text_config.rope_parameters": _MROPE},
    "paddleocr_vl": {"text_config.rope_parameters": _MROPE},
    # The layer after which patches are merged: of two layers, not the seventh.
    "minicpmv4_6": {"insert_layer_id": 0},
    "minicpmv4_7": {"insert_layer_id": 0},
    "mistral_large4": {"text_config.kv_source_layers": None},
    "ovis2": {"image_size": 224},
}  # fmt: skip


def _two_kinds(kinds: list[str]) -> list[str]:
    """Two layers of two kinds if there are two, one with full attention."""
    distinct = sorted(set(kinds), key=lambda kind: "full" not in kind and "attention" not in kind)
    return (distinct * 2)[:2][::-1]


_READS_TEXT = "it reads the words of a page and takes no question"
NOT_BUILT = {
    "evolla": "it reads proteins",
    "instructblipvideo": "it reads videos",
    "pi0": "it writes movements of a robot",
    "udop": "it reads a page with the places of its words",
    "mistral4": "it is a text model",
    "diffusion_gemma": "it writes by diffusion, so that an answer has no likelihood",
    "pix2struct": "it reads the question as a part of the picture",
    "vision-encoder-decoder": "it writes captions and takes no question",
    "git": "it writes captions and takes no question",
    "blip": "it writes captions (`hf_blip` answers questions)",
    "shieldgemma2": "it judges pictures by policies and takes no question",
    "got_ocr2": _READS_TEXT,
    "pp_chart2table": _READS_TEXT,
    "pp_formulanet": _READS_TEXT,
    "kosmos-2.5": _READS_TEXT,
}
"""Why no tiny model of a family is built."""


def build(kind: str, folder: Path) -> Path:
    """Saves a tiny model of a type with its processor into a folder, and returns the folder."""
    processor = _processor(kind)
    config = CONFIG_MAPPING[kind]()
    settings = dict(_SETTINGS.get(kind, {}))
    _fit(processor, config, settings.pop("image_size", None))
    _small(config, len(processor.tokenizer), processor)
    for name, value in settings.items():
        *parts, last = name.split(".")
        setattr(reduce(getattr, parts, config), last, value)
    # What is derived from settings is derived from the small ones.
    config = type(config).from_dict(json.loads(json.dumps(config.to_dict(), default=str)))
    return save_tiny(AutoModelForImageTextToText.from_config(config), processor, folder)


def _fit(processor: Any, config: Any, image_size: int | None) -> None:
    """Lets the processor make the patches, and the encoder take the pictures, of the other one."""
    images = processor.image_processor
    vision = getattr(config, "vision_config", config)
    if getattr(images, "max_image_size", None) == 980:  # Aria: 4,900 patches
        images.max_image_size = 490
    if image_size is not None:
        images.size = {"height": image_size, "width": image_size}
    for theirs, ours in (
        ("patch_size", "patch_size"), ("temporal_patch_size", "temporal_patch_size"),
        ("merge_size", "spatial_merge_size"), ("encoder_patch_size", "patch_size"),
    ):  # fmt: skip
        value = getattr(vision, ours, None)
        for owner in (images, processor):
            fits = hasattr(owner, theirs) and isinstance(getattr(owner, theirs), int | None)
            if isinstance(value, int) and fits:
                setattr(owner, theirs, value)
    for name in ("vision_feature_select_strategy", "num_additional_image_tokens"):
        if hasattr(processor, name) and getattr(processor, name) is None:
            setattr(processor, name, getattr(config, name, None))
    size = getattr(images, "crop_size", None) or getattr(images, "size", None) or {}
    side = size.get("height") if hasattr(size, "get") else None
    if isinstance(side, int) and isinstance(getattr(vision, "image_size", None), int):
        vision.image_size = side


def _small(config: Any, vocabulary: int, processor: Any, *, top: bool = True) -> Any:
    for name, value in list(vars(config).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, transformers.PretrainedConfig):
            _small(value, vocabulary, processor, top=False)
        elif re.fullmatch(r".*_token_(id|index)", name) and name.split("_")[0] not in _TEXT:
            setattr(config, name, _token(name, processor, vocabulary))
        elif name in ("rope_parameters", "rope_scaling") and isinstance(value, dict):
            if "mrope_section" in value:
                setattr(config, name, {**value, "mrope_section": [2, 1, 1]})
        elif value is not None and not isinstance(value, bool):
            fitting = (new for pattern, new in _SIZES if re.fullmatch(pattern, name))
            if (change := next(fitting, None)) is not None:
                setattr(config, name, vocabulary if change(value) is None else change(value))
    for name, number in (("bos", 2), ("eos", 3), ("pad", 0)):
        if hasattr(config, f"{name}_token_id"):
            setattr(config, f"{name}_token_id", number)
    return config


_TEXT = ("bos", "eos", "pad", "sep", "decoder")


def _token(name: str, processor: Any, vocabulary: int) -> int:
    """The token of a setting such as image_token_id."""
    stem = re.sub(r"_(id|index)$", "", name)
    for owner in (processor, processor.tokenizer):
        token = getattr(owner, stem, None)
        if isinstance(token, str):
            return processor.tokenizer.convert_tokens_to_ids(token)
    return vocabulary - 1 - sum(map(ord, name)) % 20  # one of the spare tokens


def _processor(kind: str) -> Any:
    names = _PROCESSORS.get(kind) or (
        processing_auto.PROCESSOR_MAPPING_NAMES[kind],
        image_processing_auto.IMAGE_PROCESSOR_MAPPING_NAMES.get(kind),
        video_processing_auto.VIDEO_PROCESSOR_MAPPING_NAMES.get(kind),
    )
    cls = getattr(transformers, names[0])
    tokenizer = _tokenizer(cls)
    given: dict[str, Any] = {}
    for name in inspect.signature(cls.__init__).parameters:
        if name == "tokenizer":
            given[name] = tokenizer
        elif name == "image_processor":
            given[name] = _of(names[1])
        elif name == "video_processor":
            given[name] = _of(names[2])
        elif name == "feature_extractor":
            given[name] = transformers.WhisperFeatureExtractor()
    processor = cls(**given)
    mark = getattr(processor, "image_token", None) or next(
        (m for m in tokenizer.all_special_tokens if "image" in m.lower()), "<image>"
    )
    processor.chat_template = chat_template_of(str(mark))
    return processor


def _of(names: Any) -> Any:
    if names is None:
        return None
    name = names if isinstance(names, str) else names.get("torchvision") or names["pil"]
    return getattr(transformers, name)()


def _tokenizer(cls: Any) -> PreTrainedTokenizerFast:
    """A tokeniser that knows the marks which the code of a processor names."""
    source = inspect.getsource(inspect.getmodule(cls))  # type: ignore[arg-type]
    found = re.findall(r"[\"'](<[^<>\s\"']{1,40}>|\[[A-Z_]{2,20}\])[\"']", source)
    named = re.findall(r"tokenizer\.(\w+_token)\b", source)
    named = [n for n in dict.fromkeys(named) if n.split("_")[0] not in ("bos", "eos", "pad", "unk")]
    own = {name: f"<{name}>" for name in named}
    marks = [mark for mark in dict.fromkeys(["<image>", *found, *own.values()]) if "{" not in mark]
    return marked_tokenizer([*marks, *(f"<spare{at}>" for at in range(20))], **own)
