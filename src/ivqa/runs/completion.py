"""Completion of the command line in bash and zsh: groups, choices, keys and their values.

Hydra's own completion neither knows vqa= and reward=, nor scripts without a visible decorator, nor
interpreters such as .venv/bin/python, so its option -sc is answered here for these shells.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra._internal.utils import get_args_parser
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ivqa.runs.config_choices import (
    choices_of,
    composed_choices,
    config_folders,
    groups_of,
)
from ivqa.runs.short_forms import expanded, task_keys

# Readline replaces only the text after the last of COMP_WORDBREAKS, which "=" is by default; the
# function therefore removes from each completion what stands before it.
_BASH = r"""_ivqa_completion() {
  local command=("${COMP_WORDS[0]}") name="${COMP_WORDS[0]##*/}"
  local line="${COMP_LINE:0:COMP_POINT}" last="${COMP_WORDS[0]}"
  COMPREPLY=()
  if [[ "$name" == python* ]]; then
    last="${COMP_WORDS[1]}"
    grep -q ivqa.runs "$last" 2>/dev/null || return
    command+=("$last")
  fi
  line="${line#*"$last"}"
  [[ "$line" == " "* ]] || return
  local word="${line##* }" current="${COMP_WORDS[COMP_CWORD]}"
  [[ "$current" == "=" ]] && current=""
  local before="${word%"$current"}" found
  found="$(COMP_LINE="$line" "${command[@]}" -sc query=bash 2>/dev/null)" || return
  while IFS= read -r word; do
    [[ -n "$word" ]] && COMPREPLY+=("${word#"$before"}")
  done <<< "$found"
}
complete -o nospace -o default -F _ivqa_completion python python3 ivqa-train ivqa-evaluate \
  ivqa-diagnose"""
# Without a completion of ours, zsh completes files: behind "=" those that a key names.
_ZSH = r"""_ivqa_completion() {
  local -a command=("${words[1]}") found
  local skip=1
  if [[ "${words[1]:t}" == python* ]]; then
    grep -q ivqa.runs "${words[2]}" 2>/dev/null || { _default; return }
    command+=("${words[2]}")
    skip=2
  fi
  (( CURRENT > skip )) || { _default; return }
  local line=" ${(j: :)words[skip+1,CURRENT-1]} $PREFIX"
  found=("${(@f)$(COMP_LINE="$line" "${command[@]}" -sc query=zsh 2>/dev/null)}")
  found=("${(@)found:#}")
  (( $#found )) && compadd -Q -S "" -a found && return
  compset -P "*="
  _files
}
compdef _ivqa_completion python python3 ivqa-train ivqa-evaluate ivqa-diagnose"""
_COMMANDS = {
    "install=bash": _BASH,
    "uninstall=bash": """complete -r python python3 ivqa-train ivqa-evaluate ivqa-diagnose
unset -f _ivqa_completion""",
    "install=zsh": _ZSH,
    "uninstall=zsh": """compdef -d python python3 ivqa-train ivqa-evaluate ivqa-diagnose
unfunction _ivqa_completion""",
}


def answered(arguments: Sequence[str], conf_dir: Path, config_name: str) -> bool:
    """Prints what `-sc install=SHELL`, `uninstall=SHELL` or `query=SHELL` asks for.

    Args:
        arguments: Arguments of the command line.
        conf_dir: The folder of configuration files.
        config_name: The command's own file there, without its ending.

    Returns:
        Whether the arguments ask for one of these and SHELL is bash or zsh. Other shells are left
        to Hydra.
    """
    if not {"-sc", "--shell-completion"} & set(arguments):
        return False
    asked = set(arguments) & {"query=bash", "query=zsh", *_COMMANDS}
    if not asked:
        return False
    [what] = asked
    if what in _COMMANDS:
        print(_COMMANDS[what])
    else:
        *words, word = os.environ["COMP_LINE"].split(" ")
        print(*completions(word, list(filter(None, words)), conf_dir, config_name), sep="\n")
    return True


def completions(
    word: str, before: Sequence[str], conf_dir: Path, config_name: str
) -> Iterator[str]:
    """Completes a word of the command line.

    Args:
        word: The beginning of an argument; of "model=mlb,mu" the last choice is completed.
        before: The arguments before it; those that choose files decide which keys exist.
        conf_dir: The folder of configuration files.
        config_name: The command's own file there, without its ending.

    Yields:
        Whole arguments that begin with `word`, sorted. An argument that a value or another key
        continues ends with "=" or ".".
    """
    folders = config_folders(conf_dir, before)
    groups = groups_of(conf_dir, config_name)
    sign = word[: len(word) - len(word.lstrip("+~"))]
    key, equals, value = word.removeprefix(sign).partition("=")
    if word.startswith("-"):
        flags = (flag for action in get_args_parser()._actions for flag in action.option_strings)
        yield from sorted(flag for flag in flags if flag.startswith(word))
    elif equals and (key in groups or "@" in key):
        done, comma, begun = value.rpartition(",")
        for name in choices_of(key, folders, config_name):
            if name.startswith(begun):
                yield f"{sign}{key}={done}{comma}{name}"
    else:
        written = expanded(before, conf_dir, config_name)
        cfg = composed_choices(written, folders, config_name)
        if equals:
            found = [f"{key}={text}" for text in _values(cfg, key)]
        else:
            found = [f"{group}=" for group in groups]
            found += [f"{name}=" for name in task_keys(conf_dir, config_name)]
            found += _keys(cfg, key.rpartition(".")[0])
        names = sorted({f"{sign}{name}" for name in found})
        yield from (name for name in names if name.startswith(word))


def _keys(cfg: DictConfig, path: str) -> Iterator[str]:
    """The keys of the node at a dotted path, with what continues each."""
    node: Any = OmegaConf.select(cfg, path) if path else cfg
    if isinstance(node, DictConfig):
        for key, value in node.items_ex(resolve=False):
            name = f"{path}.{key!s}" if path else str(key)
            yield f"{name}{'.' if isinstance(value, DictConfig) else '='}"


def _values(cfg: DictConfig, key: str) -> list[str]:
    """The present value of a key; both values of a switch; none of a key that must be set."""
    try:
        value: Any = OmegaConf.select(cfg, key)
    except OmegaConfBaseException:  # it refers to a key that must be set
        return []
    if isinstance(value, bool):
        return ["false", "true"]
    return [] if value is None or OmegaConf.is_config(value) else [str(value)]
