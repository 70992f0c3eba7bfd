"""Validation of theme files; a file of its own because pydantic loads after the first frame."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from textual.color import Color, ColorParseError

from ollm_tui.config import ConfigError
from ollm_tui.core.base.app_dirs import line_of_key


def _real_color(value: str) -> str:
    try:
        Color.parse(value)
    except ColorParseError:
        raise ValueError(f"{value!r} is no colour") from None
    return value


ColorText = Annotated[str, AfterValidator(_real_color)]


class Colors(BaseModel):
    """`[colors]`: hex (`#6cb6ff`), names, or terminal colours (`ansi_blue`)."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    primary: ColorText
    secondary: ColorText | None = None
    accent: ColorText | None = None
    success: ColorText | None = None
    warning: ColorText | None = None
    error: ColorText | None = None
    foreground: ColorText | None = None
    background: ColorText | None = None
    surface: ColorText | None = None
    panel: ColorText | None = None


class ThemeFile(BaseModel):
    """A whole file; `variables` are Textual's further names (`scrollbar`, `border`, ...), each a colour."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=40)
    dark: bool = True
    colors: Colors
    variables: dict[str, ColorText] = Field(default_factory=dict[str, str])


def validated(text: str, path: Path) -> dict[str, object] | ConfigError:
    """Return the file's tables, or the first error with its line."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        number = int(found[1]) if found else None
        return ConfigError(str(path), f"is not TOML: {error}", "Correct that line.", number)
    try:
        ThemeFile.model_validate(tables)
    except ValidationError as error:
        first = error.errors()[0]
        keys = [str(part) for part in first["loc"]]
        message = f"{'.'.join(keys) or 'the file'}: {first['msg'].removeprefix('Value error, ')}"
        remedy = "Colours are written like #6cb6ff; the keys are name, dark, [colors] and [variables]."
        return ConfigError(str(path), message, remedy, line_of_key(text, keys))
    return tables
