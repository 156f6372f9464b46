"""The commands and files that README.md and the guides quote.

Commands are lines of fenced blocks, of indented blocks, and inline code. Words in capitals such as
DIR stand for what a user has, "..." for a part that is left out. A block of Python or YAML whose
first line is a comment with a file name is a file of the page: its commands may use it.
"""

import itertools
import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PAGES = [
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((PROJECT / "docs").glob("*.md")),
]
TASKS = ("train", "evaluate", "diagnose")
PROGRAMS = ("python", "ivqa", "make", "wandb", "pip")


@dataclass(frozen=True)
class Command:
    """A command of a page.

    Attributes:
        page: The file.
        line: The number of its first line.
        text: The command without line breaks.
        inline: Whether it stands in a sentence.
    """

    page: Path
    line: int
    text: str
    inline: bool = False

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}: {self.text}"

    @property
    def words(self) -> list[str]:
        """Its words without comments and settings of environment variables."""
        return shlex.split(self.text, comments=True)[len(self.environment) :]

    @property
    def environment(self) -> dict[str, str]:
        """The settings of environment variables before its words."""
        words = shlex.split(self.text, comments=True)
        settings = itertools.takewhile(re.compile(r"[A-Z_]+=").match, words)
        return dict(setting.split("=", 1) for setting in settings)

    @property
    def task(self) -> str | None:
        """train, evaluate or diagnose; None for another program."""
        found = re.fullmatch(r"python (\w+)\.py|ivqa (\w+)", " ".join(self.words[:2]))
        name = (found[1] or found[2]) if found else None
        return name if name in TASKS else None

    @property
    def arguments(self) -> list[str]:
        """The arguments of train.py, evaluate.py or diagnose.py."""
        return self.words[2:]


@dataclass(frozen=True)
class Block:
    """A block of a page: its language ("" for none, "indented"), first line number, and text."""

    language: str
    line: int
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The fenced and indented blocks of a page."""
    lines = page.read_text().split("\n")
    start: int | None = None
    for number, line in enumerate(lines):
        if line.startswith("```"):
            if start is None:
                start = number
            else:
                text = "\n".join(lines[start + 1 : number])
                yield Block(lines[start][3:].strip(), start + 2, text)
                start = None
        elif start is None and line.startswith("    ") and not lines[number - 1].startswith("    "):
            text = "\n".join(lines[number : _end_of_indented(lines, number)])
            yield Block("indented", number + 1, textwrap.dedent(text))


def commands(page: Path) -> list[Command]:
    """All commands of a page, in its order."""
    found = []
    for block in blocks(page):
        if block.language in ("", "bash", "console", "indented"):
            found += _commands_of(page, block)
    return sorted([*found, *_inline_commands(page)], key=lambda command: command.line)


def files(page: Path) -> dict[str, str]:
    """The files of a page by name."""
    named = {}
    for block in blocks(page):
        first = re.match(r"# ([\w./-]+\.(?:py|yaml))\n", block.text)
        if block.language in ("python", "yaml") and first:
            named[first[1]] = block.text + "\n"
    return named


def _commands_of(page: Path, block: Block) -> Iterator[Command]:
    """The commands of a block; none if its first line is not one, as in printed output."""
    lines = block.text.split("\n")
    joined: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        if joined and joined[-1][1].endswith("\\"):
            joined[-1] = (joined[-1][0], joined[-1][1][:-1].rstrip() + " " + line.strip())
        else:
            joined.append((block.line + number, line.strip().removeprefix("$ ")))
    kept = [(line, text) for line, text in joined if text and not text.startswith("#")]
    if kept and _is_command(kept[0][1]):
        for line, text in kept:
            yield Command(page, line, text)


def _inline_commands(page: Path) -> Iterator[Command]:
    text = page.read_text()
    blank = re.sub(
        r"^```.*?^```", lambda block: re.sub(r"[^\n]", " ", block[0]), text, flags=re.S | re.M
    )
    for found in re.finditer(r"(?<!`)`([^`]+)`(?!`)", blank):
        code = " ".join(found[1].split())
        if _is_command(code) and len(code.split()) > 1:
            yield Command(page, blank[: found.start()].count("\n") + 1, code, inline=True)


def _is_command(text: str) -> bool:
    words = [word for word in text.split() if not re.fullmatch(r"[A-Z_]+=\S*", word)]
    return bool(words) and words[0] in PROGRAMS


def _end_of_indented(lines: Sequence[str], start: int) -> int:
    end = start
    while end < len(lines) and (lines[end].startswith("    ")):
        end += 1
    return end


@cache
def all_commands() -> list[Command]:
    """The commands of all pages."""
    return [command for page in PAGES for command in commands(page)]
