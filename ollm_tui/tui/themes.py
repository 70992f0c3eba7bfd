"""Themes from files: found in the package, beside it, and with the person's settings; each fault told by itself."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from textual.theme import Theme

from ollm_tui.core.base.app_dirs import config_dir
from ollm_tui.tui.first_frame import DEFAULT_THEME
from ollm_tui.tui.values import FileError

FALLBACK = Theme(name=DEFAULT_THEME, primary="#6cb6ff", dark=True)
"""If even the packaged file is gone."""


@dataclass(frozen=True)
class Themes:
    """What could be used, by name, and what could not."""

    sound: dict[str, Theme]
    faults: tuple[FileError, ...]


class ThemeError(Exception):
    """A theme file that cannot be used."""

    def __init__(self, fault: FileError) -> None:
        super().__init__(fault.as_text())
        self.fault = fault


def theme_folders() -> tuple[Path, ...]:
    """Where themes lie: in an installed package, beside it in a working copy, then the person's own."""
    package = Path(__file__).resolve().parents[1]
    return (package / "themes", package.parent / "themes", config_dir() / "themes")


def packaged_theme(name: str) -> Theme:
    """One of our own themes, read quickly for the first frame; the fallback where there is none of that name."""
    for folder in theme_folders()[:2]:
        try:
            return _built(tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8")), name)
        except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError):
            continue
    return FALLBACK


def load_themes(folders: tuple[Path, ...] | None = None) -> Themes:
    """Every theme file, validated; a later folder's theme replaces an earlier one of the same name."""
    sound: dict[str, Theme] = {}
    faults: list[FileError] = []
    ours = theme_folders()[:2]
    for path in _files(theme_folders() if folders is None else folders):
        try:
            # Our own files are checked by tests; the models that check others' need not be loaded for them.
            theme = packaged_theme(path.stem) if path.parent in ours else read_theme(path)
        except ThemeError as error:
            faults.append(error.fault)
        else:
            sound[theme.name] = theme
    return Themes(sound, tuple(faults))


def read_theme(path: Path) -> Theme:
    """A theme from its file. Raises ThemeFault with file, line and remedy."""
    from ollm_tui.tui.theme_file import validated

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ThemeError(FileError(str(path), None, "is not UTF-8 text.", "Save it as UTF-8.")) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ThemeError(FileError(str(path), None, f"cannot be read: {reason}.", "Check its permissions.")) from None
    return _built(validated(text, path), path.stem)


def _built(tables: dict[str, object], stem: str) -> Theme:
    """The theme of checked tables. Textual accepts a bad colour here and dies of it later, so colours are tried."""
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
