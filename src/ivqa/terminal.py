"""The terminal of the commands."""

from rich.console import Console


def terminal(*, stderr: bool = False) -> Console:
    """A console that prints texts as they are.

    By default Rich reads "[photos]" in a path as markup, and ":car:" as the name of an emoji.

    Args:
        stderr: Prints to the standard error.
    """
    return Console(markup=False, emoji=False, stderr=stderr)
