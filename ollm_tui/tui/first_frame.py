"""The settings that the first frame needs, read without pydantic.

A wrong value counts as not given here; the settings report it once they are loaded.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ollm_tui.core.base.app_dirs import config_dir

if TYPE_CHECKING:
    from ollm_tui.options import Options

DEFAULT_THEME = "ollm-dark"
TRUE = ("1", "true", "yes", "on")
FALSE = ("0", "false", "no", "off")


@dataclass(frozen=True)
class FirstFrame:
    """Theme by name, whether to take the mouse, whether things may move."""

    theme: str = DEFAULT_THEME
    mouse: bool = True
    reduced_motion: bool = False


def first_frame(options: Options) -> FirstFrame:
    """Return flags, else `OLLM_UI__*` variables, else `[ui]` of the person's file."""
    table = _ui_table(options)
    theme = options.theme or os.environ.get("OLLM_UI__THEME") or table.get("theme")
    return FirstFrame(
        theme=theme if isinstance(theme, str) and theme else DEFAULT_THEME,
        mouse=_switch(options.mouse, "OLLM_UI__MOUSE", table.get("mouse"), default=True),
        reduced_motion=_switch(
            options.reduced_motion, "OLLM_UI__REDUCED_MOTION", table.get("reduced_motion"), default=False
        ),
    )


def _ui_table(options: Options) -> dict[str, object]:
    path = options.config_file or config_dir() / "config.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("ui", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}
    return cast("dict[str, object]", table) if isinstance(table, dict) else {}  # TOML's keys are strings


def _switch(flag: bool | None, variable: str, value: object, *, default: bool) -> bool:
    given = os.environ.get(variable, "").lower()
    if flag is not None:
        return flag
    if given in TRUE or given in FALSE:
        return given in TRUE
    return value if isinstance(value, bool) else default
