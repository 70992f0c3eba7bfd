"""Start a server as a process of its own group, bounded in what it can send, and end it with all it started."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from ollm_tui.mcp_host.frames import ServerSpec

MAX_LINE = 64_000_000
"""Bytes of one message; a server that sends more is ended."""
MAX_STDERR = 1_000_000
"""Bytes that are kept of what a server writes to stderr; of more, the newer half."""

_WAIT_FOR_EXIT = 1.0
_WAIT_AFTER_TERM = 0.6
_POLL = 0.01

_UNBOUNDED = 'ulimit -S -d unlimited 2>/dev/null; exec "$@"'
"""The host's own bound on memory is not its servers'."""

_Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception],
    MemoryObjectSendStream[SessionMessage],
]


@asynccontextmanager
async def stdio_server(server: ServerSpec, on_end: Callable[[str], None]) -> AsyncGenerator[_Streams]:
    """Run the server as long as the block; `on_end` hears why it ended by itself. Raises OSError."""
    environment = get_default_environment() | server.env
    program = shutil.which(server.command, path=environment.get("PATH"))
    if program is None and "/" not in server.command:
        raise FileNotFoundError(f"there is no program {server.command!r} on the PATH")
    process = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", _UNBOUNDED, "sh", program or server.command, *server.args),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=environment,
        cwd=server.cwd,
        start_new_session=True,
        limit=MAX_LINE,
    )
    incoming, to_session = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    closing = asyncio.Event()
    tasks = [
        asyncio.ensure_future(_receive(process, incoming, lambda reason: closing.is_set() or on_end(reason))),
        asyncio.ensure_future(_send(process, from_session)),
        asyncio.ensure_future(_keep_stderr(process, Path(server.stderr) if server.stderr else None)),
    ]
    try:
        yield to_session, outgoing
    finally:
        closing.set()
        await _end(process)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (incoming, to_session, from_session, outgoing):
            stream.close()


async def _receive(
    process: Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    on_end: Callable[[str], object],
) -> None:
    """Pass on each line that is a message; what else a server prints there is skipped."""
    assert process.stdout is not None
    async with incoming:
        try:
            while line := await process.stdout.readline():
                with suppress(ValueError, RecursionError):
                    text = line.decode("utf-8", "replace")
                    await incoming.send(SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False)))
        except ValueError:
            on_end(f"it sent a line of more than {MAX_LINE:,} bytes")
            return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the session is gone
        # Before the session hears of it: it would take the end for an error of its own.
        code = await _exit_code(process, _WAIT_FOR_EXIT)
        on_end("it closed its output" if code is None else f"it ended with {_words(code)}")


async def _send(process: Process, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # a server that has ended is told of by whoever reads from it
        async for message in outgoing:
            process.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()


async def _keep_stderr(process: Process, path: Path | None) -> None:
    assert process.stderr is not None
    kept = bytearray()
    if path is None:
        while await process.stderr.read(65_536):
            pass
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb", buffering=0) as file:
        path.chmod(0o600)
        while chunk := await process.stderr.read(65_536):
            kept += chunk
            if len(kept) > MAX_STDERR:
                del kept[: len(kept) - MAX_STDERR // 2]
                file.seek(0)
                file.truncate()
                file.write(kept)
            else:
                file.write(chunk)


async def _end(process: Process) -> None:
    """Close its input, then ask its group to end, then force it; bounded."""
    if process.stdin is not None:
        process.stdin.close()
    if await _exit_code(process, _WAIT_FOR_EXIT) is None:
        _signal(process, signal.SIGTERM)
        await _exit_code(process, _WAIT_AFTER_TERM)
    _signal(process, signal.SIGKILL)  # also what it left behind
    await _exit_code(process, _WAIT_AFTER_TERM)


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


async def _exit_code(process: Process, seconds: float) -> int | None:
    """Return the exit code once there is one; `wait` would also wait for whoever inherited a pipe."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while process.returncode is None and loop.time() < deadline:  # noqa: ASYNC110  # nothing tells of the exit alone
        await asyncio.sleep(_POLL)
    return process.returncode


def _words(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
