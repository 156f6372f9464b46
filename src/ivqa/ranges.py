"""Argument types that include the allowed range: `size: Count = 512`.

Constructors that take values from conf/ are annotated with these types. Every command validates its
configuration against the annotations before it starts (`ivqa.runs.config_values`).
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MultipleOf
from pydantic import AfterValidator

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
    """A pydantic validator for a text that must be one of several names.

    Args:
        names: Returns the allowed names; called at validation, since they may depend on what is
            installed.
        what: Describes the names in the error message, such as "an architecture".

    Returns:
        A validator to put into `Annotated[str, ...]`.
    """

    def known(name: str) -> str:
        if name not in (found := sorted(names())):
            raise ValueError(f"must be {what}: {', '.join(found)}")
        return name

    return AfterValidator(known)
