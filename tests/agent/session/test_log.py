"""The session log: whole lines only, and nothing missing without a word."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from ollm_tui.agent.events import (
    Event,
    LoggedResult,
    NoticeEvent,
    SessionStartedEvent,
    TextDeltaEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnFinishedEvent,
    TurnStatus,
    UserMessageEvent,
    read_event,
)
from ollm_tui.agent.session.catalogue import RECENT_CALLS, recent_calls, take_broken_off
from ollm_tui.agent.session.log import SessionLog
from ollm_tui.agent.session.reading import read_log
from ollm_tui.core.bus.states import Origin

MOMENT = "2026-01-31T09:00:00.000Z"


def message(number: int, text: str = "x") -> UserMessageEvent:
    return UserMessageEvent(id=number, time=MOMENT, text=text)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def logged(log: SessionLog) -> list[Event]:
    lines = log.path.read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b"\n") for line in lines)
    return [read_event(line) for line in lines]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SessionLog]:
    log = SessionLog(tmp_path / "sessions" / "s")
    yield log
    log.close()


def test_a_full_disk_is_said_once_and_what_is_missing_is_marked_once_there_is_room(log: SessionLog) -> None:
    said: list[str] = []
    log.subscribe(said.append)
    log.write(message(1))
    with full_disk(log.path.stat().st_size + 20):  # the next line fits in part
        for number in (2, 3, 4):
            log.write(message(number))
        assert "File too large" in log.error and len(said) == 1
        assert logged(log) == [message(1)]
    log.write(message(5))
    log.write(message(6))
    assert not log.error
    first, gap, *rest = logged(log)
    assert first == message(1) and rest == [message(5), message(6)]
    assert isinstance(gap, NoticeEvent) and gap.text.startswith(
        "3 events are missing here. The session is not recorded"
    )
    assert len(said) == 2 and said[1].startswith("The session is recorded again; 3 events are missing in ")


@pytest.mark.parametrize("how", ["removed", "moved away, as with a file system that is detached"])
def test_a_log_that_is_gone_is_begun_anew_and_says_what_is_missing(log: SessionLog, how: str) -> None:
    log.write(message(1))
    log.write(message(2))
    if how == "removed":
        shutil.rmtree(log.folder.parent)
    else:
        log.folder.rename(log.folder.with_name("elsewhere"))
    log.write(TextDeltaEvent(text="not for the log"))
    log.write(message(3))
    gap, third = logged(log)
    assert isinstance(gap, NoticeEvent) and gap.text == "2 events are missing here. The log was gone."
    assert third == message(3)


def test_a_log_cut_at_any_byte_keeps_its_whole_records_and_its_broken_end_aside(tmp_path: Path) -> None:
    whole = begun(tmp_path, "whole", tmp_path, message(1, "\u00e9"), called("a"), returned("a"), OVER)
    whole.close()
    content = whole.path.read_bytes()
    records = [read_event(line) for line in content.splitlines()]
    ends = [at for at in range(len(content) + 1) if content[at : at + 1] == b"\n"]
    for at in range(len(content) + 1):
        cut = tmp_path / str(at) / "events.jsonl"
        cut.parent.mkdir()
        cut.write_bytes(content[:at])
        log = SessionLog(cut.parent)
        log.write(message(9))
        log.close()
        found, kept = read_log(cut), sum(end <= at for end in ends)
        broken = at > 0 and content[at - 1 : at] != b"\n" and at not in ends
        assert list(found.events) == [*records[:kept], message(9)] and found.damaged == broken, at
        after = cut.read_bytes()
        assert after.startswith(content[:at]) and after.count(b"\n") == kept + broken + 1, "nothing is taken away"


def test_a_log_that_cannot_be_opened_is_tried_again_with_each_event(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file where the folder should be")
    log = SessionLog(tmp_path / "sessions" / "s")
    assert "The session is not recorded" in log.error
    log.write(message(1))
    (tmp_path / "sessions").unlink()
    log.write(message(2))
    log.close()
    log.write(message(3))
    gap, second = logged(log)
    assert isinstance(gap, NoticeEvent) and gap.text.startswith("1 event is missing here. ") and second == message(2)
    assert not log.error


def test_a_read_only_folder_is_said_and_the_session_goes_on(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    log = SessionLog(tmp_path / "sessions" / "s")
    log.write(message(1))
    assert "Permission denied" in log.error
    tmp_path.chmod(0o700)


# -- sessions without an end


def begun(sessions: Path, name: str, workspace: Path, *events: Event) -> SessionLog:
    log = SessionLog(sessions / name)
    log.write(
        SessionStartedEvent(
            session_id=name, workspace=str(workspace), provider="scripted", model="", version="1", time=MOMENT
        )
    )
    for event in events:
        log.write(event)
    return log


def called(call_id: str, name: str = "shell") -> ToolCallEvent:
    return ToolCallEvent(time=MOMENT, call_id=call_id, name=name, arguments={}, origin=Origin.MODEL)


def returned(call_id: str) -> ToolResultEvent:
    result = LoggedResult(ok=True, llm_content="x", return_display="x")
    return ToolResultEvent(time=MOMENT, call_id=call_id, result=result)


OVER = TurnFinishedEvent(time=MOMENT, status=TurnStatus.COMPLETED)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ((), "nothing was running"),
        ((message(1), called("a"), returned("a"), OVER), "nothing was running"),
        ((message(1),), "a turn was running"),
        ((message(1), called("a"), returned("a")), "a turn was running"),
        ((message(1), called("a"), called("b", "grep"), returned("a")), "grep ran; look at what came of it"),
    ],
)
def test_a_session_without_an_end_is_named_once_with_what_was_running(
    tmp_path: Path, events: tuple[Event, ...], words: str
) -> None:
    log = begun(tmp_path, "one", tmp_path / "ws", *events)
    assert not take_broken_off(tmp_path, tmp_path / "ws")  # it runs
    log.close(ended=False)
    assert not take_broken_off(tmp_path, tmp_path / "elsewhere")
    found = take_broken_off(tmp_path, tmp_path / "ws")
    assert found is not None and found.session_id == ("one" if events else ""), "there is nothing to go on with"
    moment = datetime.fromisoformat(MOMENT).astimezone()
    assert f"ended unexpectedly at {moment:%Y-%m-%d %H:%M:%S}: {words}." in found.text
    assert (' Its last line: "x".' in found.text) is bool(events)
    assert not take_broken_off(tmp_path, tmp_path / "ws")


def test_a_session_that_ended_is_not_named_and_a_damaged_log_does_no_harm(tmp_path: Path) -> None:
    begun(tmp_path, "ended", tmp_path).close()
    begun(tmp_path, "empty", tmp_path).close(ended=False)
    (tmp_path / "empty" / "events.jsonl").write_bytes(b"\xff{")
    cut = begun(tmp_path, "gone", tmp_path, message(1))
    cut.close(ended=False)
    cut.path.unlink()
    assert not take_broken_off(tmp_path, tmp_path)
    cut = begun(tmp_path, "cut", tmp_path, message(1), called("a"))
    cut.close(ended=False)
    os.truncate(cut.path, cut.path.stat().st_size - 5)
    found = take_broken_off(tmp_path, tmp_path)
    assert found is not None and "a turn was running" in found.text


def test_recent_calls_are_those_of_the_workspace_newest_first(tmp_path: Path) -> None:
    def session(name: str, workspace: str, *commands: str) -> Path:
        log = begun(tmp_path, name, Path(workspace))
        for command in commands:
            log.write(ToolCallEvent(call_id="c", name="shell", arguments={"command": command}, origin=Origin.MODEL))
        log.close()
        with log.path.open("ab") as file:
            file.write(b'{"type": "tool_call", "id": 99, "cut')
        os.utime(log.path, (int(name), int(name)))
        return log.path.parent

    session("1", "/ws", *(f"make {number}" for number in range(RECENT_CALLS)))
    session("2", "/other", "make elsewhere")
    found = recent_calls(session("3", "/ws", "make a", "make b"))
    assert [call.arguments["command"] for call in found[:3]] == ["make b", "make a", f"make {RECENT_CALLS - 1}"]
    assert len(found) == RECENT_CALLS
