"""`task`: give a part of the work to a sub-agent with a context of its own; its last words are the result."""

from __future__ import annotations

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import InvalidArguments, TaskFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.context import TaskOrder

NAME_CHARACTERS = 40
"""Of a sub-agent's name, on the screen and in its questions."""


class TaskParameters(Parameters):
    """A name for the person, and all that the sub-agent is told."""

    description: str = Field(min_length=1)
    prompt: str = Field(min_length=1, description="All it needs to know")
    tools: list[str] | None = Field(None, min_length=1)


class TaskInvocation(ToolInvocation[TaskParameters]):
    """Waits for a sub-agent, each of whose calls is judged by itself."""

    def get_description(self) -> str:
        return f"Sub-agent: {self._name}"

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise TaskFailed where there is no agent; InvalidArguments for tools that it cannot have."""
        if self.context.tasks is None:
            raise TaskFailed("Sub-agents work for an agent; here is none. Use the dashboard or `ollm-tui run`.")
        if unknown := self.context.tasks.unknown_tools(self.params.tools or ()):
            raise InvalidArguments(f"task: a sub-agent cannot have {', '.join(map(visible, unknown))}.")
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Return the sub-agent's last text. Raises TaskFailed."""
        await self.check(signal)
        assert self.context.tasks is not None, "it was just checked"
        tools = None if self.params.tools is None else tuple(self.params.tools)
        return ToolResult.of_text(
            await self.context.tasks.run(TaskOrder(self.context.call_id, self._name, self.params.prompt, tools), signal)
        )

    @property
    def _name(self) -> str:
        return " ".join(visible(self.params.description).split())[:NAME_CHARACTERS]


TASK = Tool(
    name="task",
    display_name="Sub-agent",
    description="Have a sub-agent do a part of the work; returns its last answer.",
    group=ToolGroup.RUNTIME,
    effect=Effect.READS,
    parameters=TaskParameters,
    invocation=TaskInvocation,
    risk=Risk.MEDIUM,
    time_limit=None,
)
