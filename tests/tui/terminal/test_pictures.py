"""Pictures that programs draw: as half blocks in the text, within bounds, and nothing of them as text."""

from __future__ import annotations

import random
import threading
import tracemalloc
import zlib
from pathlib import Path

import pytest

from ollm_tui.tui.pictures.raster import MAX_PIXELS
from ollm_tui.tui.terminal.emulator.cells import RGB
from ollm_tui.tui.terminal.emulator.kitty_graphics import MAX_PICTURE, MAX_STORED
from ollm_tui.tui.terminal.emulator.picture_cells import MAX_CELLS
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from ollm_tui.tui.terminal.view_frame import MAX_SEGMENTS, ViewFrame, ViewState
from tests.tui.terminal.pictures import BLUE, GREEN, RED, Pixel, bytes_of, iterm, kitty, png, png_of, sixel, squares
from tests.tui.terminal.screens import Terminal, everything, terminal
from tests.tui.terminal.test_strips import PALETTE

PICTURE = squares(6, 4)
"""Six cells in two lines: red above blue, blue above red, and so on."""
SENT = {
    "sixel": sixel(PICTURE),
    "kitty, PNG": kitty("a=T,f=100", png_of(PICTURE)),
    "kitty, RGB": kitty("a=T,f=24,s=60,v=40", bytes_of(PICTURE)),
    "kitty, RGBA": kitty("a=T,s=60,v=40", bytes(part for row in PICTURE for p in row for part in (*p, 255))),
    "kitty, compressed": kitty("a=T,f=24,s=60,v=40,o=z", zlib.compress(bytes_of(PICTURE))),
    "iTerm2": iterm(png_of(PICTURE)),
}


def colours(made: Terminal, y: int, x: int) -> tuple[Pixel | None, Pixel | None]:
    """The upper and the lower half of a cell."""
    style = made.style(y, x)
    upper, lower = (None if c < 0 else (c - RGB >> 16, c >> 8 & 255, c & 255) for c in (style.fg, style.bg))
    return (lower, upper) if made.screen.rows[y].text[x : x + 1] == "▄" else (upper, lower)


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT.keys())
def test_a_picture_is_drawn_as_half_blocks(sent: bytes) -> None:
    made = terminal(20, 5, "ab", sent)
    assert made.lines == ["ab▀▀▀▀▀▀", "  ▀▀▀▀▀▀", "", "", ""]
    for y in range(2):
        cells = [colours(made, y, x) for x in range(2, 8)]
        assert cells == [(RED, BLUE), (BLUE, RED)] * 3


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT.keys())
def test_however_it_is_cut_the_same_is_drawn(sent: bytes) -> None:
    whole = everything(terminal(20, 5, sent, "after"))
    for size in (1, 7, 4_095):
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        assert everything(terminal(20, 5, *pieces, "after")) == whole


def test_the_cursor_stays_where_each_protocol_wants_it() -> None:
    assert terminal(20, 5, "ab", SENT["sixel"]).cursor == (1, 2)
    assert terminal(20, 5, "ab", SENT["kitty, PNG"]).cursor == (1, 8)
    assert terminal(20, 5, "ab", kitty("a=T,f=100,C=1", png_of(PICTURE))).cursor == (0, 2)
    assert terminal(20, 5, "ab", SENT["iTerm2"]).cursor == (1, 8)
    assert terminal(20, 5, "ab", iterm(png_of(PICTURE), "inline=1;doNotMoveCursor=1")).cursor == (0, 2)


@pytest.mark.parametrize(
    ("sent", "size"),
    [
        (kitty("a=T,f=100,c=3", png_of(PICTURE)), (3, 1)),
        (kitty("a=T,f=100,r=4", png_of(PICTURE)), (12, 4)),
        (kitty("a=T,f=100,c=4,r=4", png_of(PICTURE)), (4, 4)),
        (kitty("a=T,f=100,x=30,w=20,h=40", png_of(PICTURE)), (2, 2)),
        (kitty("a=T,f=100,c=500", png_of(PICTURE)), (20, 7)),
        (iterm(png_of(PICTURE), "inline=1;width=12"), (12, 4)),
        (iterm(png_of(PICTURE), "inline=1;width=50%;height=auto"), (10, 4)),
        (iterm(png_of(PICTURE), "inline=1;width=30px"), (3, 1)),
        (iterm(png_of(PICTURE), "inline=1;width=6;height=9"), (6, 2)),
        (iterm(png_of(PICTURE), "inline=1;width=6;height=5;preserveAspectRatio=0"), (6, 5)),
        (sixel(squares(40, 4)), (20, 1)),
    ],
)
def test_it_takes_the_cells_asked_for_and_never_more_than_the_line(sent: bytes, size: tuple[int, int]) -> None:
    lines = [line for line in terminal(20, 10, sent).lines if line]
    assert {len(line) for line in lines} == {size[0]}
    assert len(lines) == size[1]


