"""Themes from files in the package, beside it, and with the person's settings; each error is reported alone."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual.css.stylesheet import Stylesheet
from textual.theme import Theme

from ollm_tui.core.base.app_dirs import config_dir
from ollm_tui.tui.first_frame import DEFAULT_THEME

if TYPE_CHECKING:
    from ollm_tui.config import ConfigError

FALLBACK = Theme(name=DEFAULT_THEME, primary="#6cb6ff", dark=True)
"""Used if even the packaged file is missing."""


@dataclass(frozen=True)
class Themes:
    """The themes that can be used, by name, and the errors of the others."""

    valid: dict[str, Theme]
    errors: tuple[ConfigError, ...]


class ThemedStylesheet(Stylesheet):
    """A stylesheet that is parsed anew only when a theme gives it other variables."""

    def __init__(self, variables: dict[str, str]) -> None:
        super().__init__(variables=variables)
        self._given = variables

    def set_variables(self, variables: dict[str, str]) -> None:
        """Take a theme's variables; the same once more cost nothing."""
        if variables != self._given:
            self._given = variables
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse what changed; Textual's own keeps nothing of what it parses, and a start would parse three times."""
        self.parse()


class ThemeError(Exception):
    """A theme file that cannot be used."""

    def __init__(self, error: ConfigError) -> None:
        super().__init__(str(error))
        self.error = error


def theme_folders() -> tuple[Path, ...]:
    """Return where themes are: in an installed package, beside it in a working copy, of plug-ins, the person's own."""
    package = Path(__file__).resolve().parents[1]
    bundles = map(Path, sorted(glob(str(config_dir() / "plugins" / "*" / "themes"))))
    return (package / "themes", package.parent / "themes", *bundles, config_dir() / "themes")


def packaged_theme(name: str) -> Theme:
    """Return one of our own themes, read quickly for the first frame, or the fallback."""
    for folder in theme_folders()[:2]:
        try:
            return _built(tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8")), name)
        except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError):
            continue
    return FALLBACK


def load_themes(folders: tuple[Path, ...] | None = None) -> Themes:
    """Load every theme file; a later folder's theme replaces an earlier one of the same name."""
    valid: dict[str, Theme] = {}
    errors: list[ConfigError] = []
    ours = theme_folders()[:2]
    for path in _files(theme_folders() if folders is None else folders):
        try:
            # Our own files are checked by tests; the models that check others' need not be loaded for them.
            theme = packaged_theme(path.stem) if path.parent in ours else read_theme(path)
        except ThemeError as error:
            errors.append(error.error)
        else:
            valid[theme.name] = theme
    return Themes(valid, tuple(errors))


def read_theme(path: Path) -> Theme:
    """Return the theme of a file. Raises ThemeError with file, line and remedy."""
    from ollm_tui.config import ConfigError  # its models and those of themes load after the first frame
    from ollm_tui.tui.theme_file import validated

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ThemeError(ConfigError(str(path), "is not UTF-8 text", "Save it as UTF-8.")) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ThemeError(ConfigError(str(path), f"cannot be read: {reason}", "Check its permissions.")) from None
    tables = validated(text, path)
    if isinstance(tables, ConfigError):
        raise ThemeError(tables)
    return _built(tables, path.stem)


def _built(tables: dict[str, object], stem: str) -> Theme:
    """Build the theme of checked tables. Textual accepts a bad colour here and fails later, so colours are tried."""
    colors = _table(tables, "colors")
    theme = Theme(
        name=str(tables.get("name", stem)),
        primary=colors["primary"],
        secondary=colors.get("secondary"),
        warning=colors.get("warning"),
        error=colors.get("error"),
        success=colors.get("success"),
        accent=colors.get("accent"),
        foreground=colors.get("foreground"),
        background=colors.get("background"),
        surface=colors.get("surface"),
        panel=colors.get("panel"),
        dark=bool(tables.get("dark", True)),
        variables=_table(tables, "variables"),
    )
    theme.to_color_system().generate()
    return theme


def _table(tables: dict[str, object], name: str) -> dict[str, str]:
    table = tables.get(name, {})
    if not isinstance(table, dict):
        raise TypeError(f"[{name}] is not a table")
    rows = cast("dict[object, object]", table)  # TOML's keys are strings; pyright knows only that it is a dict
    return {str(key): str(value) for key, value in rows.items()}


def _files(folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in folders:
        try:
            yield from sorted(folder.glob("*.toml"))
        except OSError:
            continue
