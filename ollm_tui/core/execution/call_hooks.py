"""What the executor asks of hooks: programs of the person that hear of calls, and may tighten or rewrite them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import JsonObject, ToolResult
from ollm_tui.core.policy.engine import Floor


class HookedCall(NamedTuple):
    """A validated call, as hooks are told of it."""

    call_id: str
    tool: str
    arguments: JsonObject
    origin: str


@dataclass(frozen=True)
class HookWord:
    """What hooks make of a call before it is judged: they add floors, and may change its arguments."""

    floors: tuple[Floor, ...] = ()
    arguments: JsonObject | None = None
    """What it is to be called with instead; validated and judged as everything else."""
    notes: tuple[str, ...] = ()
    remark: str = ""
    """For the question, where the arguments were changed."""

    def and_then(self, later: HookWord) -> HookWord:
        """Return both words; the later one's arguments count."""
        return HookWord(
            (*self.floors, *later.floors),
            self.arguments if later.arguments is None else later.arguments,
            (*self.notes, *later.notes),
            later.remark or self.remark,
        )


class CallHooks(Protocol):
    """Hears of each call, in its order; raises OperationCancelled alone."""

    async def before(self, call: HookedCall, signal: AbortSignal) -> HookWord:
        """Return what is to be made of a validated call before it is judged."""
        ...

    async def asked(self, call: HookedCall, reason: str, signal: AbortSignal) -> str:
        """Return why its question must not be put to the person; empty where it may."""
        ...

    async def after(self, call: HookedCall, result: ToolResult, signal: AbortSignal) -> tuple[str, ...]:
        """Return notes for the model about the result of a call that ran."""
        ...
