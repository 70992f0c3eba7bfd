"""Jobs in the background, `shell_output` and `shell_kill` (001 R5.5)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import InvalidArguments, OperationCancelled
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.shell import shell_service
from ollm_tui.core.shell.detached_jobs import JobRecords
from ollm_tui.core.shell.folded_text import FoldedText
from ollm_tui.core.shell.hub import CommandHub
from ollm_tui.core.shell.status import CommandPhase
from ollm_tui.core.tools.shell_jobs import ShellKillData, ShellOutputData
from tests.core.shell.conftest import Bench, alive, bench_in, data_of, in_session, until


async def output(bench: Bench, **arguments: object) -> ShellOutputData:
    result = await bench.call("shell_output", arguments)
    assert isinstance(result.data, ShellOutputData)
    return result.data


async def job(bench: Bench, command: str, **arguments: object) -> ToolResult:
    return await bench.shell(command, background=True, **arguments)


async def test_jobs_are_watched_beside_each_other_and_named_in_order(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell_service.FAILED_START_WITHIN < 1
    monkeypatch.setattr(shell_service, "FAILED_START_WITHIN", 3.0)
    began = time.monotonic()
    first, second = await asyncio.gather(job(bench, "sleep 60"), job(bench, "sleep 61"))
    assert time.monotonic() - began < 5.5
    monkeypatch.undo()
    await bench.shell("true")
    third = await job(bench, "sleep 62")
    assert [data_of(result).id for result in (first, second, third)] == ["j1", "j2", "j3"]
    assert first.llm_content == f"Started job j1 (pid {data_of(first).pid})"
    assert first.error is None
    assert alive(data_of(first).pid)
    assert data_of(first).exit_code is None


async def test_a_job_that_is_over_at_once_is_a_failed_start_and_keeps_its_id(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell_service, "FAILED_START_WITHIN", 30.0)
    began = time.monotonic()
    result = await job(bench, "echo no such port >&2; exit 3")
    assert time.monotonic() - began < 20
    monkeypatch.undo()
    assert result.error is not None
    assert result.error.type == "ShellExecutionError"
    assert "failed to start" in result.error.message
    assert data_of(result).output == "no such port\n"
    assert data_of(result).exit_code == 3
    assert (await output(bench, id="j1", since=0)).output == "no such port\n"
    assert data_of(await job(bench, "sleep 60")).id == "j2"


async def test_a_job_that_has_done_its_work_at_once_has_not_failed(bench: Bench) -> None:
    result = await job(bench, "echo detached")
    assert result.error is None
    assert any("exited with code 0" in note for note in result.notes)


@pytest.mark.parametrize("end", ["exit 0", "sleep 60"])
async def test_what_a_job_says_in_its_first_moment_is_told_at_once_and_can_be_read_all_the_same(
    bench: Bench, end: str
) -> None:
    started = await job(bench, f"echo Listening on 5173; {end}")
    pid = data_of(started).pid
    assert started.llm_content == f"Started job j1 (pid {pid})\n\nOutput so far:\nListening on 5173\n"
    assert data_of(started).output == "Listening on 5173\n"
    assert (await output(bench, id="j1")).output == "Listening on 5173\n"
    assert (await output(bench, id="j1")).output == ""


async def test_output_is_read_piece_by_piece(bench: Bench) -> None:
    await job(bench, "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 5")
    await until(lambda: bench.hub.find("j1").output.size)
    first = await output(bench, id="j1")
    assert (first.output, first.state, first.exit_code) == ("one\n", CommandPhase.RUNNING, None)
    nothing = await bench.call("shell_output", {"id": "j1"})
    assert nothing.llm_content == f"Job j1: running (pid {bench.hub.find('j1').status.pid})\n\nOutput:\n(no output)"
    (bench.root / "go").touch()
    second = await output(bench, id="j1", wait=5000)
    await until(lambda: not bench.hub.find("j1").status.running)
    third = await output(bench, id="j1")
    assert second.output + third.output == "two\n"
    assert (third.state, third.exit_code) == (CommandPhase.EXITED, 5)
    again = await output(bench, id="j1", since=0)
    assert again.output == "one\ntwo\n"
    assert again.next == bench.hub.find("j1").output.size
    assert (await output(bench, id="j1", since=first.next)).output == "two\n"


async def test_waiting_ends_with_the_first_output_the_end_of_the_job_or_the_time(bench: Bench) -> None:
    await job(bench, "until [ -e go ]; do sleep 0.02; done; [ -e quiet ] || echo there; sleep 1; exit 0")
    began = time.monotonic()
    nothing = await output(bench, id="j1", wait=200)
    assert nothing.output == ""
    assert 0.19 < time.monotonic() - began < 20
    waiting = asyncio.ensure_future(output(bench, id="j1", wait=20_000))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    (bench.root / "go").touch()
    assert (await waiting).output == "there\n"
    last = await output(bench, id="j1", wait=20_000)
    assert (last.output, last.state) == ("", CommandPhase.EXITED)


async def test_giving_up_a_wait_leaves_the_job_alone(bench: Bench) -> None:
    await job(bench, "sleep 60")
    controller = AbortController()
    waiting = asyncio.ensure_future(bench.call("shell_output", {"id": "j1", "wait": 60_000}, controller.signal))
    await asyncio.sleep(0.05)
    controller.abort()
    with pytest.raises(OperationCancelled):
        await waiting
    assert bench.hub.find("j1").status.running


async def test_a_long_jobs_output_is_read_from_disk_in_full(bench: Bench) -> None:
    await job(bench, "seq 1 150000; sleep 60")
    await until(lambda: bench.hub.find("j1").output.size >= 938_895)
    part = await output(bench, id="j1", since=bench.hub.find("j1").output.size - 7)
    assert part.output == "150000\n"
    middle = await bench.call("shell_output", {"id": "j1", "since": 8})
    assert isinstance(middle.data, ShellOutputData)
    assert middle.data.output.startswith("5\n6\n")
    assert middle.truncated
    assert middle.artifacts


async def test_a_job_is_killed_with_all_it_started_and_killing_it_twice_is_fine(bench: Bench) -> None:
    started = await job(bench, "trap '' TERM; setsid sleep 71 & sleep 72 & wait; wait")
    pid = data_of(started).pid
    result = await bench.call("shell_kill", {"id": "j1"})
    assert result.error is None
    assert isinstance(result.data, ShellKillData)
    assert (result.data.state, result.data.survivors) == (CommandPhase.KILLED, ())
    assert in_session(pid) == []
    again = await bench.call("shell_kill", {"id": "j1"})
    assert again.error is None
    assert "already" in again.llm_content
    assert (await output(bench, id="j1")).state is CommandPhase.KILLED


async def test_killing_a_job_that_is_over_ends_what_it_left_behind(bench: Bench) -> None:
    await job(bench, "setsid sleep 73 >/dev/null 2>&1 & exit 0")
    [left] = bench.hub.find("j1").status.leftovers
    assert alive(left.pid)
    await bench.call("shell_kill", {"id": "j1"})
    assert not alive(left.pid)
    assert bench.hub.find("j1").status.leftovers == ()


async def test_a_timeout_given_for_a_job_ends_it(bench: Bench) -> None:
    await job(bench, "echo up; sleep 60", timeout=1200)
    await until(lambda: not bench.hub.find("j1").status.running)
    assert bench.hub.find("j1").status.phase is CommandPhase.KILLED


@pytest.mark.parametrize("tool", ["shell_output", "shell_kill"])
async def test_an_unknown_id_is_answered_with_the_valid_ones(bench: Bench, tool: str) -> None:
    with pytest.raises(InvalidArguments, match="none; start one"):
        await bench.call(tool, {"id": "j1"})
    await job(bench, "sleep 60")
    shell = await bench.hub.open_person_shell(80, 24)
    for unknown in ("j2", "J1", "", shell):
        with pytest.raises(InvalidArguments, match=r"j1|at least 1") as refused:
            await bench.call(tool, {"id": unknown})
        assert shell not in refused.value.message.partition("Valid")[2]


async def test_a_byte_beyond_the_end_is_refused(bench: Bench) -> None:
    await job(bench, "sleep 60")
    with pytest.raises(InvalidArguments, match="beyond the end"):
        await bench.call("shell_output", {"id": "j1", "since": 10})


async def test_with_a_person_there_the_default_limit_moves_a_command_to_the_background(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ollm_tui.core.tools.shell.DEFAULT_TIMEOUT_MS", 1000)
    attended = bench.attended()
    result = await attended.shell("echo early; sleep 1.8; echo late; read x; echo got $x")
    assert result.error is None
    assert "goes on in the background as c1" in result.llm_content
    assert data_of(result).output == "early\n"
    assert not data_of(result).timed_out
    assert bench.hub.find("c1").status.background
    assert (await output(bench, id="c1", wait=5000)).output == "late\n"
    bench.hub.find("c1").write(b"me\n")
    await until(lambda: not bench.hub.find("c1").status.running)
    assert (await output(bench, id="c1")).output.endswith("got me\n")
    given = await attended.shell("sleep 30", timeout=300)
    assert given.error is not None
    assert given.error.type == "ShellTimeoutError"
    alone = await bench.shell("sleep 30")
    assert alone.error is not None
    assert alone.error.type == "ShellTimeoutError"


@settings(max_examples=100, deadline=None)
@given(
    text=st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\t"), max_size=60),
    cuts=st.lists(st.integers(0, 400), max_size=6),
)
def test_parts_read_one_after_the_other_never_split_a_character(text: str, cuts: list[int]) -> None:
    raw = text.replace("\n", "\r\n").encode()
    parts: list[str] = []
    start = 0
    for cut in [*sorted(cuts), len(raw)]:
        folded = FoldedText(parts.append)
        end = max(start, cut)
        folded.feed(raw[start:end])
        start = end - (folded.let_go() if end < len(raw) else 0)
        folded.finish()
    assert "".join(parts) == text


async def test_a_command_that_waits_for_the_person_is_not_handed_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ollm_tui.core.tools.shell.DEFAULT_TIMEOUT_MS", 1_000)
    call = asyncio.ensure_future(bench.attended().shell("read -p 'first? ' a; read -p 'second? ' b; echo got $a $b"))
    for key in (b"one\n", b"two\n"):
        await until(lambda: bench.hub.list() and bench.hub.find("c1").status.waiting_for_input)
        began = time.monotonic()
        await until(lambda began=began: time.monotonic() > began + 1.2 or call.done())
        assert not call.done()
        bench.hub.find("c1").type(key)
        await until(lambda: not bench.hub.find("c1").status.waiting_for_input)
    result = await call
    assert data_of(result).output.endswith("got one two\n")
    assert not bench.hub.find("c1").status.background


async def test_a_program_that_waits_for_keys_nobody_types_is_handed_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ollm_tui.core.tools.shell.DEFAULT_TIMEOUT_MS", 1_000)
    result = await bench.attended().shell("stty raw; echo up; dd bs=1 count=1 status=none")
    assert "goes on in the background" in result.llm_content


async def test_moving_to_the_background_loses_no_byte(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ollm_tui.core.tools.shell.DEFAULT_TIMEOUT_MS", 60)
    numbers = "".join(f"{n} 日本\n" for n in range(1, 42))
    for at in range(5):
        said = "printf '%s \\346\\227' $n; sleep 0.002; printf '\\245\\346\\234\\254\\n'"
        moved = await bench.attended().shell(
            f"for n in {{1..40}}; do {said}; done; until [ -e go{at} ]; do sleep 0.01; done; n=41; {said}"
        )
        (bench.root / f"go{at}").touch()  # however late the move came, there is something left to say
        command = data_of(moved).id
        await until(lambda command=command: not bench.hub.find(command).status.running)
        rest = await output(bench, id=command)
        assert rest.output
        assert data_of(moved).output + rest.output == numbers


async def test_a_job_says_what_of_it_could_not_be_written(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    hub = CommandHub(tmp_path / "file", records=JobRecords(tmp_path / "file" / "jobs", tmp_path), grace=0.5)
    broken = bench_in(bench.root, hub)
    started = await job(broken, "seq 1 90000; sleep 60")
    assert any(note.startswith("its record cannot be written, so that after a crash") for note in started.notes)
    await until(lambda: len(hub.list()[0].disk_errors) == 2)
    read = await broken.call("shell_output", {"id": "j1"})
    assert any(note.startswith("its output beyond the last 262144 bytes is lost: ") for note in read.notes)
    quiet = await broken.shell("echo fine")
    assert not any("record" in note for note in quiet.notes)
    await hub.close()
