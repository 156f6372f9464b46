"""Checks an installation and its machine, and names a remedy for each problem.

Unlike the other tasks it has no configuration: it must also run where packages are broken, so it
imports each of them inside its own check.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from rich.table import Table
from rich.text import Text

from ivqa.terminal import terminal

_LOW_DISK = 5 << 30  # bytes; features of VQA v2's images need more
_LOW_MEMORY = 4 << 30  # bytes


@dataclass(frozen=True)
class Finding:
    """The result of one check; a remedy alone is only advice, and "" if nothing is wrong.

    `broken` says whether ivqa cannot run like this.
    """

    what: str
    found: str
    remedy: str = ""
    broken: bool = False


def main(arguments: Sequence[str]) -> int:
    """Runs all checks and prints a table; `arguments` are "doctor", and perhaps a data root.

    Returns the exit status: 1 if something is broken, 2 for other arguments, else 0.
    """
    console = terminal()
    if not 1 <= len(arguments) <= 2 or arguments[0] != "doctor":
        console.print("usage: ivqa doctor [DATA_ROOT]", soft_wrap=True)
        return 2
    findings = list(examine(arguments[1] if len(arguments) == 2 else None))
    table = Table(title="ivqa doctor", show_lines=False)
    for name in ("", "what", "found", "remedy"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        colour = "red" if finding.broken else "yellow" if finding.remedy else "green"
        mark = Text({"red": "✗", "yellow": "!", "green": "✓"}[colour], style=colour)
        table.add_row(mark, finding.what, finding.found, finding.remedy)
    console.print(table)
    broken = sum(finding.broken for finding in findings)
    console.print(f"{broken} broken" if broken else "Everything that ivqa needs works.")
    return 1 if broken else 0


def examine(data_root: str | None = None) -> Iterator[Finding]:
    """Yields the findings of all checks. A check that fails itself is a finding."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        packages, torch_pair, processor, gpu, memory_and_disk, weights, tracking,
    ]  # fmt: skip
    if data_root is not None:
        checks.append(lambda: data(Path(data_root)))
    for check in checks:
        try:
            yield from check()
        except Exception as error:
            name = getattr(check, "__name__", "data").replace("_", " ")
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            yield Finding(name, reason, "install ivqa again in a new environment", broken=True)


def packages() -> Iterator[Finding]:
    """Compares the installed packages with what ivqa requires, extras included."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    shown = ("ivqa", "pytorch-lightning", "hydra-core", "transformers", "wandb", "numpy")
    main_ones = ", ".join(f"{name} {version(name)}" for name in shown)
    yield Finding("versions", f"Python {here}, {main_ones}")
    absent: dict[str, list[str]] = {}
    for line in requires("ivqa") or ():
        requirement = Requirement(line)
        extra = _extra_of(requirement)
        if extra in ("dev", "docs"):
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            if extra is None:
                remedy = f"pip install '{requirement.name}{requirement.specifier}'"
                yield Finding(requirement.name, "is not installed", remedy, broken=True)
            else:
                absent.setdefault(extra, []).append(requirement.name)
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            remedy = f"pip install '{requirement.name}{requirement.specifier}'"
            yield Finding(requirement.name, found, remedy, broken=extra is None)
    for extra, names in absent.items():
        remedy = f"pip install 'ivqa[{extra}]' if you need it"
        yield Finding(f"extra '{extra}'", f"without {', '.join(names)}", remedy)


def torch_pair() -> Iterator[Finding]:
    """Checks that torch and torchvision belong to each other."""
    torch = import_module("torch")
    pair = f"torch {torch.__version__}, torchvision {version('torchvision')}"
    try:
        boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
        import_module("torchvision.ops").nms(boxes, torch.ones(1), 0.5)  # a compiled operator
    except Exception as error:
        reason = str(error).splitlines()[0][:120]
        remedy = "reinstall torch and torchvision in one command, from one index"
        yield Finding("torch and torchvision", f"{pair}: {reason}", remedy, broken=True)
        return
    yield Finding("torch and torchvision", f"{pair} belong together")


def processor() -> Iterator[Finding]:
    """Reports the processor, and the precision that trainer.precision=auto takes on it."""
    torch = import_module("torch")
    device = import_module("ivqa.device")
    mixed = device.fastest_dtype() is torch.bfloat16
    precision = "bf16-mixed" if mixed else "32-true"
    able = torch.backends.cpu.get_cpu_capability()
    found = f"{os.cpu_count()} cores, {able}, {torch.get_num_threads()} threads"
    yield Finding("processor", f"{found}; trainer.precision=auto is {precision} on the CPU")


def gpu() -> Iterator[Finding]:
    """Reports the GPUs that PyTorch can use."""
    torch = import_module("torch")
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        yield Finding("GPU", ", ".join(names))
    elif shutil.which("nvidia-smi"):
        remedy = "install a torch build with CUDA for this driver"
        yield Finding("GPU", "nvidia-smi is here, but torch cannot use a GPU", remedy)
    else:
        yield Finding("GPU", "none; everything runs on the CPU")


def memory_and_disk() -> Iterator[Finding]:
    """Checks the memory, and that the artifact store can be written and has room."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    advice = "use smaller batches, and num_workers=0" if total < _LOW_MEMORY else ""
    yield Finding("memory", _size(total), advice)
    store = Path(os.environ.get("IVQA_ARTIFACTS", "artifacts")).absolute()
    place = next(folder for folder in (store, *store.parents) if folder.is_dir())
    free = _size(shutil.disk_usage(place).free)
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        remedy = "set IVQA_ARTIFACTS or artifacts= to a folder that you may write"
        yield Finding("artifact store", f"{store}: {error.strerror}", remedy, broken=True)
        return
    low = shutil.disk_usage(place).free < _LOW_DISK
    remedy = "set IVQA_ARTIFACTS to a disk with more room" if low else ""
    yield Finding("artifact store", f"{store}, {free} free", remedy)


