"""Let a person answer the questions of a run from elsewhere: JSON lines over a unix socket, or over stdin and stdout.

A lost link holds a question open and never answers it; each question is settled once, by whoever is first.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.confirmation import ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import Confirmation, ConfirmationRequested, ConfirmationSettled, Notice
from ollm_tui.runtime.session_links import VERSION, sockets_folder

log = logging.getLogger(__name__)

MAX_FRAME = 1_000_000
"""Bytes of one line."""
MAX_BEHIND = 1_000
"""Lines that a reader may be behind; one that does not read is let go."""
MAX_SETTLED = 1_000
"""Settled questions whose outcome is remembered for late answers."""

ATTACHED = "a person attached"
"""Who answered, in the log."""

_CREDENTIALS = struct.Struct("3i")


class _Hello(BaseModel):
    """The first line of whoever attaches."""

    model_config = ConfigDict(extra="ignore", strict=True)

    type: Literal["hello"]
    version: int


class _Answer(BaseModel):
    """An answer to exactly one question."""

    model_config = ConfigDict(extra="forbid", strict=True)

    type: Literal["answer"]
    id: str = Field(max_length=200)
    approved: bool
    reason: str | None = Field(None, max_length=10_000)


class QuestionServer:
    """Tells everyone who is attached of the questions, and takes their answers."""

    def __init__(self, bus: MessageBus, about: JsonObject) -> None:
        """`about` names the run: session, workspace."""
        self._bus = bus
        self._about = about
        self._links: set[_Link] = set()
        self._settled: OrderedDict[str, str] = OrderedDict()
        self._stop = bus.subscribe(self._hear)

    async def aclose(self) -> None:
        """Let everyone go; open questions stay as they are."""
        self._stop()
        await asyncio.gather(*(link.aclose() for link in self._links))

    def tell(self, frame: JsonObject) -> None:
        """Tell everyone who is attached."""
        for link in tuple(self._links):
            link.send(frame)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, who: str) -> None:
        """Serve one link until it ends; `who` is written down as who answered."""
        link = _Link(writer)
        try:
            await self._serve(link, reader, who)
        except (ValueError, ConnectionError, asyncio.IncompleteReadError) as error:
            link.send({"type": "refused", "reason": f"the line cannot be read: {error}"})
        finally:
            self._links.discard(link)
            await link.aclose()

    async def _serve(self, link: _Link, reader: asyncio.StreamReader, who: str) -> None:
        link.send({"type": "hello", "version": VERSION, **self._about})
        try:
            hello = _Hello.model_validate_json(await _line(reader))
        except ValidationError:
            link.send({"type": "refused", "reason": 'say hello first: {"type": "hello", "version": 1}'})
            return
        if hello.version != VERSION:
            words = f"this run speaks version {VERSION}, not {hello.version}: attach with the ollm-tui that runs it"
            link.send({"type": "refused", "reason": words})
            return
        self._links.add(link)
        for confirmation in self._bus.confirmations():
            link.send(_question(confirmation))
        while line := await _line(reader):
            try:
                link.send(self._answer(_Answer.model_validate_json(line), who))
            except ValidationError as error:
                words = f"that is no answer: {error.errors()[0]['msg']}"
                link.send({"type": "refused", "reason": words})

    def _answer(self, answer: _Answer, who: str) -> JsonObject:
        response = ConfirmationResponse(id=answer.id, approved=answer.approved, reason=answer.reason)
        if self._bus.respond_to_confirmation(response, by=who):
            return {"type": "accepted", "id": answer.id}
        outcome = self._settled.get(answer.id)
        reason = f"it is settled already: {outcome}" if outcome else "there is no such question"
        return {"type": "refused", "id": answer.id, "reason": reason}

    def _hear(self, notice: Notice) -> None:
        match notice:
            case ConfirmationRequested(confirmation):
                self.tell(_question(confirmation))
            case ConfirmationSettled(confirmation):
                outcome = f"{confirmation.state.value} by {confirmation.settled_by}"
                self._settled[confirmation.id] = outcome
                if len(self._settled) > MAX_SETTLED:
                    self._settled.popitem(last=False)
                self.tell({"type": "settled", "id": confirmation.id, "outcome": outcome})
            case _:
                pass


class _Link:
    """One who is attached, told in order by a task of its own."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._behind: asyncio.Queue[JsonObject | None] = asyncio.Queue(MAX_BEHIND)
        self._telling = asyncio.ensure_future(self._tell())

    def send(self, frame: JsonObject) -> None:
        """Have a line sent; a reader that is too far behind is let go."""
        try:
            self._behind.put_nowait(frame)
        except asyncio.QueueFull:
            self._telling.cancel()
            self._writer.close()

    def close(self) -> None:
        """Send what is left, and then nothing more."""
        with suppress(asyncio.QueueFull):
            self._behind.put_nowait(None)

    async def aclose(self) -> None:
        """Close, waiting for what is left for a moment."""
        self.close()
        await asyncio.wait((self._telling,), timeout=1.0)
        self._telling.cancel()
        self._writer.close()

    async def _tell(self) -> None:
        with suppress(ConnectionError):
            while (frame := await self._behind.get()) is not None:
                self._writer.write(json.dumps(frame).encode() + b"\n")
                await self._writer.drain()
            self._writer.close()


def _question(confirmation: Confirmation) -> JsonObject:
    request: JsonValue = confirmation.request.model_dump(mode="json", by_alias=True)
    return {"type": "question", "ordinal": confirmation.ordinal, "request": request}


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Return the next whole line; nothing where the link ended, within a line too: half an answer is none."""
    line = await reader.readline()
    return line if line.endswith(b"\n") else b""


# -- the socket ------------------------------------------------------------------------------------------------------


def is_own_user(peer: socket.socket) -> bool:
    """Return whether the process at the other end runs as this user."""
    if not hasattr(socket, "SO_PEERCRED"):  # macOS: the folder's permissions alone keep others out
        return True
    _, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return uid == os.getuid()


@asynccontextmanager
async def on_socket(questions: QuestionServer, session: str) -> AsyncGenerator[Path]:
    """Serve on a socket that only this user can reach, as long as the block."""
    path = sockets_folder() / f"{session}.sock"
    path.unlink(missing_ok=True)  # of a process that was killed: a session has one writer

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer: socket.socket = writer.get_extra_info("socket")
        if not is_own_user(peer):
            log.warning("somebody else tried to attach")
            writer.close()
            return
        await questions.serve(reader, writer, ATTACHED)

    server = await asyncio.start_unix_server(connected, path, limit=MAX_FRAME)
    try:
        path.chmod(0o600)
        yield path
    finally:
        server.close()
        path.unlink(missing_ok=True)


@asynccontextmanager
async def on_stdio(questions: QuestionServer, on_end: Callable[[], object]) -> AsyncGenerator[None]:
    """Serve on stdin and stdout as long as the block; `on_end` hears that nobody can answer any more."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_FRAME)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(0), "rb"))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(os.dup(1), "wb"))
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    serving = asyncio.ensure_future(questions.serve(reader, writer, ATTACHED))
    serving.add_done_callback(lambda _: on_end())
    try:
        yield
    finally:
        await questions.aclose()
        serving.cancel()
