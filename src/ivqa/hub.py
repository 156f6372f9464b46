"""The Hugging Face hub: whether it responds, and quiet loading."""

from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError
from transformers.utils import logging

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
