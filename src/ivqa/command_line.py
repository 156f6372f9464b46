"""Hydra's command line with `resume=DIR`, quoted paths and one-sentence errors.

PyTorch and Lightning are imported inside of functions: --help, shell completion and misspelt
arguments are then answered in a second.
"""

import os
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.text import Text

from ivqa.config.choices import choices_page, config_folders, search_path
from ivqa.config.error_messages import (
    describe,
    is_disk_error,
    is_user_error,
    place_in_own_code,
)
from ivqa.config.hydra_flags import ended_by_a_closed_pipe, joined_flags
from ivqa.config.path_keys import check_places, command_paths, command_sentences, is_path
from ivqa.config.short_forms import expanded, key_of
from ivqa.errors import UserError
from ivqa.plug_ins import plug_ins
from ivqa.runs.memory import prepare_process
from ivqa.runs.resuming import (
    PROGRESS,
    absent_component,
    check_command,
    continuing_command,
    needs_folder,
    program_name,
    recorded_command,
)
from ivqa.store.files import no_folder, read_yaml
from ivqa.terminal import terminal


def entry_point(conf_dir: Path, config_name: str) -> None:
    """Composes the configuration from the command line and runs its task.

    Exits with status 1 after an error. An error that the user can fix is one sentence on stderr,
    and so is one of the user's own code, with its place; IVQA_TRACEBACK=1 adds the traceback. Any
    other error is a bug and shows its traceback. Exits with status 130 after SIGINT (Ctrl-C) and
    143 after SIGTERM, as shells and clusters expect.
    """
    prepare_process()
    given, program = sys.argv[1:], program_name(config_name)
    continues: list[str] = []  # the command that continues this run, if there is one
    own: list[str] = []  # the user's arguments, without those of a stored run
    # Hydra then raises errors instead of printing a shortened traceback and exiting.
    os.environ["HYDRA_FULL_ERROR"] = "1"

    def fail(error: Exception) -> NoReturn:
        by_user = is_user_error(error)
        place = None if by_user else place_in_own_code(error)
        if not (by_user or place) or os.environ.get("IVQA_TRACEBACK") == "1":
            traceback.print_exception(error)
        if place:
            _stop(f"{place}; this is your own code, and IVQA_TRACEBACK=1 shows the traceback", 1)
        if by_user:
            stored = _resumed(given) if isinstance(error, HydraException) and not begun else None
            absent = absent_component(stored) if stored else None
            told = absent or describe(
                error, sys.argv[1:], conf_dir=conf_dir, config_name=config_name
            )
            if stored and not absent:
                told += needs_folder(stored, config_name, given)
            hint = f"; then continue with: {continues[0]}" if continues else ""
            _stop(told + hint if is_disk_error(error) else told, 1)
        _stop(f"{type(error).__name__}: this is a bug in ivqa, please report it with the above", 1)

    begun = False

    def job(cfg: DictConfig) -> float | None:
        nonlocal begun
        begun = True
        try:
            _check_resumed(cfg, own, conf_dir)
            _say_start()
            check_places(cfg)
            return run_task(cfg, recorded_command(program, given))
        except BaseException as error:
            continues[:] = filter(None, [continuing_command(given)])
            if not isinstance(error, Exception) or HydraConfig.get().mode is RunMode.MULTIRUN:
                raise  # a signal; or Hydra reports it and runs the other jobs of the sweep
            fail(error)
        finally:
            wandb = sys.modules.get("wandb")
            if wandb is not None and wandb.run is not None:
                wandb.finish()  # jobs of a multirun share a process: one W&B run each

    try:
        sys.argv[1:] = joined_flags(sys.argv[1:])
        with ended_by_a_closed_pipe(sys.argv[1:]):
            sys.argv[1:], own[:] = _overrides(sys.argv[1:], conf_dir, config_name)
            main = hydra.main(
                version_base="1.3", config_path=str(conf_dir), config_name=config_name
            )
            with _termination_raises():
                main(job)()
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # Rich exits: nobody reads the output
            sys.exit(128 + signal.SIGPIPE)
        status = _status_of_signal(stop)
        if status is None:
            raise
        hint = f"; continue with: {continues[0]}" if continues else ""
        _stop(f"interrupted; written files are kept{hint}", status)
    except Exception as error:
        # Hydra makes the directory before the job; its own errors are OSErrors without a file.
        if isinstance(error, OSError) and error.filename and not begun:
            error = UserError(no_folder("output_dir", str(error.filename), error))
        fail(error)


