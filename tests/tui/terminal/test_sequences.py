"""What each sequence of a program does to the screen, above all those pyte gets wrong."""

from __future__ import annotations

import pytest

from ollm_tui.tui.terminal.emulator import cells, osc
from ollm_tui.tui.terminal.emulator.cells import RGB, CellStyle
from ollm_tui.tui.terminal.emulator.osc import BACKGROUND, FOREGROUND
from ollm_tui.tui.terminal.emulator.terminal_modes import MouseFormat, MouseReports
from tests.tui.terminal.screens import terminal


@pytest.mark.parametrize("mode", ["1049", "1047", "47"])
def test_leaving_the_alternate_screen_brings_back_what_was_there(mode: str) -> None:
    made = terminal(20, 4, "one\r\ntwo\r\n$ vim")
    made.feed(f"\x1b[?{mode}h\x1b[2J\x1b[Hfull screen\x1b[4;10Hx")
    assert made.lines[0] == "full screen"
    assert made.screen.alternate_screen
    made.feed(f"\x1b[?{mode}l")
    assert made.lines == ["one", "two", "$ vim", ""]
    assert not made.screen.alternate_screen


def test_mode_1049_saves_and_restores_the_cursor_and_starts_clear() -> None:
    made = terminal(20, 4, "\x1b[31m$ vim", "\x1b[?1049h")
    assert made.lines == ["", "", "", ""]
    made.feed("\x1b[4;15H\x1b[32m", "\x1b[?1049l")
    assert made.cursor == (0, 5)
    assert made.screen.cursor.style == CellStyle(fg=1)


@pytest.mark.parametrize(
    "between", ["\x1b[m", "\x1b[C\x1b[D", "\r\n", "\x07", "\x1b7", "\x1b]0;t\x07", "a\r\nb\r\nc\r\n"]
)
def test_rep_repeats_only_what_stands_right_before_it(between: str) -> None:
    made = terminal(10, 6, "x" + between + "\x1b[4b")
    assert "xx" not in "".join(made.lines)


def test_decsc_and_decrc_keep_the_pen_and_may_be_restored_twice() -> None:
    made = terminal(20, 4, "\x1b[2;3H\x1b[1;31m\x1b7\x1b[m\x1b[H\x1b8A\x1b8B")
    assert made.lines[1] == "  B"
    assert made.style(1, 2) == CellStyle(fg=1, flags=cells.BOLD)


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[?6n",
        "\x1b[?996n",
        "\x1b[?1r",
        "\x1b[?1s",
        "\x1b[4K",
        "\x1b[5J",
        "\x1b[22J",
        "\x1b[<u",
        "\x1b[=1;1u",
        "\x1b[>1u",
        "\x1b[?u",
        "\x1b[!p",
        '\x1b["q',
        "\x1b['}",
        "\x1b[*y",
        "\x1b[#{",
        "\x1b[&w",
        "\x1b[1;2;3$~",
        "\x1b F",
        "\x1b#3",
        "\x1b%G",
        "\x1b(B",
        "\x1b*0",
        "\x1b~",
        "\x1bP+q544e\x1b\\",
        "\x1bPq#0;2;0;0;0#0~~@@\x07vv$\x1b\\",
        "\x1bPtmux;\x1b\x1b]0;inner\x07\x1b\\",
        "\x1b_Gf=24,s=1;AAAA\x1b\\",
        "\x1b^private\x1b\\",
        "\x1bXstring\x1b\\",
        "\x1bkname\x1b\\",
        "\x1b]4;1;?\x07",
        "\x1b]9;note\x07",
        "\x1b]1337;File=x\x07",
        "\x1b]777;notify;a;b\x1b\\",
        "\x1b]104\x07",
        "\x1b]P0102030\x1b\\",
        "\x00\x01\x02\x03\x04\x05\x06\x10\x1a\x18\x7f",
        "\x9b31m",
        "\x90payload\x9c",
        "\x9d2;title\x9c",
    ],
)
def test_what_is_not_text_never_shows_as_text(sequence: str) -> None:
    assert terminal(20, 3, "a" + sequence + "b").lines == ["ab", "", ""]


@pytest.mark.parametrize(
    ("parameters", "style"),
    [
        ("38:2::1:2:3", CellStyle(fg=RGB | 0x010203)),
        ("38:2:1:2:3", CellStyle(fg=RGB | 0x010203)),
        ("48:5:200", CellStyle(bg=200)),
        ("38;5;200", CellStyle(fg=200)),
        ("1;38;2;9;8;7;4", CellStyle(fg=RGB | 0x090807, flags=cells.BOLD | cells.UNDERLINE)),
        ("38;2;300;0;0", CellStyle()),
        ("38;5", CellStyle()),
        ("4:3", CellStyle(flags=cells.UNDERLINE)),
        ("4:2", CellStyle(flags=cells.DOUBLE_UNDERLINE)),
        ("4;4:0", CellStyle()),
        ("58;5;1", CellStyle()),
        ("58;2;1;2;3", CellStyle()),
        ("58:2::1:2:3;3", CellStyle(flags=cells.ITALIC)),
        ("2;8", CellStyle(flags=cells.DIM | cells.HIDDEN)),
        ("1;2;22", CellStyle()),
        ("53;21", CellStyle(flags=cells.OVERLINE | cells.DOUBLE_UNDERLINE)),
        ("31;0;32", CellStyle(fg=2)),
        ("7;", CellStyle()),
        ("999;1:1", CellStyle()),
    ],
)
def test_sgr_forms(parameters: str, style: CellStyle) -> None:
    made = terminal(20, 1, f"\x1b[{parameters}mx")
    assert made.lines == ["x"]
    assert made.style(0, 0) == style