def test_what_is_clear_shows_the_screen_behind() -> None:
    seen = b"".join(bytes((*GREEN, 255)) * 10 + bytes(40) for _ in range(10))
    made = terminal(20, 5, kitty("a=T,s=20,v=20", bytes(80 * 10) + seen))
    assert made.lines[0] == "▄"
    assert colours(made, 0, 0) == (None, GREEN)


def test_it_scrolls_into_the_scrollback_and_is_written_over_and_erased_like_text() -> None:
    made = terminal(20, 3, sixel(squares(3, 8)))
    assert made.scrolled_back() == ["▀▀▀"]
    assert made.lines == ["▀▀▀"] * 3
    made.feed("\x1b[Hx\x1b[2;2H\x1b[K\x1b[3;1H\x1b[2X")
    assert made.lines == ["x▀▀", "▀", "  ▀"]
    made.feed("\x1b[2J")
    assert made.lines == [""] * 3
    assert made.scrolled_back() == ["▀▀▀"]


def test_the_alternate_screen_keeps_its_own() -> None:
    made = terminal(20, 3, "shell", "\x1b[?1049h\x1b[H", SENT["sixel"])
    assert made.lines[0] == "▀" * 6
    made.feed("\x1b[?1049l")
    assert made.lines == ["shell", "", ""]


def test_a_narrower_screen_cuts_it_and_a_wider_one_shows_it_again() -> None:
    made = terminal(20, 4, SENT["sixel"])
    made.screen.resize(4, 4)
    assert [line[:4] for line in made.lines] == ["▀▀▀▀", "▀▀▀▀", "", ""]
    made.screen.resize(4, 20)
    assert made.lines == ["▀" * 6, "▀" * 6, "", ""]
    made.screen.resize(4, 4)
    made.feed("\x1b[H\x1b[K")
    made.screen.resize(4, 20)
    assert made.lines == ["", "▀" * 6, "", ""]


def test_in_a_region_at_the_bottom_it_scrolls_only_that() -> None:
    made = terminal(20, 4, "top\x1b[3;4r\x1b[4;1H", sixel(squares(2, 6)))
    assert made.lines == ["top", "", "▀▀", "▀▀"]
    assert terminal(20, 4, "\x1b[1;2r\x1b[4;1H", sixel(squares(2, 6))).lines == ["", "", "", "▀▀"]


# Kitty's commands


def test_a_kept_picture_is_put_where_the_program_wants_it_and_deleted_by_its_number() -> None:
    made = terminal(20, 4, kitty("a=t,f=100,i=7", png_of(PICTURE)), kitty("a=T,f=100,i=8", png_of(PICTURE)))
    made.feed("\x1b[3;1H", kitty("a=p,i=7,c=2,r=1"), "x", kitty("a=p,i=9"))
    assert made.lines == ["▀" * 6, "▀" * 6, "▀▀x", ""]
    made.feed(kitty("a=d,d=i,i=8"))
    assert made.lines == ["", "", "▀▀x", ""]
    made.feed(kitty("a=d"), kitty("a=d,d=I,i=7"), kitty("a=p,i=7"))
    assert made.lines == ["", "", "  x", ""]
    told = ["i=7;OK", "i=8;OK", "i=7;OK", "i=9;ENOENT:no such picture", "i=7;ENOENT:no such picture"]
    assert made.replies == [f"\x1b_G{words}\x1b\\" for words in told]


def test_questions_are_answered_as_terminals_do() -> None:
    made = terminal(80, 24, "\x1b[c", "\x1b[14t\x1b[16t", "\x1b[?1;1S\x1b[?2;1;0S\x1b[?3;1S")
    assert made.replies == [
        *("\x1b[?62;4;22c", "\x1b[4;480;800t", "\x1b[6;20;10t"),
        *("\x1b[?1;0;256S", "\x1b[?2;0;800;480S", "\x1b[?3;1S"),
    ]
    made = terminal(20, 5, kitty("i=31,s=1,v=1,a=q,t=d,f=24", b"abc"))
    assert made.replies == ["\x1b_Gi=31;OK\x1b\\"]
    assert made.lines == [""] * 5


@pytest.mark.parametrize("quiet", [0, 1, 2])
def test_a_program_is_told_no_more_than_it_wants_to_hear(quiet: int) -> None:
    made = terminal(20, 5, kitty(f"a=t,f=24,s=1,v=1,i=1,q={quiet}", b"abc"), kitty(f"a=p,i=2,q={quiet}"))
    assert len(made.replies) == 2 - quiet
    assert terminal(20, 5, kitty("a=T,f=24,s=1,v=1", b"abc")).replies == []


