"""Other sessions' questions in the queue of this one: each answered once, wherever a person is first."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from ollm_tui.core.base.escape import visible
from ollm_tui.core.bus.confirmation import ConfirmationRequest
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import ConfirmationSettled, Notice
from ollm_tui.runtime.session_links import (
    HELLO_SECONDS,
    SOCKETS,
    SessionLink,
    linked,
    sockets_folder,
    sockets_place,
    started,
)

log = logging.getLogger(__name__)

SCAN_SECONDS = 2.0
"""How often new sessions are looked for."""
MOST_TRIES = 3
"""How often a session is linked to again that ends the link."""
LOST = "a lost link: it stays open there"


@dataclass
class Source:
    """A session elsewhere."""

    name: str
    workspace: str = ""
    link: SessionLink | None = None
    here: dict[str, str] = field(default_factory=dict[str, str])
    """Its open questions: their ids there, by those here."""

    @property
    def words(self) -> str:
        """What a person is told a question comes from."""
        return f"session {visible(self.name)} in {visible(self.workspace)}"


class Sources:
    """All sessions of this user that wait for a person, and the commands that were attached."""

    def __init__(self, bus: MessageBus, tell: Callable[[str], object]) -> None:
        """`tell` takes sentences for the person."""
        self._bus = bus
        self._tell = tell
        self._sources: dict[str, Source] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._tries: Counter[str] = Counter()
        """How often each socket was tried since it is there."""
        self._stop = bus.subscribe(self._hear)
        self._watching: asyncio.Task[None] | None = None

    def report(self) -> list[str]:
        """Return a line for each session that waits."""
        return [f"{one.words}: {len(one.here)} open" for one in self._sources.values() if one.workspace]

    def watch(self) -> None:
        """Look for sessions from now on."""
        self._watching = asyncio.ensure_future(self._watch())

    def attach(self, command: Sequence[str]) -> None:
        """Start a command that speaks as `run --ask stdio` does, and take its questions."""
        name = shlex.join(command)
        if name in self._following:
            self._tell(f"{visible(name)} is attached already.")
            return
        self._follow_in_task(name, lambda: started(command), says_why=True)

    async def aclose(self) -> None:
        """Let all go; what is open there stays open."""
        self._stop()
        tasks = [*self._following.values(), *([self._watching] if self._watching else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            found = {path.stem: path for path in await asyncio.to_thread(_sockets)}
            for name in self._tries.keys() - found.keys():
                del self._tries[name]
            for name, path in found.items():
                if name not in self._following and self._tries[name] < MOST_TRIES:
                    self._tries[name] += 1
                    self._follow_in_task(name, lambda path=path: linked(path), says_why=False)
            await asyncio.sleep(SCAN_SECONDS)

    def _follow_in_task(
        self, name: str, connect: Callable[[], AbstractAsyncContextManager[SessionLink]], *, says_why: bool
    ) -> None:
        async def follow() -> None:
            source = self._sources[name] = Source(name)
            reason = ""
            try:
                async with connect() as source.link:
                    reason = await self._follow(source)
            except (OSError, ValueError, TimeoutError) as error:
                reason = str(error) or type(error).__name__
            finally:
                del self._sources[name], self._following[name]
                for here in tuple(source.here):
                    self._bus.cancel_request(here, by=LOST)
            log.info("the session %s is gone: %s", name, reason)
            if says_why or source.workspace:
                self._tell(
                    f"{source.words if source.workspace else visible(name)}: {visible(reason or 'it has ended')}."
                )

        self._following[name] = asyncio.ensure_future(follow())

    async def _follow(self, source: Source) -> str:
        """Take what a session says until it ends; returns how it ended. Raises ValueError for what cannot be read."""
        assert source.link is not None
        async with asyncio.timeout(HELLO_SECONDS):
            hello = await source.link.next() or {}
        source.workspace = str(hello.get("workspace", "")) or "an unknown folder"
        source.name = str(hello.get("session", source.name))
        source.link.greet()
        while (frame := await source.link.next()) is not None:
            match frame:
                case {"type": "question", "request": dict(request)}:
                    self._ask(source, ConfirmationRequest.model_validate(request))
                case {"type": "settled", "id": str(there), "outcome": str(outcome)}:
                    for here in [one for one, theirs in source.here.items() if theirs == there]:
                        self._bus.cancel_request(here, by=visible(outcome))
                case {"type": "refused", "reason": str(reason)}:
                    self._tell(f"{source.words} did not take your answer: {visible(reason)}.")
                case {"type": "text", "text": str(text)}:
                    self._tell(f"{source.words} says: {visible(text)}")
                case {"type": "end", "status": str(status)}:
                    return f"its turn is {status}"
                case _:
                    pass
        return "the link ended; what was open stays open there"

    def _ask(self, source: Source, request: ConfirmationRequest) -> None:
        # Which cage it may run in is decided where it runs.
        details = request.details.model_copy(update={"cage_problem": None})
        opened = self._bus.open_confirmation(
            details, None, reason=request.reason, origin=request.origin, source=source.words
        )
        source.here[opened.confirmation.id] = request.id

    def _hear(self, notice: Notice) -> None:
        """Send an answer that a person gave here."""
        if not isinstance(notice, ConfirmationSettled) or not notice.confirmation.of_other_session:
            return
        for source in self._sources.values():
            there = source.here.pop(notice.confirmation.id, None)
            if there is not None and notice.response is not None and source.link is not None:
                source.link.answer(notice.response.model_copy(update={"id": there}))


def _sockets() -> list[Path]:
    """Return the sockets of sessions; nothing where the folder is not this user's."""
    try:
        return sorted(sockets_folder().glob(SOCKETS)) if sockets_place().exists() else []
    except OSError:
        return []
