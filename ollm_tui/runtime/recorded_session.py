"""The session that is recorded: a new one, an earlier one gone on with, or a fork of one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from ollm_tui import __version__
from ollm_tui.agent.events import SessionStartedEvent
from ollm_tui.agent.providers.provider import ProviderDescription
from ollm_tui.agent.session.catalogue import (
    SessionNotFoundError,
    StoredSession,
    find_session,
    how_it_broke_off,
    last_session,
)
from ollm_tui.agent.session.history import RestoredHistory, restore_history
from ollm_tui.agent.session.log import SessionInUseError, SessionLog, new_session_id, sessions_folder
from ollm_tui.agent.session.reading import LoggedEvents, fork_log, read_log
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.escape import visible
from ollm_tui.options import Options


class SessionError(Exception):
    """A session cannot be opened; the message says which, why, and what to do."""


@dataclass(frozen=True)
class SessionWish:
    """Which session to open: a new one where none is named."""

    session_id: str | None = None
    """The beginning of its id; empty for the workspace's last one."""
    fork: bool = False
    before: int | None = None
    """A fork ends before the event with this id."""

    @classmethod
    def of(cls, options: Options) -> SessionWish:
        """Return what the command line asks for."""
        return cls("" if options.continue_last else options.resume, options.fork)


@dataclass(frozen=True)
class OpenedSession:
    """A session as it was when it was opened."""

    id: str = ""
    earlier: LoggedEvents = field(default_factory=LoggedEvents)
    """What happened in it before, for the screen."""
    history: RestoredHistory = field(default_factory=RestoredHistory)
    forked_from: str | None = None
    notices: tuple[str, ...] = ()


class RecordedSession:
    """The one session that a runtime records; another one can take its place."""

    def __init__(self, sessions: Path, workspace: Path, clock: Clock, *, attended: bool) -> None:
        self.sessions = sessions
        self._workspace = workspace
        self._clock = clock
        self._attended = attended
        self._log: SessionLog | None = None
        self.now = OpenedSession()

    @property
    def folder(self) -> Path:
        """The folder of the session."""
        return self.log.folder

    @property
    def log(self) -> SessionLog:
        """What is written now; the same object for all sessions of the runtime."""
        assert self._log is not None, "open() comes first"
        return self._log

    async def open(self, wish: SessionWish) -> OpenedSession:
        """Open the session that is asked for, and close the one before. Raises SessionError; nothing changed then."""
        self.now = await asyncio.to_thread(self._open, wish)
        return self.now

    def started(self, described: ProviderDescription) -> SessionStartedEvent:
        """Return the event that begins it, or goes on with it."""
        return SessionStartedEvent(
            session_id=self.now.id,
            workspace=str(self._workspace),
            provider=described.provider,
            model=described.model or "",
            version=__version__,
            forked_from=self.now.forked_from,
        )

    def _open(self, wish: SessionWish) -> OpenedSession:
        try:
            stored = _find(self.sessions, wish, self._workspace)
            if stored is None:
                session_id = new_session_id(self._clock)
                self._record(self.sessions / session_id)
                return OpenedSession(session_id)
            if wish.fork:
                session_id = new_session_id(self._clock)
                fork_log(stored.path, self.sessions / session_id, wish.before)
                stored, forked_from = find_session(self.sessions, session_id), stored.id
                self._record(stored.folder)
                return self._read(stored, forked_from)
            broken_off = [how_it_broke_off(stored.path)] if stored.broken_off else []
            self._record(stored.folder)
            return self._read(stored, None, *broken_off)
        except (SessionNotFoundError, SessionInUseError) as error:
            raise SessionError(str(error)) from None
        except OSError as error:
            raise SessionError(f"The session cannot be read: {error}. `ollm-tui sessions list` shows others.") from None

    def _record(self, folder: Path) -> None:
        if self._log is None:
            self._log = SessionLog(folder)
        else:
            self._log.move_to(folder)

    def _read(self, stored: StoredSession, forked_from: str | None, *notices: str) -> OpenedSession:
        logged = read_log(stored.path)
        history = restore_history(logged.events, ask_again=self._attended)
        return OpenedSession(
            stored.id, logged, history, forked_from, (*notices, *self._notices(stored, logged, forked_from))
        )

    def _notices(self, stored: StoredSession, logged: LoggedEvents, forked_from: str | None) -> list[str]:
        what = f"a fork of {forked_from}" if forked_from else f"session {stored.id}"
        notices = [f'You go on with {what}: "{stored.title}".' if stored.title else f"You go on with {what}."]
        if logged.damaged:
            lines = "1 line of its log is" if logged.damaged == 1 else f"{logged.damaged} lines of its log are"
            notices.append(f"{lines} damaged and left out; the file stays as it is: {stored.path}")
        if stored.opening.workspace not in ("", str(self._workspace)):
            there = visible(stored.opening.workspace)
            notices.append(
                f"It worked in {there} and goes on in {visible(str(self._workspace))}: paths in it may mean other files"
                f" now. To go on there: ollm-tui -C {there} --resume {stored.id}"
            )
        return notices


def check_session(wish: SessionWish, workspace: Path) -> None:
    """Raise SessionError where the session that is asked for is not there, or open elsewhere."""
    try:
        stored = _find(sessions_folder(), wish, workspace.resolve())
    except SessionNotFoundError as error:
        raise SessionError(str(error)) from None
    if stored is not None and stored.in_use and not wish.fork:
        raise SessionError(f"{SessionInUseError(stored.id)} --fork goes on in a copy of it.")


def _find(sessions: Path, wish: SessionWish, workspace: Path) -> StoredSession | None:
    if wish.session_id is None:
        if wish.fork:
            raise SessionNotFoundError("--fork copies an earlier session: name it with --continue or --resume ID.")
        return None
    return find_session(sessions, wish.session_id) if wish.session_id else last_session(sessions, workspace)
