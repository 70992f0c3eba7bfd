"""Speak to the process that holds the MCP servers, which is started with the first of them."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

from pydantic import TypeAdapter, ValidationError

from ollm_tui.core.base.errors import McpFailed, ToolTimeout
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import JsonObject, UpdateOutput
from ollm_tui.core.fence.secrets import cleaned
from ollm_tui.mcp_host.frames import (
    CLOSING_SECONDS,
    MAX_FRAME,
    Asked,
    Call,
    CallKind,
    Cancel,
    Connected,
    ConnectServer,
    ElicitationAnswer,
    Failed,
    Frame,
    Lost,
    Progress,
    Report,
    Result,
    ServerSpec,
)

log = logging.getLogger(__name__)

HOST_ENDED = "the process that holds MCP servers has ended"

_HARD_SECONDS = CLOSING_SECONDS + 0.8
"""After which the process is ended by force."""


@dataclass
class _Running:
    server: str
    update: UpdateOutput | None
    result: asyncio.Future[Result] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class McpHost:
    """The process; `hear` is told of servers that come and go, `ask` answers what they ask the person."""

    def __init__(
        self, hear: Callable[[Connected | Lost], None], ask: Callable[[Asked], Awaitable[ElicitationAnswer]]
    ) -> None:
        self._hear = hear
        self._ask = ask
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._calls: dict[int, _Running] = {}
        self._ids = count(1)
        self._connected: dict[str, ServerSpec] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self._closed = False

    async def connect(self, server: ServerSpec) -> None:
        """Have a server connected; `hear` is told how it went. Raises OSError."""
        self._connected[server.name] = server
        if self._process is None:
            await self._running_process()  # it connects all
        else:
            await self._send(ConnectServer(server=server))

    async def call(
        self,
        server: str,
        name: str,
        arguments: JsonObject,
        update: UpdateOutput | None = None,
        kind: CallKind = CallKind.TOOL,
    ) -> Result:
        """Carry out a call. Raises McpFailed, ToolTimeout; cancelled, it tells the server so."""
        number = next(self._ids)
        self._calls[number] = running = _Running(server, update)
        try:
            await self._send(Call(id=number, server=server, kind=kind, name=name, arguments=arguments))
            return await running.result
        except OSError as error:
            raise McpFailed(f"{HOST_ENDED}: {error}. Try again.") from None
        except asyncio.CancelledError:
            with suppress(OSError):
                await self._send(Cancel(id=number))
            raise
        finally:
            del self._calls[number]

    async def aclose(self) -> None:
        """End all servers and the process, in three seconds at most."""
        self._closed = True
        for task in self._answering:
            task.cancel()
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_HARD_SECONDS):
                await process.wait()
        except TimeoutError:
            log.warning("The MCP host did not end by itself.")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _send(self, frame: Frame) -> None:
        process = await self._running_process()
        assert process.stdin is not None
        process.stdin.write(frame.model_dump_json().encode() + b"\n")
        await process.stdin.drain()

    async def _running_process(self) -> Process:
        """Return the process, started anew with all its servers where it has ended."""
        async with self._starting:
            if self._process is not None:
                return self._process
            if self._closed:
                raise ProcessLookupError("it is being closed")
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "ollm_tui.mcp_host"),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env=cleaned(os.environ),
                start_new_session=True,
                limit=MAX_FRAME,
            )
            assert process.stdin is not None
            self._reading = asyncio.ensure_future(self._read(process))
            for server in self._connected.values():
                process.stdin.write(ConnectServer(server=server).model_dump_json().encode() + b"\n")
            return process

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        adapter: TypeAdapter[Connected | Lost | Progress | Result | Failed | Asked] = TypeAdapter(Report)
        try:
            while line := await process.stdout.readline():
                try:
                    self._take(adapter.validate_json(line))
                except ValidationError:
                    log.warning("a report of the MCP host cannot be read: %r", line[:200])
        except ValueError:
            log.warning("the MCP host sent a line of more than %d bytes", MAX_FRAME)
        if self._closed:
            return
        self._process = None  # whoever calls next starts another
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for running in self._calls.values():
            self._fail(running, McpFailed(f"{HOST_ENDED}. The next call starts it again."))
        for name in self._connected:
            self._hear(Lost(server=name, reason=HOST_ENDED))
        await process.wait()

    def _take(self, report: Connected | Lost | Progress | Result | Failed | Asked) -> None:
        match report:
            case Connected() | Lost():
                self._hear(report)
            case Asked():
                task = asyncio.ensure_future(self._answer(report))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case Progress(id=number, text=text):
                running = self._calls.get(number)
                if running is not None and running.update is not None:
                    running.update(f"{text}\n")
            case Result(id=number):
                running = self._calls.get(number)
                if running is not None and not running.result.done():
                    running.result.set_result(report)
            case Failed(id=number, reason=reason, timed_out=timed_out):
                if (running := self._calls.get(number)) is not None:
                    text = f"The MCP server {running.server}: {visible(reason)}."
                    self._fail(running, ToolTimeout(text) if timed_out else McpFailed(text))

    @staticmethod
    def _fail(running: _Running, failure: Exception) -> None:
        if not running.result.done():
            running.result.set_exception(failure)

    async def _answer(self, asked: Asked) -> None:
        answer = await self._ask(asked)
        with suppress(OSError):
            await self._send(answer)
