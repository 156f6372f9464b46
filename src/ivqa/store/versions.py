"""Which version of the code made a stored result.

A class of this package whose behaviour determines a stored result, such as a network, carries
`version`. Who changes what it computes raises the number; `tests/test_versions.py` says when. So a
module may be moved, and its code be tidied, without training anything again. A component of the
user's own, or of a plug-in, is known by its source instead.
"""

import ast
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ivqa.plug_ins import is_of_plug_in
from ivqa.store.digests import digest

_PACKAGE = __name__.partition(".")[0]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def versioned(number: int) -> Callable[[_Function], _Function]:
    """Gives a function the attribute `version`, as classes have one."""

    def give(function: _Function) -> _Function:
        vars(function)["version"] = number
        return function

    return give


def code_version(roots: Iterable[Any]) -> dict[str, int | str]:
    """The versions of the code that objects depend on.

    Args:
        roots: Classes, functions, methods of classes or partials, in any order. Objects of
            installed libraries add nothing.

    Returns:
        For classes of this package, and those that they inherit from, their `version` by name; for
        modules of the user's own, and those of the same folder that they import, a digest of their
        code without comments and docstrings. Sorted by name.

    Example:
        >>> class Cut:
        ...     version = 2
        >>> Cut.__module__ = "ivqa.cut"
        >>> code_version([Cut, len])
        {'Cut': 2}
    """
    found: dict[str, int | str] = {}
    for root in roots:
        for one in _classes(root):
            if _is_ours(one.__module__):
                if isinstance(number := vars(one).get("version"), int):
                    found[one.__qualname__] = number
            else:
                _add_sources(one.__module__, found)
    return dict(sorted(found.items()))


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE


def _classes(root: Any) -> Iterator[Any]:
    """The class of an object and its bases; a function by itself, a method by its class."""
    while isinstance(root, partial):
        for value in root.keywords.values():
            yield from _classes(value)
        root = root.func
    owner = getattr(root, "__self__", None)  # of a class method
    root = owner if inspect.ismethod(root) and isinstance(owner, type) else root
    if isinstance(root, type):
        yield from root.__mro__
    elif inspect.isroutine(root) and getattr(root, "__module__", None):
        yield root


def _add_sources(module: str, found: dict[str, int | str]) -> None:
    """Adds a module of the user's own, and all that it imports, to `found`."""
    open_names = [module]
    while open_names:
        name = open_names.pop()
        if name in found or (file := _file_of(name)) is None:
            continue
        tree = ast.parse(file.read_bytes())
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        found[name] = digest(_code(tree))
        for base, passed_on in _imports(tree, package):
            if _is_ours(base):
                given = getattr(sys.modules.get(base), passed_on, None)
                if isinstance(given, type):
                    found.update(code_version([given]))
            else:
                open_names += [base, f"{base}.{passed_on}"]


def _imports(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """The imports of a module as pairs (module, name); the name is empty for `import module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = importlib.util.resolve_name("." * node.level + base, package)
            yield from ((base, alias.name) for alias in node.names)


@cache
def _file_of(module: str) -> Path | None:
    """The source file of a module of the user's own; None for libraries and for no module."""
    if not module or module.endswith("."):
        return None
    loaded = sys.modules.get(module)
    if isinstance(loaded, ModuleType):
        origin = getattr(loaded, "__file__", None)
    else:
        top = module.partition(".")[0]
        if top != module and _file_of(top) is None:
            return None  # a library: looking up its submodules would import it
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, AttributeError, ValueError):
            return None
        origin = spec.origin if spec else None
    if not origin or not origin.endswith(".py"):
        return None
    file = Path(origin)
    folder = file.parents[module.count(".") + (file.name == "__init__.py")]
    return None if _holds_libraries(folder) and not is_of_plug_in(module) else file


@cache
def _holds_libraries(folder: Path) -> bool:
    """Whether installers put modules into a folder: Python's own, or beside their metadata.

    `pip install` writes a dist-info for each library, also with --user and --target.
    """
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    own = any(folder.is_relative_to(place) for place in places)
    return own or any(folder.glob("*.dist-info"))


def _code(tree: ast.AST) -> str:
    """The code of a module without comments, docstrings and formatting."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [  # type: ignore[attr-defined]
                line
                for line in body
                if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
            ]
    return ast.unparse(tree)
