"""The Hugging Face hub: whether it responds, and quiet loading."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError
from transformers.utils import logging

from ivqa.errors import UserError
from ivqa.provenance import note_model

_PROBE_SECONDS = 5.0


def hub_answers(name: str) -> bool:
    """Whether the hub responds for a model; loading itself would retry for half a minute.

    True also where the hub refuses the model; loading reports the refusal better.
    """
    try:
        HfApi().model_info(name, timeout=_PROBE_SECONDS)
    except HfHubHTTPError:
        return True
    except Exception:  # of the HTTP library, which differs between versions of the hub's client
        return False
    return True


def check_hub_id(
    name: str,
    example: str,
    make: str = "write a model and its processor there with save_pretrained",
) -> None:
    """Raises UserError where a text, for which no folder exists, is a path and no hub id.

    The message gives an example, and how to `make` such a folder.
    """
    if Path(name).exists() or name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise UserError(f"there is no folder '{name}'; {make}, or pass a hub id such as {example}")


def check_revision(path: str, revision: str | None) -> None:
    """Raises UserError where a revision (branch, tag or commit) is given for a folder."""
    if revision is not None and Path(path).is_dir():
        raise UserError(
            f"revision={revision} names a version on the hub, but '{path}' is a folder; leave "
            "revision= out, or pass a hub id"
        )


def note_commit(path: str, revision: str | None) -> str | None:
    """Adds a loaded model to the record of the run, with its commit, which it returns.

    The commit is None for a folder outside of the cache of the hub. A revision of None is "main".
    """
    folder: Path | None = Path(path).resolve()
    if not Path(path).is_dir():
        file = try_to_load_from_cache(path, "config.json", revision=revision or "main")
        folder = Path(file).parent if isinstance(file, str) else None
    # The cache has each commit in models--MAKER--NAME/snapshots/COMMIT.
    known = folder is not None and folder.parent.name == "snapshots"
    commit = folder.name if folder is not None and known else None
    note_model(path, commit)
    return commit


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
