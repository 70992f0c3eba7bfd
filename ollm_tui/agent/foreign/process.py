"""The process of a foreign agent: started with the first message, spoken to in the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import acp
from acp import schema

from ollm_tui import __version__
from ollm_tui.agent.providers.provider import ProviderError, ProviderErrorKind
from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.secrets import MARK, mask
from ollm_tui.core.shell.orphans import ORPHANS

log = logging.getLogger(__name__)

START_SECONDS = 60.0
"""In which an agent must have begun its session; some install themselves first."""
END_SECONDS = 2.0
MAX_LINE = 64_000_000
PROTOCOL_VERSION = 1
STDERR_LINES = 5

T = TypeVar("T")


class ForeignProcess:
    """A session with an agent in a folder."""

    def __init__(self, command: Sequence[str], folder: Path, client: Callable[[], acp.Client]) -> None:
        """`client` makes the side that answers the agent's requests."""
        self._command = tuple(command)
        self._folder = folder
        self._client = client
        self._process: Process | None = None
        self._connection: acp.client.ClientSideConnection | None = None
        self._session = ""
        self._mark = secrets.token_hex(8)
        """By which its processes are known where this program was killed."""
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._reading: asyncio.Task[None] | None = None

    @property
    def started(self) -> bool:
        """Whether there is a session."""
        return bool(self._session) and self._process is not None and self._process.returncode is None

    async def prompt(self, texts: Sequence[str]) -> str:
        """Send a message, and return why the agent stopped. Raises ProviderError."""
        if not self.started:
            await self.aclose()
            await self._start()
        assert self._connection is not None
        blocks = [acp.text_block(text) for text in texts if text]
        try:
            return (await self._unless_it_ends(self._connection.prompt(self._session, blocks))).stop_reason
        except (acp.RequestError, OSError, ValueError, EOFError) as error:
            raise self._failed(f"could not answer: {_words(error)}") from None

    async def cancel(self) -> None:
        """Ask the agent to stop its turn."""
        if self.started and self._connection is not None:
            with suppress(acp.RequestError, OSError):
                await self._connection.cancel(self._session)

    async def aclose(self) -> None:
        """End the agent with all that it started."""
        self._session = ""
        if self._connection is not None:
            with suppress(Exception):  # whatever is left of a broken connection
                await self._connection.close()
            self._connection = None
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await asyncio.to_thread(ORPHANS.forget, self._mark)
        if self._reading is not None:
            self._reading.cancel()

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                cwd=self._folder,
                env={**_without_ours(os.environ), MARK: self._mark},
                start_new_session=True,
                limit=MAX_LINE,
            )
        except OSError as error:
            raise self._failed(f"cannot be started: {error.strerror or error}") from None
        await asyncio.to_thread(ORPHANS.watch, process.pid, self._mark)
        assert process.stderr is not None
        self._reading = asyncio.ensure_future(self._read_stderr(process.stderr))
        self._connection = acp.connect_to_agent(self._client(), process.stdin, process.stdout)
        try:
            async with asyncio.timeout(START_SECONDS):
                self._session = await self._unless_it_ends(self._begin(self._connection))
        except TimeoutError:
            raise self._failed(f"did not begin a session within {START_SECONDS:g} s") from None
        except (acp.RequestError, OSError, ValueError, EOFError) as error:
            raise self._failed(f"did not begin a session: {_words(error)}") from None
        finally:
            if not self._session:
                await self.aclose()

    async def _unless_it_ends(self, asked: Coroutine[object, object, T]) -> T:
        """Return the answer. Raises ProviderError where the process ends before it."""
        assert self._process is not None
        process = self._process
        ended, answering = asyncio.ensure_future(process.wait()), asyncio.ensure_future(asked)
        try:
            await asyncio.wait((ended, answering), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise self._failed(f"ended with exit code {process.returncode}")
            return answering.result()
        finally:
            ended.cancel()
            answering.cancel()

    async def _begin(self, connection: acp.client.ClientSideConnection) -> str:
        """Return the id of a new session."""
        answer = await connection.initialize(
            PROTOCOL_VERSION,
            schema.ClientCapabilities(
                fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
            ),
            schema.Implementation(name="ollm-tui", title="ollm-tui", version=__version__),
        )
        if answer.protocol_version != PROTOCOL_VERSION:
            raise ValueError(
                f"it speaks version {answer.protocol_version} of the protocol, and this program {PROTOCOL_VERSION}"
            )
        return (await connection.new_session(str(self._folder), mcp_servers=[])).session_id

    async def _read_stderr(self, stderr: asyncio.StreamReader) -> None:
        with suppress(ValueError):  # a line beyond all bounds
            while line := await stderr.readline():
                self._stderr.append(visible(mask(line.decode("utf-8", "replace").strip()))[:500])

    def _failed(self, what: str) -> ProviderError:
        said = f" It wrote: {' / '.join(filter(None, self._stderr))}" if any(self._stderr) else ""
        message = f"The agent {visible(self._command[0])} {what}.{said} Try again with /retry."
        return ProviderError(ProviderErrorKind.UNREACHABLE, message)


def _without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the person's variables; our own settings hold keys of ours."""
    return {name: value for name, value in environment.items() if not name.startswith("OLLM_")}


def _words(error: Exception) -> str:
    words = visible(" ".join(str(error).split()))[:500]
    data = getattr(error, "data", None)
    return f"{words} ({visible(str(data))[:300]})" if data else words or type(error).__name__
