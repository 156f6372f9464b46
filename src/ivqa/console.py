"""The command `ivqa`: `ivqa train model=mlb`, and the same for evaluate, diagnose, doctor, view."""

import os
import signal
import sys

from ivqa.command_line import entry_point
from ivqa.config.choices import conf_dir

COMMANDS = ("train", "evaluate", "diagnose")
_COMMAND = "IVQA_COMMAND"  # of the processes that Lightning starts with the same arguments


def main() -> None:
    """Runs the command that the first argument names, as the file of its name does."""
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "doctor":
        from ivqa.tasks.doctor import main as doctor

        if hasattr(signal, "SIGPIPE"):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # doctor | head ends without a message
        sys.exit(doctor(sys.argv[1:]))
    if command == "view":
        from ivqa.view.serve import main as view

        sys.exit(view(sys.argv[2:]))
    if command in COMMANDS:
        os.environ[_COMMAND] = sys.argv.pop(1)
    elif (command := os.environ.get(_COMMAND, "")) not in COMMANDS:
        sys.exit(
            "usage: ivqa train|evaluate|diagnose [KEY=VALUE ...], ivqa doctor [DATA_ROOT], "
            "or ivqa view [FOLDER]"
        )
    entry_point(conf_dir(), command)
