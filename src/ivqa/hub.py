"""The Hugging Face hub: whether it responds, and quiet loading."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError
from transformers.utils import logging

from ivqa.errors import UserError

_PROBE_SECONDS = 5.0


def hub_answers(name: str) -> bool:
    """Whether the hub responds for a model; loading itself would retry for half a minute.

    Args:
        name: Hub id of the model, such as "google/siglip2-base-patch16-224".

    Returns:
        True also where the hub refuses the model; loading reports the refusal better.
    """
    try:
        HfApi().model_info(name, timeout=_PROBE_SECONDS)
    except HfHubHTTPError:
        return True
    except Exception:  # of the HTTP library, which differs between versions of the hub's client
        return False
    return True


def check_hub_id(name: str, example: str) -> None:
    """Checks that a text may be a hub id, and is not meant to be a folder.

    Args:
        name: The text, for which no folder exists.
        example: A hub id, for the message.

    Raises:
        UserError: It looks like a path.
    """
    if Path(name).exists() or name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise UserError(
            f"there is no folder '{name}'; write a model and its processor there with "
            f"save_pretrained, or pass a hub id such as {example}"
        )


@contextmanager
def errors_only() -> Iterator[None]:
    """Hides loading reports and bars of transformers; faults are raised as errors instead."""
    before, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if shown:
            logging.enable_progress_bar()
