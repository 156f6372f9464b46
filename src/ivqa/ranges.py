"""Ranges of arguments, written beside their types: `size: Count = 512`.

A constructor that takes a value from conf/ is annotated with these; every command checks the
configuration against them before it starts (`ivqa.runs.config_values`).
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MultipleOf
from pydantic import AfterValidator

# Far more than any size here; a typing error above it would overflow or fill the memory.
LARGEST = 10**9

Count = Annotated[int, Interval(ge=1, le=LARGEST)]
EvenCount = Annotated[int, Interval(ge=2, le=LARGEST), MultipleOf(2)]
CountOrZero = Annotated[int, Interval(ge=0, le=LARGEST)]
Seed = Annotated[int, Interval(ge=0, le=2**32 - 1)]  # what NumPy's seeds may be
Positive = Annotated[float, Gt(0)]
NonNegative = Annotated[float, Ge(0)]
Share = Annotated[float, Ge(0), Le(1)]
PositiveShare = Annotated[float, Gt(0), Le(1)]
ShareBelowOne = Annotated[float, Ge(0), Lt(1)]  # probabilities of dropout, decays
OpenShare = Annotated[float, Gt(0), Lt(1)]
LearningRate = Annotated[float, Gt(0), Le(10)]
AtLeastOne = Len(1)  # of a sequence
Counts = Annotated[Sequence[Count], AtLeastOne]
Temperatures = Annotated[Sequence[Positive], AtLeastOne]
ImageSize = Annotated[int, Interval(ge=32, le=10_000)]  # pixels; halved up to 5 times
ImagesOfSplit = Annotated[int, Interval(ge=1, le=999_999)]  # of scenes, whose splits share ids


def _existing_file(path: str) -> str:
    file = Path(path).expanduser()
    if file.is_dir():
        raise ValueError("this is a folder, and a file is needed")
    if file.is_fifo():
        raise ValueError("this is a pipe, and a file is needed")
    if not file.is_file():
        raise ValueError("there is no such file")
    return path


def _existing_folder(path: str) -> str:
    if not Path(path).expanduser().is_dir():
        raise ValueError("there is no such folder")
    return path


ExistingFile = Annotated[str, AfterValidator(_existing_file)]
ExistingFolder = Annotated[str, AfterValidator(_existing_folder)]


def one_of(names: Callable[[], Iterable[str]], what: str) -> AfterValidator:
    """Validates a text as one of `names()`, which are known only when the program runs."""

    def known(name: str) -> str:
        if name not in (found := sorted(names())):
            raise ValueError(f"must be {what}: {', '.join(found)}")
        return name

    return AfterValidator(known)
