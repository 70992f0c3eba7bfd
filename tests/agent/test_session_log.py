"""The session log: whole lines only, and nothing missing without a word."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ollm_tui.agent.events import Event, NoticeEvent, TextDeltaEvent, UserMessageEvent, read_event
from ollm_tui.agent.session_log import SessionLog


def message(number: int, text: str = "x") -> UserMessageEvent:
    return UserMessageEvent(id=number, time="2026-01-31T09:00:00.000Z", text=text)


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


def test_a_log_that_was_removed_is_begun_anew_and_says_what_is_missing(log: SessionLog) -> None:
    log.write(message(1))
    log.write(message(2))
    shutil.rmtree(log.folder.parent)
    log.write(TextDeltaEvent(text="not for the log"))
    log.write(message(3))
    gap, third = logged(log)
    assert isinstance(gap, NoticeEvent) and gap.text == "2 events are missing here. The log was removed."
    assert third == message(3)


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
