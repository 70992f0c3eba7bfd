"""Read `[[hooks]]` of config files: a faulty entry voids nothing else (contract 11)."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ollm_tui.core.base.app_dirs import line_of_key
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.instruction_files import InstructionFile, read_instructions
from ollm_tui.core.policy.repository_trust import RepositoryConfig, TrustState, TrustStore


class HookEvent(StrEnum):
    """What hooks hear of, in Claude Code's words."""

    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    POST_TOOL_USE_FAILURE = "PostToolUseFailure"
    PERMISSION_REQUEST = "PermissionRequest"
    USER_PROMPT_SUBMIT = "UserPromptSubmit"
    SESSION_START = "SessionStart"
    SESSION_END = "SessionEnd"
    STOP = "Stop"
    SUBAGENT_STOP = "SubagentStop"
    PRE_COMPACT = "PreCompact"
    NOTIFICATION = "Notification"


OnError = Literal["deny", "ask", "ignore"]


class _Entry(BaseModel):
    """One `[[hooks]]` table."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    event: str
    matcher: str = ""
    command: str = Field(min_length=1)
    timeout: float = Field(60.0, gt=0, le=3600)
    on_error: OnError | None = None


@dataclass(frozen=True)
class Hook:
    """A program that hears of one event; with a `fault` it is not started, and counts as one that failed."""

    event: HookEvent
    command: str
    matcher: str = ""
    timeout: float = 60.0
    """Seconds."""
    on_error: OnError = "ignore"
    source: str = ""
    """The file it comes from, with its line where that is known."""
    fault: str = ""
    root: str = ""
    """The folder of the plug-in that brings it."""

    @property
    def name(self) -> str:
        """The program's file name, as it is called in a line."""
        words = _words(self.command)
        named = [word for word in words if "/" in word or "." in word]
        return (named or words or ["?"])[0].rsplit("/", 1)[-1][:60]

    def concerns(self, *subjects: str) -> bool:
        """Return whether the matcher names one of the subjects as a whole; an empty one names all."""
        if self.matcher in ("", "*"):
            return True
        return any(_compiled(self.matcher).fullmatch(subject) for subject in subjects if subject)


@dataclass(frozen=True)
class HookSettings:
    """All hooks in the order of their files, and what is wrong with entries."""

    hooks: tuple[Hook, ...] = ()
    findings: tuple[str, ...] = ()

    def of_event(self, event: HookEvent) -> list[Hook]:
        """Return all hooks of this event."""
        return [hook for hook in self.hooks if hook.event is event]

    def of(self, event: HookEvent, *subjects: str) -> list[Hook]:
        """Return the hooks that hear of this event about one of the subjects."""
        return [hook for hook in self.hooks if hook.event is event and hook.concerns(*subjects)]


def read_hooks(tables: Mapping[str, JsonValue], text: str, path: str) -> HookSettings:
    """Return the hooks of one file; entries that cannot be used are findings."""
    given = tables.get("hooks", [])
    if not isinstance(given, list):
        where = f"{path}:{line_of_key(text, ['hooks']) or 1}"
        return HookSettings(findings=(f"{where}: hooks is no list of tables. Write [[hooks]] above each entry.",))
    hooks: list[Hook] = []
    findings: list[str] = []
    lines = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*hooks\s*\]\]", line)]
    for at, table in enumerate(given):
        where = f"{path}:{lines[at]}" if at < len(lines) else f"{path}: hooks {at + 1}"
        hook, fault = _hook_of(table, where)
        hooks += [hook] if hook else []
        findings += [f"{where}: {fault}"] if fault else []
    return HookSettings(tuple(hooks), tuple(findings))


