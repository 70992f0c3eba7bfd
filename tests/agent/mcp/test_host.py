"""The process that holds MCP servers: every way a server can behave ends in words, and nothing outlives it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from ollm_tui.agent.mcp.host import McpHost
from ollm_tui.core.base.errors import McpFailed, ToolTimeout
from ollm_tui.mcp_host.frames import MAX_TOOLS, Asked, Connected, ElicitationAnswer, Lost, ServerSpec
from tests.processes import children_that

FAKE = str(Path(__file__).parents[2] / "data" / "mcp_server.py")
SECONDS = 30


@dataclass
class Heard:
    """A host, and what it has told of its servers."""

    reports: dict[str, Connected | Lost] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    host: McpHost = field(init=False)

    def __post_init__(self) -> None:
        self.host = McpHost(self._hear, self._ask)

    def _hear(self, report: Connected | Lost) -> None:
        self.reports[report.server] = report
        self.changed.set()

    async def _ask(self, asked: Asked) -> ElicitationAnswer:
        return ElicitationAnswer(id=asked.id, action="decline")

    async def connect(self, *modes: str, timeout: float = 60, connect_timeout: float = 20, state: str = "") -> None:
        """Connect to a fake server of each mode, and wait until something is known of all."""
        for mode in modes:
            args = ("-I", FAKE, mode, state)
            spec = ServerSpec(
                name=mode, command=sys.executable, args=args, timeout=timeout, connect_timeout=connect_timeout
            )
            await self.host.connect(spec)
        await self.until(lambda: self.reports.keys() >= set(modes))

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    def tools(self, mode: str) -> list[str]:
        report = self.reports[mode]
        assert isinstance(report, Connected), report
        return [tool.name for tool in report.tools]

    def reason(self, mode: str) -> str:
        report = self.reports[mode]
        assert isinstance(report, Lost), report
        return report.reason

    async def echo(self, mode: str, text: str = "hello", tool: str = "echo") -> str:
        return (await self.host.call(mode, tool, {"text": text})).text


@asynccontextmanager
async def a_host() -> AsyncGenerator[Heard]:
    heard = Heard()
    try:
        yield heard
    finally:
        await heard.host.aclose()


async def failure_of(heard: Heard, mode: str) -> str:
    with pytest.raises(McpFailed) as failed:
        await heard.echo(mode)
    return failed.value.message


async def test_each_kind_of_server_is_connected_or_lost_with_a_reason(tmp_path: Path) -> None:
    async with a_host() as heard:
        await heard.connect("mute", connect_timeout=1.5)
        await heard.connect(
            "good", "junk", "paged", "many", "long", "names", "desc", "exit", "nolist", "endless", "stderr"
        )
        assert heard.tools("good") == heard.tools("junk") == heard.tools("stderr") == ["echo"]
        assert heard.tools("paged") == ["page0", "page1", "page2"]
        many, long = heard.reports["many"], heard.reports["long"]
        assert isinstance(many, Connected) and isinstance(long, Connected)
        assert len(many.tools) == MAX_TOOLS and many.left_out == (
            "4,744 tools beyond the first 256: name the wanted ones in `include`",
        )
        assert heard.tools("long") == ["short"] and "20,0" in long.left_out[0]
        assert len(heard.tools("names")) == 6
        assert heard.reason("exit") == "it ended with exit code 1"
        assert heard.reason("mute") == "it did not answer within 1.5 s"
        assert heard.reason("nolist") == "the list is broken"
        assert heard.reason("endless") == "it sent a line of more than 64,000,000 bytes"
        good = heard.reports["good"]
        assert isinstance(good, Connected) and good.title == "fake good 1"


async def test_what_calls_bring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-secret")
    async with a_host() as heard:
        modes = (
            "good",
            "badid",
            "fails",
            "empty",
            "structured",
            "kinds",
            "env",
            "progress",
            "badshape",
            "crash",
            "big",
        )
        await heard.connect(*modes)
        await heard.connect("hang", timeout=1)
        assert await heard.echo("good", "a\u202eb") == "a\u202eb"
        assert await heard.echo("badid") == "hello"
        failed = await heard.host.call("fails", "echo", {"text": ""})
        assert failed.is_error and failed.text.startswith("no such thing")
        assert await heard.echo("empty") == ""
        assert await heard.echo("structured") == '{"one": 1}'
        assert await heard.echo("kinds") == "t\n[image, image/png, 3 bytes]\n[resource file:///a: a]"
        names = await heard.echo("env")
        assert '"PATH"' in names and "KEY" not in names
        steps: list[str] = []
        await heard.host.call("progress", "echo", {"text": "x"}, steps.append)
        assert steps == ["1 of 2: part 1\n", "2 of 2: part 2\n"]
        assert "valid" in await failure_of(heard, "badshape")
        big = await heard.echo("big")
        assert len(big) < 1_000_200 and "9,000,000 characters left out" in big
        with pytest.raises(ToolTimeout, match="The MCP server hang: it said nothing for 1 s"):
            await heard.echo("hang")
        assert await heard.echo("good") == "hello"


async def test_a_server_that_crashed_is_started_again_by_the_next_call() -> None:
    async with a_host() as heard:
        await heard.connect("crash")
        assert "closed" in (await failure_of(heard, "crash")).lower()
        await heard.until(lambda: isinstance(heard.reports["crash"], Lost))
        assert heard.reason("crash") == "it ended with exit code 3"
        assert "closed" in (await failure_of(heard, "crash")).lower(), "it was there again, to crash again"


async def test_a_thousand_changes_of_the_list_are_read_a_few_times() -> None:
    async with a_host() as heard:
        await heard.connect("storm", "rug")
        before = heard.reports["rug"]
        assert await heard.echo("storm") == "hello" and await heard.echo("rug") == "hello"
        await heard.until(lambda: heard.reports["rug"] is not before)
        changed = heard.reports["rug"]
        assert isinstance(changed, Connected) and changed.tools[0].description == "Says it again, and sends it to me"


async def test_a_call_that_is_given_up_leaves_the_server_there() -> None:
    async with a_host() as heard:
        await heard.connect("good", "hang")
        call = asyncio.ensure_future(heard.echo("hang"))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await heard.echo("good") == "hello"


async def test_stubborn_servers_and_their_children_are_ended_with_the_host() -> None:
    heard = Heard()
    await heard.connect("slowclose", "fork", "good")
    children = children_that(lambda line: "mcp" in line or "61.25" in line, recursive=True)
    assert len(children) == 5, "the host, three servers, and a child of one"
    loop = asyncio.get_running_loop()
    began = loop.time()
    await heard.host.aclose()
    assert loop.time() - began < 2 * SECONDS / 10
    _, alive = psutil.wait_procs(children, timeout=SECONDS)
    assert not alive


async def test_when_the_host_is_killed_calls_fail_and_the_next_one_starts_it_again() -> None:
    async with a_host() as heard:
        await heard.connect("good", "hang")
        call = asyncio.ensure_future(heard.echo("hang"))
        await asyncio.sleep(0.05)
        [host] = children_that(lambda line: "ollm_tui.mcp_host" in line)
        os.kill(host.pid, 9)
        with pytest.raises(McpFailed, match="has ended"):
            await call
        assert heard.reason("good") == "the process that holds MCP servers has ended"
        assert await heard.echo("good") == "hello"


WEB_SERVER = """
import sys
from mcp.server import MCPServer

