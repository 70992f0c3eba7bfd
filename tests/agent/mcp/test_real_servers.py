"""The servers that people bring along, as their registries give them: from npm, and from PyPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ollm_tui.agent.mcp.settings import McpServer, read_servers
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.testing import Answer
from tests.agent.mcp.test_servers import a_room


@pytest.fixture(scope="module")
def from_npm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The program of a server by its name, installed just now, all with one npm; skip where that cannot be."""
    if os.environ.get("OLLM_TEST_TOOLS") != "1" or shutil.which("npm") is None:
        pytest.skip("npm, or OLLM_TEST_TOOLS=1, is not there")
    folder = tmp_path_factory.mktemp("npm")
    packages = [f"@modelcontextprotocol/server-{name}" for name in ("everything", "filesystem")]
    quiet = ["--silent", "--no-fund", "--no-audit", "--ignore-scripts"]
    ran = subprocess.run(
        ["npm", "install", *quiet, "--prefix", str(folder), *packages], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        pytest.skip(f"npm could not install {packages}: {ran.stderr[-200:]}")
    return lambda name: str(folder / "node_modules" / ".bin" / f"mcp-server-{name}")


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout


def named(name: str, program: str, *args: str) -> McpServer:
    settings = read_servers({name: {"command": program, "args": [*args], "connect_timeout": 60}}, "config.toml", {})
    return settings.servers[name]


async def test_server_everything(tmp_path: Path, from_npm: Callable[[str], str]) -> None:
    server = named("everything", from_npm("everything"))
    async with a_room(tmp_path, server, answers=(Answer(),) * 8) as room:
        await room.servers.join(AbortSignal())
        assert (await room.call("mcp__everything__echo", message="hello")).llm_content == "Echo: hello"
        image = await room.call("mcp__everything__get-tiny-image")
        assert "[image, image/png, " in image.llm_content
        command = room.servers.offers.prompt_call("everything:args-prompt", "Paris Texas")
        assert "Paris, Texas" in (await room.executor.execute(*command)).llm_content
        refers = next(word for word, _ in room.servers.offers.references() if word.endswith("features.md"))
        found = room.servers.offers.resource_call(refers)
        assert found is not None and "# Everything" in (await room.executor.execute(*found[1:])).llm_content
        steps: list[str] = []
        ran = await room.executor.execute(
            "mcp__everything__trigger-long-running-operation", {"duration": 1, "steps": 2}, update_output=steps.append
        )
        assert ran.ok and any("of 2" in step for step in steps)


async def test_server_filesystem(tmp_path: Path, from_npm: Callable[[str], str]) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.txt").write_text("content of a")
    server = named("fs", from_npm("filesystem"), str(tmp_path / "files"))
    async with a_room(tmp_path, server, answers=(Answer(),) * 3) as room:
        await room.servers.join(AbortSignal())
        path = str(tmp_path / "files" / "a.txt")
        assert "content of a" in (await room.call("mcp__fs__read_text_file", path=path)).llm_content
        outside = await room.call("mcp__fs__read_text_file", path="/etc/hostname")
        assert outside.error is not None and "denied" in outside.error.message.lower()


async def test_server_git(tmp_path: Path) -> None:
    pytest.importorskip("mcp_server_git")
    server = named("git", sys.executable, "-m", "mcp_server_git")
    git(tmp_path, "init", "-q")
    (tmp_path / "new.txt").write_text("x")
    async with a_room(tmp_path, server, answers=(Answer(), Answer(approved=False))) as room:
        await room.servers.join(AbortSignal())
        assert "new.txt" in (await room.call("mcp__git__git_status", repo_path=str(tmp_path))).llm_content
        refused = await room.executor.execute("mcp__git__git_add", {"repo_path": str(tmp_path), "files": ["new.txt"]})
        assert refused.error is not None and refused.error.type == "ConfirmationDenied"
    assert git(tmp_path, "diff", "--cached", "--name-only") == ""
