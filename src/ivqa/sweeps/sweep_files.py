"""Sweep files of W&B (conf/sweep/NAME.yaml), which sweeps without an account read too.

The format is https://docs.wandb.ai/models/sweeps/sweep-config-keys.
"""

import difflib
import json
from collections.abc import Callable, Sequence
from itertools import product
from operator import index
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Quote, QuotedString, Transformer
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)

from ivqa.config.short_forms import key_of, written_out
from ivqa.errors import UserError
from ivqa.store.files import read_yaml

try:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
except ImportError:
    raise UserError("sweep= needs the package optuna: pip install 'ivqa[sweeps]'") from None

Space = CategoricalDistribution | FloatDistribution | IntDistribution
_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)


# The arguments of a parameter by its distribution; Optuna checks their values.
_DISTRIBUTIONS: dict[str, Callable[..., Space]] = {
    "constant": lambda value: CategoricalDistribution([_choice(value)]),
    "categorical": lambda values: CategoricalDistribution(list(map(_choice, values))),
    "uniform": lambda min, max: FloatDistribution(min, max),
    "q_uniform": lambda min, max, q: FloatDistribution(min, max, step=q),
    "log_uniform_values": lambda min, max: FloatDistribution(min, max, log=True),
    "int_uniform": lambda min, max: IntDistribution(index(min), index(max)),
}


def distribution(given: Any) -> Space:
    """Optuna's distribution for a parameter of a sweep file; as in W&B, whole bounds are integers.

    >>> distribution({"min": 1, "max": 4})
    IntDistribution(high=4, log=False, low=1, step=1)
    >>> distribution({"distribution": "log_uniform_values", "min": 0.001, "max": 0.1})
    FloatDistribution(high=0.1, log=True, low=0.001, step=None)
    """
    match given:
        case {"value": _}:
            kind = "constant"
        case {"values": _}:
            kind = "categorical"
        case {"min": int(), "max": int()}:
            kind = "int_uniform"
        case _:
            kind = "uniform"
    try:
        arguments = dict(given)
        return _DISTRIBUTIONS[arguments.pop("distribution", kind)](**arguments)
    except (KeyError, TypeError):
        raise ValueError(
            "must have value, values, or min and max, and as distribution uniform, int_uniform (of "
            "integers), log_uniform_values or, with q, q_uniform"
        ) from None


class Metric(BaseModel):
    """The objective: a name in metrics.json, and whether large values are good."""

    model_config = _STRICT

    name: str
    goal: Literal["minimize", "maximize"] = "minimize"


class SweepFile(BaseModel):
    """A sweep file, whose parameters are named by keys of the configuration.

    grid tries all points; random and bayes (TPE in Optuna) draw `run_cap` points.
    """

    model_config = _STRICT

    program: str
    method: Literal["grid", "random", "bayes"]
    metric: Metric
    parameters: dict[str, Annotated[Space, BeforeValidator(distribution)]] = Field(min_length=1)
    command: list[str] = Field(default_factory=list)
    run_cap: PositiveInt | None = None
    # For W&B alone.
    project: str | None = None
    entity: str | None = None
    name: str | None = None
    description: str | None = None

    @model_validator(mode="after")
    def _check_grid(self) -> Self:
        for key, values in self.parameters.items():
            if self.method == "grid" and isinstance(values, FloatDistribution):
                raise ValueError(f"{key} is an interval; method=grid needs lists of values")
        return self

    def fixed_arguments(self) -> list[str]:
        """The overrides in `command` that all points share, without the logger of W&B."""
        return [item for item in self.command if "=" in item and key_of(item) != "logger"]

    def grid(self) -> list[dict[str, Any]]:
        """All points of method=grid, as Optuna stores them; the last parameter changes fastest."""
        values = [
            range(own.low, own.high + 1) if isinstance(own, IntDistribution) else own.choices
            for own in self.parameters.values()
            if not isinstance(own, FloatDistribution)  # refused with method=grid
        ]
        return [dict(zip(self.parameters, point, strict=True)) for point in product(*values)]


def override_text(value: Any) -> str:
    """A value as it stands in an override; texts as they are, as W&B's agent writes them."""
    return value if isinstance(value, str) else json.dumps(value)


def _choice(value: Any) -> bool | int | float | str:
    """A value as Optuna stores it: numbers as they are, all else as the text of an override."""
    return value if isinstance(value, bool | int | float) else override_text(value)


