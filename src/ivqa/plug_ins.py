"""Plug-ins: installed packages that bring components and their configuration files.

A plug-in names its package in an entry point of the group `ivqa.plugins`. The commands search its
folder conf/ after their own. The user installed it, so its files count as the user's own.
"""

from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from ivqa.errors import UserError


@cache
def plug_ins() -> dict[str, Path]:
    """Finds the folders of configuration files of installed plug-ins, without importing them.

    They come by the name of the package, in alphabetic order.

    Raises:
        UserError: An entry point names no package, or one without a folder conf/.
    """
    found: dict[str, Path] = {}
    for entry in entry_points(group="ivqa.plugins"):
        package = entry.value.partition(":")[0].strip()
        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            spec = None
        places = [*(spec.submodule_search_locations or ())] if spec else []
        folder = next((one for place in places if (one := Path(place, "conf")).is_dir()), None)
        if folder is None:
            lack = "has no folder conf/" if places else "is not there"
            brought = f" of {entry.dist.name}" if entry.dist else ""
            raise UserError(
                f"the plug-in {entry.name}{brought} names the package '{package}', which {lack}; "
                "install a version that has it, or uninstall the plug-in"
            )
        found[package] = folder
    return dict(sorted(found.items()))


def is_of_plug_in(module: str) -> bool:
    """Whether a module, by its dotted name, belongs to a plug-in."""
    return module.partition(".")[0] in {package.partition(".")[0] for package in plug_ins()}


def is_installed(name: str) -> bool:
    """Whether the package or module that a dotted name starts with can be found; imports nothing.

    >>> is_installed("os.system"), is_installed("no_such_package.Model")
    (True, False)
    """
    try:
        return find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False
