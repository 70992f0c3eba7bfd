"""Tables of the supported control functions (xterm ctlseqs), to be read at a glance."""

from __future__ import annotations

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
    "a": ("cursor_forward", 1),
    "b": ("repeat", 1),
    "c": ("report_device_attributes", 1),
    "d": ("cursor_to_line", 1),
    "e": ("line_relative", 1),
    "f": ("cursor_position", 2),
    "g": ("clear_tab_stop", 1),
    "h": ("set_mode", 16),
    "j": ("cursor_back", 1),
    "k": ("line_back", 1),
    "l": ("reset_mode", 16),
    "n": ("report_device_status", 1),
    "r": ("set_margins", 2),
    "s": ("save_cursor", 0),
    "t": ("window_operation", 3),
    "u": ("restore_cursor", 0),
    "!p": ("soft_reset", 0),
    " q": ("set_cursor_shape", 1),
    '"q': ("set_protection", 1),
    "$p": ("report_mode", 1),
    ">c": ("report_secondary_attributes", 1),
    ">q": ("report_version", 1),
    "?J": ("erase_in_display", 1),
    "?K": ("erase_in_line", 1),
    "?h": ("set_mode", 16),
    "?l": ("reset_mode", 16),
    "?n": ("report_device_status", 1),
    "?$p": ("report_mode", 1),
}
"""Control sequences by private prefix, intermediates and final byte: method and number of parameters.

The stream handles SGR itself. Methods of sequences with a `?` are called with `private=True`.
"""
