"""`shell`: run a command line in the workspace (001 R5, 000 Properties 25-28)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, field_validator

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import (
    FileNotFound,
    NotADirectory,
    ShellExecutionFailed,
    ShellIdleTimeout,
    ShellTimeout,
    ToolFailure,
)
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.output import NO_OUTPUT
from ollm_tui.core.base.results import ExecutionPlace, ToolData, ToolError, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import CommandPreview, Preview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.workspace import Access
from ollm_tui.core.sandbox.code_turns import CODE_TURNS
from ollm_tui.core.sandbox.engines import look_cage
from ollm_tui.core.sandbox.engines import look_works as cage_works
from ollm_tui.core.sandbox.git_attributes import hidden_contents
from ollm_tui.core.sandbox.look import LookCage
from ollm_tui.core.sandbox.work import WorkCage
from ollm_tui.core.shell.hub import CommandRequest
from ollm_tui.core.shell.pty_process import StartError
from ollm_tui.core.shell.shell_service import CommandOutcome, ShellService
from ollm_tui.core.shell.status import CommandEnding, TimeLimits
from ollm_tui.core.tools.base import (
    CallFacts,
    Effect,
    Parameters,
    Question,
    Tool,
    ToolGroup,
    ToolInvocation,
    TouchedPath,
)
from ollm_tui.core.tools.command_outcome import LOOKED, WORKED, full_text, likely_refusal, outcome_notes, timed_out
from ollm_tui.core.tools.context import CommandFacts, ToolContext

DEFAULT_TIMEOUT_MS = 30_000
"""Time limit in milliseconds where the call gives none (000)."""

LONGEST_MS = 86_400_000
"""The longest time limit in milliseconds: a day."""

UNATTENDED_IDLE = 300.0
"""Idle limit (no output, no CPU time) in seconds for unattended commands."""


class ShellParameters(Parameters):
    """What to run, where, and for how long; times in milliseconds."""

    command: str = Field(min_length=1)
    cwd: str | None = None
    timeout: int | None = Field(None, ge=1, le=LONGEST_MS)
    idle_timeout: int | None = Field(None, ge=0, le=LONGEST_MS)
    background: bool = False

    @field_validator("command")
    @classmethod
    def _can_be_run(cls, command: str) -> str:
        if not command.strip():
            raise ValueError("the command line is blank")
        if "\0" in command:
            raise ValueError("a command line can not hold a NUL character")
        try:
            command.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("the command line holds half of a surrogate pair") from None
        return command


class ShellData(ToolData):
    """The result of a command; `exit_code` is 128+n after signal n, None after a time-out."""

    exit_code: int | None
    signal: str | None
    pid: int
    id: str
    cwd: str
    timed_out: bool
    output: str


class ShellInvocation(ToolInvocation[ShellParameters]):
    """Runs one command line."""

    def get_description(self) -> str:
        return f"Run {visible(self.params.command)}"

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(self.params.cwd or ".", Access.READ)]

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Check the directory. Raises InvalidPath, FileNotFound, NotADirectory."""
        self._directory()
        return None

    async def _preview(self) -> Preview | None:
        fence, cwd, reader = self.context.fence, self.params.cwd or "", self.context.command_reader
        facts = CommandFacts()
        if reader is not None:
            facts = await AbortSignal().in_thread(reader.facts, self.params.command, fence, cwd)
        return CommandPreview(
            command=self.params.command,
            cwd=fence.shown(self._directory()),
            place=self.place,
            parts=facts.parts,
            warnings=facts.warnings,
        )

    async def question(self) -> Question:
        """Return a question bound to the directory's identity."""
        directory = self._directory()
        status = directory.stat()  # the directory itself, so that another one put in its place is noticed
        state = f"{os.fsencode(directory)!r} {status.st_dev}:{status.st_ino}"
        return Question(state, self._preview, self._cage_problem)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Run the command; OperationCancelled carries the output so far."""
        request = self._request()
        cage = request.cage
        service = shell_service(self.context)
        if self.place is not ExecutionPlace.READING_CAGE:
            service.hub.refused_lines.discard(_line_of(self.params))
        try:
            if self.params.background:
                return self._job_result(await service.start_job(request, signal))
            outcome = await service.run(request, signal, update_output, self._move_after())
        except StartError as failure:
            raise ShellExecutionFailed(str(failure)) from None
        result = self._result(outcome)
        if isinstance(cage, WorkCage) and not outcome.status.running:
            set_aside = await asyncio.to_thread(cage.after)
            return result.model_copy(update={"notes": (*result.notes, *set_aside)})
        return result

    def _request(self) -> CommandRequest:
        return CommandRequest(
            command=self.params.command,
            cwd=self._directory(),
            attended=self.context.attended,
            background=self.params.background,
            call_id=self.context.call_id,
            limits=self._limits(),
            cage=self._cage(),
        )

    _moment = -1
    """When it was judged by its paths."""

    def facts(self) -> CallFacts:
        self._moment = CODE_TURNS.moment
        refused = self.chosen_place is None and _line_of(self.params) in self.context.command_hub.refused_lines
        reason = "the cage refused it something; the same line again asks to run on this machine"
        return CallFacts(Effect.RUNS, question=reason if refused else None, command=self.params.command)

    @property
    def place(self) -> ExecutionPlace:
        if self.chosen_place is not None:
            return self.chosen_place
        if self.looks and cage_works():
            return ExecutionPlace.READING_CAGE
        return ExecutionPlace.WORK_CAGE if self.context.sandbox.holds_commands else ExecutionPlace.THIS_MACHINE

    def _cage_problem(self) -> str:
        return "it was refused there" if self.refused_by is ExecutionPlace.WORK_CAGE else self.context.sandbox.problem

    def _cage(self) -> LookCage | WorkCage | None:
        """Return what holds it. Raises SandboxUnavailable where the settings ask for what does not work here."""
        fence = self.context.fence
        match self.place:
            case ExecutionPlace.READING_CAGE:
                attributes = hidden_contents(fence)  # nobody was asked
                readable = (*fence.roots, *fence.readable_roots)
                return look_cage(readable, attributes=attributes, judged=self._moment)
            case ExecutionPlace.WORK_CAGE:
                return self.context.sandbox.work_cage(fence)
            case ExecutionPlace.THIS_MACHINE:
                return None

    def _directory(self) -> Path:
        location = self.context.fence.resolve(self.params.cwd or ".")
        if location.real.is_dir():
            return location.real
        if location.real.exists():
            raise NotADirectory(f"{location.shown} is not a directory. Give a directory as cwd.")
        raise FileNotFound(f"{location.shown}: no such directory. Check cwd with ls.", {"path": location.shown})

    def _limits(self) -> TimeLimits:
        wall = self.params.timeout
        if wall is None and not self.params.background and not self.context.attended:
            wall = DEFAULT_TIMEOUT_MS
        if self.params.idle_timeout is not None:
            return TimeLimits(_seconds(wall), _seconds(self.params.idle_timeout or None))
        silent = None if self.context.attended or self.params.background else UNATTENDED_IDLE
        return TimeLimits(_seconds(wall), silent, idle_counts_cpu=True)

    def _move_after(self) -> float | None:
        """Return the seconds after which an attended command moves to the background."""
        if self.params.timeout is None and self.context.attended:
            return _seconds(DEFAULT_TIMEOUT_MS)
        return None

    def _job_result(self, outcome: CommandOutcome) -> ToolResult:
        state = outcome.status
        if state.running or (state.exit_code == 0 and state.ending is None):
            notes = () if state.running else (f"{state.id} is already over: it exited with code 0",)
            text = outcome.output.text.content
            started = f"Started job {state.id} (pid {state.pid})"
            started = f"{started}\n\nOutput so far:\n{text}" if text else started
            return self._tool_result(outcome, started, started, notes)
        error = ShellExecutionFailed(
            f"Job {state.id} failed to start: it was over after {outcome.seconds:.1f} s with code {state.exit_code}",
            {"exitCode": state.exit_code, "id": state.id},
        )
        return self._finished(outcome, error)

    def _tool_result(
        self,
        outcome: CommandOutcome,
        content: str,
        display: str,
        notes: Sequence[str] = (),
        error: ToolFailure | None = None,
        exit_code: int | None = None,
    ) -> ToolResult:
        state, output = outcome.status, outcome.output
        return ToolResult(
            llm_content=content,
            return_display=display,
            error=None if error is None else ToolError.of(error),
            data=ShellData(
                exit_code=None if timed_out(state) else state.exit_code,
                signal=state.signal,
                pid=state.pid,
                id=state.id,
                cwd=os.fsencode(state.cwd).decode("utf-8", "replace"),
                timed_out=timed_out(state),
                output=output.text.content,
            ),
            notes=(*notes, *outcome_notes(outcome)),
            exit_code=exit_code,
            artifacts=full_text(output),
            truncated=output.text.truncated,
        )

    def _result(self, outcome: CommandOutcome) -> ToolResult:
        state = outcome.status
        if not state.running:
            return self._finished(outcome, self._failure(outcome))
        text = outcome.output.text.content
        moved = (
            f"Still running after {outcome.seconds:.0f} s; it goes on in the background as {state.id} "
            f"(pid {state.pid}). Read it with shell_output, end it with shell_kill."
        )
        content = f"{moved}\n\nOutput so far:\n{text or NO_OUTPUT}"
        return self._tool_result(outcome, content, f"{text}\n\n{moved}" if text else moved)

    def _failure(self, outcome: CommandOutcome) -> ToolFailure | None:
        state, ran = outcome.status, round(outcome.seconds * 1000)
        match state.ending:
            case CommandEnding.TIMED_OUT:
                limit = self.params.timeout or DEFAULT_TIMEOUT_MS
                return ShellTimeout(
                    f"Command timed out after {limit}ms (it ran for {ran}ms) and was ended. "
                    "Give a longer timeout, or background=true.",
                    {"limitMs": limit, "elapsedMs": ran},
                )
            case CommandEnding.IDLE:
                limit = self.params.idle_timeout or round(UNATTENDED_IDLE * 1000)
                return ShellIdleTimeout(
                    f"Command was silent for {limit}ms (it ran for {ran}ms) and was ended. "
                    "Give a longer idleTimeout, or 0 for none.",
                    {"limitMs": limit, "elapsedMs": ran},
                )
            case CommandEnding.NEEDS_INPUT:
                return ShellExecutionFailed(
                    "Command asked for input at its terminal and was ended: nobody is there to type. "
                    "Pass the answer as an argument, by a pipe, or with the command's own option for it.",
                    {"exitCode": state.exit_code},
                )
            case _:
                pass
        reader = self.context.command_reader
        if state.exit_code == 0 or (reader and reader.exit_code_is_answer(self.params.command, state.exit_code)):
            return None
        code = "unknown" if state.exit_code is None else state.exit_code
        return ShellExecutionFailed(f"Command exited with code {code}", {"exitCode": state.exit_code})

    def _finished(self, outcome: CommandOutcome, error: ToolFailure | None) -> ToolResult:
        late = timed_out(outcome.status)
        code = None if late else outcome.status.exit_code
        text = outcome.output.text.content or NO_OUTPUT
        notes = self._refusal(text) if code else ()
        content = f"Exit code: {'none' if code is None else code}\n\nOutput:\n{text}"
        if error is not None and (late or outcome.status.ending is CommandEnding.NEEDS_INPUT):
            content = "\n\n".join((content.removesuffix("\n"), f"{error.type}: {error.message}"))
        return self._tool_result(outcome, content, text, notes, error=error, exit_code=code)

    def _refusal(self, text: str) -> tuple[str, ...]:
        """Return what the model is told where the cage is the likely cause of a failure."""
        place = self.place
        if place is ExecutionPlace.THIS_MACHINE or not (refused := likely_refusal(text)):
            return ()
        self.refused = refused
        if place is ExecutionPlace.READING_CAGE:
            self.context.command_hub.refused_lines.add(_line_of(self.params))
            return (f"[blocked by the cage: {refused}] {LOOKED}",)
        return (f"[blocked by the cage: {refused}] {WORKED} {self.context.sandbox.hint}".rstrip(),)


def _line_of(params: ShellParameters) -> tuple[str, str]:
    return params.command, params.cwd or "."


def shell_service(context: ToolContext) -> ShellService:
    """Return the service over the context's commands."""
    return ShellService(context.command_hub, context.limits.result_chars, context.limits.result_lines)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


SHELL = Tool(
    name="shell",
    display_name="Shell",
    description="Run a bash command; each call starts anew. Times in ms. Servers need background=true.",
    group=ToolGroup.RUNTIME,
    effect=Effect.RUNS,
    parameters=ShellParameters,
    invocation=ShellInvocation,
    returns=ShellData,
    risk=Risk.HIGH,
    time_limit=None,
    cuts_itself=True,
)
