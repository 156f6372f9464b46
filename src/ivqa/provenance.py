"""Where results come from: version, commit, machine, models and command of a run.

A command begins a record (`begin`); what loads a model or asks it questions adds to it, and
provenance.json in the run directory keeps it. Figures and stored models do not depend on it.
"""

import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from ivqa.store.files import parse_json, write_json

FILE = "provenance.json"
_PACKAGES = ("torch", "pytorch-lightning", "transformers", "numpy", "scipy", "scikit-learn")
_VERSION = sys.modules["ivqa"].__version__  # an import statement would import ivqa.api
_CACHED_MODEL = "models--"  # start of a model's folder in the cache of the hub


@dataclass
class Record:
    """What a command did.

    Attributes:
        started: When it began, in UTC.
        models: The models that it loaded, by name, with the commit of the hub or the digest of
            their weights; None where neither is known, as of a served model.
        training: Seconds of training and time of its end of the models from the artifact store,
            by the digest of their weights.
        questions_asked: Questions that VQA models answered, repetitions included.
    """

    command: str = ""
    model: str | None = None
    data: str | None = None
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    models: dict[str, str | None] = field(default_factory=dict)
    training: dict[str, tuple[float, float]] = field(default_factory=dict)
    questions_asked: int = 0
    _clock: float = field(default_factory=time.monotonic, repr=False)


_current = Record()  # of this process: a process runs one command at a time


def begin(command: Sequence[str], model: str | None) -> None:
    """Begins the record of a command: its words, with "python" or "ivqa" first, and its model."""
    global _current
    _current = Record(shlex.join(command), model)


def note_model(path: str, revision: str | None = None) -> None:
    """Adds a model to the record; a revision that is known already stays.

    Args:
        path: A hub id, the name of a model, or a folder, of which only the name is kept.
        revision: The commit of the hub, or the digest of the weights; None where unknown.
    """
    parts = Path(path).parts
    cached = [part for part in parts if part.startswith(_CACHED_MODEL)]
    name = path
    if cached:
        name = cached[-1].removeprefix(_CACHED_MODEL).replace("--", "/")
    elif Path(path).is_absolute() or Path(path).exists():
        name = Path(path).resolve().name
    _current.models[name] = revision or _current.models.get(name)


def note_data(title: str) -> None:
    """Says which data the command is about: the title of a data set, or a folder of pictures."""
    _current.data = title


def note_training(revision: str, seconds: float, ended: float) -> None:
    """Adds the training of a model: digest of its weights, seconds, end in seconds since 1970."""
    _current.training[revision] = (seconds, ended)


def note_questions(number: int) -> None:
    """Adds to the number of questions that VQA models answered."""
    _current.questions_asked += number


def write(run_dir: Path) -> None:
    """Writes provenance.json into the run directory."""
    record = asdict(_current)
    clock = record.pop("_clock")
    seconds = round(time.monotonic() - clock, 1)
    write_json(run_dir / FILE, {**environment(), **record, "seconds": seconds})


def environment() -> dict[str, Any]:
    """Version and commit of ivqa, the machine, and the packages that compute the numbers."""
    return {
        "ivqa": _VERSION,
        "commit": own_commit(),
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count(), "gpu": gpu_model()},
        "packages": {"python": platform.python_version(), **_versions()},
    }


def line() -> str:
    """Summarises the record for the foot of a page: models, data, command, origin and machine."""
    models = [
        name + (f" at {revision[:12]}" if revision else "")
        for name, revision in _current.models.items()
    ]
    asked = f"{_current.questions_asked:,} questions asked" if _current.questions_asked else ""
    machine = f"{cpu_model()}, {os.cpu_count()} cores"
    gpu = gpu_model()
    parts = [", ".join(models), _current.data, asked, _current.command]
    parts += [f"ivqa {_VERSION}, commit {own_commit()}", _current.started[:10], machine, gpu]
    return "; ".join(filter(None, parts))


@cache
def own_commit() -> str:
    """The commit of this installation, with "+" where tracked files differ; "unknown" without."""
    root = Path(__file__).parents[2]
    if (root / ".git").exists():  # otherwise a repository around site-packages would answer
        return commit_of(root)
    try:
        origin = distribution("ivqa").read_text("direct_url.json")
    except PackageNotFoundError:
        return "unknown"
    known: Any = parse_json(origin.encode(), "direct_url.json") if origin else {}
    return str(known.get("vcs_info", {}).get("commit_id", "unknown"))[:7]


def commit_of(root: Path) -> str:
    """The short hash of HEAD, with "+" where tracked files differ; "unknown" without git."""
    command = ["git", "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty=+"]
    try:
        found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


@cache
def cpu_model() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [text.partition(":")[2].strip() for text in lines if text.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def gpu_model() -> str | None:
    """The name of the first GPU; None without one."""
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def versions() -> str:
    """Versions of Python and of the packages that compute the numbers."""
    numbers = [f"{name} {number}" for name, number in _versions().items()]
    return ", ".join([f"Python {platform.python_version()}", *numbers])


def _versions() -> dict[str, str]:
    import torch

    # With the build of torch, which its metadata lack.
    return {name: version(name) for name in _PACKAGES} | {"torch": str(torch.__version__)}
