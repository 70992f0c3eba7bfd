"""The registry of tools (001 R1, 000 Properties 1-5, 003 and 004 registries)."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import JsonValue

from ollm_tui.core.base.errors import InvalidArguments, ToolNotFound
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.tools.base import AnyTool, ToolGroup
from ollm_tui.core.tools.schema import SchemaFormat, function_schema

LATER_TOOLS = (
    *("run_code", "web_fetch", "http_fetch", "web_search", "browser", "search_code", "run_tests", "format_code"),
    *("git_status", "git_diff", "git_log", "git_show", "git_add", "git_branch", "git_commit", "git_checkout"),
    *("git_push", "install_package", "tool_search"),
)
"""Tools of the contract that may not exist yet; the error says so."""


@dataclass(frozen=True)
class Resolved:
    """A tool found by any of its names, and its arguments as that tool takes them."""

    tool: AnyTool
    arguments: JsonObject | None
    """None where they were no object; argument repair and validation handle that."""


class ToolRegistry:
    """Tools by name, sorted by code point; may change while running."""

    def __init__(self) -> None:
        self._tools: dict[str, AnyTool] = {}

    def register(self, tool: AnyTool) -> None:
        """Add a tool; one of the same name is replaced."""
        self._tools[tool.name] = tool

    def unregister(self, name: str) -> None:
        """Remove a tool; an unknown name is no error."""
        self._tools.pop(name, None)

    def get(self, name: str) -> AnyTool | None:
        """Return the tool of exactly that name, aliases excluded."""
        return self._tools.get(name)

    def list(self) -> list[AnyTool]:
        """Return all tools, sorted by name."""
        return [self._tools[name] for name in sorted(self._tools)]

    def get_by_group(self, group: ToolGroup) -> list[AnyTool]:
        """Return the tools of a group, sorted by name."""
        return [tool for tool in self.list() if tool.group is group]

    def get_function_schemas(self, form: SchemaFormat = SchemaFormat.OLLM) -> list[JsonObject]:
        """Return one schema for each tool, sorted by name."""
        return [function_schema(tool, form) for tool in self.list()]

    def to_openai_functions(self) -> list[JsonObject]:
        """Return name, description and parameters of each tool (003)."""
        return self.get_function_schemas(SchemaFormat.OLLM)

    def resolve(self, name: str, arguments: JsonObject | None = None) -> Resolved:
        """Return the tool that a name or alias stands for.

        Case, `-` and `_` are ignored; an alias's arguments are translated.
        Raises ToolNotFound naming the closest tools: a similar name never runs.
        """
        exact = self._tools.get(name)
        if exact is not None:
            return Resolved(exact, arguments)
        folded = folded_name(name)
        for known in sorted(self._tools):
            if folded_name(known) == folded:
                return Resolved(self._tools[known], arguments)
        alias = next((alias for alias in ALIASES.values() if folded_name(alias.name) == folded), None)
        if alias is not None:
            target, translated = alias.translate(arguments or {})
            tool = self._tools.get(target)
            if tool is not None:
                return Resolved(tool, translated if arguments is not None else None)
        raise self._not_found(name, alias)

    def _not_found(self, name: str, alias: Alias | None) -> ToolNotFound:
        if alias is not None:
            return ToolNotFound(f"{name} stands for {' or '.join(alias.tools)}, not available in this version.")
        if folded_name(name) in _LATER:
            remedy = " Ask the person: `ollm-tui doctor` says what it needs." if folded_name(name) == "browser" else ""
            return ToolNotFound(f"{name} is not available in this version.{remedy}", {"name": name, "closest": []})
        names = [tool.name for tool in self.list()]
        closest = difflib.get_close_matches(folded_name(name), names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(closest)}?" if closest else f"The tools are: {', '.join(names) or 'none'}."
        return ToolNotFound(f"There is no tool {name[:80]!r}. {hint}", {"name": name[:200], "closest": [*closest]})


def folded_name(name: str) -> str:
    """Return a name without case, `-` and `_`, for comparison."""
    return name.replace("-", "_").replace("_", "").casefold()


_LATER = frozenset(folded_name(name) for name in LATER_TOOLS)


NO_DEPTH_LIMIT = 1_000_000
EXEC_TIMEOUT_SECONDS = 180
"""Default time limit of `exec` in seconds (004)."""
_DEFAULT_EXEC_MS = EXEC_TIMEOUT_SECONDS * 1000


@dataclass(frozen=True)
class Alias:
    """Another name for a tool; `translate` raises InvalidArguments where the tool is unclear."""

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
