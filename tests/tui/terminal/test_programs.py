"""Real programs: what they drew while running, and what is left when they have ended."""

from __future__ import annotations

import pytest

from ollm_tui.tui.terminal.emulator.terminal_modes import InputModes, MouseReports
from tests.tui.terminal.recordings import COLUMNS, LINES, PROGRAMS, Shown, frames, raw
from tests.tui.terminal.screens import everything, terminal


@pytest.mark.parametrize("frame", frames(), ids=lambda frame: f"{frame.program}-{frame.moment}")
def test_the_screen_is_what_another_terminal_showed(frame: Shown) -> None:
    made = terminal(COLUMNS, LINES, raw(frame.program)[: frame.size])
    assert made.lines == [*frame.screen, *[""] * (LINES - len(frame.screen))]
    assert made.cursor == frame.cursor


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("size", [1, 7, 4095])
def test_a_recording_cut_anywhere_gives_the_same_screen(program: str, size: int) -> None:
    data = raw(program)
    cut = terminal(COLUMNS, LINES, *(data[start : start + size] for start in range(0, len(data), size)))
    assert everything(cut) == everything(terminal(COLUMNS, LINES, data))


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name not in ("bash", "python")])
def test_after_a_program_ended_the_shell_has_its_terminal_back(program: str) -> None:
    made = terminal(COLUMNS, LINES, raw(program))
    assert not made.screen.alternate_screen
    assert not made.screen.cursor.hidden
    assert made.screen.margins is None
    modes = made.screen.input_modes
    assert modes == InputModes(bracketed_paste=modes.bracketed_paste)  # the shell itself switches pastes
    assert modes.mouse is MouseReports.OFF
    assert made.lines[made.cursor[0]] == "$"


def test_a_program_in_the_alternate_screen_has_it() -> None:
    opened = next(frame for frame in frames() if frame.program == "vim" and frame.moment == "split")
    made = terminal(COLUMNS, LINES, raw("vim")[: opened.size])
    assert made.screen.alternate_screen
    assert made.screen.input_modes.app_cursor


def test_vim_draws_no_underline_of_its_key_protocol() -> None:
    typed = next(frame for frame in frames() if frame.program == "vim" and frame.moment == "opened")
    made = terminal(COLUMNS, LINES, raw("vim")[: typed.size])
    assert not any(style.flags & 8 for row in made.screen.rows for _, style in row.runs())
