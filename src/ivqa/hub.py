"""The Hugging Face hub: whether it responds, quiet loading, and runs as repositories."""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import WARNING, getLogger
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError
from huggingface_hub.utils import validate_repo_id
from transformers.utils import logging

from ivqa.errors import UserError, reason_of
from ivqa.provenance import FILE, note_model
from ivqa.store.files import read_json, write_text

_PROBE_SECONDS = 5.0
_FILES = {
    "config.yaml": "the configuration",
    "metrics.json": "all figures",
    FILE: "commit, machine, models and command",
    "checkpoints/best.ckpt": "the trained weights",
    "report.html": "the page; it opens in a browser",
    "beliefs.jsonl": "one belief a line",
    "challenge/**": "the challenging set in VQA format",
    "export/**": "the questions for other tools",
}
_MODEL_USE = """```python
import ivqa
from huggingface_hub import snapshot_download

model = ivqa.load(snapshot_download("{repo}"))  # of a VQA model: ivqa.load_vqa
```

The data of `config.yaml` must be there: image features and words belong to them.
"""
_DATA_USE = """Download the repository. If it has a challenging set,
`python evaluate.py model=mlb questions=FOLDER/challenge` puts it to a VQA model.
The licence of the pictures is that of their source.
"""


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


def check_can_push(repo: str) -> None:
    """Checks that a repository of the hub, OWNER/NAME, can be written, before any work.

    Raises:
        UserError: The name is none, there is no token, or the hub refuses it or does not respond.
    """
    for name in ("httpx", "httpx2"):  # under Hydra these print a line for every request
        getLogger(name).setLevel(WARNING)
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise UserError(f"push_to_hub={repo}: {reason_of(error)}") from None
    if "/" not in repo:
        raise UserError(f"push_to_hub={repo} must be OWNER/NAME, such as me/{repo}")
    try:
        HfApi().whoami()
    except (LocalTokenNotFoundError, HfHubHTTPError) as error:
        raise UserError(
            f"push_to_hub={repo}: the hub accepts no token ({reason_of(error)}); log in with "
            "`hf auth login`, or set HF_TOKEN"
        ) from None
    except Exception as error:  # of the HTTP library, which differs between versions
        raise UserError(
            f"push_to_hub={repo}: the hub does not respond ({reason_of(error)})"
        ) from None


def push_run(run_dir: Path, repo: str) -> str:
    """Uploads the results of a run with a card, README.md; a new repository is private.

    A run with a checkpoint becomes a model, any other one a data set.

    Returns:
        The address of the commit.

    Raises:
        UserError: The hub refuses the files.
    """
    kind = "model" if (run_dir / "checkpoints" / "best.ckpt").is_file() else "dataset"
    write_text(run_dir / "README.md", _card(run_dir, repo, kind))
    api = HfApi()
    try:
        api.create_repo(repo, repo_type=kind, private=True, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo,
            folder_path=run_dir,
            repo_type=kind,
            allow_patterns=["README.md", *_FILES],
            commit_message="Results of ivqa",
        )
    except Exception as error:  # of the HTTP library, which differs between versions
        raise UserError(
            f"push_to_hub={repo}: the upload failed ({reason_of(error)}); the results are kept in "
            f"{run_dir}"
        ) from error
    return str(commit.commit_url)


def _card(run_dir: Path, repo: str, kind: str) -> str:
    """The card of a repository: metadata in YAML, then what the run did and found."""
    metadata: dict[str, Any] = {"tags": ["ivqa", "visual-question-answering"]}
    if kind == "model":
        metadata["library_name"] = "ivqa"
    elif (run_dir / "beliefs.jsonl").is_file():
        metadata["configs"] = [{"config_name": "beliefs", "data_files": "beliefs.jsonl"}]
    made, figures = (
        read_json(file, dict) if (file := run_dir / name).is_file() else {}
        for name in (FILE, "metrics.json")
    )
    parts = [(name, text) for name, text in _FILES.items() if any(run_dir.glob(name))]
    return "\n".join(
        [
            f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n\n# {repo.partition('/')[2]}\n",
            f"Made by ivqa {made.get('ivqa', '')} (commit {made.get('commit', 'unknown')}):\n",
            f"    {made.get('command', 'unknown')}\n",
            "| file | content |\n|---|---|",
            *(f"| `{name}` | {text} |" for name, text in parts),
            "\n## Use\n",
            (_MODEL_USE if kind == "model" else _DATA_USE).format(repo=repo),
            "## Figures\n\n| figure | value |\n|---|---:|",
            *(f"| {name} | {value:.4g} |" for name, value in sorted(figures.items())),
            "",
        ]
    )