def test_the_sixteen_colours_are_numbers_0_to_15() -> None:
    codes = [*range(30, 38), *range(90, 98)]
    for number, code in enumerate(codes):
        assert terminal(5, 1, f"\x1b[{code};{code + 10}mx").style(0, 0) == CellStyle(fg=number, bg=number)


def test_device_attributes_and_status_are_answered_in_fixed_form() -> None:
    made = terminal(20, 5, "\x1b[2;4H\x1b[c\x1b[>c\x1b[=c\x1b[5n\x1b[6n\x1b[?6n\x1bZ\x1b[18t")
    assert made.replies == [
        "\x1b[?62;4;22c",
        "\x1b[>1;10;0c",
        "\x1b[0n",
        "\x1b[2;4R",
        "\x1b[?2;4;1R",
        "\x1b[?62;4;22c",
        "\x1b[8;5;20t",
    ]


def test_mode_queries_say_set_reset_or_unknown() -> None:
    made = terminal(20, 5, "\x1b[?2026$p\x1b[?2026h\x1b[?2026$p\x1b[?7$p\x1b[?31337$p\x1b[4$p")
    assert made.replies == [
        "\x1b[?2026;2$y",
        "\x1b[?2026;1$y",
        "\x1b[?7;1$y",
        "\x1b[?9999;0$y",
        "\x1b[4;2$y",
    ]


def test_nothing_a_program_wrote_is_ever_sent_back_to_it() -> None:
    made = terminal(20, 5, "\x1b]0;rm -rf ~\x07\x1b[21t\x1b[20t\x1bP$qm\x1b\\\x1bP+q544e\x1b\\")
    assert "rm" not in "".join(made.replies)
    assert made.replies == ["\x1bP1$r0m\x1b\\", "\x1bP0+r\x1b\\"]


def test_a_clipboard_read_is_never_answered_and_a_write_only_reported_where_allowed() -> None:
    made = terminal(20, 5, "\x1b]52;c;?\x07\x1b]52;c;aGVsbG8=\x07")
    assert made.replies == []
    assert made.events == []
    made.screen.allow_clipboard = True
    made.feed("\x1b]52;c;?\x07\x1b]52;c;aGVsbG8=\x07\x1b]52;c;@@\x07")
    assert made.replies == []
    assert made.events == [osc.ClipboardWrite("hello")]


def test_colour_queries_answer_the_colours_of_the_theme() -> None:
    made = terminal(20, 5)
    made.screen.colours.theme = {FOREGROUND: 0xFF0010, BACKGROUND: 0x010203}
    made.feed("\x1b]10;?\x07\x1b]11;?\x1b\\\x1b]11;#ffffff\x07")
    assert made.replies == ["\x1b]10;rgb:ffff/0000/1010\x1b\\", "\x1b]11;rgb:0101/0202/0303\x1b\\"]


def test_palette_queries_answer_what_is_set_else_the_themes_else_xterms() -> None:
    made = terminal(20, 5)
    made.screen.colours.theme = {1: 0xAA0000}
    made.feed("\x1b]4;1;?;2;#00ff00;2;?\x07\x1b]4;200;?\x07\x1b]4;999;?;x;?;-1;?\x07\x1b]104;2\x07\x1b]4;2;?\x07")
    specs = ("4;1;rgb:aaaa/0000/0000", "4;2;rgb:0000/ffff/0000", "4;200;rgb:ffff/0000/d7d7", "4;2;rgb:0000/cdcd/0000")
    assert made.replies == [f"\x1b]{spec}\x1b\\" for spec in specs]


def test_input_modes_follow_the_program() -> None:
    made = terminal(20, 5)
    assert made.screen.input_modes.alternate_scroll
    made.feed("\x1b[?1;1000;1006;2004;1004h\x1b=\x1b[20h")
    modes = made.screen.input_modes
    assert (modes.app_cursor, modes.bracketed_paste, modes.focus_reports) == (True, True, True)
    assert (modes.app_keypad, modes.newline) == (True, True)
    assert (modes.mouse, modes.mouse_format) == (MouseReports.BUTTONS, MouseFormat.SGR)
    made.feed("\x1b[?1003h")
    assert made.screen.input_modes.mouse is MouseReports.MOTION
    made.feed("\x1b[?1003;1006;1;2004;1004l\x1b>")
    modes = made.screen.input_modes
    assert (modes.mouse, modes.mouse_format) == (MouseReports.OFF, MouseFormat.LEGACY)
    assert not any((modes.app_cursor, modes.bracketed_paste, modes.focus_reports, modes.app_keypad))


