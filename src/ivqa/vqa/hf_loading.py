"""Loading models of transformers from a folder or the hub, with clear errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx
import torch
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from pydantic import AfterValidator
from transformers import AutoConfig, AutoProcessor
from transformers.utils import logging

from ivqa.errors import UserError
from ivqa.weights import check_finite

_PROBE_SECONDS = 5.0
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


Device = Annotated[str, AfterValidator(_device)]
Dtype = Literal["auto", "float32", "float16", "bfloat16"]


def load_pretrained(
    path: str, model_class: Any, *, device: Device = "auto", dtype: Dtype = "float32"
) -> tuple[Any, Any]:
    """Loads a model in evaluation mode, and its processor.

    Args:
        path: A folder written by save_pretrained, which is read offline, or a hub id.
        model_class: A class of transformers, an Auto class or a model.
        device: "cpu" or a GPU such as "cuda:1"; "auto" takes a GPU if there is one.
        dtype: Type of the weights; "auto" is that of the checkpoint.

    Returns:
        Model and processor.

    Raises:
        UserError: Neither folder nor hub has the model, it is of another kind, weights are missing
            or of other sizes, or the processor is incomplete. It is raised within seconds, also
            without a network.
    """
    local = Path(path).is_dir()
    known = {"local_files_only": local or not _hub_answers(path)}
    try:
        with _errors_only():
            config = AutoConfig.from_pretrained(path, **known)
            _check_kind(path, config, model_class)
            model, report = model_class.from_pretrained(
                path,
                config=config,
                dtype=dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # reported, and refused below
                **known,
            )
            processor = AutoProcessor.from_pretrained(path, **known)
    except _WrongKind:
        raise
    except Exception as error:  # transformers raises many kinds
        reason = " ".join(str(error).split())[:300].rstrip(".")
        where = f"folder '{path}'" if local else f"hub id '{path}'"
        remedy = "write model and processor there with save_pretrained"
        if not local:
            where += " (is the network there?)" if known["local_files_only"] else ""
            remedy = "download it where there is a network and pass model.path=FOLDER"
        raise UserError(f"cannot load the {where}: {reason}; {remedy}") from error
    _check_weights(path, config, type(model).__name__, report)
    _check_processor(path, processor)
    check_finite(model.state_dict(), path)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval(), processor


class _WrongKind(UserError):
    pass


def _check_kind(path: str, config: Any, model_class: Any) -> None:
    # from_pretrained of a model class loads any configuration, with a warning and random weights.
    mapping = getattr(model_class, "_model_mapping", None)
    fits = isinstance(config, model_class.config_class) if mapping is None else (
        type(config) in mapping
    )  # fmt: skip
    if not fits:
        raise _WrongKind(
            f"'{path}' holds a model of type {config.model_type}, which {model_class.__name__} "
            f"cannot load; {_ADAPTERS}"
        )


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
    if len(processor.tokenizer) <= len(processor.tokenizer.all_special_tokens):
        raise UserError(
            f"'{path}': its tokenizer has no words; write its files there with "
            "processor.save_pretrained"
        )


def _hub_answers(path: str) -> bool:
    """Whether the hub responds for `path`; loading itself would retry for half a minute."""
    try:
        HfApi().model_info(path, timeout=_PROBE_SECONDS)
    except HfHubHTTPError:
        return True  # the hub responds; loading reports its refusal better
    except (httpx.HTTPError, OSError, HFValidationError):
        return False
    return True


@contextmanager
def _errors_only() -> Iterator[None]:
    """Hides the loading reports of transformers; their faults are raised as errors instead."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)