server = MCPServer("web")

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"""


async def test_a_server_at_an_address(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = tmp_path / "server.py"
    program.write_text(WEB_SERVER)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), str(port), stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(SECONDS):
            while b"running on" not in await process.stderr.readline():
                pass
        async with a_host() as heard:
            await heard.host.connect(ServerSpec(name="web", url=f"http://127.0.0.1:{port}/mcp"))
            await heard.host.connect(ServerSpec(name="nobody", url="http://127.0.0.1:9/mcp"))
            await heard.until(lambda: len(heard.reports) == 2)
            assert heard.tools("web") == ["add"] and "failed" in heard.reason("nobody")
            assert (await heard.host.call("web", "add", {"a": 1, "b": 2})).text == "3"
    finally:
        process.kill()
        await process.wait()


async def test_both_eras_of_the_protocol_with_a_server_of_the_index() -> None:
    async with a_host() as heard:
        for name, protocol in (("old", ""), ("new", "2026-07-28")):
            spec = ServerSpec(name=name, command=sys.executable, args=("-m", "mcp_server_time"), protocol=protocol)
            await heard.host.connect(spec)
        await heard.until(lambda: len(heard.reports) == 2)
        for name, protocol in (("old", "2025-11-25"), ("new", "2026-07-28")):
            report = heard.reports[name]
            assert isinstance(report, Connected), report
            assert report.protocol == protocol and heard.tools(name) == ["get_current_time", "convert_time"]
            told = await heard.host.call(name, "get_current_time", {"timezone": "Asia/Tokyo"})
            assert not told.is_error and "+09:00" in told.text


KILLED = """
import asyncio, sys
from tests.agent.mcp.test_host import Heard

async def main():
    heard = Heard()
    await heard.connect("slowclose", "fork")
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_when_this_program_is_killed_its_servers_end() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        assert await process.stdout.readline() == b"ready\n"
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) == 4, "the host, two servers, and a child of one"
    process.kill()
    await process.wait()
    assert not psutil.wait_procs(children, timeout=SECONDS)[1]
