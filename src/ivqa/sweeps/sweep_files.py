"""Sweep files of W&B (conf/sweep/NAME.yaml), which sweeps without an account read too.

The format is https://docs.wandb.ai/models/sweeps/sweep-config-keys.
"""

import difflib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Quote, QuotedString, Transformer
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PositiveInt,
    ValidationError,
    model_validator,
)

from ivqa.config.short_forms import key_of, written_out
from ivqa.errors import UserError
from ivqa.store.files import read_yaml


class Parameter(BaseModel):
    """The values of one parameter: a list, or an interval with a distribution.

    Attributes:
        values: The values of a list; a file may give one as `value`.
        distribution: How an interval is drawn from. By default int_uniform if both bounds are
            integers, else uniform, as in W&B.
        min: The lower bound.
        max: The upper bound, which is a possible value.
        q: The step of q_uniform.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    values: list[JsonValue] = Field(default_factory=list)
    distribution: (
        Literal[
            "constant",
            "categorical",
            "int_uniform",
            "uniform",
            "q_uniform",
            "log_uniform_values",
        ]
        | None
    ) = None
    min: float | None = None
    max: float | None = None
    q: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        """Turns `value` into a list, and names the default distribution of an interval."""
        if not isinstance(given, dict):
            return given
        given = dict(given)
        if "value" in given:
            given["values"] = [given.pop("value")]
        bounds = [given.get("min"), given.get("max")]
        if "values" not in given and "distribution" not in given:
            whole = all(type(bound) is int for bound in bounds)
            given["distribution"] = "int_uniform" if whole else "uniform"
        return given

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.values:
            if self.min is not None or self.max is not None:
                raise ValueError("has both values and bounds; leave one out")
            return self
        if self.min is None or self.max is None:
            raise ValueError("needs value, values, or min and max")
        if not self.min < self.max:
            raise ValueError(f"min={self.min:g} must be below max={self.max:g}")
        if self.distribution == "int_uniform" and (self.min % 1 or self.max % 1):
            raise ValueError("int_uniform needs integers as min and max")
        if self.distribution == "log_uniform_values" and self.min <= 0:
            raise ValueError(f"min={self.min:g} must be above 0 for log_uniform_values")
        if (self.q is not None) != (self.distribution == "q_uniform"):
            raise ValueError("q belongs to q_uniform, which needs it")
        return self

    def grid(self) -> list[Any] | None:
        """All values, in order; None for an interval of infinitely many."""
        if self.values:
            return list(self.values)
        if self.distribution == "int_uniform":
            low, high = self.bounds()
            return list(range(int(low), int(high) + 1))
        return None

    def bounds(self) -> tuple[float, float]:
        """The bounds of an interval."""
        assert self.min is not None
        assert self.max is not None
        return self.min, self.max


class Metric(BaseModel):
    """The objective: a name in metrics.json, and whether large values are good."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: str
    goal: Literal["minimize", "maximize"] = "minimize"


class SweepFile(BaseModel):
    """A sweep file.

    Attributes:
        program: The command, such as "diagnose.py".
        method: grid tries all points; random and bayes (TPE in Optuna) draw `run_cap` points.
        metric: The objective.
        parameters: The parameters by key of the configuration.
        command: The command line of W&B's agent.
        run_cap: The number of points.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    program: str
    method: Literal["grid", "random", "bayes"]
    metric: Metric
    parameters: dict[str, Parameter] = Field(min_length=1)
    command: list[str] = Field(default_factory=list)
    run_cap: PositiveInt | None = None
    # For W&B alone.
    project: str | None = None
    entity: str | None = None
    name: str | None = None
    description: str | None = None

    @model_validator(mode="after")
    def _check_grid(self) -> Self:
        if self.method == "grid":
            for key, parameter in self.parameters.items():
                if parameter.grid() is None:
                    raise ValueError(f"{key} is an interval; method=grid needs lists of values")
        return self

    def fixed_arguments(self) -> list[str]:
        """The overrides in `command` that all points share, without the logger of W&B."""
        return [item for item in self.command if "=" in item and key_of(item) != "logger"]


def read_sweep(file: Path) -> SweepFile:
    """Reads a sweep file.

    Args:
        file: The file.

    Returns:
        The sweep.

    Raises:
        UserError: The file cannot be read; a key is unknown, missing or has an invalid value.
    """
    return _validated(read_yaml(file, dict), str(file))


def with_overrides(sweep: SweepFile, overrides: Sequence[str]) -> tuple[SweepFile, list[str]]:
    """Lets overrides of the command line replace parameters of a sweep file.

    Args:
        sweep: The sweep file.
        overrides: Overrides in Hydra's notation. KEY=VALUE fixes a parameter; KEY=A,B and
            KEY=range(...) are values of one, KEY=interval(...) is an interval.

    Returns:
        The sweep with the parameters that remain, and the other overrides.

    Raises:
        UserError: An interval replaces a parameter of a grid, or no parameter remains.
    """
    keys = {written_out(key): key for key in sweep.parameters}
    parameters = {
        key: value.model_dump(exclude_defaults=True) for key, value in sweep.parameters.items()
    }
    fixed = []
    for parsed in OverridesParser.create().parse_overrides(list(overrides)):
        written = parsed.get_key_element()
        key = keys.get(written, written)
        if not parsed.is_sweep_override():
            parameters.pop(key, None)
            fixed.append(str(parsed.input_line))
        elif isinstance(interval := parsed.value(), IntervalSweep):
            bounds = {"min": interval.start, "max": interval.end}
            is_log = "log" in interval.tags
            parameters[key] = bounds | ({"distribution": "log_uniform_values"} if is_log else {})
        else:
            parameters[key] = {"values": list(parsed.sweep_iterator(Transformer.encode))}
    content = {**sweep.model_dump(exclude_defaults=True), "parameters": parameters}
    return _validated(content, "sweep"), fixed


def with_sweep(arguments: Sequence[str], folders: Sequence[Path], config_name: str) -> list[str]:
    """Replaces sweep=NAME by what Hydra reads.

    Args:
        arguments: Arguments of the command line.
        folders: The folders of configuration files: conf/ and those of --config-dir.
        config_name: The command's own file in the first of them, without its ending.

    Returns:
        The arguments with -m, the sweeper of conf/hydra/sweeper/optuna.yaml and, before the
        user's own, the arguments of the file's `command:`. Unchanged without sweep=.

    Raises:
        UserError: There is no such sweep, or it is for another command.
    """
    names = [item.partition("=")[2] for item in arguments if item.startswith("sweep=")]
    if not names:
        return list(arguments)
    if importlib.util.find_spec("optuna") is None:
        raise UserError("sweep= needs the package optuna: pip install 'ivqa[sweeps]'")
    file = sweep_file(names[-1], folders)
    sweep = read_sweep(file)
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
    """The file of a sweep.

    Args:
        name: A name in sweep/ of one of the folders, or the path of a file.
        folders: The folders of configuration files.

    Returns:
        The path, which exists.

    Raises:
        UserError: There is no such file.
    """
    if name.endswith((".yaml", ".yml")):
        file = Path(name)
        if not file.is_file():
            raise UserError(f"sweep={name}: there is no such file")
        return file
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
            reason = one["msg"].removeprefix("Value error, ")
            if one["type"] == "extra_forbidden":
                reason = "is unknown here"
            key = ".".join(map(str, one["loc"]))
            faults.append(f"{key}: {reason}" if key else reason)
        raise UserError(f"{source}: {'; '.join(faults)}") from None
