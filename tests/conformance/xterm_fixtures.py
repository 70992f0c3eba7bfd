"""xterm's escape sequence files: bytes a program wrote, and the text that xterm showed of them."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.counts import Counts
from tests.tui.terminal.screens import terminal

COLUMNS, LINES = 80, 25
CORRECTED = "a later release corrected this file"
OTHERWISE = dict.fromkeys(
    ("t0070-DECSTBM_LF", "t0074-DECSTBM_SU_SD", "t0091-alt_screen_ED3", "t0102-DECAWM"), CORRECTED
)
"""@xterm/headless 6 shows of these exactly what we show."""


def run(folder: Path) -> Counts:
    """A file passes when the whole screen is xterm's."""
    counts = Counts(OTHERWISE)
    for source in sorted(folder.glob("*.in")):
        expected = source.with_suffix(".text").read_text(encoding="utf-8").split("\n")
        # The files hold what a program wrote; a tty sends each line feed with a carriage return (ONLCR).
        made = terminal(COLUMNS, LINES, source.read_bytes().replace(b"\n", b"\r\n"))
        wrong = [
            f"line {number + 1}: expected {theirs!r}, shown {ours!r}"
            for number, (theirs, ours) in enumerate(zip(_padded(expected), made.lines, strict=True))
            if theirs != ours
        ]
        counts.check(f"{source.stem} {wrong[0] if wrong else ''}", 0, len(wrong))
    return counts


def _padded(lines: list[str]) -> list[str]:
    return [line.rstrip() for line in (lines + [""] * LINES)[:LINES]]
