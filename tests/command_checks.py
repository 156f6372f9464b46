"""Quick checks of the commands and blocks of the guides, without running them."""

import ast
import importlib
import importlib.util
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from omegaconf import DictConfig
from tools.jobs import composed, overrides_of, values_of

from documented_commands import PROJECT, Block, Command
from ivqa.config.checks import check_config
from ivqa.config.choices import choices_of, config_folders
from ivqa.config.error_messages import describe, is_user_error
from ivqa.config.nodes import missing_keys, nodes
from ivqa.config.short_forms import key_of
from ivqa.errors import UserError

CONF = PROJECT / "conf"
# What a reader has or gets: files, folders, WordNet. Everything else must be right on the page.
_READERS = re.compile(
    r"there (is|are) no (such (file|folder|checkpoint)|skip-thoughts)|"
    r"is not a file|WUPS needs WordNet|environment variable \w+ is not set"
)
# Words that stand for a value of a certain form.
_STAND_INS = {"URL": "http://localhost:8000/v1"}


def problem(command: Command) -> str | None:
    """What is wrong with a command, without running it; None if nothing is.

    The files of its page must be in the current folder, and importable.
    """
    if command.task:
        return _configuration_problem(command.task, command.arguments)
    program, *arguments = command.words
    if program == "python" and arguments[:1] == ["-m"]:
        return _module_problem(arguments[1:])
    if program == "make":
        return _make_problem(arguments)
    if program == "pip":
        return _pip_problem(arguments)
    absent = [word for word in arguments if "/" in word and "..." not in word]
    absent = [word for word in absent if not (PROJECT / word).exists() and word.islower()]
    return f"{absent[0]} does not exist" if absent else None


def python_problem(block: Block) -> str | None:
    """What is wrong with a block of Python: its syntax, or a name that ivqa does not have."""
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "ivqa":
                    importlib.import_module(alias.name)
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "ivqa":
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if not hasattr(module, alias.name):
                    return f"{node.module} has no {alias.name}"
    return None


def yaml_problem(block: Block) -> str | None:
    """What is wrong with a block of YAML."""
    try:
        yaml.safe_load(block.text)
    except yaml.YAMLError as error:
        return " ".join(str(error).split())
    return None


def _configuration_problem(task: str, arguments: Sequence[str]) -> str | None:
    """Composes and checks what a command runs."""
    # A run to resume is not here, and a part that the page leaves out has no form.
    given = [item for item in arguments if key_of(item) != "resume" and item != "..."]
    for name, value in _STAND_INS.items():
        given = [re.sub(rf"=(['\"]?){name}\b", rf"=\1{value}", item) for item in given]
    # A choice that the page only names: experiment=NAME.
    given = [item for item in given if not (item.endswith("=NAME") and _is_group(item))]
    if {"-sc", "--help"} & set(given):
        return None
    try:
        cfg = jobs_of(task, given)[0]
    except Exception as error:
        return _described(error, given, task)
    missing = missing_keys(nodes(cfg))
    if missing:
        return None if "..." in arguments else f"{', '.join(missing)} must be set"
    for _ in range(5):  # each round finds the next file that is not here
        try:
            check_config(cfg)
            break
        except Exception as error:
            text = _described(error, given, task)
        # The end of a fault may have a semicolon too: the next one begins with a key.
        faults = re.split(r"; (?=[\w.\[\]]+(?:=|: ))", text.removeprefix("configuration: "))
        if wrong := [fault for fault in faults if not _READERS.search(fault)]:
            return "; ".join(wrong)
        for fault in faults:  # rules between keys are checked where all values are valid
            _make_absent(fault)
    return None


def jobs_of(task: str, given: list[str], *, every: bool = False) -> list[DictConfig]:
    """Composes the jobs of a command; composing fails for choices that do not exist.

    Args:
        task: train, evaluate or diagnose.
        given: The arguments.
        every: Whether to compose jobs of a sweep that show each value once, instead of the first.

    Returns:
        The configurations.
    """
    folders = config_folders(CONF, given)
    overrides = overrides_of(task, given, CONF, swept=every)
    rounds = _every_value(overrides) if every else _first_values(overrides, folders, task)
    return composed(task, list(rounds), CONF, folders[1:])


def _every_value(overrides: Sequence[str]) -> Iterator[list[str]]:
    """Jobs of a sweep: the first has the first value of each override, and so on."""
    values = [values_of(text) for text in overrides]
    for number in range(max(map(len, values), default=1)):
        yield [options[number % len(options)] for options in values]


def _described(error: Exception, given: list[str], task: str) -> str:
    """The sentence that a user would read; any other error is raised."""
    if not is_user_error(error):
        raise error
    return describe(error, given, conf_dir=CONF, config_name=task)


def _make_absent(fault: str) -> None:
    """Makes the file or folder that a fault misses, below the current folder."""
    if absent := re.match(r"\S+?=([^/=]\S*): there is no such (file|folder)", fault):
        path = Path(absent[1])
        (path if absent[2] == "folder" else path.parent).mkdir(parents=True, exist_ok=True)
        if absent[2] == "file":
            path.write_text("word" + " 1" * 300)  # word vectors are read by the checks


def _is_group(override: str) -> bool:
    return (CONF / key_of(override)).is_dir()


def _first_values(
    overrides: Sequence[str], folders: Sequence[Path], task: str
) -> Iterator[list[str]]:
    """The first job of a sweep, and one for each choice of a group that no file has."""
    first, absent = [], []
    for text in overrides:
        values = values_of(text)
        if len(values) > 1 and _is_group((group := key_of(text)).partition("@")[0]):
            known = choices_of(group, folders, task)
            absent += [one for one in values if one.partition("=")[2] not in known]
        first.append(values[0])
    yield first
    yield from ([choice] for choice in absent)


def _module_problem(words: Sequence[str]) -> str | None:
    """python -m MODULE ...: the module must exist, and know the name that follows."""
    module, *arguments = words
    if importlib.util.find_spec(module) is None:
        return f"there is no module {module}"
    names = [word for word in arguments if word.islower() and not word.startswith("-")]
    if module == "benchmarks":
        known = importlib.import_module("benchmarks.__main__")
        names = [name for name in names if name not in (*known.NAMES, *known.LONG)]
        return f"there is no benchmark {names[0]}" if names else None
    if module == "ivqa.data.download":
        parser = importlib.import_module(f"{module}.download").parser()
        try:
            parser.parse_args(list(arguments))
        except (SystemExit, UserError) as error:
            return f"{module} refuses its arguments: {error}"
    return None


def _make_problem(arguments: Sequence[str]) -> str | None:
    makefile = (PROJECT / "Makefile").read_text()
    for word in arguments:
        name, equals, _ = word.partition("=")
        if equals and f"$({name})" not in makefile and f"$({name}," not in makefile:
            if not re.search(rf"\(\w+ \$\({name}\)|\$\(if \$\({name}\)", makefile):
                return f"the Makefile does not read {name}"
        elif not equals and not re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE):
            return f"the Makefile has no target {word}"
    return None


def _pip_problem(arguments: Sequence[str]) -> str | None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    for extra in re.findall(r"ivqa\[(\w+)\]", " ".join(arguments)):
        if extra not in project["optional-dependencies"]:
            return f"there is no extra {extra}"
    return None
