"""Commands as tools run and read them: as text, within limits (001 R5)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.base.output import ExcerptBuffer, Truncated
from ollm_tui.core.base.results import UpdateOutput
from ollm_tui.core.shell.command import RunningCommand
from ollm_tui.core.shell.folded_text import FoldedText
from ollm_tui.core.shell.hub import CommandHub, CommandRequest, awaitable_of, end_and_wait
from ollm_tui.core.shell.output_log import FullText
from ollm_tui.core.shell.status import CommandStatus


class OutputDelta:
    """The new part of a folded text since the last time; parts are appended, never taken back.

    A line that was sent and changed afterwards is sent again once complete; lines further up never are.
    """

    MAX = 65_536
    """Characters queued between two updates; of a flood only the end is sent."""

    def __init__(self) -> None:
        self._queue: list[str] = []
        self._queued = 0
        self._dropped = 0
        self._lines_sent = 0
        """Lines after the settled text that have been sent in full."""
        self._sent = ""
        """What has been sent of the line after these."""

    def settle(self, text: str) -> None:
        """Add text that can no longer change."""
        self._queue.append(text)
        self._queued += len(text)
        if self._queued > 2 * self.MAX:
            latest = "".join(self._queue)[-self.MAX :]
            self._dropped += self._queued - len(latest)
            self._queue, self._queued = [latest], len(latest)
            self._lines_sent, self._sent = 0, ""

    def take(self, rest: str, *, final: bool = False) -> str:
        """Return the new text, if any; `rest` is what may still change."""
        current = "".join(self._queue) + rest
        start = 0
        for _ in range(self._lines_sent):
            start = current.find("\n", start) + 1
            if start == 0:
                start = len(current)
                break
        new = current[start:]
        if new.startswith(self._sent):
            new = new[len(self._sent) :]
        elif "\n" in new or final:
            new = "\n" + new
        else:
            settled_lines = sum(text.count("\n") for text in self._queue)
            self._queue, self._queued = [], 0
            self._lines_sent = max(0, self._lines_sent - settled_lines)
            return ""
        if self._dropped:
            new = f"[... {self._dropped} characters not shown here ...]\n{new}"
        self._queue, self._queued, self._dropped = [], 0, 0
        self._lines_sent, self._sent = rest.count("\n"), rest[rest.rfind("\n") + 1 :]
        return new


UPDATE_EVERY = 0.1
"""Seconds between two pieces of live output."""

FAILED_START_WITHIN = 0.8
"""Seconds that a job is watched before it counts as started; the call returns within one second."""

_SETTLING = 0.05
"""Seconds after a first byte in which more is likely to come with it."""


@dataclass(frozen=True)
class OutputExcerpt:
    """An output as the model reads it, and where all of it is when that is only an excerpt."""

    text: Truncated
    full_text: Path | None = None


@dataclass(frozen=True)
class CommandOutcome:
    """The result of a command, after `seconds`; while it runs it goes on in the background."""

    status: CommandStatus
    output: OutputExcerpt
    seconds: float


@dataclass(frozen=True)
class JobOutput:
    """A part of a job's output; `next` is the byte the following part starts at."""

    status: CommandStatus
    output: OutputExcerpt
    next: int


class OutputReader:
    """Folds a command's bytes as they come: fed in the command's thread, asked in the event loop."""

    def __init__(self, hub: CommandHub, name: str, max_chars: int, max_lines: int) -> None:
        self._lock = threading.Lock()
        self._buffer = ExcerptBuffer(max_chars, max_lines)
        self._full_text = FullText(self._buffer.feed, max_chars, hub.log_folder, f"{name}-text")
        self._new = OutputDelta()
        self._folded = FoldedText(self._settle)
        self._finished = False
        self.taken = 0
        """Bytes of the command that are in what `finish` gives."""
        self.on_bytes: Callable[[], None] | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        with self._lock:
            if not self._finished:
                self._folded.feed(data)
                self.taken += len(data)
        if self.on_bytes is not None:
            self.on_bytes()

    def new_text(self) -> str:
        """Return the new text since the last time."""
        with self._lock:
            return self._new.take("" if self._finished else self._folded.rest(), final=self._finished)

    def finish(self, *, to_be_continued: bool = False) -> OutputExcerpt:
        """Return all of it and ignore further bytes; a later reading starts with a whole character."""
        with self._lock:
            if not self._finished:
                if to_be_continued:
                    self.taken -= self._folded.let_go()
                self._folded.finish()
                self._finished = True
            text = self._buffer.excerpt()
            full = self._full_text.finish() if text.truncated else None
            self._full_text.close()
            return OutputExcerpt(text) if full is None else OutputExcerpt(self._buffer.excerpt(full[1]), full[0])

    def _settle(self, text: str) -> None:
        self._full_text.take(text)
        self._new.settle(text)


class _Updates:
    """Hands new text to a callback in the event loop: at once, then at intervals, and at the end."""

    def __init__(self, reader: OutputReader, update_output: UpdateOutput) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = reader
        self._update_output = update_output
        self._asked = False
        self._last = 0.0
        self._handle: asyncio.TimerHandle | None = None
        reader.on_bytes = self._notice

    def finish(self) -> None:
        """Send the rest, after the end of the reading."""
        self._reader.on_bytes = None
        if self._handle is not None:
            self._handle.cancel()
        self._send()

    def _notice(self) -> None:
        if not self._asked:
            self._asked = True
            try:
                self._loop.call_soon_threadsafe(self._schedule)
            except RuntimeError:
                # The loop has ended before the command.
                self._reader.on_bytes = None

    def _schedule(self) -> None:
        if self._reader.on_bytes is not None:
            self._handle = self._loop.call_later(max(0.0, self._last + UPDATE_EVERY - self._loop.time()), self._send)

    def _send(self) -> None:
        self._asked = False
        self._last = self._loop.time()
        text = self._reader.new_text()
        if text:
            self._update_output(text)