def _overrides(
    arguments: list[str], conf_dir: Path, config_name: str
) -> tuple[list[str], list[str]]:
    """The arguments that Hydra receives, with all short forms written out, and the user's own."""
    folders = config_folders(conf_dir, arguments)
    OmegaConf.register_new_resolver(  # for hydra.help in conf/run.yaml
        "choices", lambda: choices_page(conf_dir, config_name, folders), replace=True
    )
    if _path(arguments, "sweep") is not None:
        from ivqa.sweeps.sweep_files import with_sweep

        arguments = with_sweep(arguments, folders, config_name)
    if run_dir := _resumed(arguments):
        check_command(run_dir, config_name)
    own = with_multirun(arguments, conf_dir)
    arguments = command_line(own, folders)
    arguments = [
        *search_path([conf_dir, *plug_ins().values()]),
        *expanded(arguments, conf_dir, config_name),
    ]
    # Hydra's parser wants the overrides in one piece, and some of them were added at the end.
    return sorted(arguments, key=lambda item: item.startswith("-")), own


def _say_start() -> None:
    """Prints the first line, in the seconds before PyTorch is loaded."""
    if not os.environ.get("LOCAL_RANK", "").strip("0"):  # not in other processes of a training
        hydra_cfg = HydraConfig.get()
        text = f"{hydra_cfg.job.config_name}: run directory {hydra_cfg.runtime.output_dir}"
        terminal(stderr=True).print(text, soft_wrap=True, highlight=False)


def run_task(cfg: DictConfig, command: Sequence[str]) -> float:
    """Checks and completes the configuration and runs its task; provenance.json has the `command`.

    Returns:
        The headline metric of the task, for sweepers.

    Raises:
        UserError: The configuration is invalid; lists all faults before any work starts.
    """
    from pytorch_lightning.utilities import rank_zero_only

    from ivqa import provenance
    from ivqa.config.checks import check_config
    from ivqa.runs.loggers import check_wandb
    from ivqa.runs.precision import set_precision

    check_config(cfg)
    check_wandb(cfg.get("logger"))
    if cfg.get("trainer"):
        set_precision(cfg.trainer)
    # The directory that Hydra chose: in a multirun it numbers the directories of the jobs.
    cfg.output_dir = HydraConfig.get().runtime.output_dir
    model = (cfg.get("vqa") or cfg.get("model") or {}).get("name")
    hydra_cfg = HydraConfig.get()
    provenance.begin(command, model)
    run_dir, is_first = Path(cfg.output_dir), not rank_zero_only.rank  # type: ignore[attr-defined]
    if repo := cfg.get("push_to_hub") if is_first else None:
        from ivqa.hub import check_can_push, push_run

        if hydra_cfg.mode is RunMode.MULTIRUN:
            raise UserError("push_to_hub= takes one run; leave -m out")
        check_can_push(repo)
    result = instantiate(cfg.command)(cfg)
    if is_first and (run_dir / "metrics.json").is_file():
        provenance.write(run_dir)
    if repo:
        print(f"pushed: {push_run(run_dir, repo)}")
    return result


def _check_resumed(cfg: DictConfig, own: Sequence[str], conf_dir: Path) -> None:
    """Checks what a resumed run sets, since it may come from elsewhere; `own` is the user's."""
    if run_dir := _resumed(own):
        from ivqa.config.stored_runs import check_stored, own_settings

        settings = own_settings(map(quoted_path, own))
        check_stored(cfg, f"resume={run_dir}", run_dir, config_folders(conf_dir, own), settings)


def with_multirun(arguments: list[str], conf_dir: Path) -> list[str]:
    """Adds -m to the arguments if conf_dir/experiment/NAME.yaml has parameters of a sweep."""
    name = _path(arguments, "experiment")
    file = conf_dir / "experiment" / f"{name}.yaml"
    others = (item for item in arguments if not item.startswith("--config-dir"))
    if name is None or not file.is_file() or any(item.startswith("-") for item in others):
        return arguments
    node: Any = read_yaml(file, dict)
    for key in ("hydra", "sweeper", "params"):
        node = (node or {}).get(key)
    return ["-m", *arguments] if node else arguments


