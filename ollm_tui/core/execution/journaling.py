"""Write down for the journal what a call is about to replace, and afterwards what it has changed."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from threading import Event
from typing import TypeVar

from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.execution.calls import CallContext
from ollm_tui.core.execution.command_journal import CommandJournal, Looked, Recorded
from ollm_tui.core.fence.workspace import Access
from ollm_tui.core.files.journal import Change, Entry, EntryState, Journal, change_between, with_state
from ollm_tui.core.files.journal_states import ABSENT, NOTHING, FileKind, Place, Sighting, look_at
from ollm_tui.core.shell.command import RunningCommand
from ollm_tui.core.shell.hub import CommandHub, UnknownCommandError
from ollm_tui.core.shell.status import CommandStatus
from ollm_tui.core.tools.base import AnyInvocation, Effect

log = logging.getLogger(__name__)

T = TypeVar("T")

GOES_ON = "it went on in the background: what it changed after that is an entry of its own once it has ended"
MEANWHILE = "what you or other programs changed meanwhile is in it too"
STILL_RUNS = "the job ran on when the program ended: later changes are not recorded"


@dataclass(frozen=True)
class _Watched:
    """The paths of a call that writes files, as they were before."""

    entry: Entry
    before: Mapping[Place, Sighting]


class CallJournal:
    """Stands around the effect of each call; a journal that fails never holds a call up."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._commands = CommandJournal(journal)
        self._jobs: dict[asyncio.Task[None], asyncio.Event] = {}

    async def around(
        self, context: CallContext, invocation: AnyInvocation, run: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """Run the call between two looks at what it touches; a note says where that failed."""
        if invocation.tool.effect is Effect.RUNS and invocation.touched_paths():
            return await (run() if invocation.looks else self._around_command(context, invocation, run))
        places = _written_places(invocation)
        if not places:
            return await run()
        watched = await _guarded(context, lambda: self._begin(context, invocation, places))
        if watched is None:
            return await run()
        trash: str | None = None
        try:
            result = await run()
            trash = getattr(result.data, "trash_id", None)
            return result
        finally:
            await _guarded(context, lambda: self._finish(watched, trash or ""))

    async def _around_command(
        self, context: CallContext, invocation: AnyInvocation, run: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        fence = invocation.context.workspace
        roots = () if fence is None else tuple(map(str, fence.roots))
        looked = await _guarded(context, lambda: self._commands.look(roots))
        if looked is None:
            return await run()
        over = Event()
        keeping = asyncio.ensure_future(_guarded(context, lambda: self._commands.keep_more(looked, over)))
        command = Recorded(context.call_id, invocation.tool.name, invocation.get_description(), self._journal.turn)
        job: RunningCommand | None = None
        try:
            result = await run()
            job = _job_of(result, invocation)
            return result
        finally:
            over.set()
            await keeping
            now = await _guarded(context, lambda: self._commands.record(looked, command, GOES_ON if job else ""))
            if job is not None and now is not None:
                self._follow(job, invocation.context.command_hub, command, now)

    def _follow(self, job: RunningCommand, hub: CommandHub, command: Recorded, now: Looked) -> None:
        """Record in a task what a job changes until it ends, or `settle` comes."""
        ended = asyncio.Event()

        def heard(status: CommandStatus) -> None:
            if status.id == job.status.id and not status.running:
                ended.set()

        unsubscribe = hub.subscribe(heard)
        if not job.status.running:
            ended.set()
        task = asyncio.ensure_future(self._record_at_end(job, ended, command, now))
        self._jobs[task] = ended
        task.add_done_callback(lambda _: (unsubscribe(), self._jobs.pop(task, None)))

    async def _record_at_end(self, job: RunningCommand, ended: asyncio.Event, command: Recorded, now: Looked) -> None:
        since, over = self._journal.moment, Event()

        def keep() -> Looked:
            looked = self._commands.go_on(now)
            self._commands.keep_more(looked, over)
            return looked

        keeping = asyncio.ensure_future(asyncio.to_thread(keep))
        await ended.wait()
        over.set()
        later = replace(command, title=f"{command.title} (in the background)")
        note = f"{MEANWHILE}; {STILL_RUNS}" if job.status.running else MEANWHILE
        try:
            looked = await keeping
            await asyncio.to_thread(self._commands.record, looked, later, note, since)
        except (StorageFailed, OSError) as error:
            log.warning("what a job changed is not recorded for undo: %s", error)

    async def settle(self) -> None:
        """Record what jobs have changed so far; they are about to end or to be left."""
        for ended in self._jobs.values():
            ended.set()
        await asyncio.gather(*self._jobs, return_exceptions=True)

    def _begin(self, context: CallContext, invocation: AnyInvocation, places: list[Place]) -> _Watched:
        before = {place: look_at(place) for place in places}
        parents = {parent: NOTHING for place in places if before[place] is NOTHING for parent in _missing_above(place)}
        contents = [each.content for each in before.values() if each.content is not None]
        entry = self._journal.begin(context.call_id, invocation.tool.name, invocation.get_description(), contents)
        return _Watched(entry, {**parents, **before})

    def _finish(self, watched: _Watched, trash: str) -> None:
        after = {place: look_at(place) for place in watched.before}
        changes = list(_changes(watched.before, after, trash))
        contents = [each.content for each in after.values() if each.content is not None]
        self._journal.save(with_state(watched.entry, EntryState.DONE, changes), contents)


def _job_of(result: ToolResult, invocation: AnyInvocation) -> RunningCommand | None:
    """Return the command of a call that goes on in the background."""
    if getattr(result.data, "exit_code", 0) is not None or getattr(result.data, "timed_out", None) is not False:
        return None
    try:
        return invocation.context.command_hub.find(str(getattr(result.data, "id", "")))
    except UnknownCommandError:
        return None


async def _guarded(context: CallContext, work: Callable[[], T]) -> T | None:
    """Run it in a thread; where the journal fails the call goes on, and a note says so."""
    try:
        return await asyncio.to_thread(work)
    except (StorageFailed, OSError) as error:
        log.warning("not recorded for undo: %s", error)
        reason = error.message if isinstance(error, StorageFailed) else error.strerror or str(error)
        context.notes.append(f"undo is off, this call cannot be undone: {reason}")
        return None


def _written_places(invocation: AnyInvocation) -> list[Place]:
    fence = invocation.context.workspace
    if fence is None:
        return []
    places: list[Place] = []
    for touched in invocation.touched_paths():
        if touched.access is Access.WRITE:
            location = fence.resolve(touched.path, touched.access, follow=touched.follow)
            if location.relative:
                places.append(Place(str(location.root), location.relative))
    return places


def _missing_above(place: Place) -> Iterator[Place]:
    """Yield the directories above that a call may make, the outermost first."""
    parts = place.relative.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        above = Place(place.root, "/".join(parts[:count]))
        if not os.path.lexists(above.path):
            yield above


def _changes(before: Mapping[Place, Sighting], after: Mapping[Place, Sighting], trash: str) -> Iterator[Change]:
    gone = {place for place in before if before[place].state != ABSENT and after[place].state == ABSENT}
    moved: set[Place] = set()
    for place, now in after.items():
        origin = next((each for each in gone if _is_same_file(before[each], now)), None)
        if origin is not None:
            moved.add(origin)
            yield Change(place, before[place].state, now.state, origin=origin)
        elif place not in gone:
            change = change_between(place, before[place], now)
            if change is not None:
                yield change
    for place in gone - moved:
        if trash:
            yield Change(place, before[place].state, ABSENT, trash=trash)
        elif before[place].state.kind is FileKind.DIRECTORY:
            yield Change(place, before[place].state, ABSENT, reason="what was in the directory is not known")
        elif (change := change_between(place, before[place], after[place])) is not None:
            yield change


def _is_same_file(one: Sighting, other: Sighting) -> bool:
    if one.signature is None or other.signature is None:
        return False
    return (one.device, one.signature[2]) == (other.device, other.signature[2])
