"""The sessions for the screen: listed, searched, previewed, deleted, and the way to another one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path

from ollm_tui.agent.events import AssistantMessageEvent, NoticeEvent, ToolCallEvent, UserMessageEvent
from ollm_tui.agent.session.catalogue import (
    SessionNotFoundError,
    StoredSession,
    delete_session,
    find_session,
    first_hit,
    last_events,
    list_sessions,
)
from ollm_tui.agent.session.export import markdown
from ollm_tui.agent.session.log import SessionInUseError
from ollm_tui.agent.session.reading import read_log
from ollm_tui.core.base.clock import Clock, iso_time
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.runtime import Runtime, SessionError, SessionWish
from ollm_tui.tui.controllers.conversation_controller import summary_of
from ollm_tui.tui.durations import short_age_since
from ollm_tui.tui.protocol import PostUpdate, intents, updates
from ollm_tui.tui.protocol.undo import since
from ollm_tui.tui.values import RequestRow, SessionRow

LISTED = 300
"""Most rows of the list; the search finds the others."""

PREVIEW_CHARACTERS = 12_000
"""Of the end of a session."""

SHORTEST_SEARCH = 2
"""Letters from which on the texts are searched, and not the titles alone."""


class SessionsController:
    """Handler of session intents; `switched` runs once another session is recorded."""

    def __init__(
        self,
        runtime: Runtime,
        post: PostUpdate,
        clock: Clock,
        switched: Callable[[], Coroutine[None, None, None]],
        take_files_back: Callable[[str], Coroutine[None, None, str]],
    ) -> None:
        self._runtime = runtime
        self._post = post
        self._clock = clock
        self._switched = switched
        self._take_files_back = take_files_back
        self._containing: str | None = None
        self._one_at_a_time = asyncio.Lock()

    async def handle(self, intent: intents.SessionIntent) -> None:
        """Carry out an intent and post the result."""
        try:
            match intent:
                case intents.ListSessions(containing):
                    self._containing = containing
                    await self._list(containing)
                case intents.PreviewSession(session_id):
                    text = await asyncio.to_thread(self._preview, session_id)
                    self._post(updates.SessionPreviewUpdate(session_id, text))
                case intents.OpenSession(session_id, fork, before, files):
                    await self._open(SessionWish(session_id, fork, before), files=files)
                case intents.DeleteSession(session_id):
                    await asyncio.to_thread(self._delete, session_id)
                    await self._list(self._containing or "")
                case intents.ExportSession(path):
                    written = await asyncio.to_thread(self._export, path)
                    self._post(updates.ToastUpdate(f"Written: {written}"))
                case intents.ListRequests():
                    await self._list_requests()
                case _:
                    pass
        except (SessionError, SessionNotFoundError, SessionInUseError, ToolFailure, OSError) as error:
            self._post(updates.ToastUpdate(str(error), failed=True))

    async def _open(self, wish: SessionWish, *, files: bool) -> None:
        async with self._one_at_a_time:
            said = ""
            if wish.before is not None:
                if files and not self._runtime.agent.busy:
                    said = await self._take_files_back(since(wish.before))
                wish = replace(wish, session_id=self._runtime.session_id, fork=True)
            elif wish.session_id == self._runtime.session_id and not wish.fork:
                raise SessionError("You are in this session already.")
            await self._runtime.open_session(wish)
            await self._switched()
            if said:
                self._runtime.stream.publish(NoticeEvent(text=said))

    def _export(self, path: str) -> Path:
        session = find_session(self._runtime.session.sessions, self._runtime.session_id)
        target = self._root / (Path(path).expanduser() if path else f"{session.id}.md")
        try:
            with open(target, "x", encoding="utf-8", errors="replace", opener=_for_oneself) as file:
                file.writelines(f"{block}\n" for block in markdown(session, read_log(session.path)))
        except FileExistsError:
            raise SessionError(f"{target} is there already. Name another: /export FILE.") from None
        return target

    async def _list(self, containing: str) -> None:
        """Post the sessions whose titles fit, then those in whose texts it stands."""
        sessions = await asyncio.to_thread(self._stored)
        words = containing.casefold()
        named = [one for one in sessions if words in f"{one.id} {one.title} {one.opening.workspace}".casefold()]
        rows = await asyncio.to_thread(lambda: [self._row(one) for one in named[:LISTED]])
        search = len(words.strip()) >= SHORTEST_SEARCH
        self._post(updates.SessionsUpdate(containing, tuple(rows), complete=not search))
        if not search:
            return
        known = {one.id for one in named}
        for session in sessions:
            if self._containing != containing:
                return  # another text is searched for meanwhile
            if session.id not in known and len(rows) < LISTED:
                hit = await asyncio.to_thread(first_hit, session, containing)
                if hit is not None:
                    rows.append(await asyncio.to_thread(self._row, session, hit.excerpt))
        self._post(updates.SessionsUpdate(containing, tuple(rows)))

    def _stored(self) -> list[StoredSession]:
        """Return the sessions in which something was asked, those of this workspace first."""
        sessions = [one for one in list_sessions(self._runtime.session.sessions) if one.title]
        return sorted(sessions, key=lambda one: one.opening.workspace != str(self._root))

    def _row(self, session: StoredSession, excerpt: str = "") -> SessionRow:
        own = session.id == self._runtime.session_id
        state = "this one" if own else "open" if session.in_use else "broken off" if session.broken_off else ""
        return SessionRow(
            session.id,
            session.title,
            visible(session.opening.workspace),
            short_age_since(iso_time(session.changed), self._clock.now()),
            session.size,
            f"{session.changed.astimezone():%Y-%m-%d %H:%M}  {visible(session.opening.model)}",
            state,
            excerpt,
            session.opening.workspace == str(self._root),
        )

    def _preview(self, session_id: str) -> str:
        pieces: list[str] = []
        session = find_session(self._runtime.session.sessions, session_id)
        for event in last_events(session.path):
            match event:
                case UserMessageEvent(text=text):
                    pieces.append(f"\nYOU\n{visible_block(text)}")
                case AssistantMessageEvent(text=text, task=None) if text.strip():
                    pieces.append(f"\nANSWER\n{visible_block(text)}")
                case ToolCallEvent(name=name, arguments=arguments):
                    pieces.append(f"> {visible(name)} {visible(summary_of(arguments))}")
                case _:
                    pass
        return "\n".join(pieces).strip()[-PREVIEW_CHARACTERS:]

    def _delete(self, session_id: str) -> None:
        if session_id == self._runtime.session_id:
            raise SessionError("You are in this session. /new begins another one; then it can be deleted.")
        delete_session(find_session(self._runtime.session.sessions, session_id))

    async def _list_requests(self) -> None:
        logged = await asyncio.to_thread(read_log, self._runtime.log.path)
        requests = tuple(
            RequestRow(event.id, short_age_since(event.time, self._clock.now()), event.text)
            for event in logged.events
            if isinstance(event, UserMessageEvent)
        )
        self._post(updates.RequestsUpdate(self._runtime.session_id, requests))

    @property
    def _root(self) -> Path:
        return self._runtime.core.configuration.workspace.root


def _for_oneself(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