def weights() -> Iterator[Finding]:
    """Checks the released weights against their digests."""
    released = import_module("ivqa.released")
    known = released.catalogue()
    for one in known.values():
        try:
            one.weights()
        except Exception as error:
            yield Finding("released weights", str(error), "install ivqa again", broken=True)
            return
    yield Finding("released weights", ", ".join(known))


def tracking() -> Iterator[Finding]:
    """Reports how Weights & Biases would run with logger=wandb."""
    mode = os.environ.get("WANDB_MODE", "")
    key = os.environ.get("WANDB_API_KEY") or _netrc_key()
    if mode in ("offline", "disabled", "dryrun"):
        yield Finding("Weights & Biases", f"WANDB_MODE={mode}")
    elif key:
        yield Finding("Weights & Biases", "online with a stored key; used with logger=wandb")
    else:
        remedy = "for logger=wandb set WANDB_MODE=offline, or run: wandb login"
        yield Finding("Weights & Biases", "no key", remedy)


def data(root: Path) -> Iterator[Finding]:
    """Checks the splits of a data root in the official VQA layout."""
    dataset_class = import_module("ivqa.data").VQADataset
    names = sorted(file.stem.partition("_")[2] for file in root.glob("questions_*.json"))
    if not names:
        remedy = "pass a folder with questions_SPLIT.json, see docs/data.md"
        yield Finding("data", f"{root} has no questions_*.json", remedy, broken=True)
    for name in names:
        try:
            split = dataset_class(root, train=None, val=None, test=name).split("test")
        except Exception as error:
            yield Finding(f"split {name}", str(error)[:300], "correct the file", broken=True)
            continue
        images = "no images" if split.images is None else f"{len(split.images.ids)} images"
        answers = "with" if split.has_answers else "without"
        yield Finding(f"split {name}", f"{len(split)} questions {answers} answers, {images}")


def _extra_of(requirement: Requirement) -> str | None:
    """The extra that a requirement belongs to."""
    marker = str(requirement.marker or "")
    return marker.rpartition("extra == ")[2].strip("\"'") if "extra ==" in marker else None


def _netrc_key() -> str | None:
    import netrc

    try:
        login = netrc.netrc().authenticators("api.wandb.ai")
    except (OSError, netrc.NetrcParseError):
        return None
    return login[2] if login else None


def _size(number: int) -> str:
    return f"{number / (1 << 30):.0f} GiB"