class ShellService:
    """Commands as tools see them. `max_chars` and `max_lines` bound the text of each answer."""

    def __init__(self, hub: CommandHub, max_chars: int, max_lines: int) -> None:
        self.hub = hub
        self._max_chars = max_chars
        self._max_lines = max_lines

    async def run(
        self,
        request: CommandRequest,
        signal: AbortSignal,
        update_output: UpdateOutput | None = None,
        move_after: float | None = None,
    ) -> CommandOutcome:
        """Run to the end, or for `move_after` seconds and then on in the background.

        What the person takes over is waited for as long as they are at it.

        Raises:
            StartError: It could not be started.
            OperationCancelled: The signal aborts; has the output so far. The command ends unless the person took over.
        """
        signal.throw_if_aborted()
        reader = self._reader("shell")
        updates = None if update_output is None else _Updates(reader, update_output)
        began = time.monotonic()
        command = await self.hub.start(request, reader.feed)
        try:
            await self._end_unless_moved(command, signal, move_after)
        except OperationCancelled as cancelled:
            partial = reader.finish(to_be_continued=command.status.running).text.content
            if command.status.running:
                partial += f"\n[{command.status.id} goes on: the person has taken it over]"
            raise OperationCancelled(signal.reason, partial=partial) from cancelled
        finally:
            command.output.detach(reader.feed)
            excerpt = await asyncio.to_thread(reader.finish, to_be_continued=command.status.running)
            command.read_to = reader.taken
            if updates is not None:
                updates.finish()
        return CommandOutcome(command.status, excerpt, time.monotonic() - began)

    async def start_job(self, request: CommandRequest, signal: AbortSignal) -> CommandOutcome:
        """Start in the background; return what it wrote in the moment it is watched. Raises as `run`.

        A later reading starts at its first byte all the same.
        """
        signal.throw_if_aborted()
        began = time.monotonic()
        command = await self.hub.start(request)
        with suppress(TimeoutError):
            await self._end_of(command, signal, FAILED_START_WITHIN)
        excerpt, _ = await asyncio.to_thread(self._fold, command, 0)
        return CommandOutcome(command.status, excerpt, time.monotonic() - began)

    async def read(self, command_id: str, since: int | None, wait: float, signal: AbortSignal) -> JobOutput:
        """Return the output from byte `since`, else what is new; wait up to `wait` seconds for some.

        Raises UnknownCommandError; OperationCancelled on abort, which leaves the job alone.
        """
        command = self.hub.find(command_id)
        start = command.read_to if since is None else since
        if wait > 0 and command.status.running and command.output.size <= start:
            await signal.guard(_more_output(command, start, wait))
        status = command.status
        excerpt, command.read_to = await asyncio.to_thread(self._fold, command, start)
        return JobOutput(status, excerpt, command.read_to)

    async def _end_unless_moved(self, command: RunningCommand, signal: AbortSignal, move_after: float | None) -> None:
        """Wait for the end, or until it moves to the background; a command that the person attends to does not."""
        changed = asyncio.Event()
        unsubscribe = self.hub.subscribe(lambda status: changed.set() if status.id == command.status.id else None)
        try:
            while not command.done.done():
                taken_over = command.status.user_input.took_over
                try:
                    await self._end_of(command, signal, None if taken_over else move_after)
                except TimeoutError:
                    if not command.attended and not command.status.user_input.took_over:
                        await asyncio.to_thread(command.move_to_background)
                        return
                while command.attended and not command.done.done() and not command.status.user_input.took_over:
                    changed.clear()  # the time begins anew with the person's answer
                    await self._end_of(command, signal, None, changed)
        finally:
            unsubscribe()

    async def _end_of(
        self,
        command: RunningCommand,
        signal: AbortSignal,
        seconds: float | None,
        changed: asyncio.Event | None = None,
    ) -> None:
        """Wait for the end or a change; a cancelled wait ends the command unless taken over.

        Raises:
            TimeoutError: Neither came within `seconds`.
        """
        others = [] if changed is None else [asyncio.ensure_future(changed.wait())]
        waits = [awaitable_of(command.done), *others]
        try:
            over, _ = await signal.guard(asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED))
            if not over:
                raise TimeoutError
        except (OperationCancelled, asyncio.CancelledError):
            if command.status.user_input.took_over:
                await asyncio.to_thread(command.move_to_background)
            else:
                await end_and_wait(command)
            raise
        finally:
            for wait in others:
                wait.cancel()

    def _reader(self, name: str) -> OutputReader:
        return OutputReader(self.hub, name, self._max_chars, self._max_lines)

    def _fold(self, command: RunningCommand, start: int) -> tuple[OutputExcerpt, int]:
        running = command.status.running
        reader = self._reader(command.status.id)
        for piece in command.output.pieces(start):
            reader.feed(piece)
        return reader.finish(to_be_continued=running), start + reader.taken


async def _more_output(command: RunningCommand, start: int, seconds: float) -> None:
    """Wait until there is output behind byte `start`, the command ends, or the time is over."""
    loop = asyncio.get_running_loop()
    more = asyncio.Event()

    def on_bytes(_: bytes) -> None:
        if command.output.size > start:
            loop.call_soon_threadsafe(more.set)

    detach = command.output.attach(on_bytes)
    waits = [asyncio.ensure_future(more.wait()), awaitable_of(command.done)]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if more.is_set() and command.status.running:
            await asyncio.wait(waits[1:], timeout=_SETTLING)
    finally:
        detach()
        for wait in waits:
            wait.cancel()
