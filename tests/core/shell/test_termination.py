"""Ending commands: limits, the kill matrix, what survives, and that nothing of ours is left behind (001 R5.3, R5.4)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ollm_tui.core.shell.hub import CommandHub, CommandRequest, awaitable_of
from ollm_tui.core.shell.process_tree import ProcessInfo, ProcessTree
from ollm_tui.core.shell.status import CommandEnding, CommandPhase, TimeLimits
from ollm_tui.core.shell.termination import GRACE, VANISH_SECONDS, Termination
from tests.core.shell.conftest import Bench, data_of, in_session, own_descriptors, until
from tests.processes import own_children


def test_asking_and_forcing_together_take_less_than_three_seconds() -> None:
    assert GRACE + VANISH_SECONDS < 3


async def test_a_gentle_end_is_tried_first_and_is_enough_for_most(bench: Bench) -> None:
    result = await bench.shell("trap 'echo bye; exit 0' TERM; while :; do sleep 0.02; done", timeout=1000)
    assert data_of(result).output.endswith("bye\n")
    assert bench.hub.find(data_of(result).id).status.phase is CommandPhase.KILLED


async def test_output_before_a_time_out_is_kept_and_the_message_says_limit_and_time(bench: Bench) -> None:
    result = await bench.shell("echo before; sleep 30", timeout=1000)
    assert result.error is not None
    assert "1000ms" in result.error.message
    elapsed = result.error.details["elapsedMs"]
    assert isinstance(elapsed, int)
    assert 1000 <= elapsed < 20_000
    assert data_of(result).output == "before\n"
    assert result.llm_content.startswith("Exit code: none\n\nOutput:\nbefore\n")
    assert "ShellTimeoutError" in result.llm_content


async def test_what_survives_even_sigkill_is_named() -> None:
    """A process of another session that nothing can end stands in for one that hangs in the kernel."""

    class Unreachable(ProcessTree):
        def send(self, signals: object, members: object) -> None:
            """Nothing arrives."""

    process = await asyncio.create_subprocess_exec("sleep", "30", start_new_session=True)
    ladder = Termination(Unreachable(process.pid, "no-mark"), grace=0.1)
    await asyncio.to_thread(ladder.run_to_end)
    assert [(survivor.pid, survivor.name) for survivor in ladder.survivors] == [(process.pid, "sleep")]
    process.kill()
    await process.wait()


async def test_who_is_looked_at_late_is_forced_before_being_named() -> None:
    """The system may sleep in between, or be too busy to look."""
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", "trap '' TERM; echo set; while :; do sleep 0.05; done",
        start_new_session=True, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert await process.stdout.readline() == b"set\n"
    ladder = Termination(ProcessTree(process.pid, "no-mark"), grace=0.1)
    ladder.step(1_000.0)
    ladder.step(2_000.0)
    assert not ladder.done
    assert await process.wait() == -signal.SIGKILL
    await asyncio.to_thread(ladder.run_to_end)
    assert ladder.survivors == ()


async def test_what_no_look_ever_sees_is_ended_through_its_group() -> None:
    class Blind(ProcessTree):
        def members(self, everyone: Sequence[ProcessInfo] | None = None) -> list[ProcessInfo]:
            return []

    process = await asyncio.create_subprocess_exec("sleep", "30", start_new_session=True)
    ladder = Termination(Blind(process.pid, "no-mark"), grace=0.1)
    await asyncio.to_thread(ladder.run_to_end)
    async with asyncio.timeout(10):
        assert await process.wait() == -signal.SIGKILL
    assert ladder.survivors == ()


async def test_silence_beyond_the_idle_limit_ends_a_command_and_output_puts_it_off(bench: Bench) -> None:
    talking = await bench.shell("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done", idleTimeout=400)
    assert talking.error is None
    silent = await bench.shell("echo hello; sleep 30", idleTimeout=300)
    assert silent.error is not None
    assert (silent.error.type, silent.error.code) == ("ShellIdleTimeoutError", "TIMEOUT")
    assert "300ms" in silent.error.message
    assert data_of(silent).output == "hello\n"
    assert data_of(silent).timed_out
    assert data_of(silent).exit_code is None
    never = await bench.shell("sleep 0.3", idleTimeout=0)
    assert never.error is None


async def test_a_given_idle_limit_does_not_count_processor_time(bench: Bench) -> None:
    result = await bench.shell("while :; do :; done", idleTimeout=300, timeout=20_000)
    assert result.error is not None
    assert result.error.type == "ShellIdleTimeoutError"


async def test_the_configured_idle_limit_spares_who_computes(bench: Bench) -> None:
    async def ending(command: str) -> CommandEnding | None:
        limits = TimeLimits(wall=3, idle=1, idle_counts_cpu=True)
        live = await bench.hub.start(CommandRequest(command, bench.root, limits=limits))
        return (await awaitable_of(live.done)).ending

    assert await ending("while :; do :; done") is CommandEnding.TIMED_OUT
    assert await ending("sleep 30") is CommandEnding.IDLE


async def test_typed_input_puts_off_the_idle_limit(bench: Bench) -> None:
    attended = bench.attended()
    call = asyncio.ensure_future(attended.shell("stty -echo; cat >/dev/null", idleTimeout=2000))
    await until(lambda: bench.hub.list() and bench.hub.list()[0].pid)
    for _ in range(4):
        await asyncio.sleep(0.6)
        assert bench.hub.find(bench.hub.list()[0].id).write(b"x\n")
    assert not call.done()
    result = await call
    assert result.error is not None
    assert result.error.type == "ShellIdleTimeoutError"


async def test_the_call_returns_although_a_grandchild_holds_the_terminal(bench: Bench) -> None:
    async with asyncio.timeout(10):
        result = await bench.shell("setsid bash -c 'sleep 62; echo late' & echo done")
    assert data_of(result).output == "done\n"
    assert any("sleep" in note or "bash" in note for note in result.notes)


async def test_a_chatty_grandchild_does_not_hold_the_call_up(bench: Bench) -> None:
    async with asyncio.timeout(10):
        result = await bench.shell("(while :; do echo noise; sleep 0.02; done) & echo done", timeout=60_000)
    assert result.exit_code == 0
    assert bench.hub.unfinished()


async def test_300_commands_leave_no_zombie_no_descriptor_and_no_thread(tmp_path: Path) -> None:
    hub = CommandHub(tmp_path, keep=5)

    async def one(number: int) -> None:
        live = await hub.start(CommandRequest(f"echo {number} | cat", tmp_path, attended=number % 2 == 0))
        assert (await awaitable_of(live.done)).exit_code == 0

    for number in range(5):
        await one(number)
    await until(lambda: threading.active_count() <= 2 or not any("command" in t.name for t in threading.enumerate()))
    gc.collect()  # what tests before this one left open may go meanwhile
    before, zombies = own_descriptors(), own_zombies()
    for start in range(0, 295, 5):
        await asyncio.gather(*(one(start + number) for number in range(5)))
    await until(lambda: not any(thread.name.startswith("command ") for thread in threading.enumerate()))
    gc.collect()
    assert own_descriptors() <= before
    assert len(hub.list()) == 5
    assert own_zombies() <= zombies
    assert await hub.close() == ()


def own_zombies() -> set[str]:
    """The children of this process that are over and not waited for: tests before this one leave some, too."""
    found: set[str] = set()
    for pid in own_children():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                found.add(pid)
    return found


async def test_closing_the_hub_ends_everything_and_refuses_new_commands(tmp_path: Path) -> None:
    hub = CommandHub(tmp_path)
    lives = [
        await hub.start(CommandRequest(line, tmp_path, background=True)) for line in ("sleep 63", "sleep 64 & wait")
    ]
    sessions = [live.status.pid for live in lives]
    assert len(hub.unfinished()) == 2
    assert await hub.close() == ()
    assert [in_session(session) for session in sessions] == [[], []]
    assert hub.unfinished() == ()
    with pytest.raises(Exception, match="nothing new is started"):
        await hub.start(CommandRequest("true", tmp_path))


async def test_a_command_that_gives_its_terminal_up_is_waited_for(bench: Bench) -> None:
    for held in (bench, bench.attended()):
        began, used = time.monotonic(), time.process_time()
        result = await held.shell("echo last; exec 0<&- 1>&- 2>&-; sleep 1; exit 3")
        data = data_of(result)
        assert (data.exit_code, data.timed_out) == (3, False)
        assert "last" in str(result.llm_content)
        assert time.monotonic() - began >= 1
        assert time.process_time() - used < 0.5  # a closed terminal is readable for ever: nobody may spin on it
