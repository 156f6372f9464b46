"""The choices of each group as --help shows them."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from ivqa.config.choices import choices_of, groups_of

# Groups that people need most come first; the others follow in the order of the command's file.
_FIRST = ("model", "vqa", "reward", "data", "features", "task", "experiment", "callbacks")
_INDENT = 19
_WIDTH = 80


def choices_page(conf_dir: Path, config_name: str, folders: Sequence[Path]) -> str:
    """Lists the choices of every group that has more than one, and the sweeps, on 80 columns."""
    groups = groups_of(conf_dir, config_name)
    ordered = [group for group in _FIRST if group in groups]
    ordered += [group for group in groups if group not in ordered]
    lines: list[str] = []
    for group in ordered:
        choices = choices_of(group, folders, config_name)
        if group == "model":
            # VQA models are choices of model= too, but are listed once.
            answering = choices_of("vqa", folders, config_name)
            choices = [*(name for name in choices if name not in answering), "and those of vqa="]
        # A sweep may be left out, so even a single one is a choice.
        if len(choices) > 1 or group == "sweep":
            lines += textwrap.wrap(
                ", ".join(choices),
                _WIDTH,
                initial_indent=f"  {group}=".ljust(_INDENT),
                subsequent_indent=" " * _INDENT,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)
