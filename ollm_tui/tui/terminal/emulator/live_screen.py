"""The whole screen: its control functions by name, answers to queries, and reports (xterm ctlseqs)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from pyte import modes as mo

from ollm_tui.core.shell.pty_process import CELL_HEIGHT, CELL_WIDTH
from ollm_tui.tui.terminal.emulator import osc
from ollm_tui.tui.terminal.emulator.cells import PROTECTED, STUB, CellStyle, canonical, sgr_of
from ollm_tui.tui.terminal.emulator.inline_pictures import InlinePictures, is_picture
from ollm_tui.tui.terminal.emulator.osc import Colours
from ollm_tui.tui.terminal.emulator.scrollback import SCROLLBACK_LINES
from ollm_tui.tui.terminal.emulator.terminal_modes import ANSI_MODES, PRIVATE_MODES, ModesScreen

TERMINAL_VERSION = "ollm-tui"
MAX_TITLES = 10
"""Titles a program may push (CSI 22 t)."""

CONTROLS = {
    "\x07": "bell",
    "\x08": "backspace",
    "\t": "tab",
    "\n": "linefeed",
    "\x0b": "linefeed",
    "\x0c": "linefeed",
    "\r": "carriage_return",
    "\x0e": "shift_out",
    "\x0f": "shift_in",
}
"""C0 controls; the others are ignored."""

ESCAPES = {
    "7": "save_cursor",
    "8": "restore_cursor",
    "D": "index",
    "E": "next_line",
    "H": "set_tab_stop",
    "M": "reverse_index",
    "Z": "report_device_attributes",
    "c": "reset",
    "=": "keypad_application",
    ">": "keypad_numeric",
    "#8": "alignment_display",
    "6": "back_index",
    "9": "forward_index",
}
"""Escape sequences by intermediates and final byte; `ESC (` and `ESC )` are handled by the stream."""

SEQUENCES: dict[str, tuple[str, int]] = {
    "@": ("insert_characters", 1),
    "A": ("cursor_up", 1),
    "B": ("cursor_down", 1),
    "C": ("cursor_forward", 1),
    "D": ("cursor_back", 1),
    "E": ("cursor_down1", 1),
    "F": ("cursor_up1", 1),
    "G": ("cursor_to_column", 1),
    "H": ("cursor_position", 2),
    "I": ("tab", 1),
    "J": ("erase_in_display", 1),
    "K": ("erase_in_line", 1),
    "L": ("insert_lines", 1),
    "M": ("delete_lines", 1),
    "P": ("delete_characters", 1),
    "S": ("scroll_up", 1),
    "T": ("scroll_down", 1),
    "X": ("erase_characters", 1),
    "Z": ("back_tab", 1),
    "`": ("cursor_to_column", 1),
    "a": ("column_relative", 1),
    "b": ("repeat", 1),
    "c": ("report_device_attributes", 1),
    "d": ("cursor_to_line", 1),
    "e": ("line_relative", 1),
    "f": ("cursor_position", 2),
    "g": ("clear_tab_stop", 1),
    "h": ("set_mode", 16),
    "j": ("cursor_back", 1),
    "l": ("reset_mode", 16),
    "n": ("report_device_status", 1),
    "r": ("set_margins", 2),
    "s": ("set_sides", 2),
    "t": ("window_operation", 3),
    "u": ("restore_cursor", 0),
    "!p": ("soft_reset", 0),
    " @": ("scroll_left", 1),
    " A": ("scroll_right", 1),
    " q": ("set_cursor_shape", 1),
    "'}": ("insert_columns", 1),
    "'~": ("delete_columns", 1),
    "$r": ("change_attributes", 16),
    "$t": ("reverse_attributes", 16),
    "$v": ("copy_rectangle", 8),
    "$x": ("fill_rectangle", 5),
    "$z": ("erase_rectangle", 4),
    "${": ("erase_rectangle_unprotected", 4),
    "*x": ("set_change_extent", 1),
    "*y": ("report_checksum", 1),
    '"q': ("set_protection", 1),
    "$p": ("report_mode", 1),
    ">c": ("report_secondary_attributes", 1),
    ">m": ("modify_keys", 2),
    ">q": ("report_version", 1),
    ">u": ("push_keyboard", 1),
    "<u": ("pop_keyboard", 1),
    "=u": ("set_keyboard", 2),
    "?J": ("erase_in_display", 1),
    "?K": ("erase_in_line", 1),
    "?h": ("set_mode", 16),
    "?l": ("reset_mode", 16),
    "?n": ("report_device_status", 1),
    "?S": ("report_graphics", 1),
    "?u": ("report_keyboard", 0),
    "?$p": ("report_mode", 1),
}
"""Control sequences by private prefix, intermediates and final byte: method and number of parameters.

