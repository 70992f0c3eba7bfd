"""`run --ask socket | stdio` and `attach`: questions answered from elsewhere, each once, and never by a lost link."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ollm_tui.cli import main
from ollm_tui.cli.questions import MAX_FRAME, QuestionServer, on_socket, sockets_folder
from ollm_tui.core import ConfirmationDetails, MessageBus
from ollm_tui.core.bus.states import Risk

SECONDS = 30
HELLO = b'{"type": "hello", "version": 1}\n'


@pytest.fixture(autouse=True)
def runtime_folder(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A folder for sockets, whose paths are short."""
    with tempfile.TemporaryDirectory(prefix="ollm-run-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


class Peer:
    """One who is attached, and writes what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            return json.loads(await self.reader.readline() or b'{"type": "closed"}')

    async def until(self, kind: str) -> dict[str, Any]:
        while (frame := await self.next())["type"] != kind:
            assert frame["type"] != "closed", f"the link ended before {kind}"
        return frame

    def answer(self, request_id: str, *, approved: bool = True) -> None:
        self.writer.write(json.dumps({"type": "answer", "id": request_id, "approved": approved}).encode() + b"\n")


class Run:
    """Questions without a model, on a real socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bus = MessageBus()

    def ask(self, name: str = "shell") -> str:
        details = ConfirmationDetails(tool_name=name, description="Run it", risk=Risk.MEDIUM)
        return self.bus.open_confirmation(details, None).confirmation.id

    async def attach(self, first: bytes = HELLO) -> Peer:
        peer = Peer(*await asyncio.open_unix_connection(self.path, limit=2 * MAX_FRAME))
        assert (await peer.next())["type"] == "hello"
        peer.writer.write(first)
        return peer


@asynccontextmanager
async def a_run() -> AsyncGenerator[Run]:
    run = Run(Path())
    questions = QuestionServer(run.bus, {"session": "s1", "workspace": "/w"})
    async with on_socket(questions, "s1") as path:
        run.path = path
        yield run
        await questions.aclose()


async def test_two_people_and_two_hundred_questions_each_settled_once() -> None:
    async with a_run() as run:
        peers = [await run.attach(), await run.attach()]
        open_before = [run.ask() for _ in range(50)]
        chance = random.Random(7)
        accepted: list[str] = []
        refused: list[str] = []

        async def answer_all(peer: Peer) -> None:
            seen = 0
            replies = 0
            while replies < 200:
                frame = await peer.next()
                match frame["type"]:
                    case "question":
                        seen += 1
                        await asyncio.sleep(chance.random() / 1_000)
                        peer.answer(frame["request"]["id"], approved=chance.random() < 0.5)
                    case "accepted":
                        accepted.append(frame["id"])
                        replies += 1
                    case "refused":
                        assert "settled already" in frame["reason"]
                        refused.append(frame["id"])
                        replies += 1
                    case _:
                        pass
            assert seen == 200

        answering = [asyncio.ensure_future(answer_all(peer)) for peer in peers]
        later = [run.ask() for _ in range(150)]
        await asyncio.gather(*answering)
        assert sorted(accepted) == sorted(refused) == sorted([*open_before, *later])
        assert not run.bus.pending()


async def test_an_answer_cut_at_any_byte_answers_nothing() -> None:
    async with a_run() as run:
        request_id = run.ask()
        line = json.dumps({"type": "answer", "id": request_id, "approved": True}).encode() + b"\n"
        for length in range(len(line)):
            peer = await run.attach()
            await peer.until("question")
            peer.writer.write(line[:length])
            peer.writer.write_eof()
            while (await peer.next())["type"] != "closed":
                pass
        assert [one.id for one in run.bus.pending()] == [request_id]
        last = await run.attach()
        last.writer.write(line)
        assert (await last.until("accepted"))["id"] == request_id


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"yes\n", "that is no answer"),
        (b"[]\n", "that is no answer"),
        (b'{"type": "answer", "id": "ID", "approved": "true"}\n', "that is no answer"),
        (b'{"type": "answer", "id": "ID", "approved": true, "remember": "user"}\n', "that is no answer"),
        (b'{"type": "answer", "id": "confirm-nobody", "approved": true}\n', "there is no such question"),
        (b"x" * (MAX_FRAME + 10) + b"\n", "the line cannot be read"),
    ],
)
async def test_what_is_no_answer_is_refused_with_words(line: bytes, reason: str) -> None:
    async with a_run() as run:
        request_id = run.ask()
        peer = await run.attach()
        peer.writer.write(line.replace(b"ID", request_id.encode()))
        assert reason in (await peer.until("refused"))["reason"]
        assert [one.id for one in run.bus.pending()] == [request_id]


async def test_a_replayed_answer_and_a_newer_version_are_refused() -> None:
    async with a_run() as run:
        request_id = run.ask()
        peer = await run.attach()
        peer.answer(request_id, approved=False)
        assert (await peer.until("settled"))["outcome"] == "denied by a person attached"
        peer.answer(request_id)
        assert (await peer.until("refused"))["reason"] == "it is settled already: denied by a person attached"
        newer = await run.attach(b'{"type": "hello", "version": 2}\n')
        assert "speaks version 1, not 2" in (await newer.until("refused"))["reason"]
        silent = await run.attach(b'{"type": "answer", "id": "x", "approved": true}\n')
        assert "say hello first" in (await silent.until("refused"))["reason"]


