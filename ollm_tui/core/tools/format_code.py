"""`format_code`: format files with the project's own formatters (003; contract section 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import (
    FileWriteFailed,
    OperationCancelled,
    ShellExecutionFailed,
    ShellTimeout,
    ToolFailure,
)
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ExecutionPlace, ToolData, ToolResult
from ollm_tui.core.bus.confirmation import DiffPreview, Preview, TextPreview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.workspace import Access, Location
from ollm_tui.core.files.diff import FileDiff, diff_texts
from ollm_tui.core.files.snapshots import FileSnapshot, read_snapshot, replace, require_file
from ollm_tui.core.files.text_files import decode
from ollm_tui.core.formatters import FormatterCall, configurations, find_formatter, format_text
from ollm_tui.core.sandbox.engines import look_works
from ollm_tui.core.tools.base import CallFacts, Effect, Parameters, Tool, ToolGroup, TouchedPath
from ollm_tui.core.tools.file_changes import FileChangeInvocation, link_notes, link_warnings

MOST_FILES = 100


class FormatCodeParameters(Parameters):
    """Which files; `check` only tells what would change."""

    paths: list[str] = Field(min_length=1, max_length=MOST_FILES)
    check: bool = False


class FormattedFile(ToolData):
    """What became of one file; `error` where it stayed as it was."""

    path: str
    formatter: str | None = None
    changed: bool = False
    error: str | None = None
    diff: FileDiff | None = None


class FormatCodeData(ToolData):
    """The files in the order of the request."""

    files: tuple[FormattedFile, ...]


@dataclass(frozen=True)
class _Formatting:
    """What a formatter makes of one state of a file, or why it does not."""

    location: Location
    call: FormatterCall | None = None
    old: FileSnapshot | None = None
    new: bytes = b""
    diff: FileDiff | None = None
    error: ToolFailure | None = None

    @property
    def changes(self) -> bool:
        return self.old is not None and self.error is None and self.new != self.old.raw

    def data(self) -> FormattedFile:
        name = None if self.call is None else self.call.formatter.name
        error = None if self.error is None else self.error.message
        return FormattedFile(
            path=self.location.shown, formatter=name, changed=self.changes, error=error, diff=self.diff
        )

    def line(self, verb: str) -> str:
        """Return what the model reads about it."""
        shown = self.location.shown
        if self.error is not None:
            return f"Error: {shown}: {self.error.message}"
        if self.call is None or self.diff is None:
            return f"{shown}: formatted already"
        return f"{verb} {shown} with {self.call.formatter.name} (+{self.diff.added} -{self.diff.removed})"


class FormatCodeInvocation(FileChangeInvocation[FormatCodeParameters]):
    """Formats files: each formatter reads its input and prints, and what it printed is written once approved."""

    def get_description(self) -> str:
        verb = "Check the format of" if self.params.check else "Format"
        return f"{verb} {', '.join(map(visible, self.params.paths))}"

    def touched_paths(self) -> list[TouchedPath]:
        access = Access.READ if self.params.check else Access.WRITE
        return [TouchedPath(path, access) for path in dict.fromkeys(self.params.paths)]

    @property
    def place(self) -> ExecutionPlace:
        return ExecutionPlace.READING_CAGE if look_works() else ExecutionPlace.THIS_MACHINE

    def facts(self) -> CallFacts:
        """Return what makes it ask: a formatter that is code of this workspace, or that nothing would hold."""
        return CallFacts(Effect.READS if self.params.check else Effect.WRITES, question=self._own_code)

    @cached_property
    def _own_code(self) -> str | None:
        if not look_works():
            return "no cage works here: the formatter would run on this machine, unheld"
        for location in self._locations():
            try:
                call = self._formatter(location)
            except ToolFailure:
                continue
            if call.own:
                shown = self.context.fence.shown(call.program)
                return f"{shown} runs code of this workspace; it would run caged and could read all of it"
            if (reason := self._protected_configuration(call, location)) is not None:
                return reason
        return None

    def _protected_configuration(self, call: FormatterCall, location: Location) -> str | None:
        """Return why a configuration asks: what formatters say of a faulty one quotes it."""
        fence = self.context.fence
        for path in configurations(call.formatter, location.real, location.root):
            try:
                found = fence.resolve(str(path))
            except ToolFailure:
                return f"{fence.shown(path)}, which configures {call.formatter.name}, leads out of the workspace"
            sensitivity = fence.sensitivity(found, Access.READ)
            if sensitivity is not None:
                return f"{call.formatter.name} would be configured by {found.shown}: it {sensitivity.reason}"
        return None

    @cached_property
    def _found(self) -> dict[Path, FormatterCall]:
        return {}

    def _formatter(self, location: Location) -> FormatterCall:
        """Return the formatter, found once: what was judged is what runs. Raises ShellExecutionFailed."""
        if location.real not in self._found:
            self._found[location.real] = find_formatter(location.real, location.root)
        return self._found[location.real]

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise what no approval can help; return a result where nothing would change.

        A formatter that is asked about does not run before.
        """
        locations = self._locations()
        if self._own_code is not None:
            for location in locations:
                self._formatter(location)
                self._read(location)
            return None
        plans = await signal.in_thread(self._plan, locations, signal)
        return None if any(plan.changes for plan in plans) else self._told(plans)

    async def _preview(self) -> Preview | None:
        locations = self._locations()
        if not look_works():
            calls = [self._formatter(location) for location in locations]
            programs = dict.fromkeys(f"{call.program} (unheld, on this machine)" for call in calls)
            return TextPreview(text="\n".join(("This would run, with the files as input:", *programs)))
        signal = AbortSignal()
        plans = await signal.in_thread(self._plan, locations, signal)
        warnings = tuple(
            warning for plan in plans if plan.old for warning in link_warnings(plan.location, plan.old.status)
        )
        if len(plans) == 1 and plans[0].diff is not None:
            return DiffPreview(diff=plans[0].diff, created=False, warnings=warnings)
        parts = [
            f"--- {plan.location.shown}\n{plan.diff.as_text()}" if plan.diff is not None else plan.line("Format")
            for plan in plans
        ]
        return TextPreview(text="\n\n".join(parts), warnings=warnings)

    def _fingerprint(self, locations: Sequence[Location]) -> str:
        most = self.context.limits.file_bytes
        return "\0".join(
            f"{location.real}\0{read_snapshot(self.context.fence, location, most).fingerprint}"
            for location in locations
        )

    def _change(self, locations: Sequence[Location], signal: AbortSignal) -> ToolResult:
        """Write what was shown; a file that changed since is formatted anew."""
        plans = self._plan(locations, signal)
        for plan in plans:
            if plan.changes and plan.old is not None and not self.params.check:
                replace(
                    self.context.fence, plan.location, [plan.new], plan.old.status, signal, otherwise=FileWriteFailed
                )
                self.context.seen.note(plan.location.real, plan.new)
        return self._told(plans)

    def _told(self, plans: Sequence[_Formatting]) -> ToolResult:
        """Return the result. Raises the error where every file failed."""
        failures = [plan.error for plan in plans if plan.error is not None]
        if len(failures) == len(plans):
            raise failures[0] if len(plans) == 1 else _all_failed(plans)
        verb = "Would change" if self.params.check else "Formatted"
        written = [(plan.location, plan.old.status) for plan in plans if plan.changes and plan.old]
        notes = [note for each in written for note in link_notes(*each)]
        diffs = [plan.diff.as_text() for plan in plans if plan.diff is not None]
        text = "\n".join(plan.line(verb) for plan in plans)
        return ToolResult.of_text(
            "\n\n".join((text, *diffs)) if self.params.check else text,
            "\n\n".join((text, *diffs)),
            data=FormatCodeData(files=tuple(plan.data() for plan in plans)),
            notes=() if self.params.check else tuple(notes),
        )

    def _plan(self, locations: Sequence[Location], signal: AbortSignal) -> list[_Formatting]:
        """Format every file as it is now, each state once. Blocks."""
        return [self._format(location, signal) for location in locations]

    @cached_property
    def _formatted(self) -> dict[tuple[str, str], bytes | ToolFailure]:
        return {}

    def _format(self, location: Location, signal: AbortSignal) -> _Formatting:
        call: FormatterCall | None = None
        try:
            call = self._formatter(location)
            old = self._read(location)
            key = str(location.real), old.fingerprint
            if key not in self._formatted:
                self._formatted[key] = self._run(call, location, old.raw, signal)
            new = self._formatted[key]
            if isinstance(new, ToolFailure):
                raise new
            texts = [decode(each, location.shown, "").text for each in (old.raw, new)]
            diff = diff_texts(location.shown, *texts) if new != old.raw else None
            return _Formatting(location, call, old, new, diff)
        except OperationCancelled:
            raise
        except ToolFailure as error:
            return _Formatting(location, call, error=error)

    def _run(self, call: FormatterCall, location: Location, text: bytes, signal: AbortSignal) -> bytes | ToolFailure:
        fence = self.context.fence
        readable = (*fence.roots, *fence.readable_roots)
        try:
            return format_text(call, location.real, text, readable, self.context.limits.file_bytes, signal)
        except (ShellExecutionFailed, ShellTimeout) as failure:
            return failure

    def _read(self, location: Location) -> FileSnapshot:
        if require_file(self.context.fence, location) is None:
            raise self.context.fence.missing(location)
        return read_snapshot(self.context.fence, location, self.context.limits.file_bytes)


def _all_failed(plans: Sequence[_Formatting]) -> ToolFailure:
    lines = "\n".join(plan.line("") for plan in plans)
    return ShellExecutionFailed(f"No file was formatted:\n{lines}")


FORMAT_CODE = Tool(
    name="format_code",
    display_name="Format Code",
    description="Format files with the project's formatters; check=true only shows what would change.",
    group=ToolGroup.FS,
    effect=Effect.WRITES,
    parameters=FormatCodeParameters,
    invocation=FormatCodeInvocation,
    returns=FormatCodeData,
    risk=Risk.MEDIUM,
    time_limit=None,
)
