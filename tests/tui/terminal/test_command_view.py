"""What a shell tells of its commands: the dots, the words, and the keys for output and line."""

from __future__ import annotations

import pytest

from ollm_tui.tui.terminal.command_view import DONE, FAILED, RUNNING, outcome_words
from ollm_tui.tui.terminal.emulator.osc import ShellCommand
from tests.tui.terminal.test_reading_pointer import Reading, reading
from tests.tui.terminal.test_terminal_view import COLUMNS


def ran(line: str, output: str = "", code: int | None = 0) -> bytes:
    """What a shell writes of a prompt, a line typed there, and its output; without a code it still runs."""
    end = "" if code is None else f"\x1b]133;D;{code}\x07"
    return f"\x1b]133;A\x07日$ \x1b]133;B\x07{line}\r\n\x1b]133;C\x07{output}{end}".encode()


PROMPT = "\x1b]133;A\x07日$ \x1b]133;B\x07".encode()


def gutter(here: Reading) -> list[str]:
    """The column before the program's own, inside the test app's border, as it is painted."""
    return [strip.text[1] for strip in here.view.render_lines(here.view.region.reset_offset)][1:-1]


async def pointed(here: Reading, line: int) -> None:
    here.view.read()
    assert here.view.reader is not None
    here.view.reader.go(line)


async def test_each_prompt_has_a_dot_that_says_what_came_of_its_command() -> None:
    async with reading(ran("true") + ran("false", "no\r\n", 1) + ran("sleep 9", code=None), gutter=True) as here:
        assert here.view.engine.screen.columns == COLUMNS - 1
        blank = " "
        assert gutter(here)[:5] == [DONE[0], FAILED[0], blank, RUNNING[0], blank]
        assert len({DONE[0], FAILED[0], RUNNING[0]}) == 3
        await here.feed(b"\x1b]133;D;0\x07" + PROMPT)
        assert gutter(here)[3:5] == [DONE[0], blank]
        await here.feed(b"\r\nx" * (here.view.engine.screen.lines - 4))
        assert gutter(here)[:3] == [FAILED[0], blank, DONE[0]]
        here.view.scroll_back(1)
        assert gutter(here)[:3] == [DONE[0], FAILED[0], blank]


async def test_without_a_gutter_every_column_is_the_programs() -> None:
    async with reading(ran("false", code=1)) as here:
        assert here.view.engine.screen.columns == COLUMNS
        assert gutter(here)[0] == "日"


async def test_reading_tells_exit_code_and_duration_of_the_command_here() -> None:
    async with reading(ran("false", "no\r\n", 1) + ran("true") + PROMPT, gutter=True) as here:
        assert here.view.told_of_command == ""
        await pointed(here, 1)
        assert here.view.told_of_command.startswith("exit 1, ") and here.view.told_of_command.endswith(" ms")
        await pointed(here, 2)
        assert here.view.told_of_command.startswith("exit 0, ")
        await pointed(here, 3)
        assert here.view.told_of_command == ""


def test_the_words() -> None:
    assert outcome_words(None) == outcome_words(ShellCommand(1)) == ""
    assert outcome_words(ShellCommand(1, output=2)) == "running"
    assert outcome_words(ShellCommand(1, output=2, end=3, exit_code=130, seconds=62)) == "exit 130, 1 min 2 s"
    assert outcome_words(ShellCommand(1, output=2, end=3)) == ""


async def test_the_mouse_over_a_dot_tells_the_same() -> None:
    async with reading(ran("false", "no\r\n", 1) + PROMPT, gutter=True) as here:
        await here.pilot.hover(type(here.view), offset=(1, 1))
        assert str(here.view.tooltip).startswith("exit 1, ")
        await here.pilot.hover(type(here.view), offset=(1, 2))
        assert here.view.tooltip is None
        await here.pilot.hover(type(here.view), offset=(4, 1))
        assert here.view.tooltip is None


async def test_the_output_of_the_command_here_is_copied() -> None:
    async with reading(ran("one", "first\r\nsecond\r\n") + ran("two", "third\r\n") + PROMPT, gutter=True) as here:
        await pointed(here, 1)
        await here.press("O")
        assert here.app.copied == ["first\nsecond"]


async def test_the_command_here_is_typed_again_without_enter() -> None:
    line = "echo 日本 " + "long " * 20 + "end"
    async with reading(ran(line, "out\r\n") + ran("two") + PROMPT, gutter=True) as here:
        await pointed(here, 0)
        await here.press("r")
        assert here.app.sent() == line.encode()
        assert here.view.reader is None


@pytest.mark.parametrize(
    "output",
    [
        ran("rm -rf x") + ran("cat", code=None),  # what runs would get it
        ran("for x in 1; do\r\necho; done") + PROMPT,  # the line ends would run its parts
        b"no shell at all",
    ],
)
async def test_a_line_that_would_not_wait_at_the_prompt_is_not_typed(output: bytes) -> None:
    async with reading(output, gutter=True) as here:
        await pointed(here, 0)
        await here.press("r")
        assert here.app.sent() == b""
        assert here.view.reader is not None


async def test_a_selection_by_mouse_counts_from_the_programs_first_column() -> None:
    async with reading(ran("true") + b"abcdef", gutter=True) as here:
        await here.pilot.mouse_down(type(here.view), offset=(2, 2))
        await here.pilot.hover(type(here.view), offset=(4, 2))
        await here.pilot.mouse_up(type(here.view), offset=(4, 2))
        assert here.app.copied and here.app.copied[-1].startswith("ab")
