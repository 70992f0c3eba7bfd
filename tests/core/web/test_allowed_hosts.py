"""Servers nearby that a person lets be fetched from: exactly one host and port, by a question, for a session at most."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, ip_address
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.core.base.errors import UrlNotAllowed
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.confirmation import ConfirmationRequest, ConfirmationResponse, UrlPreview
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
from ollm_tui.core.bus.states import RememberScope, Risk
from ollm_tui.core.policy.rules import Mode
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.web_fetch import HTTP_FETCH, WEB_FETCH
from ollm_tui.core.web.allowed_hosts import AllowedDomains, local_server
from ollm_tui.core.web.client import WebAccess
from ollm_tui.core.web.urls import parse_url
from ollm_tui.options import Options
from ollm_tui.runtime.configuration import configure
from ollm_tui.runtime.runtime import Attendance, Core, open_core
from tests.core.web.server import PUBLIC, Server, World, call, moved, reply, running_server

Answer = Callable[[ConfirmationRequest], ConfirmationResponse]


def once(request: ConfirmationRequest) -> ConfirmationResponse:
    return ConfirmationResponse(id=request.id, approved=True)


def for_session(request: ConfirmationRequest) -> ConfirmationResponse:
    return ConfirmationResponse(id=request.id, approved=True, remember=RememberScope.SESSION)


def for_ever(request: ConfirmationRequest) -> ConfirmationResponse:
    return ConfirmationResponse(id=request.id, approved=True, remember=RememberScope.WORKSPACE)


def no(request: ConfirmationRequest) -> ConfirmationResponse:
    return ConfirmationResponse(id=request.id, approved=False, reason="not that one")


@dataclass
class Desk:
    """A whole core with somebody at the dashboard, who answers as `answer` says."""

    core: Core
    answer: Answer = no
    asked: list[ConfirmationRequest] = field(default_factory=list[ConfirmationRequest])

    def hear(self, notice: Notice) -> None:
        if isinstance(notice, ConfirmationRequested):
            self.asked.append(notice.confirmation.request)
            asyncio.get_running_loop().call_soon(
                self.core.bus.respond_to_confirmation, self.answer(notice.confirmation.request)
            )

    async def fetch(self, url: str, tool: str = "web_fetch", **arguments: object) -> ToolResult:
        return await self.core.executor.execute(tool, {"url": url, **arguments})  # pyright: ignore[reportArgumentType]  # JSON values all

    def warnings(self) -> str:
        preview = self.asked[-1].details.preview
        assert isinstance(preview, UrlPreview)
        return "\n".join(preview.warnings)


@asynccontextmanager
async def desk_in(folder: Path, attendance: Attendance = Attendance.PERSON, **options: object) -> AsyncIterator[Desk]:
    configuration = configure(replace(Options(workspace=folder), **options))  # pyright: ignore[reportArgumentType]  # options by name
    async with open_core(configuration, attendance) as core:
        desk = Desk(core)
        core.bus.subscribe(desk.hear)
        yield desk


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    async with running_server() as server:
        server.answers["*"] = reply("<p>from the dev server</p>")
        yield server


@pytest_asyncio.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_in(tmp_path) as desk:
        yield desk


async def test_a_yes_lets_one_request_through_and_lists_nothing(desk: Desk, server: Server) -> None:
    desk.answer = once
    for tool in ("web_fetch", "http_fetch", "web_fetch"):
        assert "from the dev server" in (await desk.fetch(f"{server.origin}/", tool)).llm_content
    assert len(desk.asked) == len(server.requests) == 3
    assert "no command of this session listens there" in desk.warnings()
    assert f"lists 127.0.0.1:{server.port}, nothing else" in desk.warnings()


async def test_a_yes_for_the_session_lists_that_port_for_reading_and_no_other(desk: Desk, server: Server) -> None:
    review = await desk.core.executor.review("web_fetch", {"url": f"{server.origin}/"})
    assert review.offer is not None
    assert review.offer.session_only  # nothing to save for longer
    assert review.offer.text == f"reading from 127.0.0.1:{server.port}, and from nowhere else near"
    desk.answer = for_session
    result = await desk.fetch(f"{server.origin}/")
    assert f"allowed for this session: {review.offer.text}" in result.notes
    desk.answer = no
    for tool in ("web_fetch", "http_fetch"):
        assert (await desk.fetch(f"{server.origin}/again", tool)).ok
    assert len(desk.asked) == 1
    async with running_server() as other:
        assert not (await desk.fetch(f"{other.origin}/")).ok
        assert not (await desk.fetch(f"http://localhost:{server.port}/")).ok
        assert not (await desk.fetch(f"{server.origin}/", "http_fetch", method="POST", body="x")).ok
        assert other.requests == []
    assert len(desk.asked) == 4
    assert [request.method for request in server.requests] == ["GET"] * 3


async def test_a_no_reaches_nothing_and_its_reason_goes_back(desk: Desk, server: Server) -> None:
    result = await desk.fetch(f"{server.origin}/")
    assert result.error is not None
    assert (result.error.code, result.error.message) == ("USER_DENIED", "not that one")
    assert server.requests == []


async def test_no_rule_about_it_is_ever_saved(desk: Desk, server: Server) -> None:
    desk.answer = for_ever
    result = await desk.fetch(f"{server.origin}/")
    assert result.ok
    assert any("not remembered" in note for note in result.notes)
    await desk.fetch(f"{server.origin}/")
    assert len(desk.asked) == 2


@pytest.mark.parametrize("mode", [Mode.YOLO, Mode.AUTO_EDIT, Mode.PLAN])
async def test_every_mode_asks(desk: Desk, server: Server, mode: Mode) -> None:
    desk.core.executor.mode = mode
    assert not (await desk.fetch(f"{server.origin}/")).ok
    assert len(desk.asked) == 1


@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/latest/", "http://169.254.1.1:8000/", "http://[fd00:ec2::254]/", "http://[fe80::1]/",
     "http://0.0.0.0:8000/", "http://0/", "http://100.100.100.200/", "http://[::ffff:a9fe:a9fe]/", "http://224.0.0.1/",
     "http://metadata.internal/", "http://printer.local/", "http://db:5432/", "http://192.0.2.1/"],
)  # fmt: skip
async def test_what_can_never_be_listed_is_never_asked_about(desk: Desk, url: str) -> None:
    desk.answer = for_session
    result = await desk.fetch(url)
    assert result.error is not None
    assert result.error.type == "UrlNotAllowedError"
    assert desk.asked == []


@pytest.mark.parametrize("attendance", [Attendance.NOBODY, Attendance.YES])
async def test_without_a_person_it_is_refused_as_ever(tmp_path: Path, server: Server, attendance: Attendance) -> None:
    async with desk_in(tmp_path, attendance) as desk:
        desk.answer = for_session
        result = await desk.fetch(f"{server.origin}/")
        assert result.error is not None
        assert result.error.type == "UrlNotAllowedError"
        assert f"127.0.0.1:{server.port}" in result.error.message
        assert (desk.asked, server.requests) == ([], [])


@pytest.mark.parametrize("listed_too", [False, True])
async def test_a_redirect_to_another_port_is_judged_anew(desk: Desk, server: Server, listed_too: bool) -> None:
    async with running_server() as other:
        other.answers["*"] = reply("<p>secret</p>")
        desk.answer = for_session
        if listed_too:
            await desk.fetch(f"{other.origin}/")
            other.requests.clear()
        server.answers |= {"/": moved(f"{other.origin}/admin"), "/in": moved("/")}
        for path in ("/", "/in"):
            result = await desk.fetch(f"{server.origin}{path}")
            assert "secret" not in result.llm_content
            if not listed_too:
                assert result.error is not None
                assert result.error.type == "UrlNotAllowedError"
        assert other.requests == []


async def test_a_listed_name_that_turns_elsewhere_is_refused(server: Server) -> None:
    """DNS rebinding: what was listed is localhost at its own addresses, whatever the name says the next time."""
    world = World(server, {"localhost": [["127.0.0.1"], ["10.0.0.7"], ["127.0.0.1", "192.168.0.1"], [PUBLIC]]})
    web = WebAccess(resolver=world.resolve, backend=world)
    url = parse_url(f"http://localhost:{server.port}/")
    listed = local_server(url)
    assert listed is not None
    web.domains.list_for_session(listed)
    assert (await call(HTTP_FETCH, web, url=url.text)).ok
    for _ in range(2):
        with pytest.raises(UrlNotAllowed):
            await call(HTTP_FETCH, web, url=url.text)
    assert world.connected == [("127.0.0.1", server.port)]


async def test_a_name_of_the_net_that_leads_nearby_is_not_offered(server: Server) -> None:
    world = World(server, {"inside.example": [["127.0.0.1"]]})
    context = ToolContext(bus=MessageBus(), web=WebAccess(resolver=world.resolve, backend=world), attended=True)
    invocation = WEB_FETCH.create_invocation({"url": "http://inside.example/"}, context)
    assert invocation.facts().offer is None


@given(
    st.ip_addresses(v=4),
    st.integers(1, 65535),
    st.ip_addresses(),
    st.integers(1, 65535),
)
def test_a_listing_opens_exactly_itself(address: IPv4Address, port: int, other: IPv4Address, other_port: int) -> None:
    """Only private and loopback addresses can be listed; then no other address and no other port is."""

    def url_of(host: object, at: int) -> str:
        return f"http://[{host}]:{at}/" if ":" in str(host) else f"http://{host}:{at}/"

    for listed in (address, ip_address(f"127.{str(address).split('.', 1)[1]}")):
        server = local_server(parse_url(url_of(listed, port)))
        if server is None:
            continue
        domains = AllowedDomains()
        domains.list_for_session(server)
        assert domains.list_local(parse_url(url_of(listed, port)), listed)
        for host, at in ((other, port), (listed, other_port), (other, other_port)):
            if (str(host), at) != (str(listed), port):
                assert not domains.list_local(parse_url(url_of(host, at)))
        assert not domains.list_local(parse_url(f"http://listed.example:{port}/"))


@pytest.mark.skipif(sys.platform != "linux", reason="who listens at a port can be told on Linux alone")
async def test_the_question_names_the_job_that_runs_the_server(desk: Desk, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "index.html").write_text("<p>built by the agent</p>")
    command = f"{sys.executable} -u -m http.server {port} --bind 127.0.0.1"
    desk.answer = once
    started = await desk.core.executor.execute("shell", {"command": command, "background": True})
    assert started.ok
    await desk.core.executor.execute("shell_output", {"id": "j1", "wait": 10_000})  # it says when it listens
    result = await desk.fetch(f"http://127.0.0.1:{port}/")
    assert result.llm_content == "built by the agent"
    assert f"127.0.0.1:{port} is run by j1 of this session: " in desk.warnings()
    assert desk.asked[-1].details.risk is Risk.MEDIUM
