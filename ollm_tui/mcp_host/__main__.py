"""Run the host: orders come on stdin, reports go to stdout, the end of stdin ends every server."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from collections.abc import Coroutine
from itertools import count

from mcp_types import ElicitResult
from pydantic import TypeAdapter, ValidationError

from ollm_tui import __version__
from ollm_tui.mcp_host.connections import Connection
from ollm_tui.mcp_host.frames import (
    CLOSING_SECONDS,
    MAX_FRAME,
    Asked,
    Call,
    Cancel,
    ConnectServer,
    ElicitationAnswer,
    Frame,
    Order,
)

MEMORY = 1_000_000_000
"""Bytes that this process may take; its servers are not bound by it."""


class Host:
    """All connections, and the calls that run."""

    def __init__(self, reports: asyncio.StreamWriter) -> None:
        self._reports = reports
        self._connections: dict[str, Connection] = {}
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._questions: dict[int, asyncio.Future[ElicitResult]] = {}
        self._ids = count(1)
        self._others: set[asyncio.Task[None]] = set()

    async def tell(self, frame: Frame) -> None:
        """Send a report."""
        self._reports.write(frame.model_dump_json().encode() + b"\n")
        await self._reports.drain()

    def take(self, order: ConnectServer | Call | Cancel | ElicitationAnswer) -> None:
        """Carry out an order; what takes time goes on by itself."""
        match order:
            case ConnectServer(server=server):
                before = self._connections.pop(server.name, None)
                self._connections[server.name] = Connection(server, self.tell, self._ask, __version__)
                if before is not None:
                    self._go_on(before.close())
            case Call(id=number, server=name):
                connection = self._connections[name]
                self._calls[number] = task = asyncio.ensure_future(connection.call(order))
                task.add_done_callback(lambda _: self._calls.pop(number, None))
            case Cancel(id=number):
                if (running := self._calls.get(number)) is not None:
                    running.cancel()
            case ElicitationAnswer(id=number, action=action, content=content):
                if (question := self._questions.pop(number, None)) is not None and not question.done():
                    question.set_result(ElicitResult.model_validate({"action": action, "content": content}))

    async def close(self) -> None:
        """End all servers, beside each other and bounded."""
        closings = [asyncio.ensure_future(each.close()) for each in self._connections.values()]
        if closings:
            await asyncio.wait(closings, timeout=CLOSING_SECONDS)

    async def _ask(self, asked: Asked) -> ElicitResult:
        number = next(self._ids)
        self._questions[number] = question = asyncio.get_running_loop().create_future()
        await self.tell(asked.model_copy(update={"id": number}))
        return await question

    def _go_on(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)


async def serve(orders: int, reports: int) -> None:
    """Carry out orders until there are no more."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_FRAME)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(orders, "rb"))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(reports, "wb"))
    host = Host(asyncio.StreamWriter(transport, protocol, None, loop))
    adapter: TypeAdapter[ConnectServer | Call | Cancel | ElicitationAnswer] = TypeAdapter(Order)
    try:
        while line := await reader.readline():
            try:
                host.take(adapter.validate_json(line))
            except (ValidationError, KeyError) as error:
                print(f"an order that cannot be carried out: {error}", file=sys.stderr)
    finally:
        await host.close()


def main() -> None:
    """Take the pipes, so that nothing a library prints gets into them, and serve."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard), hard))
    orders, reports = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    asyncio.run(serve(orders, reports))
    os._exit(0)  # threads of libraries that still wait for something must not hold the end


if __name__ == "__main__":
    main()
