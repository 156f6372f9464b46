"""The settings of `ivqa view`."""

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

from annotated_types import Interval
from pydantic import TypeAdapter, ValidationError

from ivqa.config.words import description
from ivqa.errors import UserError
from ivqa.ranges import ExistingFolder, NonEmptyText, Place

USAGE = "usage: ivqa view [FOLDER] [host=ADDRESS] [port=NUMBER] [artifacts=DIR]"


@dataclass(frozen=True)
class Settings:
    """Settings of the app.

    Args:
        folder: The folder whose runs are shown; no file outside of it is served.
        host: The address to listen on. Every address but loopback requires a token.
        port: The port to listen on; 0 for any free one.
        artifacts: The artifact store with the trained models.
    """

    folder: ExistingFolder = "outputs"
    host: NonEmptyText = "127.0.0.1"
    port: Annotated[int, Interval(ge=0, le=65535)] = 8321
    artifacts: Place = "artifacts"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def settings_of(arguments: Sequence[str]) -> Settings:
    """Reads the settings from the command line: a folder and KEY=VALUE.

    Raises:
        UserError: Names all keys that do not exist and all invalid values.
    """
    given: dict[str, Any] = {"artifacts": os.environ.get("IVQA_ARTIFACTS", "artifacts")}
    faults = []
    known: dict[str, Any] = {field.name: field.type for field in fields(Settings)}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if key in known and equals:
            given[key] = int(value) if key == "port" and value.isdecimal() else value
        elif "folder" not in given and not argument.startswith("-"):
            given["folder"] = argument
        else:
            faults.append(f"{argument} is no setting of ivqa view")
    values = {"folder": Settings.folder, **given}
    for key, value in values.items():
        try:
            TypeAdapter(known[key]).validate_python(value, strict=True)
        except ValidationError as error:
            reason = error.errors()[0].get("ctx", {}).get("error")
            faults.append(f"{key}={value}: {reason or f'must be {description(known[key])}'}")
    if faults:
        raise UserError(f"{'; '.join(faults)}\n{USAGE}")
    return Settings(**given)
