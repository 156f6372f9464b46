"""Arguments of the callables that a configuration names in `_target_`, and their annotations."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any, get_type_hints

from ivqa.ranges import Mark, marks_of
from ivqa.store.torch_arguments import LIBRARY_ARGUMENTS

_ANYTHING = inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)


def defaults_of(target: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of the arguments of a class or function that have one."""
    return {
        name: parameter.default
        for name, (parameter, _) in arguments_of(target).items()
        if parameter.default is not parameter.empty
    }


def arguments_of(target: Callable[..., Any]) -> dict[str, tuple[inspect.Parameter, Any]]:
    """The arguments that `target` accepts by name, with their parameters and annotations.

    A parameter `**options` stands for the arguments of the next constructor: of the class itself
    if `target` is its class method, of the base class if `target` is a class.

    The key "**" is present if the last constructor has a parameter `**options` too, or if the
    signature is unknown; then any name is valid.
    """
    chain: list[Any] = [target]
    owner = getattr(target, "__self__", None)
    if isinstance(target, type):
        chain = _constructors(target)
    elif isinstance(owner, type):
        chain += _constructors(owner)
    found: dict[str, tuple[inspect.Parameter, Any]] = {}
    for step in chain or [target]:
        try:
            parameters = dict(inspect.signature(step).parameters)
        except ValueError:  # some builtins have no signature
            return {**found, "**": (_ANYTHING, Any)}
        hints = _hints(step)
        has_options = False
        for name, parameter in parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                has_options = True
            elif parameter.kind is not parameter.VAR_POSITIONAL:
                found.setdefault(name, (parameter, hints.get(name, Any)))
        if not has_options:
            return found
    return {**found, "**": (_ANYTHING, Any)}


def marked(target: Callable[..., Any], mark: Mark) -> frozenset[str]:
    """The arguments of a class, function or class method whose annotation has a mark."""
    return frozenset(
        name for name, (_, hint) in arguments_of(target).items() if mark in marks_of(hint)
    )


def _constructors(cls: type) -> list[type]:
    """`cls` and its base classes, those with a constructor of their own, in method order."""
    return [base for base in cls.__mro__ if "__init__" in vars(base) and base is not object]


def _hints(step: Any) -> dict[str, Any]:
    """Annotations by argument; for classes of other libraries the stricter ones listed here."""
    function = getattr(step, "__init__" if isinstance(step, type) else "__func__", step)
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception:  # an annotation uses names that are imported for type checkers alone
        hints = _resolvable(function)
    for base in reversed(step.__mro__ if isinstance(step, type) else [step]):
        hints |= LIBRARY_ARGUMENTS.get(base, {})
    return hints


def _resolvable(function: Any) -> dict[str, Any]:
    """The annotations of a function that can be evaluated, one by one."""
    hints = {}
    for name, hint in getattr(function, "__annotations__", {}).items():
        with suppress(Exception):
            is_text = isinstance(hint, str)
            hints[name] = eval(hint, function.__globals__) if is_text else hint
    return hints
