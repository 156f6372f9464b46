"""Loading models of transformers from a folder or the hub, with clear errors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import AfterValidator
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoProcessor,
)

from ivqa.errors import UserError, reason_of
from ivqa.hub import check_hub_id, check_revision, errors_only, hub_answers, note_commit
from ivqa.ranges import NO_EFFECT
from ivqa.store.weights import check_finite

_ADAPTERS = (
    "hf_classifier is for classifiers such as ViLT, hf_blip for BLIP's question answering, "
    "hf_generative for models that write (LLaVA, PaliGemma, Qwen-VL)"
)


def _device(name: str) -> str:
    try:
        device = torch.device("cpu" if name == "auto" else name)
    except RuntimeError:
        raise ValueError("must be auto, cpu, or a GPU such as cuda or cuda:1") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"this machine has {torch.cuda.device_count()} GPUs")
    return name


Device = Annotated[str, AfterValidator(_device), NO_EFFECT]
Dtype = Literal["auto", "float32", "float16", "bfloat16"]


# Arguments of from_pretrained that have settings of their own.
_TAKEN = {
    "dtype": "set model.module.dtype",
    "torch_dtype": "set model.module.dtype",
    "revision": "set model.revision",
    "config": "change the config.json of the model",
    "trust_remote_code": "Python code from a repository is never run here",
    "local_files_only": "set HF_HUB_OFFLINE=1",
    "ignore_mismatched_sizes": "other sizes would be random weights",
    "output_loading_info": "it is always read",
}


def load_pretrained(
    path: str,
    model_class: Any,
    *,
    revision: str | None = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    loading: Mapping[str, Any] | None = None,
) -> tuple[Any, Any]:
    """Loads a model in evaluation mode, and its processor.

    Args:
        path: A folder written by save_pretrained, which is read offline, or a hub id.
        model_class: A class of transformers, an Auto class or a model.
        revision: The branch, tag or commit of a hub id; None for "main". The record of the run
            keeps the commit.
        device: "cpu" or a GPU such as "cuda:1"; "auto" takes a GPU if there is one.
        dtype: Type of the weights; "auto" is that of the checkpoint.
        loading: Further arguments of `from_pretrained`, such as attn_implementation,
            device_map or quantization_config. With the last two, transformers places the model.

    Returns:
        Model and processor.

    Raises:
        UserError: `loading` has an argument that another setting gives.
        UserError: Neither folder nor hub has the model, it is of another kind, weights are missing
            or of other sizes, the processor is incomplete, or it needs Python code from its
            repository. It is raised within seconds, also without a network.
    """
    local = Path(path).is_dir()
    chosen = dict(loading or {})
    if taken := sorted(chosen.keys() & _TAKEN.keys()):
        raise UserError(f"model.module.loading.{taken[0]}: {_TAKEN[taken[0]]}")
    known: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    where, remedy = f"folder '{path}'", "write model and processor there with save_pretrained"
    check_revision(path, revision)
    if not local:
        known["revision"] = revision or "main"
        check_hub_id(path, "llava-hf/llava-1.5-7b-hf")
        where, remedy = (
            f"hub id '{path}'",
            "download it where there is a network and pass model.path=FOLDER",
        )
        known["local_files_only"] = not hub_answers(path)
        where += " (is the network there?)" if known["local_files_only"] else ""
    with _explained(where, remedy):
        if local and not Path(path, "config.json").is_file():
            raise FileNotFoundError("it has no config.json")
        config = AutoConfig.from_pretrained(path, **known)
        commit = note_commit(path, revision)
        if not local and commit is not None:
            known["revision"] = commit  # all files of one commit, though the branch may move on
        _check_kind(path, config, model_class)
        if local:
            _check_files(path)
        model, report = model_class.from_pretrained(
            path,
            config=config,
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # reported, and refused below
            **chosen,
            **known,
        )
        processor = AutoProcessor.from_pretrained(path, **known)
    _check_weights(path, config, type(model).__name__, report)
    _check_processor(path, processor)
    check_finite(model.state_dict(), path)
    if not chosen.keys().isdisjoint(("device_map", "quantization_config")):
        return model.eval(), processor
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval(), processor


@contextmanager
def _explained(where: str, remedy: str) -> Iterator[None]:
    """Raises what transformers raises as one sentence, without its loading reports."""
    try:
        with errors_only():
            yield
    except UserError:
        raise
    except Exception as error:  # transformers raises many kinds
        reason = reason_of(error)
        if isinstance(error, SafetensorError):
            reason = f"its weights are damaged, or not yet downloaded ({reason})"
        elif isinstance(error, ImportError):
            remedy = "install it in the environment of ivqa"
        elif "trust_remote_code" in str(error):
            reason = "it needs Python code from its repository, which is never run here"
            remedy = "choose a version for transformers itself; their names often end with -hf"
        raise UserError(f"cannot load the {where}: {reason}; {remedy}") from error


def _check_files(folder: str) -> None:
    parts = {
        "weights": ("*.safetensors", "pytorch_model*.bin"),
        "processor": ("processor_config.json", "preprocessor_config.json"),
    }
    for part, patterns in parts.items():
        if not any(any(Path(folder).glob(pattern)) for pattern in patterns):
            writer = "model" if part == "weights" else "processor"
            raise UserError(
                f"folder '{folder}' has no {part} ({' or '.join(patterns)}); write them there with "
                f"{writer}.save_pretrained"
            )


def _check_kind(path: str, config: Any, model_class: Any) -> None:
    # from_pretrained of a model class loads any configuration, with a warning and random weights.
    mapping = getattr(model_class, "_model_mapping", None)
    fits = isinstance(config, model_class.config_class) if mapping is None else (
        type(config) in mapping
    )  # fmt: skip
    if fits:
        return
    if _is_text_model(config):
        raise UserError(
            f"'{path}' holds a model of type {config.model_type}, which reads text only and sees "
            f"no image; {_ADAPTERS}"
        )
    raise UserError(
        f"'{path}' holds a model of type {config.model_type}, which {model_class.__name__} "
        f"cannot load; {_ADAPTERS}"
    )


def _is_text_model(config: Any) -> bool:
    writes = type(config) in AutoModelForCausalLM._model_mapping
    return writes and type(config) not in AutoModelForImageTextToText._model_mapping


def _check_weights(path: str, config: Any, kind: str, report: dict[str, Any]) -> None:
    if kind not in (saved := config.architectures or [kind]):
        raise UserError(f"'{path}' holds a {saved[0]}, not a {kind}; {_ADAPTERS}")
    if report["mismatched_keys"]:
        name, stored, expected = min(report["mismatched_keys"])
        raise UserError(
            f"'{path}': the weights {name} are {tuple(stored)}, but config.json asks for "
            f"{tuple(expected)}; restore the config.json they were trained with (its id2label has "
            "the answers)"
        )
    if missing := sorted(report["missing_keys"]):
        raise UserError(
            f"'{path}' lacks {len(missing)} weights of {kind}, such as {missing[0]}; save the "
            "whole model there with save_pretrained"
        )


def _check_processor(path: str, processor: Any) -> None:
    for part in ("tokenizer", "image_processor"):
        if getattr(processor, part, None) is None:
            raise UserError(
                f"'{path}' has no {part}; write one there with processor.save_pretrained"
            )
    # Without its files, transformers creates a tokeniser without words.
    for part in ("tokenizer", "qformer_tokenizer"):
        tokenizer = getattr(processor, part, None)
        if tokenizer is None:
            continue
        marks = {*tokenizer.get_added_vocab(), *tokenizer.all_special_tokens}
        if not set(tokenizer.get_vocab()) - marks:
            raise UserError(
                f"'{path}': its {part} has no words; write its files there with "
                "processor.save_pretrained"
            )
