"""The memory for the screen; changes never overwrite a text not shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import OperationCancelled, ToolFailure
from ollm_tui.core.fence.secrets import looks_secret_under
from ollm_tui.core.memory import Memory, MemorySummary
from ollm_tui.tui.durations import short_age_since
from ollm_tui.tui.protocol import PostUpdate, intents, updates
from ollm_tui.tui.values import MemoryListing, MemoryName, MemoryOutcome, MemoryQuery, MemoryRow, MemoryText

LISTED = 500
"""Most rows of the list; the search finds the others."""

_FIRST_LINE_CHARS = 200


@dataclass(frozen=True)
class _Change:
    """Last change of the person, for undo; None stands for no text."""

    name: MemoryName
    before: str | None
    after: str | None


class MemoryController:
    """Handler of memory intents, one at a time."""

    def __init__(self, memory: Memory, post: PostUpdate, clock: Clock) -> None:
        self._memory = memory
        self._post = post
        self._clock = clock
        self._query: MemoryQuery | None = None
        self._shown: MemoryName | None = None
        self._last: _Change | None = None
        self._one_at_a_time = asyncio.Lock()
        self._search = AbortController()

    @property
    def open(self) -> bool:
        """Whether the memory screen is open."""
        return self._query is not None

    async def handle(self, intent: intents.MemoryIntent) -> None:
        """Carry out an intent and post the result.

        A newer search aborts the one that still runs.
        """
        if isinstance(intent, intents.ListMemories):
            self._search.abort()
            self._search = AbortController()
        async with self._one_at_a_time:
            try:
                await self._carry_out(intent)
            except OperationCancelled:
                pass
            except ToolFailure as failure:
                self._post(updates.MemoryChangeUpdate(MemoryOutcome.FAILED, failure.message))

    async def changed(self) -> None:
        """Post the open list and text again after changes by others."""
        if self._query is None:
            return
        async with self._one_at_a_time:
            try:
                await self._show()
            except OperationCancelled:
                pass
            except ToolFailure as failure:
                self._post(updates.MemoryChangeUpdate(MemoryOutcome.FAILED, failure.message))

    async def _carry_out(self, intent: intents.MemoryIntent) -> None:
        match intent:
            case intents.ListMemories(query):
                self._query = query
                await self._list(query)
            case intents.ReadMemory(name):
                self._shown = name
                await self._read(name)
            case intents.SaveMemory(name, expected, value):
                await self._change(name, expected, value, MemoryOutcome.SAVED)
            case intents.DeleteMemory(name):
                stored = await asyncio.to_thread(self._stored, name)
                await self._change(name, stored, None, MemoryOutcome.DELETED)
            case intents.UndoMemoryChange():
                await self._undo()
            case intents.CloseMemory():
                self._query = self._shown = None
            case _:
                pass

    async def _undo(self) -> None:
        last = self._last
        if last is None:
            self._post(updates.MemoryChangeUpdate(MemoryOutcome.FAILED, "There is nothing to undo."))
            return
        await self._change(last.name, last.after, last.before, MemoryOutcome.RESTORED)

    async def _change(self, name: MemoryName, expected: str | None, value: str | None, outcome: MemoryOutcome) -> None:
        if await asyncio.to_thread(self._memory.replace, name.key, expected, value, name.scope):
            self._last = None if outcome is MemoryOutcome.RESTORED else _Change(name, expected, value)
            self._post(updates.MemoryChangeUpdate(outcome, name=name, stored=value))
        else:
            stored = await asyncio.to_thread(self._stored, name)
            self._post(updates.MemoryChangeUpdate(MemoryOutcome.CONFLICT, name=name, stored=stored))
        if self._query is not None:
            await self._show()

    async def _show(self) -> None:
        if self._query is not None:
            await self._list(self._query)
        if self._shown is not None:
            await self._read(self._shown)

    async def _list(self, query: MemoryQuery) -> None:
        self._post(updates.MemoryListUpdate(await asyncio.to_thread(self._listing, query)))

    def _listing(self, query: MemoryQuery) -> MemoryListing:
        page = self._memory.page(query.containing, scope=query.scope, limit=LISTED, signal=self._search.signal)
        now = self._clock.now()
        return MemoryListing(query, tuple(_row(entry, now) for entry in page.entries), page.total)

    async def _read(self, name: MemoryName) -> None:
        self._post(updates.MemoryTextUpdate(await asyncio.to_thread(self._text, name)))

    def _text(self, name: MemoryName) -> MemoryText:
        value = self._stored(name)
        return MemoryText(name, value, "" if value is None else looks_secret_under(name.key, value) or "")

    def _stored(self, name: MemoryName) -> str | None:
        found = self._memory.get(name.key, name.scope)
        return None if found is None else found.value


def _row(entry: MemorySummary, now: datetime) -> MemoryRow:
    first = next((one for one in entry.opening.split("\n") if one.strip()), "")[:_FIRST_LINE_CHARS]
    concern = looks_secret_under(entry.key, entry.opening) or ""
    return MemoryRow(
        MemoryName(entry.key, entry.scope), first, entry.size, short_age_since(entry.changed_at, now), concern
    )
