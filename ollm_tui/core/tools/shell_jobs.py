"""`shell_output` and `shell_kill`: read and end background commands."""

from __future__ import annotations

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import InvalidArguments, ShellExecutionFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.output import NO_OUTPUT
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.shell.status import CommandKind, CommandPhase, CommandStatus
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.command_outcome import full_text
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.shell import shell_service

LONGEST_WAIT_MS = 600_000


class ShellOutputParameters(Parameters):
    """Which command's output to read, and from where."""

    id: str = Field(min_length=1)
    since: int | None = Field(None, ge=0, description="Byte to read from")
    wait: int = Field(0, ge=0, le=LONGEST_WAIT_MS, description="Milliseconds to wait for output")


class ShellOutputData(ToolData):
    """The output; `next` is the byte that later output starts at."""

    id: str
    state: CommandPhase
    output: str
    next: int
    exit_code: int | None


class ShellOutputInvocation(ToolInvocation[ShellOutputParameters]):
    """Reads the output of one command."""

    def get_description(self) -> str:
        return f"Read the output of {visible(self.params.id)}"

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        _agents_command(self.context, self.params.id)
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Read the output, waiting for it if asked to."""
        _agents_command(self.context, self.params.id)
        service = shell_service(self.context)
        written = service.hub.find(self.params.id).output.size
        if self.params.since is not None and self.params.since > written:
            raise InvalidArguments(
                f"since: byte {self.params.since} lies beyond the end of {self.params.id}'s output; it has {written}."
            )
        part = await service.read(self.params.id, self.params.since, self.params.wait / 1000, signal)
        text = part.output.text.content
        return ToolResult(
            llm_content=f"{_in_words(part.status)}\n\nOutput:\n{text or NO_OUTPUT}",
            return_display=text or NO_OUTPUT,
            data=ShellOutputData(
                id=part.status.id, state=part.status.phase, output=text, next=part.next, exit_code=part.status.exit_code
            ),
            notes=_notes(part.status),
            artifacts=full_text(part.output),
            truncated=part.output.text.truncated,
        )


def _notes(state: CommandStatus) -> tuple[str, ...]:
    waits = ("it waits for input; the person can type into its terminal",) if state.waiting_for_input else ()
    return (*state.user_input.for_model(), *waits, *state.disk_errors)


def _agents_command(context: ToolContext, command_id: str) -> CommandStatus:
    """Return the agent's command of that id. Raises InvalidArguments naming the valid ids."""
    hub = shell_service(context).hub
    states = {state.id: state for state in hub.list() if state.kind is CommandKind.AGENT}
    if command_id in states:
        return states[command_id]
    known = ", ".join(states) or "none; start one with shell and background=true"
    raise InvalidArguments(f"id: there is no job {command_id!r}. Valid ids: {known}.")


def _in_words(state: CommandStatus) -> str:
    """Return a job's state in one line."""
    match state.phase:
        case CommandPhase.RUNNING:
            return f"Job {state.id}: running (pid {state.pid})"
        case CommandPhase.EXITED:
            return f"Job {state.id}: exited with code {state.exit_code}"
        case CommandPhase.KILLED:
            return f"Job {state.id}: killed ({state.signal or state.ending}), exit code {state.exit_code}"


SHELL_OUTPUT = Tool(
    name="shell_output",
    display_name="Job Output",
    description="Read what a background command (id such as j1) wrote since the last reading, and its state.",
    group=ToolGroup.RUNTIME,
    effect=Effect.READS,
    parameters=ShellOutputParameters,
    invocation=ShellOutputInvocation,
    returns=ShellOutputData,
    risk=Risk.LOW,
    time_limit=None,
    cuts_itself=True,
)


class ShellKillParameters(Parameters):
    """Which command to end."""

    id: str = Field(min_length=1)


class ShellKillData(ToolData):
    """The job's state afterwards; `survivors` are processes that still run."""

    id: str
    state: CommandPhase
    exit_code: int | None
    survivors: tuple[str, ...] = ()


class ShellKillInvocation(ToolInvocation[ShellKillParameters]):
    """Ends one background command."""

    def get_description(self) -> str:
        return f"End {visible(self.params.id)}"

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Check the id. Raises InvalidArguments, ShellExecutionFailed."""
        _own_command(self.context, self.params.id)
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """End the command; one that is over stays as it is."""
        before = _own_command(self.context, self.params.id)
        after = await signal.guard(shell_service(self.context).hub.kill(self.params.id))
        survivors = tuple(map(str, after.leftovers))
        text = _in_words(after) if before.running else f"{_in_words(after)}; it was over already"
        return ToolResult.of_text(
            text,
            data=ShellKillData(id=after.id, state=after.phase, exit_code=after.exit_code, survivors=survivors),
            notes=(f"processes that could not be ended: {', '.join(survivors)}",) if survivors else (),
        )


def _own_command(context: ToolContext, command_id: str) -> CommandStatus:
    state = _agents_command(context, command_id)
    if state.user_input.took_over and state.unfinished:
        raise ShellExecutionFailed(
            f"{command_id} is not ended: the person has taken it over in its terminal, so it is theirs now. "
            "Ask them to end it, or to tell you when they are done.",
            {"id": command_id, "pid": state.pid},
        )
    return state


SHELL_KILL = Tool(
    name="shell_kill",
    display_name="End Job",
    description="End a background command by its id.",
    group=ToolGroup.RUNTIME,
    effect=Effect.RUNS,
    parameters=ShellKillParameters,
    invocation=ShellKillInvocation,
    returns=ShellKillData,
    risk=Risk.LOW,
)
