"""The `shell` tool: what a command ends in, in words and in data (001 R5)."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import (
    FileNotFound,
    InvalidArguments,
    InvalidPath,
    NotADirectory,
    OperationCancelled,
    ShellExecutionFailed,
)
from ollm_tui.core.bus.confirmation import CommandPreview
from ollm_tui.core.shell.hub import CommandHub
from ollm_tui.core.tools.shell import SHELL
from tests.core.shell.conftest import Bench, alive, bench_in, data_of, in_session, until

READABLE = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=200)
"""Any text without control characters: what a terminal shows of those is the terminal's business."""


def a_bench(folder: Path, number: int) -> Bench:
    """For Hypothesis, whose examples have an event loop each."""
    root = folder / f"work-{number}"
    root.mkdir(exist_ok=True)
    return bench_in(root, CommandHub(folder / "logs", grace=0.5))


@settings(max_examples=100, deadline=None)
@given(text=READABLE, code=st.integers(0, 255))
def test_property_25_output_and_exit_code_of_any_command_are_returned(
    tmp_path_factory: pytest.TempPathFactory, text: str, code: int
) -> None:
    """000 Property 25: Shell Command Execution."""

    async def run() -> None:
        bench = a_bench(tmp_path_factory.getbasetemp(), 25)
        result = await bench.shell(f"printf %s {shlex.quote(text)}; exit {code}")
        data = data_of(result)
        assert data.exit_code == result.exit_code == code
        assert data.output == text
        assert result.llm_content == f"Exit code: {code}\n\nOutput:\n{text or '(no output)'}"
        assert result.return_display
        assert (result.error is None) == (code == 0)
        if result.error is not None:
            assert (result.error.type, result.error.message) == (
                "ShellExecutionError",
                f"Command exited with code {code}",
            )
        assert await bench.hub.close() == ()

    asyncio.run(run())


@settings(max_examples=100, deadline=None)
@given(lines=st.lists(READABLE, min_size=1, max_size=6))
def test_property_26_the_pieces_streamed_make_up_the_output(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    """000 Property 26: Shell Output Streaming."""

    async def run() -> None:
        bench = a_bench(tmp_path_factory.getbasetemp(), 26)
        result = await bench.shell("; ".join(f"printf '%s\\n' {shlex.quote(line)}" for line in lines))
        expected = "".join(f"{line}\n" for line in lines)
        assert "".join(bench.updates) == expected == data_of(result).output
        await bench.hub.close()

    asyncio.run(run())


@settings(max_examples=100, deadline=None)
@given(timeout=st.integers(1, 40), text=READABLE)
def test_property_27_whatever_runs_beyond_its_timeout_is_ended(
    tmp_path_factory: pytest.TempPathFactory, timeout: int, text: str
) -> None:
    """000 Property 27: Shell Timeout Enforcement."""

    async def run() -> None:
        bench = a_bench(tmp_path_factory.getbasetemp(), 27)
        result = await bench.shell(f"sleep 30 & wait; : {shlex.quote(text)}", timeout=timeout)
        assert result.error is not None
        assert (result.error.type, result.error.code) == ("ShellTimeoutError", "TIMEOUT")
        assert f"timed out after {timeout}ms" in result.error.message
        data = data_of(result)
        assert data.timed_out
        assert data.exit_code is None
        assert in_session(data.pid) == []
        await bench.hub.close()

    asyncio.run(run())


NAME = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/"), min_size=1, max_size=40).filter(
    lambda name: name not in (".", "..") and len(os.fsencode(name)) < 200
)


