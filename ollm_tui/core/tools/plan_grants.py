"""What a step of a plan may do: one tool, at one path or by one pattern of commands."""

from __future__ import annotations

from dataclasses import dataclass

PATH_PARAMETERS = ("path", "from", "to", "directory", "paths")
"""Parameters that name what a call touches."""

PATH_TOOLS = ("write_file", "edit_file")
"""The tools of a step that names paths and no tool."""


@dataclass(frozen=True)
class PlanGrant:
    """One thing that an approved plan lets run; a `path` that ends with `/` is a folder."""

    tool: str
    path: str = ""
    command: str = ""

    def __str__(self) -> str:
        return f"{self.tool} {self.path or self.command}".rstrip()
