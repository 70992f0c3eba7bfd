"""Hooks and servers of the person's settings do not run what a call wrote unasked before the person has seen it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ollm_tui.agent.hooks.entries import Hook, HookEvent, HookSettings
from ollm_tui.agent.hooks.hooks import Hooks
from ollm_tui.agent.mcp.servers import McpServers, ServerState
from ollm_tui.agent.mcp.settings import McpSettings, read_servers
from ollm_tui.core import MessageBus, ToolExecutor, ToolRegistry, Workspace, builtin_tools
from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.bus.confirmation import ConfirmationRequest, TextPreview
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
from ollm_tui.core.execution.program_guard import ProgramGuard
from ollm_tui.core.policy.engine import PolicyEngine
from ollm_tui.core.policy.rules import Mode, PolicyConfig, PolicyRule
from ollm_tui.testing import Answer, answer_confirmations

ALLOWED = PolicyConfig(rules=[PolicyRule(tool="write_file", action="allow"), PolicyRule(tool="ls", action="allow")])  # type: ignore[arg-type]  # words as in the file


@dataclass
class Room:
    executor: ToolExecutor
    guard: ProgramGuard
    root: Path
    asked: list[ConfirmationRequest]

    async def write(self, path: str, content: str) -> None:
        assert (await self.executor.execute("write_file", {"path": path, "content": content})).ok


@asynccontextmanager
async def a_room(
    root: Path, answers: Sequence[Answer] = (), *, attended: bool = True, yes: bool = False
) -> AsyncIterator[Room]:
    registry = ToolRegistry()
    for tool in builtin_tools():
        registry.register(tool)
    bus = MessageBus()
    async with ToolExecutor(registry, PolicyEngine(ALLOWED), bus, Workspace(root), attended) as executor:
        yield Room(executor, ProgramGuard(executor, 60, answers_yes=yes), root, answer_confirmations(bus, *answers))


@pytest.mark.parametrize(
    "command", ["./check.sh", "sh check.sh", "$CLAUDE_PROJECT_DIR/check.sh", '"${OLLM_PROJECT_DIR}"/check.sh --all']
)
async def test_a_hooks_script_that_was_written_unasked_is_shown_before_it_runs(tmp_path: Path, command: str) -> None:
    async with a_room(tmp_path, [Answer(approved=False), Answer()]) as room:
        await room.write("check.sh", f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (tmp_path / "check.sh").chmod(0o755)
        hooks = Hooks(HookSettings((Hook(HookEvent.PRE_TOOL_USE, command, on_error="deny"),)), tmp_path)
        hooks.why_not = room.guard.why_not
        room.executor.hooks = hooks
        denied = await room.executor.execute("ls", {})
        assert denied.error is not None and "check.sh, which was written by a call" in denied.error.message
        assert not (tmp_path / "ran").exists() and len(room.asked) == 1
        details = room.asked[0].details
        assert isinstance(details.preview, TextPreview) and "touch" in details.preview.text
        assert (await room.executor.execute("ls", {})).error is not None and len(room.asked) == 1, "one no is enough"
        (tmp_path / "check.sh").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n# mended\n")
        assert (await room.executor.execute("ls", {})).ok and len(room.asked) == 2
        assert (tmp_path / "ran").exists()
        assert (await room.executor.execute("ls", {})).ok and len(room.asked) == 2, "a yes is kept"


async def test_what_a_hook_loads_counts_and_what_lies_elsewhere_does_not(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "post.py").write_text("import json\n")
    signal = AbortController().signal
    async with a_room(tmp_path, attended=False) as room:
        await room.write("src/new.py", "")
        assert not await room.guard.why_not("the hook", "python3 tools/post.py", signal)
        assert not await room.guard.why_not("the hook", "python3 /usr/share/check.py", signal)
        await room.write("tools/json.py", "")
        assert "tools/json.py" in await room.guard.why_not("the hook", "python3 tools/post.py", signal)
        assert "nobody is there" in await room.guard.why_not("the hook", "pytest -q", signal)
        room.executor.mode = Mode.YOLO
        assert not await room.guard.why_not("the hook", "pytest -q", signal)


async def test_what_changes_while_it_is_shown_is_shown_again(tmp_path: Path) -> None:
    async with a_room(tmp_path, [Answer(), Answer()]) as room:
        await room.write("a.sh", "echo one\n")

        def change(notice: Notice) -> None:
            if isinstance(notice, ConfirmationRequested) and len(room.asked) == 1:
                (tmp_path / "a.sh").write_text("echo two\n")

        room.executor.bus.subscribe(change)
        assert not await room.guard.why_not("the hook", "sh a.sh", AbortController().signal)
        previews = [request.details.preview for request in room.asked]
        assert [isinstance(each, TextPreview) and each.text[-4:] for each in previews] == ["one\n", "two\n"]


async def test_yes_to_everything_lets_it_run_and_is_kept(tmp_path: Path) -> None:
    async with a_room(tmp_path, attended=False, yes=True) as room:
        await room.write("a.sh", "")
        assert not await room.guard.why_not("the hook", "sh a.sh", AbortController().signal)
        assert not room.executor.written_unasked("sh a.sh")


async def test_a_server_whose_program_was_written_unasked_is_not_started(tmp_path: Path) -> None:
    async with a_room(tmp_path, attended=False) as room:
        await room.write("server.py", f"open({str(tmp_path / 'ran')!r}, 'w')\n")
        settings = read_servers({"mine": {"command": sys.executable, "args": ["server.py"]}}, "config.toml", {})
        servers = McpServers(McpSettings(settings.servers), ToolRegistry(), tmp_path, wait_for_all=True)
        told: list[str] = []
        servers.tell, servers.why_not = told.append, room.guard.why_not
        try:
            await servers.join(AbortSignal())
        finally:
            await servers.aclose()
        (status,) = servers.statuses()
        assert status.state is ServerState.LOST and "server.py, which was written" in status.reason
        assert not (tmp_path / "ran").exists() and told