async def test_only_this_user_can_reach_a_socket(monkeypatch: pytest.MonkeyPatch, runtime_folder: Path) -> None:
    async with a_run() as run:
        assert run.path.stat().st_mode & 0o777 == 0o600 and run.path.parent.stat().st_mode & 0o777 == 0o700
        monkeypatch.setattr(os, "getuid", lambda: 12_345)
        reader, _ = await asyncio.open_unix_connection(run.path)
        async with asyncio.timeout(SECONDS):
            assert await reader.read() == b""
    monkeypatch.undo()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime_folder))
    (runtime_folder / "ollm-tui").chmod(0o755)
    with pytest.raises(PermissionError, match="not yours alone"):
        sockets_folder()


# -- the commands ----------------------------------------------------------------------------------------------------


def the_run(folder: Path, ask: str) -> list[str]:
    workspace, script = folder / "workspace", folder / "script.json"
    workspace.mkdir()
    (workspace / "a.txt").write_text("old\n")
    call = {"name": "write_file", "arguments": {"path": "a.txt", "content": "new\n", "overwrite": True}}
    script.write_text(json.dumps([{"text": "I write it.", "toolCalls": [call]}, {"text": "Done."}]))
    run = ["run", "Go", "--ask", ask, "-C", str(workspace), "--provider", "scripted", "--script", str(script)]
    return [sys.executable, "-P", "-m", "ollm_tui", *run]


@pytest.mark.parametrize("what", ["file", "link", "open"])
async def test_a_run_whose_folder_is_not_ones_own_says_so(tmp_path: Path, runtime_folder: Path, what: str) -> None:
    folder = runtime_folder / "ollm-tui"
    match what:
        case "file":
            folder.touch()
        case "link":
            (runtime_folder / "real").mkdir(mode=0o700)
            folder.symlink_to("real")
        case _:
            folder.mkdir(mode=0o755)
    run = await started(*the_run(tmp_path, "socket"))
    async with asyncio.timeout(SECONDS):
        _, said = await run.communicate()
    assert run.returncode == 2 and b"is not yours alone" in said and b"Traceback" not in said


async def started(*command: str) -> Process:
    return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)


async def shown(process: Process, words: str) -> str:
    """Read what it prints until these words came."""
    assert process.stdout is not None
    text = ""
    async with asyncio.timeout(SECONDS):
        while words not in text:
            line = (await process.stdout.readline()).decode()
            assert line, f"it ended after {text!r}"
            text += line
    return text


async def answered(process: Process, word: str, until: str) -> str:
    """Type an answer as often as it takes until it is no longer too soon."""
    assert process.stdin is not None
    text = ""
    while until not in text:
        process.stdin.write(f"{word}\n".encode())
        text += await shown(process, "\n")
    return text


async def test_a_lost_link_leaves_the_question_open_and_the_next_one_answers(tmp_path: Path) -> None:
    run = await started(*the_run(tmp_path, "socket"))
    assert run.stderr is not None
    async with asyncio.timeout(SECONDS):
        while b"ollm-tui attach" not in await run.stderr.readline():
            pass
    attach = [sys.executable, "-P", "-m", "ollm_tui", "attach"]
    first = await started(*attach)
    assert "+ new" in await shown(first, "Type yes to approve once")
    first.kill()
    await first.wait()
    assert (tmp_path / "workspace" / "a.txt").read_text() == "old\n"
    second = await started(*attach)
    assert "Attached to" in await shown(second, "Type yes to approve once")
    await answered(second, "yes", "Answer: approved by a person attached")
    assert "The turn is completed." in await shown(second, "The turn is")
    assert await second.wait() == 0 and await run.wait() == 0
    assert (tmp_path / "workspace" / "a.txt").read_text() == "new\n"
    assert not list(sockets_folder().iterdir())


async def test_a_command_such_as_ssh_is_the_link(tmp_path: Path) -> None:
    process = await started(sys.executable, "-P", "-m", "ollm_tui", "attach", "--", *the_run(tmp_path, "stdio"))
    await shown(process, "Type yes to approve once")
    await answered(process, "no not now", "Answer: denied by a person attached")
    assert "Done." in await shown(process, "The turn is completed.")
    assert await process.wait() == 0
    assert (tmp_path / "workspace" / "a.txt").read_text() == "old\n"


async def test_when_the_command_loses_its_reader_nothing_runs_and_it_ends(tmp_path: Path) -> None:
    process = await started(*the_run(tmp_path, "stdio"))
    assert process.stdin is not None
    process.stdin.write(HELLO)
    await shown(process, '"question"')
    process.stdin.close()
    async with asyncio.timeout(SECONDS):
        assert await process.wait() == 130
    assert (tmp_path / "workspace" / "a.txt").read_text() == "old\n"


def test_without_a_run_that_waits_it_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    (sockets_folder() / "gone.sock").touch()
    assert main(["attach"]) == 2
    assert "ollm-tui run PROMPT --ask socket" in capsys.readouterr().err
    assert main(["run", "-", "--ask", "stdio"]) == 2