@pytest.mark.parametrize("medium", ["f", "t", "s"])
def test_no_file_is_opened_for_a_program(tmp_path: Path, medium: str) -> None:
    picture = tmp_path / "tty-graphics-protocol-1.png"
    picture.write_bytes(png_of(PICTURE))
    made = terminal(80, 5, kitty(f"a=T,f=100,i=1,t={medium}", bytes(picture)), kitty(f"a=q,i=2,t={medium}", b"/x"))
    assert made.lines[0] == "[picture: files and shared memory are not read, send the pixels]"
    assert all("EINVAL" in reply for reply in made.replies) and len(made.replies) == 2
    assert picture.exists()  # t=t asks for its removal, too


# What is no picture, or too much of one


def oversized_png(width: int, height: int) -> bytes:
    return png(width, 1, b"\0" * 9)[:16] + width.to_bytes(4) + height.to_bytes(4) + png(1, 1, b"\0" * 3)[24:]


BAD = {
    "a sixel of 1e9 x 1e9": (b'\x1bPq"1;1;1000000000;1000000000#1~\x1b\\', "too large"),
    "a sixel that repeats without end": (b"\x1bPq" + b"!99999~" * 9 + b"\x1b\\", "too wide"),
    "a sixel of line ends": (b"\x1bPq" + b"-" * 100_000 + b"\x1b\\", "too large"),
    "a sixel of lines": (b"\x1bPq" + b"#1!4000~-" * 2_000 + b"\x1b\\", "too large"),
    "an empty sixel": (b"\x1bPq\x1b\\", "no pixels"),
    "a sixel of garbage": (b'\x1bPq\x07\x7f 12;;;###$$$;9;""!!!\x1b\\', "no pixels"),
    "a sixel that is cut short": (sixel(PICTURE)[:-20] + b"\x1b[m", "cut short"),
    "a PNG of 1e9 x 1e9": (kitty("a=T,f=100", oversized_png(10**9, 10**9)), "too large"),
    "a PNG with too few pixels": (kitty("a=T,f=100", png(60, 60, b"\0" * 180)), "damaged PNG"),
    "a PNG that is cut": (kitty("a=T,f=100", png_of(PICTURE)[:60]), "damaged PNG"),
    "no PNG": (kitty("a=T,f=100", b"GIF89a"), "not a PNG"),
    "base64 that is none": (b"\x1b_Ga=T,f=100;!!!!\x1b\\", "damaged base64"),
    "pixels of 1e9 x 1e9": (kitty("a=T,s=1000000000,v=1000000000", b"1234"), "too large"),
    "fewer pixels than said": (kitty("a=T,s=9,v=9", b"1234"), "fewer pixels"),
    "a bomb": (kitty("a=T,s=10,v=10,o=z", zlib.compress(bytes(50_000_000))), "unpacks to more"),
    "a bomb in a bomb": (kitty("a=T,f=100,o=z", zlib.compress(bytes(50_000_000))), "unpacks to more"),
    "compressed garbage": (kitty("a=T,s=10,v=10,o=z", b"garbage"), "damaged zlib"),
    "an unknown format": (kitty("a=T,s=1,v=1,f=7", b"garbage"), "format not known"),
    "a placeholder": (kitty("a=T,f=100,U=1", png_of(PICTURE)), "placeholders"),
    "a part outside": (kitty("a=T,f=100,x=999", png_of(PICTURE)), "no pixels asked for"),
    "frames": (kitty("a=f,i=1", b"x"), ""),
    "a JPEG": (iterm(b"\xff\xd8\xff\xe0"), "JPEG cannot be drawn here, PNG can"),
    "a file of nothing": (b"\x1b]1337;File=inline=1:\x07", "cannot be drawn"),
    "a download": (iterm(png_of(PICTURE), "name=x"), ""),
    "a picture of more than 8 MB": (b"\x1bPq" + b"~" * (MAX_PICTURE + 1) + b"\x1b\\", "larger than 8 MB"),
    "pieces of more than 8 MB": (kitty("a=T,s=1,v=1", bytes(MAX_PICTURE)), "larger than 8 MB"),
}


@pytest.mark.parametrize(("sent", "reason"), BAD.values(), ids=BAD.keys())
def test_what_cannot_be_drawn_leaves_words_of_ours_and_nothing_else(sent: bytes, reason: str) -> None:
    made = terminal(100, 3, sent, "\r\nafter")
    shown = made.lines[0]
    assert shown.startswith("[picture: ") and shown.endswith("]") and reason in shown if reason else "▀" not in shown
    assert made.lines[1:] == ["after", ""]
    assert made.feed("\x1b[3;1H", SENT["sixel"]).lines[-1] == "▀" * 6


