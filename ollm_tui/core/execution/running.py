"""Running an approved call within its time limit, and bringing its result into the limits of a result."""

from __future__ import annotations

import asyncio

from ollm_tui.core.base.abort import AbortController, linked
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import ToolTimeout
from ollm_tui.core.base.output import OutputFormatter, OutputStore, TruncationConfig
from ollm_tui.core.base.results import Artifact, ToolResult, UpdateOutput
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import OutputProduced
from ollm_tui.core.bus.states import CallState
from ollm_tui.core.execution.calls import CallContext
from ollm_tui.core.tools.base import AnyInvocation, AnyTool
from ollm_tui.core.tools.context import Limits

GRACE_SECONDS = 2.0
"""How long a call that reached its time limit may take to end by itself before it is cancelled."""


async def run_invocation(
    context: CallContext, invocation: AnyInvocation, longest: float, bus: MessageBus, clock: Clock
) -> ToolResult:
    """Run for at most `longest` seconds or the tool's own shorter limit, if it does not keep one itself.

    Raises:
        ToolTimeout: The call reached its limit.
        ToolFailure: What the tool itself raises.
    """
    own = invocation.tool.time_limit
    limit = None if own is None else min(own, longest)
    started = clock.monotonic()
    with linked(context.signal) as controller:
        task = asyncio.ensure_future(invocation.execute(controller.signal, _output_of(context, bus)))
        try:
            done, _ = await asyncio.wait({task}, timeout=limit)
            if not done:
                await _stop(task, controller)
                elapsed = clock.monotonic() - started
                raise ToolTimeout(
                    f"{context.name} took longer than its limit of {limit:g} s and was stopped after "
                    f"{elapsed:.1f} s. Ask for less at once.",
                    {"limitSeconds": limit, "elapsedSeconds": round(elapsed, 3)},
                )
            return task.result()
        except asyncio.CancelledError:
            await _stop(task, controller)
            raise
        finally:
            context.ran = clock.monotonic() - started


def _output_of(context: CallContext, bus: MessageBus) -> UpdateOutput:
    def produce(text: str) -> None:
        if context.state is not CallState.RUNNING or not text:
            return
        bus.publish(OutputProduced(context.call_id, text))
        if context.update_output is not None:
            context.update_output(text)

    return produce


async def _stop(task: asyncio.Task[ToolResult], controller: AbortController) -> None:
    """End a call that may not go on: ask it to stop, and cancel it if it does not."""
    controller.abort("the call was stopped")
    try:
        done, _ = await asyncio.wait({task}, timeout=GRACE_SECONDS)
    finally:
        task.cancel()  # also where whoever waits here is cancelled a second time: nothing goes on unwatched
    if not done:
        await asyncio.wait({task}, timeout=GRACE_SECONDS)
    if task.done() and not task.cancelled():
        task.exception()


NOTES_KEPT = 100
"""Notes of one result; a call with ten thousand unknown parameters gets one for each."""

NOTE_CHARS = 2_000
"""A longer note is cut: it may name what the model sent."""


async def finished(
    result: ToolResult, context: CallContext, tool: AnyTool | None, limits: Limits, outputs: OutputStore | None
) -> ToolResult:
    """Return the result as the caller gets it: within the limits, with all notes and times."""
    cuts_itself = tool is not None and tool.cuts_itself  # it knows which of its text counts
    if not result.truncated and not cuts_itself:
        result = await excerpted(result, limits, outputs, context.call_id)
    display = result.return_display if cuts_itself else shown(result.return_display, limits)
    return result.model_copy(
        update={
            "return_display": display,
            "notes": notes_kept((*context.notes, *result.notes)),
            "duration_ms": round(context.ran * 1000),
            "waited_ms": round(context.waited * 1000),
        }
    )


async def excerpted(result: ToolResult, limits: Limits, outputs: OutputStore | None, call_id: str) -> ToolResult:
    """Cut a result that is over the limits; where its whole text cannot be kept, a note says so."""
    text = result.llm_content
    config = _config(limits)
    if not OutputFormatter.exceeds(text, config):
        return result
    path: str | None = None
    notes = result.notes
    if outputs is not None:
        try:
            path = str(await outputs.save(call_id, text))
        except OSError as error:
            notes = (*notes, f"the full text could not be kept: {error.strerror or error}")
    cut = OutputFormatter.excerpt(text, config, path)
    artifacts = (*result.artifacts, Artifact(kind="full-text", path=path)) if path else result.artifacts
    changes = {"llm_content": cut.content, "truncated": True, "artifacts": artifacts, "notes": notes}
    return result.model_copy(update=changes)


def notes_kept(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a model should read of the notes, which are not part of the text that is cut."""
    kept = tuple(note if len(note) <= NOTE_CHARS else f"{note[:NOTE_CHARS]}..." for note in notes[:NOTES_KEPT])
    more = len(notes) - len(kept)
    return (*kept, f"{more} more notes are left out") if more else kept


def shown(text: str, limits: Limits) -> str:
    """Return what the screen and the log get of a result's display."""
    config = _config(limits)
    return OutputFormatter.excerpt(text, config).content if OutputFormatter.exceeds(text, config) else text


def _config(limits: Limits) -> TruncationConfig:
    return TruncationConfig(max_chars=limits.result_chars, max_lines=limits.result_lines)
