"""The audit log: what a line carries, that lines stay as written, and that any change is found."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.bus.states import Origin, Risk
from ollm_tui.core.policy import audit
from ollm_tui.core.policy.audit import (
    SCHEMA,
    AuditEntry,
    AuditEvent,
    AuditLog,
    AuditWriter,
    CallEnd,
    deciding_line,
    unfinished_calls,
    with_decision,
)
from ollm_tui.core.policy.engine import Explanation, Layer, TraceLine
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.storage.store import Store


class Ticking:
    """Each look at the clock is a second later."""

    def __init__(self) -> None:
        self.seconds = 0

    def monotonic(self) -> float:
        return float(self.seconds)

    def now(self) -> datetime:
        self.seconds += 1
        return datetime(2026, 1, 31, 9, 0, self.seconds % 60, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ollm.db"


@pytest.fixture
def log(path: Path) -> Iterator[AuditLog]:
    store = Store(path)
    yield AuditLog(store, clock=Ticking())
    store.close()


def entry(call_id: str = "call-1", **more: object) -> AuditEntry:
    fields = {
        "event": AuditEvent.FINISHED,
        "call_id": call_id,
        "tool": "shell",
        "origin": Origin.MODEL,
        "arguments_sha256": "ab" * 32,
        "outcome": "ok",
    }
    return AuditEntry.model_validate(fields | more)


def tampered(path: Path, *statements: str) -> None:
    """What somebody with the file and SQLite at hand can do."""
    with sqlite3.connect(path) as raw:
        raw.execute("DROP TRIGGER audit_stays")
        raw.execute("DROP TRIGGER audit_keeps")
        for statement in statements:
            raw.execute(statement)
    raw.close()


def test_a_line_comes_back_as_it_was_written(log: AuditLog) -> None:
    written = entry(
        event=AuditEvent.SETTLED,
        decision=Decision.ASK,
        layer=Layer.RULES,
        rule=3,
        file="/etc/policy.toml",
        line=12,
        outcome="approved",
        by="user",
        latency_ms=1500,
    )
    line = log.append(written)
    assert log.read() == [line]
    assert (line.number, line.time, line.entry) == (1, "2026-01-31T09:00:01.000Z", written)
    assert line.model_dump(mode="json", by_alias=True)["entry"]["argumentsSha256"] == "ab" * 32


def test_read_gives_the_last_lines_oldest_first(log: AuditLog) -> None:
    for number in range(5):
        log.append(entry(f"c{number}"))
    assert [line.entry.call_id for line in log.read(2) if line.entry] == ["c3", "c4"]
    assert [line.number for line in log.read()] == [1, 2, 3, 4, 5]
    assert log.read(0) == []


def test_an_empty_and_an_honest_log_verify(log: AuditLog) -> None:
    assert log.verify() is None
    for number in range(20):
        log.append(entry(f"c{number}"))
    assert log.verify() is None


def test_the_log_goes_on_after_a_restart(path: Path, log: AuditLog) -> None:
    log.append(entry("before"))
    again = Store(path)
    AuditLog(again).append(entry("after"))
    assert AuditLog(again).verify() is None
    assert [line.number for line in AuditLog(again).read()] == [1, 2]
    again.close()


@pytest.mark.parametrize("statement", ["UPDATE audit SET entry = '{}'", "DELETE FROM audit WHERE number = 1"])
def test_lines_cannot_be_changed_or_deleted_through_the_store(path: Path, log: AuditLog, statement: str) -> None:
    log.append(entry())
    store = Store(path)
    with pytest.raises(StorageFailed, match="lines of the audit log are never"), store.write(SCHEMA) as db:
        db.execute(statement)
    store.close()
    assert log.verify() is None


@pytest.mark.parametrize(
    ("statement", "number", "reason"),
    [
        ("UPDATE audit SET entry = replace(entry, 'denied', 'ok') WHERE number = 4", 4, "not what was written"),
        ("UPDATE audit SET entry = 'no json' WHERE number = 2", 2, "not what was written"),
        ("UPDATE audit SET entry = x'00ff' WHERE number = 2", 2, "not what was written"),
        ("UPDATE audit SET digest = 'x' WHERE number = 3", 3, "not what was written"),
        ("DELETE FROM audit WHERE number = 3", 3, "missing"),
        ("DELETE FROM audit WHERE number = 1", 1, "missing"),
        ("DELETE FROM audit WHERE number > 4", 5, "missing; the log went on to line 6"),
        ("DELETE FROM audit", 1, "missing"),
        ("INSERT INTO audit SELECT 0, entry, digest FROM audit WHERE number = 1", 0, "slipped in"),
        ("INSERT INTO audit SELECT 7, entry, digest FROM audit WHERE number = 1", 7, "not what was written"),
        ("UPDATE audit SET number = number - 1 WHERE number > 3", 3, "not what was written"),
    ],
)
def test_tampering_is_found_at_its_first_line(
    path: Path, log: AuditLog, statement: str, number: int, reason: str
) -> None:
    for count in range(1, 7):
        log.append(entry(f"c{count}", outcome="denied"))
    if "number - 1" in statement:
        tampered(path, "DELETE FROM audit WHERE number = 3", statement)
    else:
        tampered(path, statement)
    broken = log.verify()
    assert broken is not None
    assert broken.number == number
    assert reason in broken.reason
    assert f"Line {number} " in broken.message
    log.read()  # still readable, whatever was done


def test_a_line_written_behind_the_logs_back_is_found(path: Path, log: AuditLog) -> None:
    """Even with a right digest: the log keeps where it ended."""
    from ollm_tui.core.policy.audit_chain import digest_of_line

    line = log.append(entry())
    forged = digest_of_line(line.digest, 2, "{}")
    tampered(path, f"INSERT INTO audit VALUES(2, '{{}}', '{forged}')")
    broken = log.verify()
    assert broken is not None
    assert broken.number == 2


@settings(deadline=None)
@given(
    st.lists(st.builds(entry, call_id=st.text(), tool=st.text(), by=st.none() | st.text(), latency_ms=st.integers(0))),
    st.data(),
)
def test_any_lines_verify_and_any_single_change_is_found(
    tmp_path_factory: pytest.TempPathFactory, entries: list[AuditEntry], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("audit") / "ollm.db"
    store = Store(path)
    log = AuditLog(store)
    for written in entries:
        log.append(written)
    assert [line.entry for line in log.read()] == entries
    assert log.verify() is None
    if entries:
        number = data.draw(st.integers(1, len(entries)))
        old = log.read()[number - 1]
        assert old.entry is not None
        tampered(path, f"UPDATE audit SET entry = replace(entry, 'abab', 'abba') WHERE number = {number}")
        broken = log.verify()
        assert broken is not None
        assert broken.number == number
    store.close()


def test_processes_append_to_one_chain(path: Path) -> None:
    script = """
