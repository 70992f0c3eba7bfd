"""Sessions listed, found, searched, exported and deleted, by the commands a person types."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    Event,
    LoggedResult,
    SessionStartedEvent,
    ToolCallEvent,
    ToolResultEvent,
    UserMessageEvent,
)
from ollm_tui.agent.session.log import SessionLog, sessions_folder
from ollm_tui.cli import main
from ollm_tui.core.bus.states import Origin

MOMENT = "2026-01-31T09:00:00.000Z"
CODE = "```\nx = 1\n```"


def session(name: str, *events: Event, workspace: str = "/home/ann/app") -> SessionLog:
    log = SessionLog(sessions_folder() / name)
    started = SessionStartedEvent(session_id=name, workspace=workspace, provider="ollama", model="qwen3", version="1")
    for number, event in enumerate((started, *events), 1):
        log.write(event.model_copy(update={"id": number, "time": MOMENT}))
    log.close()
    return log


def asked(text: str) -> list[Event]:
    result = LoggedResult(ok=True, llm_content=f"caf\u00e9 \x1b[31m{CODE}", return_display="x")
    return [
        UserMessageEvent(text=text),
        ToolCallEvent(call_id="c", name="read_file", arguments={"path": "a\u0301.py"}, origin=Origin.MODEL),
        ToolResultEvent(call_id="c", result=result),
        AssistantMessageEvent(text="It says **x = 1**."),
    ]


@pytest.fixture(autouse=True)
def three(own_folders: Path) -> None:
    session("20260101-090000-aaaaaa", *asked("What is in it?\nTell me."))
    session("20260102-090000-bbbbbb", *asked("\x1b]0;owned\x07 " + "long " * 40))
    session("20260102-100000-cccccc")
    for at, name in enumerate(("20260101-090000-aaaaaa", "20260102-090000-bbbbbb", "20260102-100000-cccccc")):
        os.utime(sessions_folder() / name / "events.jsonl", (1e9 + at, 1e9 + at))


def rows(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_the_list_has_titles_and_leaves_out_what_nothing_was_asked_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "list", "--json"]) == 0
    listed = rows(capsys.readouterr().out)
    assert [row["id"] for row in listed] == ["20260102-090000-bbbbbb", "20260101-090000-aaaaaa"]
    assert listed[1]["title"] == "What is in it?" and str(listed[0]["title"]).endswith("long...")
    assert main(["sessions", "list", "--all"]) == 0
    out = capsys.readouterr().out
    assert "(nothing asked)" in out and "\x1b" not in out and len(out.splitlines()) == 3


def test_the_beginning_of_an_id_is_enough_where_it_is_unique(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "show", "20260101", "--json"]) == 0
    (shown,) = rows(capsys.readouterr().out)
    assert (shown["events"], shown["turns"], shown["damaged"]) == (5, 1, 0)
    for wrong, words in (("202601", "3 sessions begin with"), ("x", "There is no session x"), ("../..", "There is no")):
        assert main(["sessions", "show", wrong]) == 2
        told = capsys.readouterr()
        assert words in told.err and not told.out


@pytest.mark.parametrize(
    ("text", "found"), [("WHAT IS", 1), ("caf\u00c9", 2), ("X = 1", 4), ("a\u0301.py", 2), ("qwen3", 0), ('"path"', 2)]
)
def test_a_search_finds_what_was_said_and_done_whatever_the_case(
    text: str, found: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sessions", "search", text, "--json"]) == 0
    assert len(rows(capsys.readouterr().out)) == found
    assert main(["sessions", "search", text]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_an_export_to_read_keeps_code_in_its_fences_and_shows_controls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.md"
    assert main(["sessions", "export", "20260101", "--output", str(target)]) == 0
    text = target.read_text()
    assert text.startswith("# What is in it?\n") and "\x1b" not in text and target.stat().st_mode & 0o77 == 0
    assert f"````\ncaf\u00e9 \u241b[31m{CODE}\n````" in text and "### `read_file`: ok" in text
    capsys.readouterr()
    assert main(["sessions", "export", "20260101", "--output", str(target)]) == 2
    assert "there already" in capsys.readouterr().err and target.read_text() == text


def test_an_export_for_programs_is_the_log_without_its_damage(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = sessions_folder() / "20260101-090000-aaaaaa" / "events.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"user_mess')
    assert main(["sessions", "export", "20260101", "--format", "jsonl"]) == 0
    told = capfdbinary.readouterr()
    assert told.out == whole and b"1 damaged line" in told.err


def played(lines: Iterable[str]) -> tuple[dict[str, object], list[tuple[float, str, str]]]:
    header, *events = [json.loads(line) for line in lines]
    return header, [(time, kind, text) for time, kind, text in events]


def test_commands_are_recorded_and_play_in_any_player(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    script = tmp_path / "script.json"
    lines = "printf 'one\\n'; sleep 1; printf '\\303'; sleep 0.1; printf '\\251 \\377\\n'"
    calls = [{"name": "shell", "arguments": {"command": command}} for command in (lines, "echo second; echo 3 >&2")]
    script.write_text(json.dumps([{"text": "", "toolCalls": calls}, {"text": "done"}]))
    arguments = ["run", "go", "-C", str(tmp_path), "--provider", "scripted", "--script", str(script), "--mode", "yolo"]
    assert main(arguments) == 0
    (folder,) = [path.parent for path in sessions_folder().glob("*/terminals")]
    capfdbinary.readouterr()
    assert main(["sessions", "export", folder.name, "--format", "cast"]) == 0
    header, events = played(capfdbinary.readouterr().out.decode().splitlines())
    assert header["version"] == 2 and (header["width"], header["height"]) == (120, 40) and header["title"] == "go"
    times = [time for time, _, _ in events]
    assert times == sorted(times) and times[-1] > 1.0
    assert [text for _, kind, text in events if kind == "m"] == [lines, "echo second; echo 3 >&2"]
    written = "".join(text for _, kind, text in events if kind == "o")
    assert "one\r\n" in written and "\u00e9 \ufffd\r\n" in written and "second\r\n3\r\n" in written
    spoken = {text: time for time, kind, text in events if kind == "o"}
    assert spoken["one\r\n"] < next(time for text, time in spoken.items() if "\ufffd" in text) - 0.25


def test_a_session_without_a_terminal_has_nothing_to_play(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "export", "20260101", "--format", "cast"]) == 1
    assert "No command ran" in capsys.readouterr().err


def test_deleting_takes_one_session_and_never_an_open_one(capsys: pytest.CaptureFixture[str]) -> None:
    held = SessionLog(sessions_folder() / "20260101-090000-aaaaaa")
    assert main(["sessions", "delete", "20260101"]) == 1
    assert "is open in another window" in capsys.readouterr().err
    held.close()
    assert main(["sessions", "delete", "20260101"]) == 0
    assert sorted(path.name for path in sessions_folder().iterdir()) == [
        "20260102-090000-bbbbbb",
        "20260102-100000-cccccc",
    ]
