"""Aliases of tools: accepted in calls, never listed (contract section 1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import JsonValue

from ollm_tui.core.base.errors import InvalidArguments
from ollm_tui.core.base.results import JsonObject

NO_DEPTH_LIMIT = 1_000_000
EXEC_TIMEOUT_SECONDS = 180
"""Default time limit of `exec` in seconds (004)."""
_DEFAULT_EXEC_MS = EXEC_TIMEOUT_SECONDS * 1000


@dataclass(frozen=True)
class Alias:
    """Another name for a tool, with the translation of its arguments.

    `translate` raises InvalidArguments where they do not say which tool is meant.
    """

    name: str
    tools: tuple[str, ...]
    translate: Callable[[JsonObject], tuple[str, JsonObject]]


def _renamed(arguments: JsonObject, **names: str) -> JsonObject:
    return {names.get(key, key): value for key, value in arguments.items()}


def _gives(arguments: JsonObject, *names: str) -> bool:
    """Return whether one of `names` has a value other than null."""
    return any(arguments.get(name) is not None for name in names)


def _is_true(value: JsonValue) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def _file_read(arguments: JsonObject) -> tuple[str, JsonObject]:
    wants_range = _gives(arguments, "startLine", "endLine", "start_line", "end_line")
    return "read_file", {**arguments, "lineNumbers": True} if wants_range else arguments


def _file_write(arguments: JsonObject) -> tuple[str, JsonObject]:
    return "write_file", {**arguments, "overwrite": True}


def _file_search(arguments: JsonObject) -> tuple[str, JsonObject]:
    rest = {key: value for key, value in arguments.items() if key != "type"}
    kind = arguments.get("type") or "glob"
    if kind not in ("glob", "grep"):
        # A guess would look for names where lines were meant, and find nothing.
        raise InvalidArguments("file_search: type is glob (finds files by their names) or grep (finds lines in them).")
    return kind, _renamed(rest, path="directory")


def _list_directory(arguments: JsonObject) -> tuple[str, JsonObject]:
    if _is_true(arguments.get("recursive")) and not _gives(arguments, "maxDepth", "max_depth"):
        return "ls", {**arguments, "maxDepth": NO_DEPTH_LIMIT}
    return "ls", arguments


def _exec(arguments: JsonObject) -> tuple[str, JsonObject]:
    renamed = _renamed(arguments, workdir="cwd")
    seconds = renamed.pop("timeout", None)
    if seconds is None:
        # A job lasts until somebody ends it, as with `shell`.
        return "shell", renamed if _is_true(renamed.get("background")) else {**renamed, "timeout": _DEFAULT_EXEC_MS}
    return "shell", {**renamed, "timeout": _milliseconds(seconds)}


def _milliseconds(seconds: JsonValue) -> JsonValue:
    """Convert seconds to milliseconds; other values stay, for validation to reject."""
    if isinstance(seconds, str) and seconds.isdecimal() and len(seconds) <= 18:
        return int(seconds) * 1000
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return seconds
    if isinstance(seconds, float) and not math.isfinite(seconds * 1000):
        return str(seconds)
    return round(seconds * 1000)


ALIASES: dict[str, Alias] = {
    alias.name: alias
    for alias in (
        Alias("file_read", ("read_file",), _file_read),
        Alias("file_write", ("write_file",), _file_write),
        Alias("file_search", ("glob", "grep"), _file_search),
        Alias("list_directory", ("ls",), _list_directory),
        Alias("exec", ("shell",), _exec),
    )
}

POLICY_NAMES: dict[str, tuple[str, ...]] = {
    "file_read": ("read_file",),
    "file_write": ("write_file",),
    "file_search": ("glob", "grep"),
    "list_directory": ("ls",),
    "exec": ("shell", "run_code", "shell_output", "shell_kill"),
}
"""The tools a policy name covers: `exec` means all that run commands."""