import sys
from pathlib import Path
from ollm_tui.core.storage.store import Store
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.policy.audit import AuditEntry, AuditEvent, AuditLog
log = AuditLog(Store(Path(sys.argv[1])))
for number in range(40):
    log.append(AuditEntry(event=AuditEvent.DECIDED, call_id=f"{sys.argv[2]}{number}", tool="ls", origin=Origin.USER,
                          arguments_sha256=""))
"""
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name], stderr=subprocess.PIPE, text=True)
        for name in ("a", "b")
    ]
    for process in started:
        _, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, complaint
    store = Store(path)
    log = AuditLog(store)
    assert log.verify() is None
    assert {line.entry.call_id for line in log.read() if line.entry} == {f"{n}{i}" for n in "ab" for i in range(40)}
    store.close()


# -- the writer


def test_the_writer_keeps_order_and_the_time_of_the_event(log: AuditLog) -> None:
    writer = AuditWriter(log, clock=Ticking())
    for number in range(30):
        writer.record(entry(f"c{number}"))
    writer.flush()
    assert [line.entry.call_id for line in log.read() if line.entry] == [f"c{number}" for number in range(30)]
    assert [line.time for line in log.read()] == [f"2026-01-31T09:00:{number:02}.000Z" for number in range(1, 31)]
    writer.record(entry("last"))
    writer.close()
    writer.close()
    assert len(log.read()) == 31
    assert not writer.missing
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("audit")]


def test_a_line_that_cannot_be_written_is_reported_and_leaves_a_gap_that_is_found(path: Path) -> None:
    store = Store(path, busy_seconds=0.05)
    log = AuditLog(store)
    log.append(entry("first"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writer = AuditWriter(log)
    writer.record(entry("lost"))
    writer.flush()
    assert writer.is_stuck and writer.missing.startswith("1 line could not be written: ") and "locked" in writer.missing
    other.execute("ROLLBACK")
    other.close()
    writer.record(entry("second"))
    writer.record(entry("third"))
    writer.close()
    assert not writer.missing
    lines = [line.entry for line in log.read() if line.entry]
    assert [line.call_id for line in lines] == ["first", "", "second", "third"]
    assert lines[1].event is AuditEvent.GAP and str(lines[1].outcome).startswith("1 line could not be written: ")
    broken = log.verify()
    assert broken is not None and broken.number == 2 and "1 line could not be written" in broken.message
    log.append(entry("fourth"))
    broken = log.verify()
    assert broken is not None and broken.number == 2
    store.close()


async def test_whoever_waits_for_a_line_learns_that_it_could_not_be_written(path: Path) -> None:
    store = Store(path, busy_seconds=0.05)
    writer = AuditWriter(AuditLog(store))
    await writer.written()
    writer.record(entry("first"))
    await writer.written()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writer.record(entry("lost"))
    with pytest.raises(StorageFailed, match="The call was not run: the audit log could not be written"):
        await writer.written()
    other.execute("ROLLBACK")
    other.close()
    writer.record(entry("second"))
    await writer.written()
    writer.close()
    store.close()


async def test_waiting_for_a_line_ends_after_a_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "WRITTEN_SECONDS", 0.05)
    store = Store(path)
    log = AuditLog(store)
    log.append(entry("first"))
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    writer = AuditWriter(log)
    writer.record(entry("late"))
    with pytest.raises(StorageFailed, match=r"not be written within 0\.05 s"):
        await writer.written()
    other.execute("ROLLBACK")
    other.close()
    await asyncio.to_thread(writer.close)
    assert [line.entry.call_id for line in log.read() if line.entry] == ["first", "late"]
    assert log.verify() is None
    store.close()


def test_a_line_that_comes_after_the_end_is_reported(log: AuditLog) -> None:
    writer = AuditWriter(log)
    writer.record(entry("c1"))
    writer.close()
    writer.record(entry("c2"))
    writer.record(entry("c3"))
    assert writer.missing.startswith("2 lines could not be written: ") and len(log.read()) == 1


def test_lines_that_come_while_the_store_is_locked_wait_for_it_once(path: Path) -> None:
    store = Store(path, busy_seconds=0.5)
    log = AuditLog(store, clock=Ticking())
    log.append(entry("first"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writer = AuditWriter(log)
    begun = time.monotonic()
    for number in range(20):
        writer.record(entry(f"c{number}"))
    writer.flush()
    assert time.monotonic() - begun < 5  # 10 s, were each to wait by itself
    assert writer.missing.startswith("20 lines could not be written")
    other.close()
    writer.record(entry("last"))
    writer.close()
    assert [line.entry.event.value for line in log.read() if line.entry] == ["finished", "gap", "finished"]
    store.close()


def test_calls_without_an_end_are_named_by_their_last_line(log: AuditLog) -> None:
    dead, ended = subprocess.Popen(["/bin/true"]), subprocess.Popen(["/bin/true"])
    dead.wait()
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # over, but still listed
    for process, call_id, event in (
        (os.getpid(), "one", AuditEvent.DECIDED),
        (dead.pid, "one", AuditEvent.DECIDED),
        (os.getpid(), "two", AuditEvent.DECIDED),
        (os.getpid(), "one", AuditEvent.FINISHED),
        (dead.pid, "one", AuditEvent.SETTLED),
        (1, "one", AuditEvent.DECIDED),
        (None, "one", AuditEvent.DECIDED),
        (ended.pid, "one", AuditEvent.DECIDED),
    ):
        log.append(entry(call_id).model_copy(update={"event": event, "process": process}))
    assert unfinished_calls(log.read()) == {
        3: CallEnd.RUNNING,
        5: CallEnd.LOST,
        6: CallEnd.RUNNING,  # another user's process, for all we know
        7: CallEnd.LOST,
        8: CallEnd.LOST,
    }
    ended.wait()


# -- what decided


def trace(layer: Layer, decision: Decision, reason: str, rule: int | None = None) -> TraceLine:
    return TraceLine(layer=layer, decision=decision, reason=reason, rule=rule)


def test_the_deciding_line_is_the_one_with_the_decisions_word_and_reason() -> None:
    allow = trace(Layer.RULES, Decision.ALLOW, "rule 1", 1)
    ask = trace(Layer.RULES, Decision.ASK, "rule 2", 2)
    floor = trace(Layer.FLOOR, Decision.ASK, "deleting always asks")

    def decided(decision: Decision, reason: str, *lines: TraceLine) -> TraceLine | None:
        return deciding_line(Explanation(decision=decision, risk=Risk.LOW, reason=reason, trace=lines))

    assert decided(Decision.ASK, "rule 2", allow, ask, floor) is ask
    assert decided(Decision.ASK, "deleting always asks", ask, floor, allow) is floor
    assert decided(Decision.ASK, "said otherwise", allow, ask, floor) is floor
    assert decided(Decision.DENY, "nothing says so", allow) is None


def test_an_entry_takes_its_decision_from_the_explanation() -> None:
    line = TraceLine(layer=Layer.RULES, decision=Decision.DENY, reason="rule 4", rule=4, file="/p.toml", line=9)
    explanation = Explanation(decision=Decision.DENY, risk=Risk.HIGH, reason="rule 4", trace=(line,))
    entry = AuditEntry(
        event=AuditEvent.FINISHED,
        call_id="c",
        tool="shell",
        origin=Origin.USER,
        arguments_sha256="00",
        outcome="PolicyDeniedError",
        latency_ms=3,
    )
    about = with_decision(entry, explanation)
    assert (about.decision, about.layer, about.rule, about.file, about.line) == (
        Decision.DENY,
        Layer.RULES,
        4,
        "/p.toml",
        9,
    )
    entry = AuditEntry(
        event=AuditEvent.FINISHED, call_id="c", tool="nope", origin=Origin.MODEL, arguments_sha256="", outcome="x"
    )
    unjudged = with_decision(entry, None)
    assert (unjudged.decision, unjudged.layer) == (None, None)
