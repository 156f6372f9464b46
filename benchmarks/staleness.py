"""Whether the code that a section of RESULTS.md measured is today's."""

import re
from pathlib import Path

from ivqa.code_digest import code_digest
from ivqa.provenance import commit_of

_RECORD = re.compile(r"<!-- commit (\S+), code (\S+) -->")
_NOTE = re.compile(r"\*\*Older code\.\*\* [^\n]*\n\n")


def record(name: str) -> str:
    """A comment with the commit and a digest of the code that the benchmark `name` measures.

    The code is the benchmark's module and all of this repository that it imports.
    """
    code = code_digest([f"benchmarks.{name}"])
    return f"<!-- commit {commit_of(Path(__file__).parent)}, code {code} -->"


def noted(section: str, name: str) -> str:
    """A section of RESULTS.md with a note where its code is not today's, without it elsewhere.

    Args:
        section: Markdown that begins with its title and an empty line.
        name: of the benchmark.
    """
    section, found = _NOTE.sub("", section), _RECORD.search(section)
    if found and found[2] == code_digest([f"benchmarks.{name}"]):
        return section
    if found:
        note = f"Measured at commit {found[1]}; the code of {name} has changed since."
    else:
        note = "The commit was not recorded; the code may have changed since."
    title, rest = section.split("\n\n", 1)
    return f"{title}\n\n**Older code.** {note}\n\n{rest}"
