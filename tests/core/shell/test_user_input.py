"""The person's hand in an agent's command: what the model is told of it, and what nobody keeps."""

from __future__ import annotations

import asyncio
import itertools
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import OperationCancelled, ShellExecutionFailed
from ollm_tui.core.shell.status import CommandPhase, CommandStatus, UserInput
from ollm_tui.core.shell.user_input import MAX_LINE_CHARACTERS, MAX_LINES, TerminalInput, TypedLines
from ollm_tui.core.tools.shell_jobs import SHELL_KILL
from tests.core.shell.conftest import Bench, data_of, runs_in, until


async def _typed_into(bench: Bench, command: str, *keys: bytes, **arguments: object) -> tuple[str, ...]:
    """Run a command that asks, type into it whenever it waits, and return the notes of its result."""
    call = asyncio.ensure_future(bench.attended().shell(command, **arguments))
    await until(bench.hub.list)
    for key in keys:
        await until(lambda: bench.hub.find("c1").status.waiting_for_input)
        bench.hub.find("c1").type(key)
        await until(lambda: not bench.hub.find("c1").status.waiting_for_input)
    return (await call).notes


async def test_the_model_is_told_what_the_person_typed_while_it_was_shown(bench: Bench) -> None:
    notes = await _typed_into(bench, "read x; read y; echo $x$y", b"Add\x7fa\n", "Zoë\r".encode())
    assert notes == ('the person typed into its terminal: "Ada", "Zoë"',)


async def test_what_is_typed_without_echo_is_in_no_note_no_state_and_no_log(bench: Bench) -> None:
    secret = b"correct-horse-battery"
    told: list[CommandStatus] = []
    bench.hub.subscribe(told.append)
    notes = await _typed_into(bench, "stty -echo; read x; stty echo; echo len=${#x}", secret + b"\n")
    assert notes == ("the person typed into its terminal; what is not told, since its echo was off",)
    command = bench.hub.find("c1")
    assert b"len=21" in b"".join(command.output.pieces(0))
    assert secret not in b"".join(command.output.pieces(0))
    assert secret not in pickle.dumps(told) + pickle.dumps(command.status)
    assert command.status.user_input == UserInput(typed=True, unseen=True)


def test_input_on_its_way_is_never_printed() -> None:
    assert "hunter2" not in repr(TerminalInput(b"hunter2", by_person=True))


async def test_both_kinds_of_typing_are_told_apart(bench: Bench) -> None:
    notes = await _typed_into(bench, "read u; sleep 1; stty -echo; read p; stty echo; echo $u", b"ada\n", b"s3cret\n")
    assert notes == (
        'the person typed into its terminal: "ada"',
        "the person typed into its terminal; what is not told, since its echo was off",
    )


async def test_answers_of_the_terminal_are_nobodys_typing(bench: Bench) -> None:
    call = asyncio.ensure_future(bench.attended().shell("read x; echo got"))
    await until(lambda: bench.hub.list() and bench.hub.find("c1").status.waiting_for_input)
    bench.hub.find("c1").write(b"\x1b[0n\n")
    result = await call
    assert result.notes == ()
    assert not bench.hub.find("c1").status.user_input.typed


async def test_a_command_that_the_person_interrupts_says_so(bench: Bench) -> None:
    call = asyncio.ensure_future(bench.attended().shell("sleep 30"))
    await until(lambda: bench.hub.list() and runs_in(bench.hub.find("c1").status.pid, "sleep"))
    bench.hub.find("c1").interrupt()
    result = await call
    assert "the person interrupted it with Ctrl+C" in result.notes
    assert bench.hub.find("c1").status.user_input.unseen is False


async def test_a_command_that_nobody_touched_says_nothing(bench: Bench) -> None:
    assert (await bench.attended().shell("echo hi")).notes == ()


async def test_a_jobs_output_says_that_the_person_typed(bench: Bench) -> None:
    await bench.attended().call("shell", {"command": "read x; echo got $x; sleep 30", "background": True})
    await until(lambda: bench.hub.find("j1").status.waiting_for_input)
    bench.hub.find("j1").type(b"on\n")
    await until(lambda: bench.hub.find("j1").status.user_input.lines)
    result = await bench.call("shell_output", {"id": "j1", "wait": 2000})
    assert 'the person typed into its terminal: "on"' in result.notes
    await bench.hub.kill("j1")


# Taking over