def command_line(arguments: list[str], folders: Sequence[Path] = ()) -> list[str]:
    """Translates the arguments of a command to Hydra's overrides, with quoted paths.

    `resume=DIR` restores the overrides of that run, before the new ones, and its directory. With
    -m, `output_dir=DIR` is the directory of the sweep, with one numbered folder for each job.

    Raises:
        UserError: DIR holds no run, or no checkpoint to continue from.
    """
    multirun = bool({"-m", "--multirun"} & set(arguments))
    if run_dir := _resumed(arguments):
        from ivqa.config.stored_runs import check_links, stored_overrides

        if (run_dir / "multirun.yaml").is_file():
            raise UserError(
                f"resume={run_dir} is a sweep; give its command again, with output_dir={run_dir}"
            )
        if not (run_dir / "config.yaml").is_file():
            raise UserError(f"resume={run_dir}: no run was started there (config.yaml is missing)")
        if not any((run_dir / path).exists() for path in PROGRESS):
            raise UserError(
                f"resume={run_dir}: nothing to resume, the run has stored nothing yet; give its "
                f"command again, with output_dir={run_dir}: what it was training in the artifact "
                "store continues"
            )
        file = run_dir / "overrides.yaml"
        check_links(run_dir)
        stored = [quoted_path(str(item)) for item in read_yaml(file, list)]
        earlier = stored_overrides(stored, file, folders)
        _note_other_store(stored, arguments)
        # Later overrides win, so the user may change the length of the training.
        arguments = [*earlier, *arguments, f"output_dir={run_dir}"]
    elif multirun and (output_dir := _path(arguments, "output_dir")):
        written = f"hydra.sweep.dir={output_dir}"
        arguments = [written if key_of(item) == "output_dir" else item for item in arguments]
    return [quoted_path(argument, multirun=multirun) for argument in arguments]


def _note_other_store(stored: Sequence[str], own: Sequence[str]) -> None:
    given = _path(stored, "artifacts")
    if given is not None and _path(own, "artifacts") is None:
        terminal(stderr=True).print(
            f"artifacts={given} of the run is not used; add it to use that store",
            soft_wrap=True,
            highlight=False,
        )


def quoted_path(argument: str, *, multirun: bool = False) -> str:
    """Quotes the value of an override that is a path or sentence, if Hydra's grammar requires it.

    It may then contain = [ ] , quotes and letters beyond ASCII. Values that Hydra reads as text or
    null stay unchanged, with their quotes and escapes, and so do lists. With -m a comma separates
    the values of a sweep; such a path then needs its own quotes: "ckpt='a,b'". `~/` becomes the
    home directory.

    >>> quoted_path("data.root=/data/a=b [1]"), quoted_path("model=mlb"), quoted_path("ckpt='a b'")
    ("data.root='/data/a=b [1]'", 'model=mlb', "ckpt='a b'")
    """
    key, equals, value = argument.partition("=")
    name = key.lstrip("+")
    known = command_paths() | command_sentences()
    is_list = known.get(name, False) and value.startswith("[")
    is_sweep = multirun and name != "hydra.sweep.dir" and "," in value
    quoted = name in known or is_path(name)
    if not quoted or not equals or value in ("", "null") or is_list or is_sweep:
        return argument
    if value.startswith("~/"):  # a shell leaves it behind "="
        value, argument = str(Path(value).expanduser()), f"{key}={Path(value).expanduser()}"
    if _text(value) is not None:
        return argument
    return f"{key}={QuotedString(text=value, quote=Quote.single).with_quotes()}"


@contextmanager
def _termination_raises() -> Iterator[None]:
    """Makes SIGTERM end the process like Ctrl-C: files are closed, worker processes end."""

    def terminate(*_: Any) -> NoReturn:
        sys.exit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _status_of_signal(stop: BaseException) -> int | None:
    """The exit status if a signal has ended the command, else None."""
    # Lightning exits with status 1 when it has caught a KeyboardInterrupt.
    if isinstance(stop, KeyboardInterrupt) or isinstance(stop.__context__, KeyboardInterrupt):
        return 128 + signal.SIGINT
    terminated = isinstance(stop, SystemExit) and stop.code == 128 + signal.SIGTERM
    return 128 + signal.SIGTERM if terminated else None


def _path(arguments: Iterable[str], key: str) -> str | None:
    """The value of the last override of `key`, without Hydra's quotes; None without one."""
    values = [item.split("=", 1)[1] for item in arguments if "=" in item and key_of(item) == key]
    return (_text(values[-1]) or values[-1]) if values else None


def _resumed(arguments: Iterable[str]) -> Path | None:
    """The run directory of resume=."""
    value = _path(arguments, "resume")
    return None if value in (None, "null") else Path(str(value))


def _text(value: str) -> str | None:
    """The text that Hydra parses from a value; None if it is not a text."""
    try:
        parsed = OverridesParser.create().parse_override(f"key={value}").value()
    except HydraException:
        return None
    if isinstance(parsed, QuotedString):
        return parsed.text
    return parsed if isinstance(parsed, str) else None


def _stop(message: str, status: int) -> NoReturn:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble(("error: ", "bold red"), message))
    sys.exit(status)
