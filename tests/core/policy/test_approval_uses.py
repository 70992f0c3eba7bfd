"""Approvals know when they were last used and how often: counted in the store, shown by `policy show`."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ollm_tui.cli import main
from ollm_tui.core import ConfirmationResponse
from ollm_tui.core.base.app_dirs import data_dir
from ollm_tui.core.base.clock import SystemClock, iso_time
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
from ollm_tui.core.bus.states import RememberScope
from ollm_tui.core.policy.approval_patterns import ApprovalKey
from ollm_tui.core.policy.approvals import APPROVAL_USES, ApprovalUse, ApprovalUses
from ollm_tui.core.storage.store import Store
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, Core, configure, open_core
from ollm_tui.runtime.configuration import Configuration

POLICY = 'preset = "none"\n[exec]\napprovals = [{ pattern = "echo *" }, { pattern = "seq *" }, { pattern = "true" }]\n'


@pytest.fixture
def options(tmp_path: Path) -> Options:
    (tmp_path / "p.toml").write_text(POLICY)
    return Options(workspace=tmp_path, policy_file=tmp_path / "p.toml")


def counted() -> dict[ApprovalKey, ApprovalUse]:
    store = Store(data_dir() / "ollm.db")
    try:
        return ApprovalUses(store, pytest.fail).read()
    finally:
        store.close()


def times_used() -> dict[str, int]:
    return {key.pattern: use.uses for key, use in counted().items()}


async def run(options: Options | Configuration, *commands: str, attendance: Attendance = Attendance.NOBODY) -> None:
    configuration = configure(options) if isinstance(options, Options) else options
    async with open_core(configuration, attendance) as core:
        for command in commands:
            await core.executor.execute("shell", {"command": command})


async def test_each_use_is_counted_with_its_time(options: Options) -> None:
    before = iso_time(SystemClock().now())
    await run(options, "echo one", "echo two && echo three | seq 3")
    await run(options, "seq 4")
    after = iso_time(SystemClock().now())
    assert times_used() == {"echo *": 2, "seq *": 2}, "a line counts once for an approval, whatever its parts"
    for key, use in counted().items():
        assert key.file == str(options.policy_file)
        assert before <= use.last_used <= after


async def test_only_what_runs_because_of_an_approval_counts(options: Options, tmp_path: Path) -> None:
    """Not what was merely looked at, asked about, denied, or answered by somebody."""
    async with open_core(configure(options), Attendance.NOBODY) as core:
        await core.executor.explain("shell", {"command": "echo a"})
        await core.executor.review("shell", {"command": "echo a"})
    await run(options, "echo a && cat p.toml", "rm p")
    await run(options, "echo a && cat p.toml", attendance=Attendance.YES)
    assert times_used() == {}


async def test_an_approval_that_was_just_remembered_counts_from_its_next_use(tmp_path: Path) -> None:
    configuration = configure(Options(workspace=tmp_path))
    async with open_core(configuration, Attendance.PERSON) as core:
        remember_each_answer(core, RememberScope.WORKSPACE)
        first = await core.executor.execute("shell", {"command": "mkdir a"})
        assert first.ok and any("remembered" in note for note in first.notes), first
        await core.executor.execute("shell", {"command": "mkdir b"})
    ((key, use),) = counted().items()
    assert key == (str(configuration.files.remember_in[RememberScope.WORKSPACE][0]), "mkdir *")
    assert use.uses == 1


async def test_what_holds_for_the_session_alone_is_not_kept(tmp_path: Path) -> None:
    async with open_core(configure(Options(workspace=tmp_path)), Attendance.PERSON) as core:
        remember_each_answer(core, RememberScope.SESSION)
        for folder in "ab":
            assert (await core.executor.execute("shell", {"command": f"mkdir {folder}"})).ok
    assert times_used() == {}


def test_counting_waits_for_no_locked_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "db")
    uses = ApprovalUses(store, lambda failure: pytest.fail(failure.message))
    held, done = threading.Event(), threading.Event()
    holding = threading.Thread(target=_hold, args=(store, held, done))
    holding.start()
    try:
        assert held.wait(20)
        uses.record([ApprovalKey("p.toml", "echo *")])
        assert holding.is_alive() and not done.is_set(), "it returned while the store was locked"
    finally:
        done.set()
        holding.join()
    uses.close()
    assert uses.read()[ApprovalKey("p.toml", "echo *")].uses == 1


def _hold(store: Store, held: threading.Event, done: threading.Event) -> None:
    with store.write(APPROVAL_USES):
        held.set()
        done.wait(20)


def test_what_cannot_be_written_is_reported(tmp_path: Path) -> None:
    failures: list[StorageFailed] = []
    store = Store(tmp_path / "a" / "db")
    (tmp_path / "a").write_text("no folder")
    uses = ApprovalUses(store, failures.append)
    uses.record([ApprovalKey("p.toml", "ls")])
    uses.close()
    uses.record([ApprovalKey("p.toml", "ls")])
    assert len(failures) == 2 and str(tmp_path) in failures[0].message and "ending already" in failures[1].message


def test_two_processes_count_together(tmp_path: Path) -> None:
    key = ApprovalKey("p.toml", "ls *")
    stores = [Store(tmp_path / "db") for _ in range(2)]
    both = [ApprovalUses(store, pytest.fail) for store in stores]
    for _ in range(20):
        for uses in both:
            uses.record([key, key])
    for uses in both:
        uses.close()
    assert both[0].read()[key].uses == 40
    for store in stores:
        store.close()


def test_policy_show_says_how_often_and_when(options: Options, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["-C", str(options.workspace), "--policy", str(options.policy_file)]
    assert main(["policy", "show", *flags]) == 0
    shown = capsys.readouterr().out
    assert shown.count("; not used so far") == 3
    for _ in range(2):
        assert main(["tool", "call", "shell", '{"command": "echo hello"}', *flags]) == 0
    capsys.readouterr()
    assert main(["policy", "show", *flags]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "echo *" in line]
    (use,) = counted().values()
    assert f'last_used = "{use.last_used}"' in line and line.endswith("; used 2 times")


def remember_each_answer(core: Core, scope: RememberScope) -> None:
    def answer(notice: Notice) -> None:
        if isinstance(notice, ConfirmationRequested):
            response = ConfirmationResponse(id=notice.confirmation.request.id, approved=True, remember=scope)
            core.bus.respond_to_confirmation(response)

    core.bus.subscribe(answer)
