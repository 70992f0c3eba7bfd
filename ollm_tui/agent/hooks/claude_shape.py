"""Claude Code's names of tools and arguments; a table without hooks."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from ollm_tui.core.base.results import JsonObject

_NAMES: Mapping[str, str] = {
    "shell": "Bash",
    "read_file": "Read",
    "write_file": "Write",
    "edit_file": "Edit",
    "glob": "Glob",
    "grep": "Grep",
    "ls": "LS",
    "web_fetch": "WebFetch",
    "web_search": "WebSearch",
    "write_todos": "TodoWrite",
    "task": "Task",
    "shell_output": "BashOutput",
    "shell_kill": "KillShell",
}

_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "read_file": {"file_path": "path"},
    "write_file": {"file_path": "path"},
    "edit_file": {"file_path": "path"},
    "glob": {"path": "directory"},
    "grep": {"path": "directory", "glob": "filePattern"},
    "shell": {"run_in_background": "background"},
}
"""Their argument, and ours that it stands for."""


def claude_name(tool: str) -> str:
    """Return what Claude Code calls a tool; its own name where that has none."""
    return _NAMES.get(tool, tool)


def claude_arguments(tool: str, arguments: JsonObject) -> JsonObject:
    """Return the arguments with theirs beside ours."""
    theirs: JsonObject = {their: arguments[our] for their, our in _ARGUMENTS.get(tool, {}).items() if our in arguments}
    if edit := _single_edit(tool, arguments):
        theirs |= {"old_string": edit.get("target"), "new_string": edit.get("replacement")}
    return {**arguments, **theirs}


def own_arguments(tool: str, arguments: JsonObject, updated: Mapping[str, JsonValue]) -> JsonObject:
    """Return the arguments with a hook's changes; what it changed under their name counts for ours."""
    told = claude_arguments(tool, arguments)
    changed = {**arguments, **{name: value for name, value in updated.items() if name in arguments or name not in told}}
    for their, our in _ARGUMENTS.get(tool, {}).items():
        if their in updated and updated[their] != told.get(their):
            changed[our] = updated[their]
        if their not in arguments:
            changed.pop(their, None)
    if edit := _single_edit(tool, changed):
        new = {**edit}
        for their, our in (("old_string", "target"), ("new_string", "replacement")):
            if their in updated and updated[their] != told.get(their):
                new[our] = updated[their]
            changed.pop(their, None)
        changed["edits"] = [new]
    return changed


def _single_edit(tool: str, arguments: JsonObject) -> Mapping[str, JsonValue] | None:
    edits = arguments.get("edits")
    if tool != "edit_file" or not isinstance(edits, list) or len(edits) != 1:
        return None
    only = edits[0]
    return only if isinstance(only, dict) else None
