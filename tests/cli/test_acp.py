"""`ollm-tui acp`: a client of the protocol's own package drives whole turns, permissions included."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from acp import RequestError, helpers, schema, spawn_agent_process

from ollm_tui.cli import main
from tests.processes import children_that

SECONDS = 30
Choose = Callable[["Editor", schema.ToolCallUpdate, list[schema.PermissionOption]], Awaitable[str | None]]


class Editor:
    """An editor that keeps what it is told, and answers as `choose` says."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self.updates: list[Any] = []
        self.questions: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.asked = asyncio.Event()
        self.agent: Any
        self.session = ""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.questions.append((tool_call, options))
        self.asked.set()
        chosen = await self._choose(self, tool_call, options)
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen))

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    async def prompt(self, *blocks: Any) -> schema.PromptResponse:
        async with asyncio.timeout(SECONDS):
            return await self.agent.prompt(session_id=self.session, prompt=list(blocks))

    def said(self, kind: str) -> str:
        return "".join(each.content.text for each in self.updates if each.session_update == kind)

    def calls(self) -> list[tuple[str, str]]:
        ends = {each.tool_call_id: each.status for each in self.updates if each.session_update == "tool_call_update"}
        return [
            (each.title, ends.get(each.tool_call_id, "")) for each in self.updates if each.session_update == "tool_call"
        ]


def always(answer: str | None) -> Choose:
    async def choose(*_: object) -> str | None:
        return answer

    return choose


@asynccontextmanager
async def an_editor(folder: Path, choose: Choose, *replies: object) -> AsyncGenerator[Editor]:
    script = folder / "script.json"
    script.write_text(json.dumps(replies))
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    for name in ("new.txt", "other.txt"):
        (workspace / name).write_text("old\n")
    editor = Editor(choose)
    command = (sys.executable, "-P", "-m", "ollm_tui", "acp", "--provider", "scripted", "--script", str(script))
    async with spawn_agent_process(lambda _: editor, *command, env=dict(os.environ)) as (agent, _):  # type: ignore[arg-type,return-value]
        editor.agent = agent
        async with asyncio.timeout(SECONDS):
            told = await agent.initialize(protocol_version=99)
            assert told.protocol_version == 1 and told.agent_info is not None and told.agent_info.name == "ollm-tui"
            opened = await agent.new_session(cwd=str(workspace), mcp_servers=[])
        editor.session = opened.session_id
        assert opened.modes is not None and [mode.id for mode in opened.modes.available_modes] == [
            "ask",
            "auto-edit",
            "plan",
        ]
        yield editor


def write(text: str) -> dict[str, object]:
    return {"name": "write_file", "arguments": {"path": "new.txt", "content": text, "overwrite": True}}


async def test_a_whole_turn_with_a_permission_that_is_given(tmp_path: Path) -> None:
    todos = {"name": "write_todos", "arguments": {"todos": [{"task": "Write it", "status": "in_progress"}]}}
    first = {"text": "I write it.", "toolCalls": [todos, write("one\n")]}
    async with an_editor(tmp_path, always("once"), first, {"text": "Done."}) as editor:
        reference = helpers.resource_link_block("script.json", (tmp_path / "workspace" / "script.json").as_uri())
        response = await editor.prompt(helpers.text_block("Write, please. "), reference)
        assert response.stop_reason == "end_turn"
        assert editor.said("agent_message_chunk") == "I write it.Done."
        assert editor.calls() == [("write_todos 1 todos", "completed"), ("write_file new.txt", "completed")]
        [(asked, options)] = editor.questions
        assert asked.kind == "edit" and "risk: medium" in (asked.title or "")
        assert asked.locations is not None and asked.locations[0].path == str(tmp_path / "workspace" / "new.txt")
        assert asked.content is not None and "1 + one" in asked.content[0].content.text  # type: ignore[union-attr]
        assert [option.kind for option in options] == ["allow_once", "allow_always", "reject_once"]
        plans = [each for each in editor.updates if each.session_update == "plan"]
        assert [(entry.content, entry.status) for entry in plans[-1].entries] == [("Write it", "in_progress")]
    assert (tmp_path / "workspace" / "new.txt").read_text() == "one\n"


