"""The registry of tools (001 R1, 000 Properties 1-5, 003 and 004 registries)."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from ollm_tui.core.base.errors import ToolNotFound
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.tools.aliases import ALIASES, Alias
from ollm_tui.core.tools.base import AnyTool, ToolGroup
from ollm_tui.core.tools.schema import SchemaFormat, function_schema

LATER_TOOLS = (
    *("run_code", "web_fetch", "http_fetch", "web_search", "browser", "search_code", "run_tests", "format_code"),
    *("git_status", "git_diff", "git_log", "git_show", "git_add", "git_branch", "git_commit", "git_checkout"),
    *("git_push", "install_package"),
)
"""Tools of the contract that may not exist yet; the error says so."""


@dataclass(frozen=True)
class Resolved:
    """A tool found by any of its names, and its arguments as that tool takes them."""

    tool: AnyTool
    arguments: JsonObject | None
    """None where they were no object; argument repair and validation handle that."""


class ToolRegistry:
    """Tools by name; may change while running.

    Lists are sorted by code point, whatever the order of registration.
    """

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
            return ToolNotFound(f"{name} is not available in this version.", {"name": name, "closest": []})
        names = [tool.name for tool in self.list()]
        closest = difflib.get_close_matches(folded_name(name), names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(closest)}?" if closest else f"The tools are: {', '.join(names) or 'none'}."
        return ToolNotFound(f"There is no tool {name[:80]!r}. {hint}", {"name": name[:200], "closest": [*closest]})


def folded_name(name: str) -> str:
    """Return a name without case, `-` and `_`, for comparison."""
    return name.replace("-", "_").replace("_", "").casefold()


_LATER = frozenset(folded_name(name) for name in LATER_TOOLS)