def _hook_of(table: JsonValue, where: str) -> tuple[Hook | None, str]:
    """Return the hook and what is wrong with it; a faulty one before a tool stays, as one that fails."""
    event = table.get("event") if isinstance(table, dict) else None
    try:
        entry = _Entry.model_validate(table)
        known = HookEvent(entry.event)
        if entry.matcher:
            _compiled(entry.matcher)
    except ValidationError as error:
        first = error.errors()[0]
        fault = f"{'.'.join(map(str, first['loc'])) or 'the entry'}: {first['msg']}"
    except re.error as error:
        fault = f"matcher: {error}"
    except ValueError:
        return None, f"unknown event {event!r}: hooks hear of {', '.join(HookEvent)}. This entry does nothing."
    else:
        guards = known in (HookEvent.PRE_TOOL_USE, HookEvent.PERMISSION_REQUEST)
        on_error: OnError = entry.on_error or ("ask" if guards else "ignore")
        return Hook(known, entry.command, entry.matcher, entry.timeout, on_error, where), ""
    if event != HookEvent.PRE_TOOL_USE:
        return None, f"{fault}. This entry does nothing until it is corrected."
    command = str(table.get("command", "")) if isinstance(table, dict) else ""
    hook = Hook(HookEvent.PRE_TOOL_USE, command, on_error="ask", source=where, fault=f"its entry is faulty: {fault}")
    return hook, f"{fault}. Until it is corrected every call asks."


_SEPARATORS = re.compile(r"\s*,\s*")


def _compiled(matcher: str) -> re.Pattern[str]:
    """Return what a matcher means: a name, several with | or a comma between, or an expression of the person's own."""
    return re.compile(_SEPARATORS.sub("|", matcher))


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


# -- a workspace's hooks ---------------------------------------------------------------------------------------------


_PROJECT = re.compile(r"\$\{(?:CLAUDE|OLLM)_PROJECT_DIR\}|\$(?:CLAUDE|OLLM)_PROJECT_DIR\b")


def in_words(hook: Hook, workspace: Path) -> str:
    """Return a hook's command with the workspace in the place of the variables that stand for it."""
    return _PROJECT.sub(lambda _: str(workspace), hook.command)


def scripts_of(hook: Hook, workspace: Path) -> Iterator[Path]:
    """Return the files of the workspace that a hook's command names, as they are."""
    for word in _words(hook.command):
        path = workspace / _PROJECT.sub(lambda _: str(workspace), word)
        if path.is_file() and path.resolve().is_relative_to(workspace):
            yield path


def untrusted_scripts(workspace: Workspace, own: RepositoryConfig, store: TrustStore) -> list[InstructionFile]:
    """Return the scripts of a workspace's hooks that a person could trust. Raises ValueError."""
    try:
        text = own.content.decode()
        hooks = read_hooks(tomllib.loads(text), text, str(own.path)).hooks
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return []
    paths = dict.fromkeys(path for hook in hooks for path in scripts_of(hook, workspace.root))
    found = [read_instructions(workspace, str(path.relative_to(workspace.root)), store) for path in paths]
    return [each for each in found if each and not each.refusal and each.trust is not TrustState.TRUSTED]


def with_scripts_checked(settings: HookSettings, workspace: Path, store: TrustStore) -> HookSettings:
    """Return a trusted workspace's hooks; one whose script is not as it was trusted fails. Raises ValueError."""
    hooks: list[Hook] = []
    findings = list(settings.findings)
    fault = ""
    for hook in settings.hooks:
        changed = [] if hook.fault else [path for path in scripts_of(hook, workspace) if not _trusted(path, store)]
        if changed:
            name = changed[0].relative_to(workspace)
            fault = f"{name} is not as it was when the folder was trusted; look at it, then run ollm-tui trust"
            findings.append(f"{hook.source}: the hook {hook.name} does not run: {fault}.")
        hooks.append(replace(hook, fault=fault) if changed else hook)
    return HookSettings(tuple(hooks), tuple(findings))


def _trusted(path: Path, store: TrustStore) -> bool:
    return store.state_of(path, path.read_bytes()) is TrustState.TRUSTED
