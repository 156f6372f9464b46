"""Runs every command of README.md and the guides on small data, page by page: `make docs-check`.

    python tests/docs_check.py                        all pages
    python tests/docs_check.py --only robustness      pages whose name contains this
    python tests/docs_check.py --list                 what would run, with all overrides

Of docs/papers.md the commands in sentences run too, each once and with the first point of a sweep.
Each page has a folder below outputs/docs_check, in which its commands run in their order; a page
that stopped is run again from its start. Words such as DIR become stand-ins, "..." the newest run.
Files that a page says a command writes must be there afterwards. Commands that cannot run here are
printed with the reason.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from tools.jobs import overrides_of, values_of

from command_checks import jobs_of
from docs_stand_ins import StandIns
from documented_commands import PAGES, PROJECT, Command, blocks, commands, files
from ivqa.command_line import with_multirun
from ivqa.config.choices import leaf_keys

FOLDER = PROJECT / "outputs" / "docs_check"
# Sizes with which a command takes seconds; each is set where the configuration has its key.
SMALL = {
    "data.images": "{train:60,val:20,test:20}",
    "data.val_images": "4",
    "data.test_images": "4",
    "features.image_size": "32",
    "features.width": "16",
    "features.epochs": "1",
    "num_images": "3",
    "num_latents": "12",
    "max_questions": "20",
    "legality": "0",  # small models ask little that is legal
    "num_noisy_questions": "20",
    "likelihood_samples": "8",
    "resamples": "100",
    "callbacks.robustness.num_questions": "20",
    "callbacks.robustness.resamples": "100",
    "callbacks.consistency.num_images": "3",
    "callbacks.consistency.resamples": "100",
    "callbacks.beliefs.num_images": "3",
    "callbacks.beliefs.legality": "0",
    "repair.num_images": "10",
    "repair.val_images": "10",
    **{
        f"{model}.{key}": value
        for model in (
            *("model", "vqa", "model.parts.questioner", "model.parts.legality_model"),
            *("measuring_models.parts.questioner", "measuring_models.parts.legality_model"),
            "measuring_models.parts.n2nmn",  # a judge
        )
        for key, value in {
            "epochs": "1",
            "batch_size": "16",
            "epoch_steps": "2",
            "val_batches": "1",
            "module.network.hidden_size": "16",
            "module.network.embedding_size": "16",
            "benchmark.num_latents": "2",
            "benchmark.num_samples": "2",
            "benchmark.pools.num_pairs": "20",
        }.items()
    },
    # Policies and probes start from a generator that asks at least some sensible questions.
    **{
        f"{owner}.parts.questioner.{key}": value
        for owner in ("model", "measuring_models")
        for key, value in {
            "epochs": "25",
            "module.network.hidden_size": "32",
            "module.network.embedding_size": "32",
        }.items()
    },
}
_MAY_BE_NULL = (
    *("legality", "num_images", "callbacks.robustness.num_questions"),
    *("callbacks.consistency.num_images", "callbacks.beliefs.num_images"),
    "callbacks.beliefs.legality",
    *("repair.num_images", "repair.val_images"),
)
# Commands that this check does not run, and who does.
LEFT_OUT = {
    r"^make |^pip ": "builds or tests the project itself",
    r"^python -m benchmarks": "measures for minutes and writes benchmarks/RESULTS.md",
    r"^python -m tools\.(suspicions|ceiling)": "measures for many minutes",
    r"^python -m tools\.papers": "writes docs/papers.md",
    r"^ivqa view": "serves pages until it is stopped",
    r"^wandb ": "needs an account; tests/end_to_end/test_wandb_agent.py has a stand-in",
    r"push_to_hub=": "needs an account; tests/end_to_end/test_push_to_hub.py has a stand-in",
    r"ivqa\.data\.download": "downloads gigabytes; tests/data/test_download.py has a local server",
    r"data=hf_": "downloads a data set; tests/data/test_hf_datasets.py has small ones",
    r"logger\.comet": "needs comet-ml and an account",
    r"data=(clevr|gqa)": "needs the published files; tests/data/ has small ones",
    r"features=resnet152": "needs published weights",
    r"(model=(prompted_)?|vqa=)openai": (
        "needs an endpoint; tests/end_to_end/test_served_models.py has one"
    ),
    r" \.\.\.$": "needs weights of the hub",
    r"oracle=true vqa=mlb,n2nmn": "needs scenes as files; tests/end_to_end/test_pictures.py has",
    r"question_encoder=skip_thoughts": "needs the published vectors; tests/vqa/ has small ones",
    r"annotations=": "needs what people export; tests/end_to_end/test_judges.py has it",
    r"human=\[": "needs what people export; tests/end_to_end/test_human_study.py has it",
    r"\$IVQA_": "needs the real data; `make results` runs it",
}
# Commands that a page takes for granted, before those of the page.
BEFORE = {
    "diagnosis.md": ["python diagnose.py vqa=vanilla"],
    "interchange.md": ["python train.py model=mlb"],
    "robustness.md": ["python evaluate.py model=vanilla callbacks=robustness"],
    "ivqa.md": ["python evaluate.py -m model=ivqa_vae,ivqa_answer_only"],
    "papers.md": ["python diagnose.py vqa=mlb"],
}
NOT_RUN = ("results.md",)  # `make results` writes it and runs its commands
INLINE = ("papers.md",)  # pages whose commands stand in sentences or tables


def main() -> int:
    """Returns the number of commands that failed."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", default="", help="pages whose name contains this")
    parser.add_argument("--list", action="store_true", help="print the commands, run none")
    options = parser.parse_args()
    failed: list[str] = []
    for page in PAGES:
        if options.only in page.name and page.name not in NOT_RUN:
            failed += check(page, run=not options.list)
    for text in failed:
        print(f"failed: {text}")
    return len(failed)


