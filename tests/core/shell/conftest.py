"""What the shell's tests share: a hub of their own, calls through the real tools, and a look at /proc."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.results import ToolResult, UpdateOutput
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.command_warnings import ShellCommandReader
from ollm_tui.core.shell.hub import CommandHub
from ollm_tui.core.shell.process_tree import running_processes
from ollm_tui.core.tools.base import Tool
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.shell import SHELL, ShellData
from ollm_tui.core.tools.shell_jobs import SHELL_KILL, SHELL_OUTPUT

TOOLS: dict[str, Tool] = {tool.name: tool for tool in (SHELL, SHELL_OUTPUT, SHELL_KILL)}


@dataclass
class Bench:
    """The three tools over one hub and one workspace."""

    context: ToolContext
    hub: CommandHub
    root: Path
    updates: list[str] = field(default_factory=list)

    async def call(
        self,
        name: str,
        arguments: dict[str, object],
        signal: AbortSignal | None = None,
        update_output: UpdateOutput | None = None,
    ) -> ToolResult:
        invocation = TOOLS[name].create_invocation(arguments, self.context)
        return await invocation.execute(signal or AbortController().signal, update_output)

    async def shell(self, command: str, **arguments: object) -> ToolResult:
        return await self.call("shell", {"command": command, **arguments}, update_output=self.updates.append)

    def attended(self) -> Bench:
        return Bench(replace(self.context, attended=True), self.hub, self.root)


def bench_in(root: Path, hub: CommandHub) -> Bench:
    context = ToolContext(
        bus=MessageBus(),
        workspace=Workspace(root),
        commands=hub,
        call_id="call-1",
        command_reader=ShellCommandReader(),
    )
    return Bench(context, hub, root)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    root = tmp_path / "work"
    root.mkdir()
    hub = CommandHub(tmp_path / "logs", grace=0.5)
    yield bench_in(root, hub)
    assert await hub.close() == ()


def data_of(result: ToolResult) -> ShellData:
    assert isinstance(result.data, ShellData)
    return result.data


def in_session(session: int) -> list[int]:
    """Pids of the processes that run in a session."""
    return [process.pid for process in running_processes() if process.session == session]


def runs_in(session: int, program: str) -> bool:
    """Whether a program of that name runs in a session: once it does, its shell has given it the terminal."""
    return any(process.session == session and process.name == program for process in running_processes())


def alive(pid: int) -> bool:
    return any(process.pid == pid for process in running_processes())


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for something that happens in another thread or process; fails with a time-out."""
    async with asyncio.timeout(seconds):
        while not condition():  # another process gives no event to wait for
            await asyncio.sleep(0.01)


def own_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
