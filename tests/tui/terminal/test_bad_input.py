"""What no program should write, and some do: the terminal lives, shows what comes after, and keeps little of it."""

from __future__ import annotations

import asyncio
import random
import time
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ollm_tui.core.shell.hub import CommandHub, awaitable_of
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from tests.tui.terminal.live import LiveTerminal
from tests.tui.terminal.screens import shown

PIECE = 4_095

WRITERS = {
    "random bytes": "cat /dev/urandom | head -c 2M",
    "a program file": "head -c 2M $(command -v bash)",
    "an operating system command without end": r"printf '\033]0;'; head -c 5M /dev/zero | tr '\0' x",
    "a device control string without end": r"printf '\033P1;1|'; head -c 5M /dev/zero | tr '\0' x",
    "a control sequence without end": r"printf '\033['; head -c 2M /dev/zero | tr '\0' 1",
    "a line without end": r"head -c 5M /dev/zero | tr '\0' x",
    "nothing but NUL": "head -c 5M /dev/zero",
    "a full screen that is never left": r"printf '\033[?1049h\033[?25l\033[2;3r\033[?1000;1003;1006h\033(0'; seq 1 9999",
}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[CommandHub]:
    hub = CommandHub(tmp_path / "logs")
    yield hub
    assert await hub.close() == ()


@pytest.mark.parametrize("writer", WRITERS)
async def test_the_pane_lives_and_a_reset_makes_it_usable(hub: CommandHub, writer: str) -> None:
    app = LiveTerminal(hub)
    async with app.run_test(size=(80, 24)), asyncio.timeout(30):
        flood = await app.start(WRITERS[writer])
        turns = 0
        over = awaitable_of(flood.done)
        while not over.done():  # the event loop turns while the flood is taken in
            await asyncio.sleep(0.001)
            turns += 1
        assert over.result().exit_code == 0
        assert turns > 3
        assert app.view.engine.parse_errors == 0
        reset = await app.start(r"printf '\030\033\\\033cusable'")
        await app.until_shown("usable")
        assert (await awaitable_of(reset.done)).exit_code == 0
        screen = app.view.engine.screen
        assert shown(app.view) == ["usable", *[""] * 23]
        assert (screen.cursor.y, screen.cursor.x, screen.cursor.hidden) == (0, 6, False)
        assert screen.input_modes == TerminalEngine(80, 24).screen.input_modes
        assert len(screen.history) <= 10_000


def kept_and_needed(data: bytes) -> tuple[int, int]:
    """Bytes an engine keeps of an output, and the most it needed on the way."""
    engine = TerminalEngine(120, 40)
    tracemalloc.start()
    try:
        for start in range(0, len(data), PIECE):
            engine.feed(data[start : start + PIECE])
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("start", [b"\x1b]0;", b"\x1b]52;c;", b"\x1bP", b"\x1b_", b"\x1bk", b"\x1b["], ids=repr)
def test_five_megabytes_without_an_end_are_not_kept(start: bytes) -> None:
    data = start + b"1" * 5_000_000
    kept, needed = kept_and_needed(data)
    assert kept < 200_000
    assert needed < 2_000_000


WHOLE_SCREEN = {
    "selective erasing of what is protected": ('\x1b[1"q' + "x" * 4_800, "\x1b[?2J"),
    "selective erasing of a rectangle of it": ('\x1b[1"q' + "x" * 4_800, "\x1b[${"),
    "attributes of a rectangle": ("\x1b[41m\x1b[2J\x1b[2*x", "\x1b[1;1;40;120;1$r"),
    "attributes turned over": ("\x1b[41m\x1b[2J\x1b[2*x", "\x1b[1;1;40;120;1$t"),
    "reverse wrapping between margins": ("\x1b[?69h\x1b[?45h\x1b[1;2s", "\x1b[9999D"),
}


def seconds_for(before: str, flood: str) -> float:
    """CPU seconds for 16 KB of a sequence."""
    engine = TerminalEngine(120, 40)
    engine.feed(before.encode())
    data = (flood * (16_384 // len(flood))).encode()
    started = time.process_time()
    engine.feed(data)
    return time.process_time() - started


@pytest.mark.parametrize("about", WHOLE_SCREEN)
def test_what_looks_at_every_cell_costs_little_more_than_erasing_them(about: str) -> None:
    erasing = min(seconds_for("", "\x1b[2J") for _ in range(3))
    looking = min(seconds_for(*WHOLE_SCREEN[about]) for _ in range(3))
    assert looking < 12 * erasing


def test_random_bytes_keep_no_more_than_their_lines() -> None:
    kept, needed = kept_and_needed(random.Random(26).randbytes(400_000))
    assert kept < needed < 10_000_000