def test_reset_and_soft_reset_give_back_a_usable_terminal() -> None:
    made = terminal(20, 3, "\x1b(0\x1b[?1;6;1000;2004h\x1b[2;3r\x1b[4h\x1b[?25l\x1b[7mjunk\x1b[!p\x1b[H\x1b[2Klqk")
    assert made.lines[0] == "lqk"
    assert not made.screen.cursor.hidden
    made.feed("\x1b[?1049h\x1b[?7lxx\x1bc")
    assert made.lines == ["", "", ""]
    assert made.cursor == (0, 0)
    assert made.screen.input_modes == terminal().screen.input_modes


def test_synchronised_output_is_noted() -> None:
    made = terminal(20, 5, "\x1b[?2026h")
    assert made.screen.synchronized_since is not None
    made.feed("\x1b[?2026l")
    assert made.screen.synchronized_since is None


def test_cursor_shape_is_kept() -> None:
    assert terminal(20, 5, "\x1b[5 q").screen.cursor_shape == 5
    assert terminal(20, 5, "\x1b[5 q\x1b[99 q").screen.cursor_shape == 5


def test_titles_are_cleaned_bounded_and_restored() -> None:
    made = terminal(20, 5, "\x1b]2;a\x1b\\\x1b[22;0t\x1b]0;[/b]\u202e\tx\x07")
    assert made.screen.title == "[/b]x"
    made.feed("\x1b[23;0t")
    assert made.screen.title == "a"
    made.feed("\x1b]2;" + "y" * 10_000 + "\x07")
    assert len(made.screen.title) == osc.MAX_TITLE
    assert [type(event) for event in made.events] == [osc.TitleSet] * 4


def test_shell_integration_reports_folder_boundaries_and_exit_codes() -> None:
    made = terminal(20, 5, "\x1b]7;file://box/home/ann/a%20b\x07\x1b]133;D;1\x07\x1b]133;A\x07$ \x1b]133;B\x07")
    made.feed("false\r\n\x1b]133;C;x=1\x07\x1b]133;D\x07\x1b]133;D;0;aid=3\x1b\\\x1b]7;http://x/\x07\x1b]133;Z\x07")
    assert made.events == [
        osc.DirectoryChanged("box", "/home/ann/a b"),
        osc.ShellMark(osc.MarkKind.END, 0, 1),
        osc.ShellMark(osc.MarkKind.PROMPT, 0),
        osc.ShellMark(osc.MarkKind.TYPING, 0),
        osc.ShellMark(osc.MarkKind.OUTPUT, 1),
        osc.ShellMark(osc.MarkKind.END, 1),
        osc.ShellMark(osc.MarkKind.END, 1, 0),
    ]


def test_hyperlinks_belong_to_cells_and_only_openable_schemes_count() -> None:
    made = terminal(20, 1, "\x1b]8;id=1;https://example.org/\x07ab\x1b[0mc\x1b]8;;\x07d\x1b]8;;javascript:x\x07e")
    links = [made.screen.links.uri(made.style(0, x).link) for x in range(5)]
    assert links == ["https://example.org/"] * 3 + [None, None]


def test_bell_is_reported() -> None:
    assert terminal(10, 1, "\x07").events == [osc.BellRang()]


def test_an_endless_string_is_swallowed_and_not_kept() -> None:
    made = terminal(20, 2)
    for _ in range(100):
        made.feed("\x1b]0;" if _ == 0 else "", "x" * 50_000)
    assert sum(map(len, made.stream.string_parts)) <= 262_144
    assert made.feed("\x07ok").lines == ["ok", ""]
    assert made.screen.title == ""


def test_an_endless_control_sequence_is_swallowed() -> None:
    assert terminal(20, 2, "\x1b[" + "1;" * 5_000, "3mok").lines == ["ok", ""]
    assert terminal(20, 2, *["\x1b[", *["1;" * 50] * 40, "mok"]).lines == ["ok", ""]


def test_save_cursor_without_restore_does_not_pile_up() -> None:
    assert terminal(20, 2, "\x1b7" * 5_000).screen.savepoints == []


def test_unknown_modes_are_not_stored() -> None:
    made = terminal(20, 2, *[f"\x1b[?{n}h\x1b[{n}h" for n in range(3_000, 6_000)])
    assert len(made.screen.mode) < 10


def test_a_flood_of_colours_links_and_clusters_stays_bounded() -> None:
    made = terminal(40, 4)
    made.feed("".join(f"\x1b[38;2;{n % 256};{n // 256};7mx" for n in range(20_000)))
    made.feed("".join(f"\x1b]8;;http://x/{n}\x07y" for n in range(6_000)))
    made.feed("".join("a" + chr(0x300 + n % 100) + chr(0x300 + n // 100) for n in range(10_000)))
    made.feed("a" + "\u0301" * 5_000)
    assert len(made.screen.memo) <= cells.MEMO_LIMIT
    assert len(made.screen.links.uris) <= osc.MAX_LINKS
    assert max(map(len, made.screen.clusters.texts)) <= 16
    assert len(made.screen.scrollback) <= 100
