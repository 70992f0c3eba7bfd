"""Keys as they were typed: split from reports and pastes wherever reads cut them, and sent in the form asked for."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

from ollm_tui.tui.terminal import raw_keys
from ollm_tui.tui.terminal.emulator.terminal_modes import InputModes
from ollm_tui.tui.terminal.keys_mouse_paste import encode_raw_key
from ollm_tui.tui.terminal.raw_keys import (
    PASTE_END,
    PASTE_START,
    KeySplitter,
    PasteReader,
    RawKey,
    VersionAnswer,
    keys_of,
)
from tests.tui.terminal.screens import terminal
from tests.tui.terminal.test_terminal_view import SIZE, host

KEYS = [
    b"a", "é".encode(), "👍".encode(), b"\x00", b"\x7f", b"\x1b:", b"\x1bb", "\x1bé".encode(), b"\x1b[A", b"\x1bOP",
    b"\x1b[1;5A", b"\x1b[19~", b"\x1b[[A", b"\x1b[97;;97u", b"\x1b[27;5;13~", b"\x1b[Z", b"\xff",
]  # fmt: skip
REPORTS = [
    b"\x1b[<35;10;4M", b"\x1b[<0;1;1m", b"\x1b[M !!", b"\x1b[I", b"\x1b[O", b"\x1b[?62;4;22c", b"\x1b[?2026;2$y",
    b"\x1b[?1u", b"\x1b[48;24;80;480;640t", b"\x1b]11;rgb:0000/0000/0000\x1b\\", b"\x1bP>|foot(1.16)\x1b\\",
    PASTE_START + b"y\x1b[A\x1b[201\n" + PASTE_END,
]  # fmt: skip


def split(*reads: bytes) -> list[tuple[bytes, bool]]:
    """The parts of some reads, neighbours that are no keys joined."""
    splitter = KeySplitter()
    parts: list[tuple[bytes, bool]] = []
    for read in reads:
        for data, is_key in splitter.feed(read):
            if parts and not is_key and not parts[-1][1]:
                parts[-1] = (parts[-1][0] + data, False)
            else:
                parts.append((data, is_key))
    assert splitter.cut == b""
    return parts


INTRODUCERS = (b"\x1b]", b"\x1bP", b"\x1b_", b"\x1b^", b"\x1bX")


@given(st.lists(st.sampled_from(KEYS + REPORTS), max_size=12), st.lists(st.integers(0, 300), max_size=8))
def test_keys_and_reports_are_told_apart_wherever_reads_cut_them(typed: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(typed)
    # behind its first two bytes alone a report cannot be told from alt and a key
    fair = [cut for cut in cuts if cut < len(whole) and whole[cut - 2 : cut] not in INTRODUCERS]
    edges = [0, *sorted(fair), len(whole)]
    parts = split(*(whole[start:end] for start, end in pairwise(edges)))
    assert b"".join(data for data, _ in parts) == whole
    assert [data for data, is_key in parts if is_key] == [one for one in typed if one in KEYS]


@given(st.lists(st.binary(max_size=20), max_size=6))
def test_no_byte_is_lost_whatever_is_typed(reads: list[bytes]) -> None:
    splitter = KeySplitter()
    parts = [part.data for read in reads for part in splitter.feed(read)]
    assert b"".join(parts) + splitter.cut == b"".join(reads)


def test_escape_waits_for_the_next_read_and_goes_alone_when_none_comes() -> None:
    splitter = KeySplitter()
    assert [*splitter.feed(b"\x1b")] == []
    assert splitter.flush() == b"\x1b"
    assert [part.data for part in splitter.feed(b":")] == [b":"]


@given(st.lists(st.sampled_from(KEYS), max_size=4), st.lists(st.sampled_from(KEYS), max_size=4), st.data())
def test_the_terminals_version_is_taken_out_of_what_is_typed_wherever_reads_cut_it(
    before: list[bytes], after: list[bytes], data: st.DataObject
) -> None:
    typed = b"".join([*before, b"\x1bP>|kitty(0.41.1)\x1b\\", *after])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(typed)), max_size=4)))
    answer = VersionAnswer()
    answer.expect()
    versions: list[str] = []
    rest = b""
    for start, end in pairwise([0, *cuts, len(typed)]):
        if start < end:
            part, version = answer.take(typed[start:end])
            rest += part
            versions += [version] if version is not None else []
    rest += answer.take(b"")[0]
    assert (rest, versions) == (b"".join(before + after), ["kitty(0.41.1)"])


def test_a_version_that_was_not_asked_for_or_comes_too_late_is_input(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = b"\x1bP>|kitty(0.41.1)\x1b\\"
    answer = VersionAnswer()
    assert answer.take(typed) == (typed, None)
    answer.expect()
    assert answer.take(b"\x1b") == (b"", None)
    assert answer.take(b"") == (b"\x1b", None)  # Esc alone
    now = raw_keys.time.monotonic()
    monkeypatch.setattr(raw_keys.time, "monotonic", lambda: now + raw_keys.ANSWER_SECONDS + 1)
    assert answer.take(typed[:5]) == (typed[:5], None)


def test_a_paste_that_begins_before_the_program_has_the_focus_stays_one() -> None:
    splitter = KeySplitter()
    assert splitter.pass_by(b"\x1b[20") + splitter.pass_by(b"0~first") == PASTE_START + b"first"
    assert [*splitter.feed(b" rest")] == [(b" rest", False)]
    assert splitter.pass_by(b" more" + PASTE_END) == b" more" + PASTE_END
    assert [*splitter.feed(b"k")] == [(b"k", True)]


@pytest.mark.parametrize("typed", [b"\x1d", b"\x1b[93;5u", b"\x1b[27;5;93~"])
def test_the_leave_key_is_known_in_every_spelling(typed: bytes) -> None:
    assert [(key.key, key.raw) for key in keys_of(typed)] == [("ctrl+right_square_bracket", typed)]


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        (b"\x1b[19~", ["f8"]),
        (b"\x1b[19;1~", ["f8"]),
        (b"\x1b", ["escape"]),
        (b"\x1b:", ["alt+colon"]),
        (b"\x1b[", ["alt+left_square_bracket"]),
        (b"\x1b[999;999X", ["<ignore>"]),
        (b"\x1b[97;;97:98u", ["a", "b"]),
    ],
)
def test_a_key_has_a_name_and_its_bytes_once(typed: bytes, names: list[str]) -> None:
    assert [key.key for key in keys_of(typed)] == names
    assert b"".join(key.raw for key in keys_of(typed)) == typed


def sent(typed: bytes, **modes: int) -> bytes:
    asked = InputModes(**modes)  # type: ignore[arg-type]  # modes by name
    return b"".join(encode_raw_key(key.raw, key.key, key.character, asked) for key in keys_of(typed) if key.raw)


@pytest.mark.parametrize(
    ("typed", "plain", "disambiguated", "all_keys", "with_text"),
    [
        (b"\x1b[97;;97u", b"a", b"a", b"\x1b[97u", b"\x1b[97;1;97u"),
        (b"\x1b[97;2;65u", b"A", b"A", b"\x1b[97;2u", b"\x1b[97;2;65u"),
        (b"\x1b[97;65;65u", b"A", b"A", b"\x1b[97u", b"\x1b[97;1;65u"),
        (b"\x1b[97;5u", b"\x01", b"\x1b[97;5u", b"\x1b[97;5u", b"\x1b[97;5u"),
        (b"\x1b[98;3u", b"\x1bb", b"\x1b[98;3u", b"\x1b[98;3u", b"\x1b[98;3u"),
        (b"\x1b[27u", b"\x1b", b"\x1b[27u", b"\x1b[27u", b"\x1b[27u"),
        (b"\x1b[13u", b"\r", b"\r", b"\x1b[13u", b"\x1b[13u"),
        (b"\x1b[13;2u", b"\r", b"\x1b[13;2u", b"\x1b[13;2u", b"\x1b[13;2u"),
        (b"\x1b[127u", b"\x7f", b"\x7f", b"\x1b[127u", b"\x1b[127u"),
        (b"\x1b[57441;2u", b"", b"", b"\x1b[57441;2u", b"\x1b[57441;2u"),
        (b"\x1b[1;5A", b"\x1b[1;5A", b"\x1b[1;5A", b"\x1b[1;5A", b"\x1b[1;5A"),
    ],
)
def test_kittys_keys_go_out_as_the_program_asked(
    typed: bytes, plain: bytes, disambiguated: bytes, all_keys: bytes, with_text: bytes
) -> None:
    assert sent(typed) == plain
    assert sent(typed, keyboard_flags=1) == disambiguated
    assert sent(typed, keyboard_flags=9) == all_keys
    assert sent(typed, keyboard_flags=25) == with_text


def test_modify_other_keys_is_served_from_kittys_protocol() -> None:
    assert sent(b"\x1b[13;5u", modify_keys=1) == b"\x1b[27;5;13~"
    assert sent(b"\x1b[97;5u", modify_keys=1) == b"\x01"
    assert sent(b"\x1b[97;5u", modify_keys=2) == b"\x1b[27;5;97~"
    assert sent(b"\x1b[97;;97u", modify_keys=2) == b"a"


def test_cursor_keys_follow_the_programs_mode_and_all_else_is_as_typed() -> None:
    assert sent(b"\x1b[A", app_cursor=True) == b"\x1bOA"
    assert sent(b"\x1bOA") == b"\x1b[A"
    assert sent(b"\x1b[1~", app_cursor=True) == b"\x1b[1~"
    assert sent(b"\r", newline=True) == b"\r\n"
    assert sent(b"\x08") == b"\x08"
    assert sent(b"\xff") == b"\xff"


def test_a_program_learns_of_kittys_protocol_only_where_the_outer_terminal_has_it() -> None:
    made = terminal(10, 2, "\x1b[?u\x1b[>27u")
    assert made.replies == []
    assert made.screen.input_modes.keyboard_flags == 25, "event types and other layouts are not passed on"
    made.screen.keyboard_protocol = True
    made.feed("\x1b[?u\x1b[=2;3u\x1b[=8;3u\x1b[?u\x1b[<u\x1b[?u")
    assert made.replies == ["\x1b[?25u", "\x1b[?17u", "\x1b[?0u"]
    made.feed("\x1b[>1u\x1b[?1049h\x1b[?u\x1b[>9u\x1b[?1049l\x1b[?u\x1bc\x1b[?u")
    assert made.replies[3:] == ["\x1b[?0u", "\x1b[?1u", "\x1b[?0u"]
    made.feed("\x1b[<9u", "\x1b[>1u" * 1_000, "\x1b[<15u\x1b[?u\x1b[<u\x1b[?u")
    assert made.replies[-2:] == ["\x1b[?1u", "\x1b[?0u"]


def test_a_program_asks_for_modified_keys_and_takes_that_back() -> None:
    made = terminal(10, 2, "\x1b[>4;2mx")
    assert (made.screen.input_modes.modify_keys, made.style(0, 0).flags) == (2, 0)
    assert made.feed("\x1b[>4m").screen.input_modes.modify_keys == 0


async def test_the_view_sends_typed_bytes_and_notes_an_outer_terminal_with_kittys_protocol() -> None:
    app = host()
    async with app.run_test(size=SIZE) as pilot:
        app.view.focus()
        await pilot.pause()
        app.sent()
        app.view.post_message(RawKey("ctrl+left", None, b"\x1bb"))
        app.view.post_message(RawKey("alt+colon", None, b"\x1b:"))
        await pilot.pause()
        assert app.sent() == b"\x1bb\x1b:"
        assert not app.view.engine.screen.keyboard_protocol
        for key in keys_of(b"\x1b[97;;97:98u"):
            app.view.post_message(key)
        await pilot.pause()
        assert app.sent() == b"ab"
        assert app.view.engine.screen.keyboard_protocol


@pytest.mark.parametrize("size", [1, 2, 5, 7, 1_000])
def test_pastes_come_whole_and_in_their_place_among_keys_wherever_reads_cut_them(size: int) -> None:
    typed = "a\x1b[200~漢字\n\0z\x1b[201~b\x1b[200~\x1b[201~\x1b[A\x1b[200~x\x1b[201~"
    reads = [typed[at : at + size] for at in range(0, len(typed), size)]
    pastes = PasteReader(XTermParser())
    found = [event for read in reads for event in pastes.feed(read)]
    told = [event.text if isinstance(event, events.Paste) else getattr(event, "key", "") for event in found]
    assert told == ["a", "漢字\nz", "b", "", "up", "x"]


def test_a_paste_brings_no_escape_sequences() -> None:
    (event,) = PasteReader(XTermParser()).feed("\x1b[200~a\x1b[201\x1b]52;c;eA==\x07b\x1b[201~")
    assert isinstance(event, events.Paste)
    assert "\x1b" not in event.text
    assert event.text[0] + event.text[-1] == "ab"


def test_a_paste_does_not_wait_for_its_text_to_go_through_the_parser() -> None:
    class Counting(XTermParser):
        fed = 0

        def feed(self, data: str) -> Iterable[Message]:
            self.fed += len(data)
            return super().feed(data)

    parser = Counting()
    pasted = "漢" * 100_000
    (event,) = PasteReader(parser).feed(f"\x1b[200~{pasted}\x1b[201~")
    assert isinstance(event, events.Paste)
    assert event.text == pasted
    assert parser.fed == len(PASTE_START + PASTE_END)
