"""Questions of other sessions in the queue of this one: each settled once, a lost link answers nothing."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ollm_tui.cli.questions import QuestionServer, on_socket
from ollm_tui.core import ConfirmationDetails, MessageBus
from ollm_tui.core.bus.confirmation import ConfirmationResponse
from ollm_tui.core.bus.notices import Confirmation, ConfirmationSettled, Notice
from ollm_tui.core.bus.states import ConfirmationState, Risk
from ollm_tui.runtime import sources as module
from ollm_tui.runtime.session_links import sockets_folder
from ollm_tui.runtime.sources import LOST, Sources

DETAILS = ConfirmationDetails(tool_name="shell", description="Run it", risk=Risk.MEDIUM, cage_problem="")


@pytest.fixture(autouse=True)
def runtime_folder(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A folder for sockets, whose paths are short, and that is looked into often."""
    monkeypatch.setattr(module, "SCAN_SECONDS", 0.02)
    with tempfile.TemporaryDirectory(prefix="ollm-run-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


class Here:
    """The queue of a dashboard, with what it was told."""

    def __init__(self) -> None:
        self.bus = MessageBus()
        self.said: list[str] = []
        self.ended: list[Confirmation] = []
        self.sources = Sources(self.bus, self.said.append)
        self.bus.subscribe(self._hear)

    def _hear(self, notice: Notice) -> None:
        if isinstance(notice, ConfirmationSettled):
            self.ended.append(notice.confirmation)

    def answer(self, *, approved: bool = True) -> None:
        self.bus.respond_to_confirmation(ConfirmationResponse(id=self.bus.pending()[0].id, approved=approved))


@asynccontextmanager
async def a_dashboard() -> AsyncGenerator[Here]:
    here = Here()
    here.sources.watch()
    try:
        yield here
    finally:
        await here.sources.aclose()


@asynccontextmanager
async def a_session(name: str = "s1") -> AsyncGenerator[MessageBus]:
    bus = MessageBus()
    questions = QuestionServer(bus, {"session": name, "workspace": f"/src/{name}"})
    async with on_socket(questions, name):
        yield bus
        await questions.aclose()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_question_is_answered_here_and_settled_there() -> None:
    async with a_session() as there, a_dashboard() as here:
        opened = there.open_confirmation(DETAILS, None, reason="no rule", origin="task:look")
        await until(here.bus.pending)
        shown = here.bus.confirmations()[0]
        assert shown.source == "session s1 in /src/s1" and shown.request.origin == "task:look"
        assert shown.request.reason == "no rule" and shown.details.cage_problem is None
        assert here.sources.report() == ["session s1 in /src/s1: 1 open"]
        here.answer(approved=False)
        settled = await opened.settlement
        assert settled.confirmation.state is ConfirmationState.DENIED
        assert settled.confirmation.settled_by == "a person attached"
        await until(lambda: here.sources.report() == ["session s1 in /src/s1: 0 open"])


async def test_what_is_settled_there_leaves_here() -> None:
    async with a_session() as there, a_dashboard() as here:
        request_id = there.open_confirmation(DETAILS, None).confirmation.id
        await until(here.bus.pending)
        there.respond_to_confirmation(ConfirmationResponse(id=request_id, approved=True))
        await until(lambda: here.ended)
        assert here.ended[0].state is ConfirmationState.CANCELLED
        assert here.ended[0].settled_by == "approved by user" and not here.bus.pending()


async def test_a_session_that_ends_is_withdrawn_and_never_answered() -> None:
    async with a_dashboard() as here:
        async with a_session() as there:
            request_id = there.open_confirmation(DETAILS, None).confirmation.id
            await until(here.bus.pending)
        await until(lambda: here.ended)
        assert [one.id for one in there.pending()] == [request_id]
        assert here.ended[0].state is ConfirmationState.CANCELLED and here.ended[0].settled_by == LOST
        async with a_session():
            await until(here.sources.report)


async def test_two_dashboards_and_two_hundred_questions_each_settled_once() -> None:
    chance = random.Random(5)
    async with a_session("a") as first, a_session("b") as second, a_dashboard() as one, a_dashboard() as two:
        opened = [chance.choice((first, second)).open_confirmation(DETAILS, None) for _ in range(200)]

        async def answer_all(here: Here) -> None:
            while not all(each.settlement.done() for each in opened):
                if here.bus.pending():
                    here.answer(approved=chance.random() < 0.5)
                await asyncio.sleep(chance.random() / 1_000)

        async with asyncio.timeout(60):
            await asyncio.gather(answer_all(one), answer_all(two))
        assert not first.pending() and not second.pending()
        await until(lambda: not one.bus.pending() and not two.bus.pending())
        refused = sum("did not take your answer: it is settled already" in words for words in (*one.said, *two.said))
        sent = sum(each.settled_by == "user" for each in (*one.ended, *two.ended))
        await until(lambda: sent - 200 <= refused)
        states = [each.result().confirmation.state for each in (one.settlement for one in opened)]
        assert set(states) == {ConfirmationState.APPROVED, ConfirmationState.DENIED}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [
                b'{"type": "hello", "workspace": "/w", "session": "x"}\n',
                b'{"type": "refused", "reason": "version 9"}\n',
            ],
            "version 9",
        ),
        ([b'{"type": "hello", "workspace": "/w", "session": "x"}\n', b"no json\n"], "Expecting value"),
        (
            [b'{"type": "hello", "workspace": "/w", "session": "x"}\n', b'{"type": "question", "request": {}}\n'],
            "validation",
        ),
        ([b'{"type": "hello", "workspace": "/w", "session": "x"}\n', b'{"type": "quest'], "session x in /w: "),
    ],
)
async def test_a_session_that_says_strange_things_is_let_go(lines: list[bytes], said: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for line in lines:
            writer.write(line)
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, sockets_folder() / "x.sock")
    async with server, a_dashboard() as here:
        await until(lambda: any(said in words for words in here.said))
        assert not here.bus.pending()


async def test_a_command_is_a_source_until_it_ends() -> None:
    request = {
        "id": "q1",
        "details": DETAILS.model_dump(mode="json", by_alias=True),
        "createdAt": "2026-01-01T00:00:00Z",
    }
    script = f"""
import json, sys
def say(**frame): print(json.dumps(frame), flush=True)
say(type="hello", session="far", workspace="/far")
assert json.loads(input())["version"] == 1
say(type="question", ordinal=1, request=json.loads({json.dumps(request)!r}))
answer = json.loads(input())
say(type="settled", id="q1", outcome="approved by a person")
say(type="text", text="it was " + str(answer["approved"]))
say(type="end", status="completed")
"""
    async with a_dashboard() as here:
        here.sources.attach([sys.executable, "-c", script])
        await until(here.bus.pending)
        here.answer()
        await until(lambda: any("its turn is completed" in words for words in here.said))
        assert "session far in /far says: it was True" in here.said
        here.sources.attach(["/nowhere/at-all"])
        await until(lambda: any("/nowhere/at-all" in words and "No such file" in words for words in here.said))