@pytest.mark.parametrize("answer", ["deny", None, "nonsense"])
async def test_what_is_no_permission_runs_nothing(tmp_path: Path, answer: str | None) -> None:
    async with an_editor(tmp_path, always(answer), {"toolCalls": [write("x")]}, {"text": "All right."}) as editor:
        assert (await editor.prompt(helpers.text_block("Write"))).stop_reason == "end_turn"
        assert editor.calls() == [("write_file new.txt", "failed")]
    assert (tmp_path / "workspace" / "new.txt").read_text() == "old\n"


async def test_always_holds_for_the_session_and_for_what_was_offered(tmp_path: Path) -> None:
    other = {"name": "write_file", "arguments": {"path": "other.txt", "content": "x", "overwrite": True}}
    replies = {"toolCalls": [write("one")]}, {"toolCalls": [write("two")]}, {"toolCalls": [other]}, {"text": "Done."}
    async with an_editor(tmp_path, always("session"), *replies) as editor:
        await editor.prompt(helpers.text_block("Write"))
        assert editor.questions[0][1][1].name == 'Always this session: write_file where path = "new.txt"'
        assert [(asked.locations or [])[0].path.rsplit("/", 1)[1] for asked, _ in editor.questions] == [
            "new.txt",
            "other.txt",
        ]


async def test_a_cancelled_turn_ends_as_cancelled_with_its_question(tmp_path: Path) -> None:
    async def cancel(editor: Editor, *_: object) -> None:
        await editor.agent.cancel(session_id=editor.session)

    async with an_editor(tmp_path, cancel, {"toolCalls": [write("x")]}, {"text": "never"}) as editor:
        assert (await editor.prompt(helpers.text_block("Write"))).stop_reason == "cancelled"
        assert "never" not in editor.said("agent_message_chunk")
        await editor.agent.set_session_mode(mode_id="plan", session_id=editor.session)
        for request in (
            editor.agent.set_session_mode(mode_id="yolo", session_id=editor.session),
            editor.agent.prompt(session_id="nobody", prompt=[helpers.text_block("x")]),
            editor.agent.new_session(cwd=str(tmp_path / "not there"), mcp_servers=[]),
        ):
            with pytest.raises(RequestError):
                await request
    assert (tmp_path / "workspace" / "new.txt").read_text() == "old\n"


async def test_an_editor_that_vanishes_approves_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def vanish(editor: Editor, *_: object) -> str:
        await asyncio.Event().wait()
        return "once"

    async with an_editor(tmp_path, vanish, {"toolCalls": [write("x")]}) as editor:
        prompting = asyncio.ensure_future(editor.prompt(helpers.text_block("Write")))
        async with asyncio.timeout(SECONDS):
            await editor.asked.wait()
        [process] = children_that(lambda line: "acp" in line.split())
    prompting.cancel()
    await asyncio.gather(prompting, return_exceptions=True)
    assert not psutil.wait_procs([process], timeout=SECONDS)[1]
    assert (tmp_path / "workspace" / "new.txt").read_text() == "old\n"


async def test_a_session_is_gone_on_with_in_another_connection(tmp_path: Path) -> None:
    async with an_editor(tmp_path, always("once"), {"text": "First answer."}) as editor:
        await editor.prompt(helpers.text_block("First question"))
        earlier = editor.session
    async with an_editor(tmp_path, always("once"), {"text": "Second answer."}) as editor:
        await editor.agent.load_session(cwd=str(tmp_path / "workspace"), session_id=earlier, mcp_servers=[])
        assert editor.said("user_message_chunk") == "First question"
        assert editor.said("agent_message_chunk") == "First answer."
        editor.session = earlier
        await editor.prompt(helpers.text_block("More"))
        assert editor.said("agent_message_chunk") == "First answer.Second answer."


def test_without_the_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ollm_tui.cli.acp.find_spec", lambda _: None)
    assert main(["acp"]) == 2
    assert "pip install 'ollm-tui[acp]'" in capsys.readouterr().err
