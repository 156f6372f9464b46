"""Argument types that say all about a setting: `size: Count = 512`, `cache: Cache`.

Constructors that take values from conf/, and the keys of a task, are annotated with these types.
Every command validates its configuration against the annotations before it starts
(`ivqa.config.values`), and the marks in them say what else holds for a setting (`Mark`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args

from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MultipleOf
from pydantic import AfterValidator


class Mark(Enum):
    """What holds for a setting beside its range; it stands in `Annotated`."""

    NO_EFFECT = "changes no result: where it is stored or computed, and how it is measured"
    CONTENT = "a file or folder: its content changes the result, its name does not"
    CHANGEABLE = "may be changed when a run is resumed"


NO_EFFECT, CONTENT, CHANGEABLE = Mark.NO_EFFECT, Mark.CONTENT, Mark.CHANGEABLE


def marks_of(annotation: Any) -> frozenset[Mark]:
    """The marks in an annotation, also in the members of a union.

    >>> sorted(mark.name for mark in marks_of(Annotated[int, NO_EFFECT] | None))
    ['NO_EFFECT']
    """
    if isinstance(annotation, Mark):
        return frozenset({annotation})
    return frozenset().union(*map(marks_of, get_args(annotation)))


# Above every sensible size: a mistyped larger number would overflow or exhaust the memory.
LARGEST = 10**9

Count = Annotated[int, Interval(ge=1, le=LARGEST)]
EvenCount = Annotated[int, Interval(ge=2, le=LARGEST), MultipleOf(2)]
CountOrZero = Annotated[int, Interval(ge=0, le=LARGEST)]
Seed = Annotated[int, Interval(ge=0, le=2**32 - 1)]  # range of NumPy's seeds
Positive = Annotated[float, Ge(1e-12), Le(LARGEST)]  # x / 1e-300 overflows
NonNegative = Annotated[float, Ge(0), Le(LARGEST)]
Share = Annotated[float, Ge(0), Le(1)]
PositiveShare = Annotated[float, Gt(0), Le(1)]
ShareBelowOne = Annotated[float, Ge(0), Lt(1)]  # dropout probabilities, decay rates
OpenShare = Annotated[float, Gt(0), Lt(1)]
LearningRate = Annotated[float, Gt(0), Le(10)]
AtLeastOne = Len(1)  # minimum length of a sequence
Counts = Annotated[Sequence[Count], AtLeastOne]
Temperatures = Annotated[Sequence[Positive], AtLeastOne]
ImageSize = Annotated[int, Interval(ge=32, le=10_000)]  # pixels; networks halve it up to 5 times
ImagesOfSplit = Annotated[
    int, Interval(ge=1, le=999_999)
]  # scenes number their images in blocks of 10**6


def existing_file(path: str) -> str:
    """Validates the path of a regular file that is not empty.

    Raises:
        ValueError: Says what is there instead.
    """
    if not Path(_existing(path, Path.is_file, "file")).expanduser().stat().st_size:
        raise ValueError("this file is empty; restore it")
    return path


def _existing_folder(path: str) -> str:
    return _existing(path, Path.is_dir, "folder")


def _existing(path: str, is_right: Callable[[Path], bool], kind: str) -> str:
    place = Path(path).expanduser()
    try:
        if is_right(place):
            return path
        is_link, exists = place.is_symlink(), place.exists()
    except (OSError, RuntimeError) as error:  # no permission, a name that is too long, a loop
        raise ValueError(f"cannot be read ({getattr(error, 'strerror', error)})") from None
    if is_link and not exists:
        raise ValueError(f"this is a link to a {kind} that does not exist")
    if not exists:
        raise ValueError(f"there is no such {kind}")
    found = next((name for name, test in _KINDS.items() if test(place)), "a device")
    raise ValueError(f"this is {found}, and a {kind} is needed")


_KINDS: dict[str, Callable[[Path], bool]] = {
    "a folder": Path.is_dir,
    "a file": Path.is_file,
    "a pipe": Path.is_fifo,
}


ExistingFile = Annotated[str, AfterValidator(existing_file), CONTENT]
ExistingFolder = Annotated[str, AfterValidator(_existing_folder), CONTENT]
Place = Annotated[str, AtLeastOne]  # a path that need not exist, or a pattern of paths
Weights = Annotated[str, CONTENT]  # a file, a folder, or the name of weights that are downloaded
Cache = Annotated[str, NO_EFFECT]  # a folder of results that can be computed again


def _checkpoint(ckpt: str) -> str:
    """Validates ckpt=: a file, or "auto" for the artifact store, which trains an absent model."""
    try:
        return ckpt if ckpt == "auto" else existing_file(ckpt)
    except ValueError as error:
        reason = str(error).replace("no such file", "no such checkpoint")
        raise ValueError(f"{reason}; pass a file, or auto, which trains one") from None


# An identity has the digest of the weights, wherever they come from.
Checkpoint = Annotated[str, AfterValidator(_checkpoint), NO_EFFECT]
NonEmptyText = Annotated[str, AtLeastOne]
FreeText = NonEmptyText  # a sentence, which the command line quotes for Hydra
Resamples = Annotated[int, Interval(ge=100, le=LARGEST)]  # fewer give no interval of 95 percent
Component = Mapping[str, Any]
NeutralComponent = Annotated[Component, NO_EFFECT]


def one_of(names: Callable[[], Iterable[str]], what: str) -> AfterValidator:
    """A pydantic validator for a text that must be one of several names.

    Args:
        names: Returns the allowed names; called at validation, since they may depend on what is
            installed.
        what: Describes the names in the error message, such as "an architecture".
    """

    def known(name: str) -> str:
        if name not in (found := sorted(names())):
            raise ValueError(f"must be {what}: {', '.join(found)}")
        return name

    return AfterValidator(known)
