"""xterm's escape sequence files: bytes a program wrote, and the text that xterm showed of them."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.counts import Counts
from tests.tui.terminal.screens import terminal

COLUMNS, LINES = 80, 25
RAW = {"t0070-DECSTBM_LF": LINES - 1, "t0074-DECSTBM_SU_SD": LINES, "t0091-alt_screen_ED3": LINES}
"""Files whose text shows that they were sent raw, without ONLCR and the last line feed, and to how many lines."""
CORRECTED = {"t0102-DECAWM": ("-abcd\n   this", "-abch\n   this")}
"""What a text has, and what it has in later releases of the same project."""
KEPT_WRAP = "today's xterm keeps a pending wrap (cursor.c restores wrap_flag)"
OTHERWISE = {
    "t0055-EL": "a full line keeps its last letter, as on VTE, Konsole and xterm.js: `grep` ends its matches with EL",
    "t0060-DECSC": KEPT_WRAP,
    "t0061-CSI_s": KEPT_WRAP,
    "t0084-CBT": "a move takes a pending wrap away, as on VTE; xterm wraps at the tab stop",
}


def run(folder: Path) -> Counts:
    """A file passes when the whole screen is xterm's."""
    counts = Counts(OTHERWISE)
    for source in sorted(folder.glob("*.in")):
        text = source.with_suffix(".text").read_text(encoding="utf-8")
        expected = _padded(text.replace(*CORRECTED.get(source.stem, ("", ""))).split("\n"))
        wrong = [
            f"line {number + 1}: expected {theirs!r}, shown {ours!r}"
            for number, (theirs, ours) in enumerate(zip(expected, _shown(source), strict=True))
            if theirs != ours
        ]
        counts.check(f"{source.stem} {wrong[0] if wrong else ''}", 0, len(wrong))
    return counts


def _shown(source: Path) -> list[str]:
    written = source.read_bytes()
    lines = RAW.get(source.stem)
    if lines is None:  # the files hold what a program wrote; a tty sends each line feed with a carriage return (ONLCR)
        return terminal(COLUMNS, LINES, written.replace(b"\n", b"\r\n")).lines
    made = terminal(COLUMNS, lines, written.removesuffix(b"\n"))
    return [*made.scrolled_back(), *made.lines][-LINES:]


def _padded(lines: list[str]) -> list[str]:
    return [line.rstrip() for line in (lines + [""] * LINES)[:LINES]]