def read_sweep(file: Path, overrides: Sequence[str] = ()) -> tuple[SweepFile, list[str]]:
    """Reads a sweep file, whose parameters the command line may replace.

    Args:
        overrides: Overrides in Hydra's notation. KEY=VALUE fixes a parameter; KEY=A,B and
            KEY=range(...) are values of one, KEY=interval(...) is an interval.

    Returns:
        The sweep with the parameters that remain, and the other overrides.

    Raises:
        UserError: The file cannot be read; a key is unknown, missing or has an invalid value; no
            parameter remains.
    """
    content = read_yaml(file, dict)
    sweep = _validated(content, str(file))
    keys = {written_out(key): key for key in sweep.parameters}
    parameters, fixed = dict(content["parameters"]), []
    for parsed in OverridesParser.create().parse_overrides(list(overrides)):
        key = keys.get(written := parsed.get_key_element(), written)
        if not parsed.is_sweep_override():
            parameters.pop(key, None)
            fixed.append(str(parsed.input_line))
        elif isinstance(interval := parsed.value(), IntervalSweep):
            parameters[key] = {"min": interval.start, "max": interval.end}
            if "log" in interval.tags:
                parameters[key]["distribution"] = "log_uniform_values"
        else:
            parameters[key] = {"values": list(parsed.sweep_iterator(Transformer.encode))}
    return _validated({**content, "parameters": parameters}, "sweep"), fixed


def with_sweep(arguments: Sequence[str], folders: Sequence[Path], config_name: str) -> list[str]:
    """Replaces sweep=NAME by what Hydra reads.

    Returns:
        The arguments with -m, the sweeper of conf/hydra/sweeper/optuna.yaml and, before the
        user's own, the arguments of the file's `command:`. Unchanged without sweep=.

    Raises:
        UserError: There is no such sweep, or it is for another command.
    """
    names = [item.partition("=")[2] for item in arguments if item.startswith("sweep=")]
    if not names:
        return list(arguments)
    file = sweep_file(names[-1], folders)
    sweep, _ = read_sweep(file)
    if sweep.program != f"{config_name}.py":
        raise UserError(f"sweep={names[-1]} is for {sweep.program}, not for {config_name}.py")
    own = [
        f"hydra.sweeper.{item}" if item.startswith("trials=") else item
        for item in arguments
        if not item.startswith("sweep=") and item not in ("-m", "--multirun")
    ]
    sweeper = [
        "hydra/sweeper=optuna",
        f"hydra.sweeper.file={QuotedString(text=str(file), quote=Quote.single).with_quotes()}",
        "~hydra.callbacks.table",  # the sweeper writes a table of its own
    ]
    if not any(key_of(item) in ("output_dir", "hydra.sweep.dir") for item in own):
        sweeper.append(f"output_dir=outputs/sweeps/{file.stem}")
    shows = any(item.startswith("-") for item in own if item[:12] != "--config-dir")
    multirun = [] if shows else ["-m"]  # Hydra refuses -m beside --cfg
    return [*multirun, *sweeper, *sweep.fixed_arguments(), *own]


def sweep_file(name: str, folders: Sequence[Path]) -> Path:
    """The file of a sweep: a name in sweep/ of one of the folders, or a path.

    Raises:
        UserError: There is no such file.
    """
    if name.endswith((".yaml", ".yml")):
        if not Path(name).is_file():
            raise UserError(f"sweep={name}: there is no such file")
        return Path(name)
    files = {file.stem: file for place in folders for file in (place / "sweep").glob("*.yaml")}
    if name not in files:
        close = difflib.get_close_matches(name, files, n=1, cutoff=0.6)
        hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(sorted(files))}"
        raise UserError(f"there is no sweep={name}{hint}")
    return files[name]


def _validated(content: Any, source: str) -> SweepFile:
    try:
        return SweepFile.model_validate(content)
    except ValidationError as error:
        faults = []
        for one in error.errors():
            unknown = one["type"] == "extra_forbidden"
            reason = "is unknown here" if unknown else one["msg"].removeprefix("Value error, ")
            faults.append(": ".join(filter(None, [".".join(map(str, one["loc"])), reason])))
        raise UserError(f"{source}: {'; '.join(faults)}") from None