The stream handles SGR itself. Methods of sequences with a `?` are called with `private=True`.
"""


class LiveScreen(ModesScreen):
    """A screen with a bounded scrollback that answers a program's queries.

    `on_reply` gets the answers (of fixed form: nothing a program wrote is ever sent back), `on_event` its reports; both
    are called in the thread that feeds the stream. The clipboard can be written only when `allow_clipboard` is set;
    clipboard and title are never read out.
    """

    def __init__(self, columns: int, lines: int, scrollback_lines: int = SCROLLBACK_LINES) -> None:
        self.on_reply: Callable[[str], None] | None = None
        self.on_event: Callable[[osc.TerminalEvent], None] | None = None
        self.allow_clipboard = False
        self.keyboard_protocol = False
        """Whether the outer terminal has kitty's keyboard protocol."""
        self.colours = Colours()
        self.links = osc.LinkTable()
        self._titles: deque[str] = deque(maxlen=MAX_TITLES)
        self.pictures = InlinePictures(self, self.write_process_input)
        super().__init__(columns, lines, scrollback_lines)

    def reset(self) -> None:
        """RIS: the state at power-up; the scrollback stays."""
        super().reset()
        self.pictures.reset()
        self.colours.own.clear()

    # Reports

    def write_process_input(self, data: str) -> None:
        """Send an answer to the program."""
        if self.on_reply is not None:
            self.on_reply(data)

    def report_device_attributes(self, mode: int = 0, **kwargs: bool) -> None:
        """Answer DA1: a VT220 with sixel and colour."""
        if mode == 0 and not kwargs.get("private"):
            self.write_process_input("\x1b[?62;4;22c")

    def report_secondary_attributes(self, mode: int = 0) -> None:
        """Answer DA2."""
        if mode == 0:
            self.write_process_input("\x1b[>1;10;0c")

    def report_version(self, mode: int = 0) -> None:
        """Answer XTVERSION."""
        if mode == 0:
            self.write_process_input(f"\x1bP>|{TERMINAL_VERSION}\x1b\\")

    def report_device_status(self, mode: int = 0, private: bool = False) -> None:
        """Answer DSR 5 (status), DSR 6 and DECXCPR (cursor)."""
        if mode == 5 and not private:
            self.write_process_input("\x1b[0n")
        elif mode == 6:
            line, column = self.cursor.y + 1, min(self.cursor.x, self.columns - 1) + 1
            if mo.DECOM in self.mode:
                line = max(1, line - self.region()[0])
                column = max(1, column - self.side_edges()[0])
            self.write_process_input(f"\x1b[?{line};{column};1R" if private else f"\x1b[{line};{column}R")

    def report_mode(self, number: int = 0, private: bool = False) -> None:
        """Answer DECRQM: 1 set, 2 reset, 0 not known."""
        known = number in (PRIVATE_MODES if private else ANSI_MODES)
        is_set = (number << 5 if private else number) in self.mode
        state = (1 if is_set else 2) if known else 0
        self.write_process_input(f"\x1b[{'?' if private else ''}{number};{state}$y")

    def report_checksum(self, request: int = 0) -> None:
        """Answer DECRQCRA with zero, as VTE does: a real checksum would read the screen out, cell by cell."""
        self.write_process_input(f"\x1bP{request}!~0000\x1b\\")

    def report_keyboard(self, private: bool = False) -> None:
        """Answer kitty's query; only where the outer terminal sends such keys."""
        if self.keyboard_protocol:
            self.write_process_input(f"\x1b[?{self.keyboard_flags}u")

    def report_graphics(self, item: int = 0, private: bool = False) -> None:
        """Answer XTSMGRAPHICS: sixel's colours (1) and largest size (2), whatever is to be set."""
        sizes = {1: "256", 2: f"{CELL_WIDTH * self.columns};{CELL_HEIGHT * self.lines}"}
        self.write_process_input(f"\x1b[?{item};0;{sizes[item]}S" if item in sizes else f"\x1b[?{item};1S")

    def window_operation(self, operation: int = 0, *_arguments: int) -> None:
        """Run XTWINOPS: report sizes (14, 16, 18), push or pop the title (22, 23)."""
        if operation == 14:
            self.write_process_input(f"\x1b[4;{CELL_HEIGHT * self.lines};{CELL_WIDTH * self.columns}t")
        elif operation == 16:
            self.write_process_input(f"\x1b[6;{CELL_HEIGHT};{CELL_WIDTH}t")
        elif operation == 18:
            self.write_process_input(f"\x1b[8;{self.lines};{self.columns}t")
        elif operation == 22:
            self._titles.append(self.title)
        elif operation == 23 and self._titles:
            self.set_title(self._titles.pop())

    def device_control(self, body: str) -> None:
        """Draw sixel, answer DECRQSS, and XTGETTCAP with "not known"; ignore others."""
        if is_picture("DCS", body[:64]):
            self.pictures.draw_sixel(body)
        elif body.startswith("+q"):
            self.write_process_input("\x1bP0+r\x1b\\")
        elif body.startswith("$q"):
            setting = self._setting(body[2:])
            self.write_process_input("\x1bP0$r\x1b\\" if setting is None else f"\x1bP1$r{setting}{body[2:]}\x1b\\")

    def _setting(self, name: str) -> str | None:
        """Return a setting by the end of the sequence that makes it (DECRQSS)."""
        match name:
            case "m":
                return sgr_of(self.cursor.style)
            case "r":
                return ";".join(str(edge + 1) for edge in self.region())
            case "s":
                return ";".join(str(edge + 1) for edge in self.side_edges())
            case " q":
                return str(self.cursor_shape)
            case '"p':
                return "62;1"
            case "t" | "*|":
                return str(self.lines)
            case "$|":
                return str(self.columns)
            case '"q':
                return str(int(bool(self.cursor.style.flags & PROTECTED)))
            case "*x":
                return "2" if self.changes_rectangles else "0"
            case _:
                return None

    # What a program reports

    def bell(self, *args: object) -> None:
        """Report BEL."""
        self._emit(osc.BellRang())

    def set_title(self, param: str) -> None:
        """Set the window title, cleaned, and report it."""
        title = osc.clean_title(param)
        if title != self.title:
            self.title = title
            self._emit(osc.TitleSet(title))

    def select_graphic_rendition(self, *attrs: int) -> None:
        """Apply SGR, given as pyte's screens take it: numbers."""
        self.cursor.style = self.memo.apply(self.cursor.style, ";".join(map(str, attrs)))

    def set_cursor_shape(self, shape: int = 0) -> None:
        """Set the cursor's shape (DECSCUSR)."""
        if 0 <= shape <= 6:
            self.cursor_shape = shape

    def operating_system_command(self, body: str) -> None:
        """Run an OSC; unknown ones are ignored."""
        code, _, rest = body.partition(";")
        match code:
            case "0" | "2":
                self.set_title(rest)
            case "7":
                self._emit(osc.directory_from(rest))
            case "8":
                uri = rest.partition(";")[2]
                style = self.cursor.style
                self.cursor.style = canonical(CellStyle(style.fg, style.bg, style.flags, self.links.intern(uri)))
            case "4" | "10" | "11" | "104" | "110" | "111":
                for answer in self.colours.command(code, rest):
                    self.write_process_input(answer)
            case "52" if self.allow_clipboard:
                text = osc.clipboard_from(rest)
                self._emit(None if text is None else osc.ClipboardWrite(text))
            case "133":
                row, x = self.rows[self.cursor.y], self.cursor.x
                before = x - row.text[:x].count(STUB)
                self._emit(osc.shell_mark(rest, self.scrolled + self.cursor.y, before, time.monotonic()))
            case "1337":
                self.pictures.take_file(rest)
            case _:
                pass

    def _emit(self, event: osc.TerminalEvent | None) -> None:
        if event is not None and self.on_event is not None:
            self.on_event(event)
