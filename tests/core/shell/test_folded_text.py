"""What the model reads of a terminal's output, against pyte's own screen."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ollm_tui.core.shell.folded_text import FoldedText, fold
from ollm_tui.core.shell.shell_service import OutputDelta
from ollm_tui.core.shell.text_rows import MAX_ROW


def on_screen(data: bytes, columns: int = 200, lines: int = 40) -> list[str]:
    """The lines that an unmodified pyte screen shows, without the blank ones at the end."""
    screen = pyte.Screen(columns, lines)
    pyte.ByteStream(screen).feed(data)
    return _trimmed(list(screen.display))


def _trimmed(lines: list[str]) -> list[str]:
    lines = [line.rstrip() for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def in_pieces(data: bytes, size: int) -> str:
    pieces: list[str] = []
    folded = FoldedText(pieces.append)
    for start in range(0, len(data), size):
        folded.feed(data[start : start + size])
    folded.finish()
    return "".join(pieces)


def _layers(count: int) -> bytes:
    """Several bars redrawn at once, as container tools draw them."""
    out = b"".join(b"layer %d: waiting\r\n" % layer for layer in range(count))
    for step in range(5):
        out += b"\x1b[%dA" % count
        out += b"".join(b"\x1b[2Klayer %d: %d%%\r\n" % (layer, step * 25) for layer in range(count))
    return out


RECORDINGS = {
    "a bar by carriage return": b"".join(b"\r%3d%% [%-20s]" % (n, b"#" * (n // 5)) for n in range(0, 101, 5))
    + b"\r\nok\r\n",
    "a bar that gets shorter": b"downloading 100 of 100\rdone\x1b[K\r\n",
    "a bar that is erased": b"working...\r\x1b[2Kfinished\r\n",
    "a spinner by backspace": b"wait |\x08/\x08-\x08\\\x08 \r\nend\r\n",
    "bars redrawn upwards": _layers(4),
    "colours": b"\x1b[1;31merror\x1b[0m: \x1b[38;5;208mbad\x1b[m\x1b[K\r\n",
    "columns": b"\x1b[10Gten\x1b[5Gfive\r\nx\x1b[3Cy\r\n",
    "erasing to the start": b"abcdef\x1b[3D\x1b[1K\r\n",
    "deleting and inserting": b"abcdef\x1b[4D\x1b[2P\x1b[1@\r\n",
    "a screen cleared": b"old\r\nolder\r\n\x1b[2J\x1b[Hnew\r\n",
    "lines inserted": b"one\r\ntwo\r\n\x1b[1A\x1b[Lbetween\r\n",
    "saved and restored": b"ab\x1b7cdef\x1b8XY\r\n",
    "reverse line feed": b"one\r\ntwo\x1bMup\r\n",
    "wide characters": "日本語\r本\r\n진행 50%\r진행 99%\r\n".encode(),
    "a title": b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\r\n",
}


@pytest.mark.parametrize("recording", RECORDINGS)
def test_it_reads_as_the_screen_shows(recording: str) -> None:
    data = RECORDINGS[recording]
    assert _trimmed(fold(data).split("\n")) == on_screen(data)


@pytest.mark.parametrize("recording", RECORDINGS)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_how_the_bytes_are_cut_makes_no_difference(recording: str, size: int) -> None:
    assert in_pieces(RECORDINGS[recording], size) == fold(RECORDINGS[recording])


PIECE = (
    st.text(st.characters(codec="ascii", exclude_categories=("Cc",)), min_size=1, max_size=6)
    | st.sampled_from(["\r", "\r\n", "\b", "\x1b[K", "\x1b[2K", "\x1b[1K", "\x1b[A", "\x1b[2B", "\x1b[3D", "\x1b[4C"])
    | st.sampled_from(["\x1b[31m", "\x1b[0m", "\x1b[5G", "\x1b[2P", "\x1b[@", "\x1b[3X", "\x1b[J"])
)


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECE, max_size=25).map("".join))
def test_any_mixture_of_progress_sequences_reads_as_pyte_shows_it(text: str) -> None:
    assume(len(text) < 130)
    pieces: list[str] = []
    folded = FoldedText(pieces.append, window=60)
    folded.feed(text.encode())
    folded.finish()
    assert _trimmed("".join(pieces).split("\n")) == on_screen(text.encode(), columns=140, lines=60)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("\n\t")))
def test_plain_text_comes_through_unchanged(text: str) -> None:
    assert fold(text.replace("\n", "\r\n").encode()) == text


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400), st.integers(1, 50))
def test_no_bytes_break_it_and_no_control_character_gets_through(data: bytes, size: int) -> None:
    text = in_pieces(data, size)
    assert not [character for character in text if ord(character) < 32 and character not in "\n\t"]
    assert "\x7f" not in text


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECE | st.just("\r\n"), max_size=40), st.integers(1, 9))
def test_what_is_told_piece_by_piece_is_the_whole_for_output_that_is_only_appended(
    pieces: list[str], every: int
) -> None:
    plain = [piece for piece in pieces if piece == "\r\n" or not piece.startswith(("\r", "\b", "\x1b"))]
    new = OutputDelta()
    settled: list[str] = []

    def settle(text: str) -> None:
        settled.append(text)
        new.settle(text)

    folded = FoldedText(settle, window=3)
    told: list[str] = []
    for number, piece in enumerate(plain):
        folded.feed(piece.encode())
        if number % every == 0:
            told.append(new.take(folded.rest()))
    folded.finish()
    told.append(new.take("", final=True))
    assert "".join(told) == "".join(settled) == "".join(plain).replace("\r\n", "\n")


def test_a_bar_is_told_at_its_first_and_its_last_state_only() -> None:
    new = OutputDelta()
    folded = FoldedText(new.settle)
    told: list[str] = []
    for percent in range(0, 101, 10):
        folded.feed(b"\r%d%%" % percent)
        told.append(new.take(folded.rest()))
    folded.feed(b"\r\nnext\r\n")
    told.append(new.take(folded.rest()))
    assert [text for text in told if text] == ["0%", "\n100%\nnext\n"]


def test_a_full_screen_program_leaves_what_stood_before_it() -> None:
    assert fold(b"before\r\n\x1b[?1049h\x1b[2J\x1b[Hediting\x1b[5;1Hmore\x1b[?1049lafter\r\n") == "before\nafter\n"
    assert "editing" in fold(b"before\r\n\x1b[?1049h\x1b[2J\x1b[Hediting")


def test_a_sequence_that_never_ends_does_not_swallow_the_rest() -> None:
    assert fold(b"\x1b]0;no end\nrest\n").endswith("rest\n")
    assert fold(b"\x1b[" + b"1;" * 5000 + b"\nrest\n").endswith("rest\n")
    assert fold(b"\x1bP" + b"x" * 9_000_000 + b"\nrest\n").endswith("rest\n")


@pytest.mark.parametrize(
    ("start", "end"), [("\x1bPq", "\x1b\\"), ("\x1b_Ga=T;", "\x1b\\"), ("\x1b]1337;File=:", "\x07")]
)
def test_nothing_of_a_large_picture_is_text(start: str, end: str) -> None:
    pieces: list[str] = []
    folded = FoldedText(pieces.append)
    folded.feed(b"before\n" + start.encode())
    for _ in range(700):
        folded.feed(b"A" * 4_096)
    folded.feed(end.encode() + b"after\n")
    folded.finish()
    assert "".join(pieces) == "before\nafter\n"


def test_memory_is_bounded_for_a_line_without_end() -> None:
    longest = 0
    pieces = 0

    def settle(text: str) -> None:
        nonlocal longest, pieces
        pieces += len(text)

    folded = FoldedText(settle)
    for _ in range(400):
        folded.feed(b"x" * 65_536)
        longest = max(longest, len(folded.rest()))
    assert longest <= MAX_ROW + 65_536
    folded.finish()
    assert pieces == 400 * 65_536


def test_a_cursor_sent_far_away_costs_nothing() -> None:
    assert len(fold(b"\x1b[999999999;999999999Hx\x1b[999999999C\x1b[999999999@\x1b[999999999Xy")) < 40 * 20_000