def check(page: Path, *, run: bool) -> list[str]:
    """Runs the commands of a page in its folder; returns what failed."""
    folder = FOLDER / page.stem
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in files(page).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    stand_ins = StandIns(FOLDER / "stand_ins", folder)
    failed = []
    for command in _in_order(page):
        reason = next(
            (why for form, why in LEFT_OUT.items() if re.search(form, _plain(command))), ""
        )
        if reason:
            print(f"-- {command}\n   left out: {reason}", flush=True)
            continue
        os.chdir(folder)
        try:
            words = _ready(command, stand_ins) if run else command.words
        except FileNotFoundError as error:
            failed.append(f"{command}: {error}")
            continue
        print(f"== {command}\n   {shlex.join(words)}", flush=True)
        if run and (problem := _problem(command, words, folder)):
            print(f"   {problem}", flush=True)
            failed.append(f"{command}: {problem}")
    return failed


def promised(command: Command) -> list[str]:
    """Files that the page says a command writes: items in code between it and the next block."""
    lines = command.page.read_text().split("\n")
    starts = [block.line for block in blocks(command.page) if block.line > command.line]
    after = "\n".join(lines[command.line : starts[0] - 2 if starts else None])
    return re.findall(r"^(?:\| |- )`([\w./]+\.(?:html|jsonl|json|parquet|png)|\w+/)`", after, re.M)


def _in_order(page: Path) -> Iterator[Command]:
    for text in BEFORE.get(page.name, []):
        yield Command(page, 1, text, inline=True)
    if page.name in INLINE:
        yield from {_plain(command): command for command in commands(page)}.values()
    else:
        yield from (command for command in commands(page) if not command.inline)


def _plain(command: Command) -> str:
    return " ".join(command.words)


def _ready(command: Command, stand_ins: StandIns) -> list[str]:
    """The words of a command with stand-ins and small sizes."""
    words = [stand_ins.filled(word, command) for word in command.words]
    if command.task is None or {"--help", "--cfg"} & set(words):
        return words
    if command.page.name in INLINE:
        words = [*words[:2], *_first_point(command.task, words[2:])]
    given = replace(command, text=shlex.join(words))
    keys = {word.partition("=")[0] for word in words}
    # Seeds repeat what the first one does.
    words = [re.sub(r"^seed=.*", "seed=1", word) for word in words]
    words = [re.sub(r"^trials=(\d+)", _fewer, word) for word in words]
    jobs = jobs_of(command.task, given.arguments, every=True)
    for key, value in SMALL.items():
        if key not in keys and all(_has_size(job, key) for job in jobs):
            words.append(f"{key}={value}")
    return words


def _first_point(task: str, arguments: list[str]) -> list[str]:
    """The arguments with the first value of each parameter of a sweep."""
    first = [values_of(one)[0] for one in overrides_of(task, arguments, PROJECT / "conf")]
    options = [one for one in with_multirun(arguments, PROJECT / "conf") if one[0] == "-"]
    return [*options, *first]


def _fewer(trials: re.Match[str]) -> str:
    """Fewer points of a sweep; where a page adds one, it is still one more."""
    return f"trials={max(int(trials[1]) - 4, 1)}"


def _has_size(cfg: DictConfig, key: str) -> bool:
    """Whether a configuration has a key that may be set; null means that nothing is trained."""
    return key in leaf_keys(cfg) and (key in _MAY_BE_NULL or OmegaConf.select(cfg, key) is not None)


def _problem(command: Command, words: Sequence[str], folder: Path) -> str | None:
    """Runs a command; says what went wrong, None if nothing did."""
    environment = {
        **os.environ,
        **command.environment,
        "IVQA_ARTIFACTS": str(FOLDER / "artifacts"),
        "PYTHONPATH": os.pathsep.join([str(folder), str(PROJECT / "src")]),
        "COLUMNS": "80",
    }
    if words[0] == "python":
        script = PROJECT / words[1]
        words = [sys.executable, str(script) if script.is_file() else words[1], *words[2:]]
    elif words[0] == "ivqa":
        words = [sys.executable, "-m", *words]
    known, began = set(folder.rglob("*")), time.monotonic()
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    print(f"   {time.monotonic() - began:.0f} s", flush=True)
    if done.returncode:
        last = [line for line in done.stdout.strip().split("\n") if line.strip()][-12:]
        if extra := re.search(r"pip install 'ivqa\[\w+\]'", done.stdout):
            print(f"   not run to its end here: needs {extra[0]}", flush=True)
            return None
        return f"exit status {done.returncode}\n      " + "\n      ".join(last)
    written = {str(path.relative_to(folder)) for path in set(folder.rglob("*")) - known}
    if command.task and not {"--help", "--cfg"} & set(words):
        if not written:
            return "it wrote nothing"
        names = [name.rstrip("/") for name in promised(command)]
        absent = [name for name in names if not any(path.endswith(f"/{name}") for path in written)]
        if absent and not command.inline:
            return f"the page promises {', '.join(absent)}"
    return None


if __name__ == "__main__":
    sys.exit(min(main(), 125))
