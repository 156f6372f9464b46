"""The terminal of the commands."""

from rich.console import Console


def terminal(*, stderr: bool = False) -> Console:
    """A console that prints texts as they are, on the standard output or error.

    By default Rich reads "[photos]" in a path as markup, and ":car:" as the name of an emoji.
    """
    return Console(markup=False, emoji=False, stderr=stderr)