@settings(max_examples=100, deadline=None)
@given(name=NAME)
def test_property_28_a_command_runs_in_the_directory_given(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """000 Property 28: Shell Working Directory."""

    async def run() -> None:
        bench = a_bench(tmp_path_factory.getbasetemp(), 28)
        (bench.root / name).mkdir(exist_ok=True)
        result = await bench.shell("pwd; touch here", cwd=f"./{name}")
        assert data_of(result).output == f"{bench.root.resolve() / name}\n"
        assert data_of(result).cwd == str(bench.root.resolve() / name)
        assert (bench.root / name / "here").exists()
        await bench.hub.close()

    asyncio.run(run())


@settings(max_examples=100, deadline=None)
@given(delay=st.floats(0, 0.04), text=st.text(st.characters(categories=("L", "N")), min_size=1, max_size=20))
def test_property_48_an_aborted_command_is_ended_and_its_output_kept(
    tmp_path_factory: pytest.TempPathFactory, delay: float, text: str
) -> None:
    """000 Property 48: Tool Invocation Abort Signal Respect."""

    async def run() -> None:
        bench = a_bench(tmp_path_factory.getbasetemp(), 48)
        controller = AbortController()
        said = asyncio.Event()
        call = asyncio.ensure_future(
            bench.call("shell", {"command": f"echo {text}; sleep 30"}, controller.signal, lambda piece: said.set())
        )
        if delay > 0.02:
            await said.wait()
        await asyncio.sleep(delay / 4)
        controller.abort("enough")
        with pytest.raises(OperationCancelled, match="enough") as cancelled:
            await call
        if said.is_set():
            assert text in cancelled.value.partial
        for state in bench.hub.list():
            assert not state.running
            assert in_session(state.pid) == []
        await bench.hub.close()

    asyncio.run(run())


async def test_nothing_is_started_once_the_signal_is_aborted(bench: Bench) -> None:
    controller = AbortController()
    controller.abort()
    with pytest.raises(OperationCancelled):
        await bench.call("shell", {"command": "touch made"}, controller.signal)
    assert not (bench.root / "made").exists()
    assert bench.hub.list() == ()


async def test_a_cancelled_task_takes_its_command_with_it(bench: Bench) -> None:
    call = asyncio.ensure_future(bench.shell("sleep 30 & wait"))
    await until(lambda: bench.hub.list() and bench.hub.list()[0].pid)
    pid = bench.hub.list()[0].pid
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert in_session(pid) == []


async def test_a_task_cancelled_while_its_command_starts_takes_it_with_it(bench: Bench) -> None:
    call = asyncio.ensure_future(bench.shell("sleep 30 & wait"))
    # The first news of a command is that its process runs; its call is told only after that.
    bench.hub.subscribe(lambda state: call.cancel())
    with pytest.raises(asyncio.CancelledError):
        await call
    [state] = bench.hub.list()
    assert state.pid
    assert not state.running
    assert in_session(state.pid) == []


async def test_a_task_cancelled_again_and_again_still_waits_for_its_commands_end(bench: Bench) -> None:
    call = asyncio.ensure_future(bench.shell("trap '' TERM; echo deaf; while :; do sleep 0.05; done"))
    await until(lambda: bench.updates)
    while not call.done():
        call.cancel()
        await asyncio.sleep(0.02)
    assert call.cancelled()
    [state] = bench.hub.list()
    assert (state.running, state.signal) == (False, "SIGKILL")
    assert in_session(state.pid) == []


async def test_errors_and_output_come_in_the_programs_order(bench: Bench) -> None:
    result = await bench.shell("echo one; echo two >&2; echo three; ls /does-not-exist-here; exit 7")
    assert re.fullmatch(r"one\ntwo\nthree\nls: .*does-not-exist-here.*\n", data_of(result).output)
    assert result.exit_code == 7
    assert result.error is not None


async def test_output_is_told_while_the_command_runs(bench: Bench) -> None:
    call = asyncio.ensure_future(bench.shell("echo first; until [ -e go ]; do sleep 0.02; done; printf last"))
    await until(lambda: bench.updates)
    assert bench.updates == ["first\n"]
    (bench.root / "go").touch()
    await call
    assert "".join(bench.updates) == "first\nlast"


async def test_a_flood_is_told_in_few_pieces_with_the_end_among_them(bench: Bench) -> None:
    result = await bench.shell("seq 1 300000")
    assert len(bench.updates) < 60
    assert bench.updates[-1].endswith("299999\n300000\n")
    assert max(map(len, bench.updates)) < 200_000
    assert result.truncated


async def test_a_long_output_is_cut_and_can_be_read_in_full(bench: Bench) -> None:
    result = await bench.shell("seq 1 200000")
    text = data_of(result).output
    assert text.startswith("1\n2\n")
    assert "lines omitted ...]" in text
    path = Path(result.artifacts[0].path)
    assert text.rstrip().endswith(f"Full text: {path}")
    assert path.read_text() == "".join(f"{number}\n" for number in range(1, 200_001))
    assert path.parent == bench.hub.log_folder()


async def test_a_signal_is_told_from_an_exit_code(bench: Bench) -> None:
    killed = await bench.shell("kill -9 $$")
    assert (data_of(killed).exit_code, data_of(killed).signal) == (137, "SIGKILL")
    assert "it was ended by SIGKILL" in killed.notes
    said = await bench.shell("exit 137")
    assert (data_of(said).exit_code, data_of(said).signal) == (137, None)
    crashed = await bench.shell("bash -c 'kill -SEGV $$'; exit $?")
    assert data_of(crashed).exit_code == 139
    assert any("SIGSEGV" in note for note in crashed.notes)


async def test_a_command_that_does_not_exist_is_127_and_named(bench: Bench) -> None:
    result = await bench.shell("no-such-command-anywhere")
    assert result.exit_code == 127
    assert "no-such-command-anywhere: command not found" in data_of(result).output


@pytest.mark.parametrize(
    ("command", "code", "is_error"),
    [
        ("echo a | grep b", 1, False),
        ("test -e nothing-here", 1, False),
        ("[ -e nothing-here ]", 1, False),
        ("cmp -s /etc/passwd /dev/null", 1, False),
        ("LC_ALL=C /usr/bin/diff /etc/passwd /dev/null >/dev/null", 1, False),
        ("grep b no-such-file", 2, True),
        ("grep b /dev/null; false", 1, True),
        ("false", 1, True),
    ],
)
async def test_exit_code_1_of_a_search_or_comparison_is_an_answer(
    bench: Bench, command: str, code: int, is_error: bool
) -> None:
    result = await bench.shell(command)
    assert result.exit_code == code
    assert (result.error is not None) == is_error


async def test_lines_that_break_wrappers_run_as_they_are(bench: Bench) -> None:
    assert data_of(await bench.shell("cat <<EOF\na $((1+1))\nEOF")).output == "a 2\n"
    assert data_of(await bench.shell("echo a # comment")).output == "a\n"
    assert data_of(await bench.shell("echo a \\")).output == "a \\\n"
    assert data_of(await bench.shell("echo a\n\necho b\nexit 4")).exit_code == 4


async def test_it_is_bash_without_anybodys_start_files(bench: Bench) -> None:
    assert data_of(await bench.shell("[[ ab == a* ]] && echo ${BASH_VERSION:+bash} $0 $-")).output.split() == [
        "bash",
        "/bin/bash",
        "hBc",
    ]


async def test_progress_bars_are_folded_and_colours_dropped(bench: Bench) -> None:
    result = await bench.shell(r"printf '\e[31mred\e[0m\n'; for i in 1 2 3; do printf '\r%s0%%' $i; done; echo")
    assert data_of(result).output == "red\n30%\n"


async def test_bytes_that_are_no_text_do_no_harm(bench: Bench) -> None:
    assert data_of(await bench.shell(r"printf 'caf\xe9\n'")).output == "caf\ufffd\n"
    result = await bench.shell(r"head -c 3000 /dev/urandom; printf '\nend\n'")  # which may well erase what is before it
    assert result.exit_code == 0
    result.model_dump_json()


async def test_a_line_longer_than_the_terminal_is_not_wrapped(bench: Bench) -> None:
    result = await bench.shell("printf 'x%.0s' $(seq 5000); echo")
    assert data_of(result).output == "x" * 5000 + "\n"


async def test_without_anybody_there_reading_finds_nothing(bench: Bench) -> None:
    assert (
        data_of(await bench.shell("cat; read x || echo none; test -t 1 && echo terminal")).output == "none\nterminal\n"
    )
    refused = await bench.shell("read x </dev/tty", timeout=5000)
    assert refused.exit_code == 1
    assert "/dev/tty" in data_of(refused).output


async def test_without_anybody_there_a_pager_does_not_hang(bench: Bench) -> None:
    result = await bench.shell("seq 1 3 | less; echo after", timeout=20_000)
    assert not data_of(result).timed_out
    assert "after" in data_of(result).output


async def test_a_program_that_insists_on_keys_is_ended_with_a_word_on_why(bench: Bench) -> None:
    script = "import os,tty; fd=os.open(os.ttyname(1),os.O_RDWR|os.O_NOCTTY); tty.setraw(fd)\nwhile True: os.read(fd,1)"
    result = await bench.shell(f"python3 -c {shlex.quote(script)}; echo $?", timeout=20_000)
    assert result.error is not None
    assert "nobody is there to type" in result.error.message
    assert result.error.type == "ShellExecutionError"


@pytest.mark.parametrize("command", ["", "   ", "\n\t", "echo \0", "echo \ud800"])
async def test_what_is_no_command_is_refused_before_anything_runs(bench: Bench, command: str) -> None:
    with pytest.raises(InvalidArguments):
        SHELL.create_invocation({"command": command}, bench.context)


@pytest.mark.parametrize("fault", [{"timeout": 0}, {"timeout": 1.5}, {"idleTimeout": -1}, {"background": "yes"}])
async def test_limits_that_are_none_are_refused(bench: Bench, fault: dict[str, object]) -> None:
    with pytest.raises(InvalidArguments, match=next(iter(fault))):
        SHELL.create_invocation({"command": "true", **fault}, bench.context)


async def test_a_directory_that_is_none_is_refused_before_anyone_is_asked(bench: Bench) -> None:
    (bench.root / "file").touch()
    for cwd, failure in (("missing", FileNotFound), ("file", NotADirectory), ("..", InvalidPath)):
        with pytest.raises(failure):
            await SHELL.create_invocation({"command": "true", "cwd": cwd}, bench.context).check(
                AbortController().signal
            )


async def test_the_person_is_shown_the_whole_line_and_where_it_runs(bench: Bench) -> None:
    (bench.root / "sub").mkdir()
    line = "echo " + "x" * 5000 + "\nrm -rf build"
    invocation = SHELL.create_invocation({"command": line, "cwd": "sub"}, bench.context)
    preview = await (await invocation.question()).preview()
    assert isinstance(preview, CommandPreview)
    assert (preview.command, preview.cwd) == (line, "sub")
    assert preview.parts == ("echo " + "x" * 5000, "rm -rf build")
    assert preview.warnings == ("It is long: 5,018 characters in 2 lines; read it to its end",)
    assert invocation.tool_locations() == ["sub"]
    assert "\n" not in invocation.get_description()
    assert "rm -rf build" in invocation.get_description()
    before = (await invocation.question()).state
    (bench.root / "sub").rmdir()
    (bench.root / "other").mkdir()
    (bench.root / "sub").symlink_to("other")
    assert (await invocation.question()).state != before


async def test_a_line_the_system_can_not_take_says_what_to_do(bench: Bench) -> None:
    with pytest.raises(ShellExecutionFailed, match="Write it to a file"):
        await bench.shell("echo " + "x" * 200_000)


async def test_processes_left_behind_are_named_and_end_with_the_hub(bench: Bench) -> None:
    result = await bench.shell("sleep 61 & echo started")
    assert data_of(result).output == "started\n"
    [state] = bench.hub.unfinished()
    [left] = state.leftovers
    assert any(f"{left.pid} (sleep)" in note for note in result.notes)
    assert alive(left.pid)
    assert await bench.hub.close() == ()
    assert not alive(left.pid)


async def test_where_there_is_no_terminal_a_pipe_does_and_is_mentioned(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_terminal() -> tuple[int, int]:
        raise OSError(6, "No such device or address")

    monkeypatch.setattr("pty.openpty", no_terminal)
    result = await bench.attended().shell("test -t 1 || echo pipe; cat; echo err >&2; exit 3")
    assert data_of(result).output == "pipe\nerr\n"
    assert result.exit_code == 3
    assert any("pipe" in note for note in result.notes)


async def test_an_output_that_just_fits_is_not_cut_and_one_more_line_is_kept_in_a_file(bench: Bench) -> None:
    fits = await bench.shell("seq 1 2000")
    assert not fits.truncated
    assert fits.artifacts == ()
    too_long = await bench.shell("seq 1 2000; printf more")
    assert too_long.truncated
    assert Path(too_long.artifacts[0].path).read_text().endswith("2000\nmore")


async def test_a_server_started_with_an_ampersand_goes_on_with_a_person_there_too(bench: Bench) -> None:
    result = await bench.attended().shell("sleep 63 & nohup sleep 64 >/dev/null 2>&1 & echo started")
    [state] = bench.hub.unfinished()
    assert len(state.leftovers) == 2
    await asyncio.sleep(0.2)
    assert all(alive(process.pid) for process in state.leftovers)
    assert any("still run" in note for note in result.notes)


async def test_no_descriptors_left_is_a_failure_and_no_hang(bench: Bench) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    for spare in range(8):
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare, hard))
        try:
            async with asyncio.timeout(5):
                said = data_of(await bench.shell("echo fine")).output
        except ShellExecutionFailed as failure:
            said = failure.message
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        assert said == "fine\n" or "not started" in said
