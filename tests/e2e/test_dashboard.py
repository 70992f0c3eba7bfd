"""The whole program, by keys alone: the installed command in a terminal, against a model server that speaks SSE.

What it does is read off the cells of the outer terminal; files are checked in addition.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent.providers.fake_server import FakeReply, FakeServer, json_reply, sse
from tests.e2e.outer import QUIET, OuterTerminal


def says(text: str = "", *calls: tuple[str, dict[str, object]]) -> FakeReply:
    """One streamed answer of an OpenAI-compatible server."""
    chunks: list[object] = [
        {"choices": [{"index": 0, "delta": {"content": piece}}]}
        for piece in (text[i : i + 7] for i in range(0, len(text), 7))
    ]
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"call_{name}_{index}", "type": "function", "function": function}
        chunks.append({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]})
    return sse(*chunks, "[DONE]")


@asynccontextmanager
async def dashboard(
    workspace: Path, *replies: FakeReply, columns: int = 120, lines: int = 40
) -> AsyncGenerator[tuple[OuterTerminal, FakeServer]]:
    policy = workspace.parent / "policy.toml"
    policy.write_text('preset = "strict"\n')
    async with FakeServer() as server:
        server.always("/v1/models", json_reply({"object": "list", "data": [{"id": "tiny", "object": "model"}]}))
        server.reply("/v1/chat/completions", *replies)
        arguments = [
            "--provider",
            "openai",
            "--base-url",
            f"{server.url}/v1",
            "--model",
            "tiny",
            "--policy",
            str(policy),
        ]
        terminal = OuterTerminal.start(*arguments, cwd=workspace, columns=columns, lines=lines)
        try:
            await terminal.sees("IDLE")
            yield terminal, server
        finally:
            await terminal.close()


@pytest.mark.parametrize(("columns", "lines"), [(120, 40), (80, 24)])
async def test_an_overwrite_and_a_command_are_approved_and_a_deletion_denied(
    tmp_path: Path, columns: int, lines: int
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "notes.txt").write_text("old words\n")
    (workspace / "precious.txt").write_text("keep me\n")
    proposal = says(
        "I will tidy up.",
        ("write_file", {"path": "notes.txt", "content": "new words\n", "overwrite": True}),
        ("shell", {"command": "printf 'sum %s\\n' $((40 + 2)) > sum.txt; cat sum.txt"}),
        ("delete_file", {"path": "precious.txt"}),
    )
    async with dashboard(workspace, proposal, says("All done, thank you."), columns=columns, lines=lines) as (
        terminal,
        server,
    ):
        await terminal.type("tidy up please", "enter")
        await terminal.sees("WAITING 3")
        await terminal.type("f8")
        await terminal.sees("Approve?  1 of 3")
        await terminal.sees("notes.txt")
        assert (workspace / "notes.txt").read_text() == "old words\n"
        await terminal.type("enter")
        await terminal.rests()
        await terminal.sees("1 of 3")
        assert (workspace / "notes.txt").read_text() == "old words\n"
        await terminal.type("y")
        await terminal.sees(lambda text: "Approve?  1 of 2" in text and "shell" in text)
        await terminal.decide("y", "again")
        assert not (workspace / "sum.txt").exists()
        await terminal.decide("y", lambda text: "Approve?  1 of 1" in text and "delete_file" in text)
        await terminal.decide("r", "why not; the model reads this")
        await terminal.type("it holds the only copy")
        await terminal.sees("it holds the only copy")
        await terminal.decide("enter", "All done, thank you.")
        await terminal.sees(lambda text: text.split()[0] == "IDLE")
        assert (workspace / "notes.txt").read_text() == "new words\n"
        assert (workspace / "sum.txt").read_text() == "sum 42\n"
        assert (workspace / "precious.txt").read_text() == "keep me\n"
        second = json.dumps(server.bodies("/v1/chat/completions")[1])
        assert "it holds the only copy" in second, second[-2500:]
        assert "sum 42" in second, second[-2500:]
        await terminal.type("^q")
        assert await terminal.ends() == 0


async def test_every_action_can_be_done_by_keys_in_a_small_window(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    reply = says(
        "Here is my plan.",
        ("write_todos", {"todos": [{"task": "Water the plants"}, {"task": "Feed the cat"}]}),
        ("write_file", {"path": "x.txt", "content": "proposed"}),
    )
    async with dashboard(workspace, reply, says("Written."), columns=80, lines=24) as (terminal, server):
        await terminal.type("go", "enter")
        await terminal.sees("WAITING 1")
        await terminal.sees("F8 review")
        # change the arguments, have them judged, approve what is asked anew
        await terminal.type("f8")
        await terminal.sees("Approve?  1 of 1")
        await terminal.decide("e", '"content"')
        await terminal.type("f7", '{"path": "y.txt", "content": "as the person wants it"}', "^s")
        await terminal.sees("EDITED")
        await terminal.rests(QUIET)
        assert not (workspace / "y.txt").exists()
        await terminal.decide("y", "Written.")
        assert (workspace / "y.txt").read_text() == "as the person wants it"
        assert not (workspace / "x.txt").exists()
        assert "the person changed the arguments" in json.dumps(server.bodies("/v1/chat/completions")[1])
        # read the todo list
        for _ in range(6):
            if "Water the plants" in terminal.text and "Feed the cat" in terminal.text:
                break
            await terminal.press("f6")
        await terminal.sees("Feed the cat")
        # zoom, and back
        await terminal.press("f10")
        await terminal.press("f10")
        # type into the shell, and leave it
        await terminal.type("^t", "echo plum-$((40 + 2))", "enter")
        await terminal.sees("plum-42")
        await terminal.type("^]")
        await terminal.sees("Enter send")


async def test_a_key_typed_while_a_question_arrives_approves_nothing(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    reply = says("", ("write_file", {"path": "x.txt", "content": "x"}))
    async with dashboard(workspace, reply, says("ok")) as (terminal, _):
        await terminal.type("go", "enter")
        for _ in range(40):
            await terminal.type("y")
        await terminal.sees("WAITING 1")
        await terminal.sees("yyyyyyyyyy")
        assert not (workspace / "x.txt").exists()


async def test_a_persons_keys_reach_a_command_that_waits_for_them(tmp_path: Path) -> None:
    """Also where the echo is off, as for sudo: the word INPUT stands wherever the person looks, ctrl+t leads there."""
    workspace = tmp_path / "ws"
    workspace.mkdir()
    command = "read -p 'Name? ' x; stty -echo; printf 'Password: '; read p; stty echo; echo got $x ${#p}"
    reply = says("", ("shell", {"command": command, "timeout": 60000}))
    async with dashboard(workspace, reply, says("It is read.")) as (terminal, server):
        await terminal.type("go", "enter")
        await terminal.sees("WAITING 1")
        await terminal.type("f8")
        await terminal.sees("Approve?  1 of 1")
        await terminal.decide("y", "again")
        await terminal.decide("y", lambda text: terminal.state == "INPUT" and text.count("INPUT ^T") == 2)
        await terminal.type("^t", "plums", "enter")
        await terminal.sees(lambda text: terminal.state == "INPUT" and "Password:" in text)
        await terminal.type("^]", "^t", "hunter2", "enter")
        await terminal.sees("got plums 7")
        await terminal.sees("It is read.")
        await terminal.sees(lambda text: terminal.state == "IDLE" and "INPUT ^T" not in text)
        told = json.dumps(server.bodies("/v1/chat/completions")[1])
        assert "got plums 7" in told and "hunter2" not in told + terminal.text


async def test_a_server_that_breaks_off_keeps_the_text_and_r_tries_again(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    whole = says("Half of an answer that never came to its end")
    async with dashboard(workspace, whole.cut_at(len(whole.body) // 2), says("Here it is whole.")) as (
        terminal,
        server,
    ):
        await terminal.type("hello", "enter")
        await terminal.sees("Half of")
        await terminal.sees("127.0.0.1")
        await terminal.type("f6", "r")
        await terminal.sees("Here it is whole.")
        assert len(server.bodies("/v1/chat/completions")) == 2


async def test_a_window_too_small_says_so_and_still_asks(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    reply = says("", ("write_file", {"path": "x.txt", "content": "x"}))
    async with dashboard(workspace, reply, says("ok")) as (terminal, _):
        terminal.resize(38, 9)
        await terminal.sees("Window too small (need 40x10)")
        await terminal.type("go", "enter")
        await terminal.sees("Write x.txt")
        await terminal.type("f8")
        await terminal.sees("Write x.txt")
        await terminal.type("pgdn", "pgdn")
        await terminal.decide("y", lambda text: "Write x.txt" not in text)  # a window that changes takes it back
        terminal.resize(120, 40)
        await terminal.sees("ok")
        assert (workspace / "x.txt").read_text() == "x"


async def test_how_fast_the_last_answer_came_stays_in_the_status_line(tmp_path: Path) -> None:
    pieces = [{"choices": [{"index": 0, "delta": {"content": f"word{number} "}}]} for number in range(6)]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    used = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 900, "total_tokens": 910}}
    reply = replace(sse(*pieces, end, used, "[DONE]"), pause=0.25)  # so that a busy machine hears it in pieces too
    # The rate goes first where a long path leaves no room for it.
    async with dashboard(tmp_path, reply, columns=200) as (terminal, _):
        assert "t/s" not in terminal.text
        await terminal.type("go", "enter")
        await terminal.sees(lambda text: re.match(r" IDLE .*\| [1-9]\d* t/s \|", text) is not None)
