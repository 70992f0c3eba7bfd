"""Whatever bytes come, however they are cut: no exception, bounded memory, the same screen."""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tui.terminal.recordings import PROGRAMS, raw
from tests.tui.terminal.screens import everything, terminal

FRAGMENTS = [
    *("\x1b[", "\x1b]0;t", "\x1bP", "\x1b_", "\x1bk", "\x1b(0", "\x1b(B", "\x0e", "\x0f", "\x1b\\", "\x07", "\r\n"),
    *(
        "\x1b[?1049h",
        "\x1b[?1049l",
        "\x1b[?47h",
        "\x1b[?47l",
        "abc",
        "hello world, this is long",
        "日本",
        "⚠️",
        "👨‍👩‍👧",
        "🇫🇷",
    ),
    *(
        "e\u0301",
        "\x9b",
        "\x90",
        "\x1b[31m",
        "\x1b[44m",
        "\x1b[0m",
        "\x1b[5;10H",
        "\x1b[2J",
        "\x1b[K",
        "\x1b[1K",
        "\x1b[1;5r",
    ),
    *(
        "\x1b[r",
        "\x1b[4h",
        "\x1b[4l",
        "\x1b[3L",
        "\x1b[2M",
        "\x1b[5@",
        "\x1b[3P",
        "\x1b[4X",
        "\x1b[99b",
        "\x1bM",
        "\t",
        "\x1b[Z",
    ),
    *(
        "\x1b[?7l",
        "\x1b[?7h",
        "\x1b[?6h",
        "\x1b7",
        "\x1b8",
        "\x1bc",
        "\x18",
        "\x1a",
        "\x1b",
        "\n",
        "\x08",
        "\x1b[S",
        "\x1b[2T",
    ),
    *(
        "a\r\nb\r\nc\r\n\x1b[32mgreen\r\n\r\nxx\r\n",
        "x" * 45 + "\r\nyy\r\nzz\r\n",
        "\x1b[3;",
        "4:3m",
        "\x1b#8",
        "\x1b[!p",
    ),
    *(
        "\u0301",
        "\u200d",
        "👩",
        "🏽",
        "\ufe0f",
        "é日e\u0301x",
        "नमस्ते",
        "สวัสดี → ∀ ✔",
        "\u1100\u1161",
        "\u25b6\u200d\u25b6",
        "\U00100005",
        "a\u202eb\u00ad",
        "👩\u200d",
    ),
    *(
        "\x1b[41mab\x1b[m\x1b[7mc",
        "\x1b[38;5;9mX\x1b[48;2;1;2;3mabcdefghij\x1b[0md",
        "\x1b[?2027h",
        "\x1b[3;9s",
        "\x1b[?69h",
    ),
    *("\x1b]8;;http://a/\x07", "\x1b]133;A\x07", "\x1b]11;?\x07", "\x1b[6n", "\x1b[" + "1;" * 140, "\x1b[?1000;1006h"),
]
pieces = st.one_of(
    st.sampled_from(FRAGMENTS).map(str.encode),
    st.binary(max_size=12),
    st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace")),
    st.from_regex(r"\A\x1b\[[0-?]{0,6}[ -/]{0,2}[@-~]\Z").map(str.encode),
)
streams = st.lists(pieces, max_size=40).map(b"".join)


@settings(max_examples=100, deadline=None)
@given(data=streams, cuts=st.lists(st.integers(1, 7), min_size=1, max_size=20))
@example(data=b"\x1b[\n\x1b[3\x1b]0;a\x1b", cuts=[1])
def test_the_way_a_stream_is_cut_never_matters(data: bytes, cuts: list[int]) -> None:
    whole = terminal(20, 6, data, scrollback=50)
    cut = terminal(20, 6, scrollback=50)
    position = turn = 0
    while position < len(data):
        size = cuts[turn % len(cuts)]
        cut.feed(data[position : position + size])
        position += size
        turn += 1
    assert everything(cut) == everything(whole)


@settings(max_examples=100, deadline=None)
@given(
    data=streams,
    sizes=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 40)), max_size=4),
    more=streams,
)
def test_any_stream_at_any_size_leaves_whole_rows(data: bytes, sizes: list[tuple[int, int]], more: bytes) -> None:
    made = terminal(20, 6, data, scrollback=50)
    for lines, columns in sizes:
        made.screen.resize(lines, columns)
        made.feed(more)
        screen = made.screen
        assert (screen.lines, screen.columns) == (lines, columns)
        assert len(screen.rows) == len(screen.display) == lines
        assert 0 <= screen.cursor.y < lines
        assert 0 <= screen.cursor.x <= columns
        assert len(screen.scrollback) <= 50
        for row in screen.rows:
            assert len(row.text) <= columns
            assert row.styles is None or len(row.styles) == len(row.text)
            assert row.spans is None or row.spans[-1][0] == len(row.text)


def test_ten_thousand_mutated_recordings_raise_nothing() -> None:
    seed = random.Random(20_260)
    sources = [raw(name) for name in PROGRAMS]
    made = terminal(80, 24)
    for number in range(10_000):
        source = seed.choice(sources)
        start = seed.randrange(max(1, len(source) - 150))
        data = bytearray(source[start : start + 150])
        for _ in range(seed.randint(1, 8)):
            data[seed.randrange(len(data))] = seed.choice(
                (0x1B, 0x5B, 0x9B, 0x3B, 0x3F, 0xC2, 0xFF, seed.randrange(256))
            )
        made.feed(bytes(data))
        if number % 500 == 0:
            made.screen.resize(seed.randint(1, 40), seed.randint(1, 120))
    made.feed("\x18\x1b\\\x1bc\x1b[?1049lusable")
    assert made.lines[0] == "usable"
    assert len(made.screen.scrollback) <= 100