def test_a_picture_without_an_end_keeps_no_more_than_its_bound() -> None:
    engine = TerminalEngine(80, 24)
    tracemalloc.start()
    try:
        for start in (b"\x1bPq", b"\x1b_Ga=T;", b"\x1b]1337;File=inline=1:"):
            engine.feed(start)
            for _ in range(20):
                engine.feed(b"A" * 1_000_000)
            engine.feed(b"\x18")
        kept, needed = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
    assert needed < 3 * MAX_PICTURE
    assert engine.screen.display[0].startswith("[picture: larger than 8 MB]" * 2)


def test_programs_can_keep_only_so_many_pictures() -> None:
    made = terminal(20, 5)
    wide = zlib.compress(bytes(4 * 1_000_000))
    for number in range(1, 9):
        made.feed(kitty(f"a=t,s=1000,v=1000,o=z,i={number}", wide))
    made.replies.clear()
    for number in range(1, 9):
        made.feed(kitty(f"a=p,i={number}"))
    kept = [reply for reply in made.replies if ";OK" in reply]
    assert len(kept) == MAX_STORED // 4_000_000


def test_of_many_pictures_the_oldest_become_blank() -> None:
    columns, lines = 200, 20
    made = terminal(columns, lines, scrollback=10_000)
    made.feed(kitty("a=t,f=24,s=2,v=2,i=1", bytes(range(12))))
    for _ in range(2 * MAX_CELLS // (columns * lines)):
        made.feed(kitty(f"a=p,i=1,c={columns},r={lines}"), "\r\n")
    drawn = [line for line in (*made.scrolled_back(), *made.lines) if "▀" in line]
    assert len(drawn) * columns <= MAX_CELLS
    assert made.lines[0] == "▀" * columns
    made.feed("\x1b[H")
    for _ in range(2 * MAX_CELLS // (columns * lines)):  # one over the other, as films are shown
        made.feed(kitty(f"a=p,i=1,c={columns},r={lines}"), "\x1b[H")
    assert made.lines[0] == "▀" * columns


def test_the_largest_picture_is_drawn_in_few_lines() -> None:
    side = int(MAX_PIXELS**0.5)
    made = terminal(80, 24, kitty(f"a=T,f=24,s={side},v={side},o=z", zlib.compress(bytes(3 * side * side))))
    assert made.screen.scrolled == 80 // 2 - 24


def test_while_a_picture_is_decoded_others_have_the_screen() -> None:
    engine = TerminalEngine(80, 24)
    free: list[bool] = []
    unlocked = engine.screen.pictures.unlocked

    def ask() -> None:
        free.append(engine.lock.acquire(blocking=False))
        if free[-1]:
            engine.lock.release()

    class Asking:
        def __enter__(self) -> None:
            self.inner = unlocked()
            self.inner.__enter__()
            other = threading.Thread(target=ask)
            other.start()
            other.join()

        def __exit__(self, *_: object) -> None:
            self.inner.__exit__(None, None, None)

    engine.screen.pictures.unlocked = Asking
    engine.feed(SENT["sixel"] + SENT["iTerm2"] + SENT["kitty, PNG"])
    assert free and all(free)
    assert engine.parse_errors == 0


def test_a_file_may_come_in_parts() -> None:
    whole = iterm(png_of(PICTURE)).partition(b":")[2][:-1]
    parts = [whole[at : at + 50] for at in range(0, len(whole), 50)]
    made = terminal(20, 5, "\x1b]1337;MultipartFile=inline=1\x07")
    for part in parts:
        made.feed(b"\x1b]1337;FilePart=" + part + b"\x07")
    assert made.lines[0] == ""
    assert made.feed("\x1b]1337;FileEnd\x07").lines[0] == "▀" * 6


def test_a_picture_of_many_colours_is_painted_in_several_frames_whatever_is_drawn_meanwhile() -> None:
    engine = TerminalEngine(60, 30)
    frame = ViewFrame(engine)
    frame.repaint(PALETTE, ViewState())
    picture = kitty("a=T,f=24,s=60,v=60,c=60,r=30,C=1", random.Random(5).randbytes(3 * 60 * 60))
    engine.feed(picture)
    painted: set[int] = set()
    for _ in range(30 * 60 // MAX_SEGMENTS + 1):
        changed = frame.update(ViewState())
        assert 0 < len(changed) * 60 <= MAX_SEGMENTS + 2 * 60
        painted |= changed
        engine.feed(picture)  # of a film the next picture
    assert painted == set(range(30))
