"""Hydra's flags (-m, --cfg job, --config-dir DIR and others), and the lines of its launcher."""

import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hydra._internal.utils import get_args_parser
from typing_extensions import override

from ivqa.errors import UserError


def joined_flags(arguments: Sequence[str]) -> list[str]:
    """Writes each flag of Hydra as one argument with its long name, behind the overrides.

    Flags may stand at any place. An unknown one ends the process.

    Raises:
        UserError: Two flags exclude each other.

    >>> joined_flags(["-c", "job", "seed=1", "--resolve", "model=mlb"])
    ['seed=1', 'model=mlb', '--cfg=job', '--resolve']
    """
    parser = get_args_parser()
    # The value of --info may be left out; an override behind it is not the value.
    given = [
        "--info=all" if item in ("--info", "-i") and ("=" in after or after[:1] in "-+~") else item
        for item, after in zip(arguments, [*arguments, ""][1:], strict=True)
    ]
    found = vars(parser.parse_intermixed_args(given))
    actions = {action.dest: action for action in parser._actions if action.option_strings}
    flags = [
        actions[name].option_strings[0] + ("" if actions[name].nargs == 0 else f"={value}")
        for name, value in found.items()
        if name in actions and value != actions[name].default
    ]
    modes = [*_printing_flags(flags), *({"--run", "--multirun"} & set(flags))]
    if len(modes) > 1 and "--help" not in modes:
        raise UserError(f"{' and '.join(modes)} exclude each other; leave one out")
    return [*(found["overrides"] or []), *flags]


@contextmanager
def ended_by_a_closed_pipe(arguments: Sequence[str]) -> Iterator[None]:
    """Lets `--help | head` end without a message, as other tools do; see `joined_flags`."""
    if not _printing_flags(arguments) or not hasattr(signal, "SIGPIPE"):
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        yield
    finally:
        sys.stdout.flush()
        signal.signal(signal.SIGPIPE, before)


def _printing_flags(arguments: Sequence[str]) -> list[str]:
    """The flags, written as `joined_flags` does, that let Hydra print something and stop."""
    shows = ("--help", "--hydra-help", "--cfg", "--info", "--shell-completion")
    return [item for item in arguments if item.partition("=")[0] in shows]


class LaunchLine(logging.Formatter):
    """Formats the lines of Hydra's launcher: of each job, the overrides that the command lacks.

    conf/run.yaml names this class; `fmt` is Hydra's own format, which is not used.

    >>> record = logging.makeLogRecord({"msg": "\\t#1 : model=mlb seed=2"})
    >>> sys.argv[1:] = ["-m", "model=mlb", "seed=1,2"]
    >>> LaunchLine().format(record)
    'job 1: seed=2'
    """

    def __init__(self, fmt: str | None = None) -> None:
        super().__init__("%(message)s")
        del fmt

    @override
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        number, colon, overrides = text.partition(" : ")
        if not (colon and number.startswith("\t#")):
            return text
        own = [item for item in overrides.split(" ") if item not in sys.argv]
        return f"job {number[2:]}: {' '.join(own) or overrides}"
