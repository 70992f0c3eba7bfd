"""The audit log as the runtime writes it: every decision, settlement and end of a call, and nothing of its arguments."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ollm_tui.cli import main
from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.app_dirs import data_dir
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.execution.calls import CallRecord
from ollm_tui.core.policy import audit
from ollm_tui.core.policy.audit import AuditEntry, AuditEvent, AuditLog
from ollm_tui.core.policy.audit_chain import EndFile
from ollm_tui.core.policy.engine import Layer
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.storage.store import Store
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, configure, open_core
from ollm_tui.runtime import core as runtime_core
from ollm_tui.runtime.core import audit_entry
from ollm_tui.testing import Answer, answer_confirmations

LINE = AuditEntry(event=AuditEvent.DECIDED, call_id="c", tool="ls", origin=Origin.MODEL, arguments_sha256="")
POLICY = '[[rules]]\ntool = "write_file"\naction = "ask"\n\n[[rules]]\ntool = "ls"\naction = "deny"\n'
WRITE: JsonObject = {"path": "a.txt", "content": "a secret"}


@pytest.fixture
def options(tmp_path: Path) -> Options:
    (tmp_path / "p.toml").write_text(POLICY)
    return Options(workspace=tmp_path, policy_file=tmp_path / "p.toml")


def entries() -> list[AuditEntry]:
    store = Store(data_dir() / "ollm.db")
    try:
        log = AuditLog(store)
        assert log.verify() is None
        return [line.entry for line in log.read() if line.entry is not None]
    finally:
        store.close()


async def test_a_call_leaves_its_decision_its_settlement_and_its_end(options: Options) -> None:
    async with open_core(configure(options), Attendance.PERSON) as core:
        answer_confirmations(core.bus, Answer())
        result = await core.executor.execute("file_write", WRITE, call_id="c1", origin=Origin.MODEL)
        assert result.ok, result
    decided, settled, finished = entries()
    assert [each.event for each in (decided, settled, finished)] == ["decided", "settled", "finished"]
    assert {(each.call_id, each.tool, each.origin) for each in (decided, settled, finished)} == {
        ("c1", "write_file", "model")
    }
    assert (decided.decision, decided.layer, decided.rule, decided.line) == (Decision.ASK, Layer.RULES, 1, 1)
    assert decided.file == str(options.policy_file) and decided.outcome is None
    assert (settled.outcome, settled.by) == ("approved", "user") and settled.latency_ms is not None
    assert (finished.outcome, finished.by) == ("ok", "user") and finished.latency_ms is not None
    arguments = {"path": "a.txt", "content": "a secret", "overwrite": True, "createDirs": True, "encoding": "utf-8"}
    canonical = json.dumps(arguments, sort_keys=True, separators=(",", ":"))
    assert decided.arguments_sha256 == hashlib.sha256(canonical.encode()).hexdigest()


async def test_a_call_without_a_line_in_the_log_has_no_effect(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "WRITTEN_SECONDS", 0.1)
    async with open_core(configure(options), Attendance.PERSON) as core:
        answer_confirmations(core.bus, Answer(), Answer())
        assert (await core.executor.execute("ls", {"path": "."})).error is not None  # denied, and the log exists now
        core.audit.flush()
        other = sqlite3.connect(data_dir() / "ollm.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        refused = await core.executor.execute("write_file", WRITE)
        assert refused.error is not None and refused.error.code == "STORAGE_ERROR"
        assert not (core.configuration.workspace.root / "a.txt").exists()
        other.execute("ROLLBACK")
        other.close()
        await asyncio.to_thread(core.audit.flush)
        monkeypatch.undo()
        assert (await core.executor.execute("write_file", WRITE)).ok


async def test_closing_waits_once_for_a_locked_store_and_says_once_what_is_missing(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime_core, "CLOSING_SECONDS", 0.5)
    said: list[str] = []
    async with open_core(configure(options), Attendance.NOBODY, report=said.append) as core:
        assert (await core.executor.execute("glob", {"pattern": "*"})).ok
        core.audit.flush()
        other = sqlite3.connect(data_dir() / "ollm.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for _ in range(6):
            core.audit.record(LINE)
        begun = time.monotonic()
    core.audit.record(LINE)
    other.close()
    assert time.monotonic() - begun < 9  # what waited already ends its 5 s; the others wait no more
    [sentence] = said
    assert sentence.startswith("The audit log is not complete: 6 lines could not be written: ")
    assert "locked" in sentence


async def test_nothing_of_the_arguments_is_kept(options: Options) -> None:
    async with open_core(configure(options), Attendance.PERSON) as core:
        answer_confirmations(core.bus, Answer(False, reason="a secret too"))
        await core.executor.execute("write_file", WRITE)
    assert len(entries()) == 3
    assert b"a secret" not in (data_dir() / "ollm.db").read_bytes()


async def test_denials_cancellations_and_calls_that_never_were_are_kept_too(options: Options) -> None:
    async with open_core(configure(options), Attendance.PERSON) as core:
        await core.executor.execute("ls", {}, call_id="denied")
        await core.executor.execute("nope", {}, call_id="unknown")
        await core.executor.execute("ls", {"path": 5}, call_id="invalid")
        controller = AbortController()
        task = asyncio.ensure_future(core.executor.execute("write_file", WRITE, controller.signal, call_id="gone"))
        while not core.bus.pending():
            await asyncio.sleep(0.001)
        controller.abort()
        await task
    found = [(each.call_id, each.event.value, each.outcome, each.by) for each in entries()]
    assert found == [
        ("denied", "decided", None, None),
        ("denied", "finished", "PolicyDeniedError", None),
        ("unknown", "finished", "ToolNotFoundError", None),
        ("invalid", "finished", "ValidationError", None),
        ("gone", "decided", None, None),
        ("gone", "settled", "cancelled", "signal"),
        ("gone", "finished", "OperationCancelled", "signal"),
    ]


async def test_changed_arguments_are_a_decision_of_their_own(options: Options) -> None:
    async with open_core(configure(options), Attendance.PERSON) as core:
        changed = {"path": "a.txt", "content": "better"}
        answer_confirmations(core.bus, Answer(modified_args=changed), Answer())
        assert (await core.executor.execute("write_file", WRITE)).ok
    found = entries()
    assert [each.event.value for each in found] == ["decided", "settled", "decided", "settled", "finished"]
    digests = [each.arguments_sha256 for each in found]
    assert digests[0] == digests[1] != digests[2] == digests[3] == digests[4]


async def test_nobody_and_yes_are_named_as_who_answered(options: Options) -> None:
    for attendance in (Attendance.NOBODY, Attendance.YES):
        async with open_core(configure(options), attendance) as core:
            await core.executor.execute("write_file", {**WRITE, "overwrite": True})
    settled = [each for each in entries() if each.event is AuditEvent.SETTLED]
    assert [(each.outcome, each.by) for each in settled] == [("denied", "nobody"), ("approved", "--yes")]


async def test_the_lines_of_a_turn_are_written_when_it_is_flushed(options: Options) -> None:
    async with open_core(configure(options), Attendance.NOBODY) as core:
        await core.executor.execute("ls", {})
        await asyncio.to_thread(core.audit.flush)
        assert len(entries()) == 2


async def test_a_call_cancelled_by_asyncio_itself_has_its_end_in_the_log(options: Options) -> None:
    async with open_core(configure(options), Attendance.PERSON) as core:
        task = asyncio.ensure_future(core.executor.execute("write_file", WRITE, call_id="gone"))
        while not core.bus.pending():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    found = [(each.event.value, each.outcome, each.by) for each in entries()]
    assert found == [
        ("decided", None, None),
        ("settled", "cancelled", "caller"),
        ("finished", "OperationCancelled", "caller"),
    ]


def test_the_log_tells_of_a_call_whose_process_was_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.toml").write_text('[exec]\napprovals = [{ pattern = "sleep *" }]\n')
    flags = ["-C", str(tmp_path), "--policy", str(tmp_path / "p.toml")]
    command = [sys.executable, "-m", "ollm_tui", "tool", "call", "shell", '{"command": "sleep 600"}', *flags]
    with subprocess.Popen(command) as process:
        while not entries():
            assert process.poll() is None
            time.sleep(0.01)
        assert main(["policy", "log"]) == 0
        assert "no end yet: it still runs" in capsys.readouterr().out
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)
    assert main(["policy", "log"]) == 0
    assert "no end: its process was killed" in capsys.readouterr().out
    assert main(["policy", "log", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["noEnd"] == "lost"
    assert main(["policy", "log", "--verify"]) == 0


def test_a_finished_call_counts_its_waiting_and_its_running() -> None:
    record = CallRecord(
        AuditEvent.FINISHED, "c", "ls", Origin.USER, "", None, None, None, error_type=None, waited_ms=40, duration_ms=2
    )
    assert audit_entry(record).latency_ms == 42


def write_lines(number: int) -> None:
    store = Store(data_dir() / "ollm.db")
    AuditLog(store, end_file=EndFile.of_store(store.path)).append_at(*[("", LINE)] * number)
    store.close()


def set_back(to: int) -> None:
    """Take the last lines away as somebody would who knows the tables."""
    with sqlite3.connect(data_dir() / "ollm.db") as db:
        db.execute("DROP TRIGGER audit_keeps")
        db.execute("DELETE FROM audit WHERE number > ?", (to,))
        db.execute("UPDATE audit_end SET (number, digest) = (SELECT number, digest FROM audit WHERE number = ?)", (to,))
    db.close()


def remove_store(_to: int) -> None:
    for file in data_dir().glob("ollm.db*"):
        file.unlink()


def refill_store(to: int) -> None:
    """A log that goes as far, of other lines."""
    remove_store(to)
    store = Store(data_dir() / "ollm.db")
    AuditLog(store).append_at(*[("another time", LINE)] * 5)
    store.close()


@pytest.mark.parametrize(("harm", "first"), [(set_back, 4), (remove_store, 1), (refill_store, 5)])
def test_verify_knows_that_lines_are_missing_even_where_the_chain_is_whole(
    capsys: pytest.CaptureFixture[str], harm: Callable[[int], None], first: int
) -> None:
    write_lines(5)
    assert main(["policy", "log", "--verify"]) == 0
    harm(3)
    capsys.readouterr()
    assert main(["policy", "log", "--verify"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["line"]) == (False, first)
    write_lines(1)
    assert main(["policy", "log", "--verify"]) == 1, "what is written later does not hide it"
    assert "before this one" in json.loads(capsys.readouterr().out)["reason"]


LOSES_LINES = """
import os, resource, signal
from ollm_tui.core.base.app_dirs import data_dir
from ollm_tui.core.policy.audit import AuditLog, AuditWriter
from ollm_tui.core.policy.audit_chain import EndFile
from ollm_tui.core.storage.store import Store
from tests.core.policy.test_audit_log import LINE

store = Store(data_dir() / "ollm.db")
writer = AuditWriter(AuditLog(store, end_file=EndFile.of_store(store.path)))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # as a disk that is full: files cannot grow
for _ in range(9):
    writer.record(LINE)
    writer.flush()
print(writer.missing, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_lines_that_a_process_could_not_write_before_it_was_killed_are_missed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_lines(3)
    lost = subprocess.run([sys.executable, "-c", LOSES_LINES], capture_output=True, text=True, check=False)
    assert lost.stdout.startswith("9 lines could not be written: "), lost.stderr
    assert main(["policy", "log", "--verify"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["line"], said["reason"]) == (4, "it is missing; 9 lines could not be written")
    write_lines(1)
    assert main(["policy", "log", "--verify"]) == 1, "what is written later does not hide it"
    said = json.loads(capsys.readouterr().out)
    assert (said["line"], said["reason"]) == (4, "9 lines could not be written by a process that has ended")


def test_a_log_from_before_the_end_was_kept_is_as_it_was_written() -> None:
    store = Store(data_dir() / "ollm.db")
    AuditLog(store).append(LINE)
    store.close()
    assert main(["policy", "log", "--verify"]) == 0
