"""`shell_kill`: end a background command with everything it started."""

from __future__ import annotations

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ShellExecutionFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.shell.hub import CommandPhase, CommandStatus
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.shell import shell_service
from ollm_tui.core.tools.shell_output import agents_command, standing


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
        """Return one line about the call."""
        return f"End {visible(self.params.id)}"

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Check the id. Raises InvalidArguments, ShellExecutionFailed."""
        _own_command(self.context, self.params.id)
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """End the command; one that is over stays as it is.

        Raises:
            InvalidArguments: The id is unknown.
            ShellExecutionFailed: The person has taken the command over.
        """
        before = _own_command(self.context, self.params.id)
        after = await signal.guard(shell_service(self.context).hub.kill(self.params.id))
        survivors = tuple(map(str, after.leftovers))
        said = standing(after) if before.running else f"{standing(after)}; it was over already"
        return ToolResult.of_text(
            said,
            data=ShellKillData(id=after.id, state=after.phase, exit_code=after.exit_code, survivors=survivors),
            notes=(f"processes that could not be ended: {', '.join(survivors)}",) if survivors else (),
        )


def _own_command(context: ToolContext, command_id: str) -> CommandStatus:
    state = agents_command(context, command_id)
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
