"""Run an approved call within its time limit, and bring its result into the limits of a result."""

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
from ollm_tui.core.git.configuration import ConfiguredSecrets
from ollm_tui.core.tools.base import AnyInvocation, AnyTool
from ollm_tui.core.tools.context import Limits

GRACE_SECONDS = 2.0
"""How long a call that reached its time limit may take to end by itself before it is cancelled."""


async def run_invocation(
    context: CallContext, invocation: AnyInvocation, longest: float, bus: MessageBus, clock: Clock
) -> ToolResult:
    """Run for at most `longest` seconds or the tool's own shorter limit; raises ToolTimeout."""
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
            context.ran += clock.monotonic() - started


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


MAX_NOTES = 100
"""Notes of one result; a call with ten thousand unknown parameters gets one for each."""

NOTE_CHARS = 2_000
"""A longer note is cut: it may name what the model sent."""


class ResultLimits:
    """Brings results within the limits; `outputs` saves the full text of what is cut.

    What the model gets has none of the `secrets`.
    """

    def __init__(self, limits: Limits, outputs: OutputStore | None, secrets: ConfiguredSecrets) -> None:
        self._secrets = secrets
        self._config = TruncationConfig(max_chars=limits.result_chars, max_lines=limits.result_lines)
        self._outputs = outputs

    async def finish(self, result: ToolResult, context: CallContext, tool: AnyTool | None) -> ToolResult:
        """Return the result as the caller gets it: within the limits, with all notes and times."""
        changes: dict[str, object] = {
            "duration_ms": round(context.ran * 1000),
            "waited_ms": round(context.waited * 1000),
            "place": context.place,
        }
        content = self._secrets.mask(result.llm_content)
        if content != result.llm_content:
            changes["llm_content"] = content
        notes = (*context.notes, *result.notes)
        if tool is None or not tool.cuts_itself:  # one that does knows which of its text counts
            if OutputFormatter.exceeds(result.return_display, self._config):
                changes["return_display"] = OutputFormatter.excerpt(result.return_display, self._config).content
            if not result.truncated and OutputFormatter.exceeds(content, self._config):
                path, note = await self._saved(context.call_id, content)
                changes["llm_content"] = OutputFormatter.excerpt(content, self._config, path).content
                changes["truncated"] = True
                notes += note
                if path:
                    changes["artifacts"] = (*result.artifacts, Artifact(kind="full-text", path=path))
        if notes:
            changes["notes"] = _within_limits(notes)
        return result.model_copy(update=changes)

    async def _saved(self, call_id: str, text: str) -> tuple[str | None, tuple[str, ...]]:
        """Return where the whole text is; a note where it could not be saved."""
        if self._outputs is None:
            return None, ()
        try:
            return str(await self._outputs.save(call_id, text)), ()
        except OSError as error:
            return None, (f"the full text could not be saved: {error.strerror or error}",)


def _within_limits(notes: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a model should read of the notes, which are not part of the text that is cut."""
    short = tuple(note if len(note) <= NOTE_CHARS else f"{note[:NOTE_CHARS]}..." for note in notes[:MAX_NOTES])
    more = len(notes) - len(short)
    return (*short, f"{more} more notes are left out") if more else short
