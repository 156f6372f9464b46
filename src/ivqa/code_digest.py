"""A digest of the code that defines a network and its training, independent of formatting.

The digest covers the module of each given object and, recursively, every module that it imports
from this package or from the user's own folder. It leaves out everything that cannot change a
weight: comments, docstrings, annotations, the order of imports, the arguments of `raise`, the
modules of `NEUTRAL`, and installed libraries.
"""

import ast
import importlib.util
import inspect
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from ivqa.files import digest

# Modules that read, check, find, measure or display. The fingerprint of the data covers what they
# read; the configuration covers what `runs` and `tasks` decide.
NEUTRAL = (
    "ivqa.arrays",
    "ivqa.code_digest",
    "ivqa.data.dataset",
    "ivqa.data.download",
    "ivqa.data.file_patterns",
    "ivqa.data.json_files",
    "ivqa.data.official_archives",
    "ivqa.data.records",
    "ivqa.data.validation",
    "ivqa.errors",
    "ivqa.features.progress",
    "ivqa.features.store",
    "ivqa.files",
    "ivqa.identity",
    "ivqa.integrity",
    "ivqa.provenance",
    "ivqa.released",
    "ivqa.report",
    "ivqa.runs",
    "ivqa.scenes",
    "ivqa.tasks",
    "ivqa.weights",
)

_PACKAGE = __name__.partition(".")[0]
_IGNORED_FIELDS = {"annotation", "returns", "ctx", "kind", "type_comment", "type_ignores"}


class _Source(NamedTuple):
    """The digest of a file's code, and its imports as pairs (module, name).

    `import module` gives the pair (module, "").
    """

    digest: str
    imports: tuple[tuple[str, str], ...]


def code_digest(roots: Iterable[Any]) -> str:
    """Computes the digest of the code that `roots` depend on.

    The files are read from disk at the time of the call.

    Args:
        roots: Classes, functions, partials or names of modules, in any order. Objects that belong
            to installed libraries, or have no source file, add nothing.

    Returns:
        16 hexadecimal digits.

    Example:
        >>> code_digest([]) == code_digest([len])  # built-in functions do not count
        True
    """
    # Depth-first search over the import graph; `found` maps each visited module to its digest.
    open_names = [name for root in roots for name in _modules_of(root)]
    found: dict[str, str] = {}
    while open_names:
        name = open_names.pop()
        if name in found or _is_neutral(name) or (file := _file_of(name)) is None:
            continue
        source = _source(file, file.stat().st_mtime_ns, name)
        imports = [_defining(*item) for item in source.imports]
        own = sorted(module for module in set(imports) if _file_of(module) is not None)
        found[name] = source.digest
        open_names += own
    return digest(found)


def _modules_of(root: Any) -> Iterator[str]:
    while isinstance(root, partial):
        yield from (name for value in root.keywords.values() for name in _modules_of(value))
        root = root.func
    if isinstance(root, str):
        yield root
    elif isinstance(module := inspect.getmodule(root), type(ast)):
        yield module.__name__


def _is_neutral(name: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in NEUTRAL)


@cache
def _source(file: Path, modified_ns: int, module: str) -> _Source:
    tree = ast.parse(file.read_bytes())
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    imports = tuple(dict.fromkeys(_imports(tree, package)))
    # The origin of each imported name is part of the code; the order of imports is not.
    kept = sorted(
        f"{origin}:{name}" for origin, name in imports if not _is_neutral(_defining(origin, name))
    )
    return _Source(digest([kept, _written(tree)]), imports)


def _imports(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, *([base] if base else [])])
            yield from ((base, alias.name) for alias in node.names)


def _defining(module: str, name: str) -> str:
    """The module that defines `name`; where `module` is a package, it may re-export the name."""
    if not name or (file := _file_of(module)) is None:
        return module
    if file.name == "__init__.py":
        if _file_of(f"{module}.{name}") is not None:
            return f"{module}.{name}"
        for node in ast.parse(file.read_bytes()).body:
            if isinstance(node, ast.ImportFrom):
                for origin, passed_on in _imports(ast.Module([node], []), module):
                    bound = next(a.asname or a.name for a in node.names if a.name == passed_on)
                    if bound == name and origin != module:
                        return _defining(origin, passed_on)
    return module


@cache
def _file_of(module: str) -> Path | None:
    """The source file of a module of this package or of the user; None for installed libraries."""
    top, _, inner = module.partition(".")
    if top == _PACKAGE:  # found by path: importlib would import the parent packages
        place = Path(__file__).parent.joinpath(*inner.split("."))
        files = (place.with_name(f"{place.name}.py"), place / "__init__.py")
        return next((file for file in files if file.is_file()), None)
    try:
        if inner and _file_of(top) is None:
            return None  # a library: looking up its submodules would import it
        spec = importlib.util.find_spec(module)
    except (ImportError, AttributeError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    file = Path(spec.origin)
    folder = file.parent.parent if spec.submodule_search_locations else file.parent
    return None if _holds_libraries(folder) else file


@cache
def _holds_libraries(folder: Path) -> bool:
    """Whether installers put modules into a folder: Python's own, or beside their metadata.

    `pip install` writes a dist-info for each library, also with --user and --target.
    """
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    own = any(folder.is_relative_to(place) for place in places)
    return own or any(folder.glob("*.dist-info"))


def _written(node: Any) -> str:
    """The code of a syntax tree node as text, identical on all supported Python versions."""
    if isinstance(node, list):
        return "[" + ",".join(_written(item) for item in node if not _is_silent(item)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [
        f"{name}={_written(value)}"
        for name, value in ast.iter_fields(node)
        if name not in _IGNORED_FIELDS and value is not None and value != []
    ]
    # Error messages may be reworded without a new digest.
    shown = [] if isinstance(node, ast.Raise) else fields
    return f"{type(node).__name__}({','.join(shown)})"


def _is_silent(node: Any) -> bool:
    """Whether a statement is left out: a docstring, or an import (covered by `_Source.imports`)."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
