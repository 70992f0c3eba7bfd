"""`memory_get`: read one memory (004)."""

from __future__ import annotations

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import quoted_unless_plain
from ollm_tui.core.base.results import ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.memory import MemoryData, recalled

_NAMED_KEYS = 20
"""Number of keys named when the key is missing."""


class MemoryGetParameters(Parameters):
    """Which memory to read."""

    key: str


class MemoryGetInvocation(ToolInvocation[MemoryGetParameters]):
    """Reads one memory."""

    def get_description(self) -> str:
        """Return one line about the call."""
        return f"Recall {quoted_unless_plain(self.params.key)}"

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Read the memory of the workspace, else that of the user.

        A missing key is no error: the result names existing keys.
        """
        signal.throw_if_aborted()
        return await signal.in_thread(self._run)

    def _run(self) -> ToolResult:
        memory = self.context.memories
        found = memory.get(self.params.key)
        if found is not None:
            return recalled(self.params.key, found)
        keys = memory.keys()
        named = ", ".join(quoted_unless_plain(key) for key in keys[:_NAMED_KEYS])
        more = f" and {len(keys) - _NAMED_KEYS} more" if len(keys) > _NAMED_KEYS else ""
        notes = (f"the keys are: {named}{more}",) if keys else ()
        return recalled(self.params.key, None, notes)


MEMORY_GET = Tool(
    name="memory_get",
    display_name="Recall",
    description="Read what is remembered under a key.",
    group=ToolGroup.MEMORY,
    effect=Effect.READS,
    parameters=MemoryGetParameters,
    invocation=MemoryGetInvocation,
    risk=Risk.LOW,
    returns=MemoryData,
)
