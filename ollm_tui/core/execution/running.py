"""Running an approved call: within its limit, its output told as it comes, its end awaited whatever happens."""

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
from ollm_tui.core.tools.base import AnyInvocation, Limits

GRACE_SECONDS = 2.0
"""How long a call that reached its time limit may take to end by itself before it is cancelled."""


async def run_invocation(
    journey: CallContext, invocation: AnyInvocation, longest: float, bus: MessageBus, clock: Clock
) -> ToolResult:
    """Run for at most `longest` seconds, or the tool's own shorter limit; not at all where it keeps one itself.

    Raises ToolTimeout, and whatever the tool raises.
    """
    own = invocation.tool.time_limit
    limit = None if own is None else min(own, longest)
    started = clock.monotonic()
    with linked(journey.signal) as controller:
        task = asyncio.ensure_future(invocation.execute(controller.signal, _teller(journey, bus)))
        try:
            done, _ = await asyncio.wait({task}, timeout=limit)
            if not done:
                await _stop(task, controller)
                elapsed = clock.monotonic() - started
                raise ToolTimeout(
                    f"{journey.name} took longer than its limit of {limit:g} s and was stopped after "
                    f"{elapsed:.1f} s. Ask for less at once.",
                    {"limitSeconds": limit, "elapsedSeconds": round(elapsed, 3)},
                )
            return task.result()
        except asyncio.CancelledError:
            await _stop(task, controller)
            raise
        finally:
            journey.ran = clock.monotonic() - started


def _teller(journey: CallContext, bus: MessageBus) -> UpdateOutput:
    def tell(text: str) -> None:
        if journey.state is not CallState.RUNNING or not text:
            return
        bus.publish(OutputProduced(journey.call_id, text))
        if journey.update_output is not None:
            journey.update_output(text)

    return tell


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


async def excerpted(result: ToolResult, limits: Limits, outputs: OutputStore | None, call_id: str) -> ToolResult:
    """The result, cut where it is over the limits; where its whole text cannot be kept, a note says so."""
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
    """What a model should read of the notes, which stand outside of the text that is cut."""
    kept = tuple(note if len(note) <= NOTE_CHARS else f"{note[:NOTE_CHARS]}..." for note in notes[:NOTES_KEPT])
    more = len(notes) - len(kept)
    return (*kept, f"{more} more notes are left out") if more else kept


def shown(text: str, limits: Limits) -> str:
    """What the screen and the log get of a result's display."""
    config = _config(limits)
    return OutputFormatter.excerpt(text, config).content if OutputFormatter.exceeds(text, config) else text


def _config(limits: Limits) -> TruncationConfig:
    return TruncationConfig(max_chars=limits.result_chars, max_lines=limits.result_lines)