async def test_what_the_person_takes_over_has_no_time_limit_and_is_waited_for(bench: Bench) -> None:
    call = asyncio.ensure_future(bench.attended().shell("read x; echo got $x", timeout=1500, idleTimeout=1500))
    await until(lambda: bench.hub.list() and bench.hub.find("c1").status.waiting_for_input)
    assert bench.hub.find("c1").take_over()
    await asyncio.sleep(1.8)
    assert bench.hub.find("c1").status.running
    assert not call.done()
    bench.hub.find("c1").type(b"late\n")
    result = await call
    assert data_of(result).exit_code == 0
    assert result.notes[0].startswith("the person took this command over")
    assert 'the person typed into its terminal: "late"' in result.notes


async def test_what_the_person_takes_over_outlives_the_turn_and_is_still_a_command(bench: Bench) -> None:
    controller = AbortController()
    call = asyncio.ensure_future(
        bench.attended().call("shell", {"command": "echo before; read x; echo got $x"}, controller.signal)
    )
    await until(lambda: bench.hub.list() and bench.hub.find("c1").status.waiting_for_input)
    assert bench.hub.find("c1").take_over()
    controller.abort("stopped")
    with pytest.raises(OperationCancelled) as raised:
        await call
    partial = raised.value.partial or ""
    assert "before" in partial
    assert "c1 goes on: the person has taken it over" in partial
    assert bench.hub.find("c1").status.running
    bench.hub.find("c1").type(b"on\n")
    await until(lambda: bench.hub.find("c1").status.phase is CommandPhase.EXITED)
    assert (await bench.hub.kill("c1")).exit_code == 0


async def test_the_model_does_not_end_what_the_person_took_over(bench: Bench) -> None:
    await bench.attended().shell("read x; echo got $x; sleep 60 & sleep 0.1", background=True)
    assert bench.hub.find("j1").take_over()
    invocation = SHELL_KILL.create_invocation({"id": "j1"}, bench.context)
    for ending in (invocation.check(AbortController().signal), invocation.execute(AbortController().signal)):
        with pytest.raises(ShellExecutionFailed, match=r"j1 is not ended: the person has taken it over.*Ask them"):
            await ending
    assert bench.hub.find("j1").status.running
    bench.hub.find("j1").type(b"on\n")
    await until(lambda: bench.hub.find("j1").status.phase is CommandPhase.EXITED)
    assert bench.hub.find("j1").status.leftovers
    with pytest.raises(ShellExecutionFailed, match="Ask them"):
        await bench.call("shell_kill", {"id": "j1"})
    await bench.hub.kill("j1")
    assert "it was over already" in (await bench.call("shell_kill", {"id": "j1"})).llm_content


async def test_without_a_take_over_an_interrupted_turn_ends_its_command(bench: Bench) -> None:
    controller = AbortController()
    call = asyncio.ensure_future(bench.attended().call("shell", {"command": "read x"}, controller.signal))
    await until(lambda: bench.hub.list() and bench.hub.find("c1").status.waiting_for_input)
    controller.abort("stopped")
    with pytest.raises(OperationCancelled):
        await call
    assert bench.hub.find("c1").status.phase is CommandPhase.KILLED


async def test_what_is_over_can_not_be_taken_over(bench: Bench) -> None:
    await bench.attended().shell("true")
    assert not bench.hub.find("c1").take_over()
    assert not bench.hub.find("c1").status.user_input.took_over


# Lines of keys


@settings(max_examples=100)
@given(st.text(), st.lists(st.integers(min_value=0), max_size=8))
def test_lines_are_the_same_however_the_keys_arrive(text: str, cuts: list[int]) -> None:
    data = text.replace("\x1b", "").encode("utf-8", "replace")
    whole, parts = TypedLines(), TypedLines()
    whole.feed(data)
    borders = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(borders):
        parts.feed(data[start:end])
    assert parts.lines == whole.lines
    assert len(whole.lines) <= MAX_LINES
    assert all("\n" not in line and "\r" not in line for line in whole.lines)


@given(st.binary())
def test_no_bytes_make_lines_that_are_long_or_control_a_terminal(data: bytes) -> None:
    typed = TypedLines()
    typed.feed(data * 3)
    for line in typed.lines:
        assert len(line) <= MAX_LINE_CHARACTERS * 12
        assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in line)


def test_keys_that_edit_a_line_edit_it() -> None:
    typed = TypedLines()
    typed.feed(b"rm -rf\x15ls\x1b[D -l foo bar\x17baz\x7fr\r")
    typed.feed(b"\x1b[200~pasted\x1b[201~")
    assert typed.lines == ("ls -l foo bar", "pasted")
