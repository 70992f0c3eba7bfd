"""What a `TerminalView` tells the widgets above it; reachable there as `TerminalView.Input` and so on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from textual.message import Message

from ollm_tui.tui.terminal.emulator.osc import TerminalEvent

if TYPE_CHECKING:
    from ollm_tui.tui.terminal.canvas import TerminalCanvas


@dataclass
class ViewMessage(Message, namespace="terminal_view"):
    """A message of one view; `@on(TerminalView.Input, "#shell")` can select by it."""

    view: TerminalCanvas

    @property
    def control(self) -> TerminalCanvas:
        return self.view


@dataclass
class Input(ViewMessage, namespace="terminal_view"):
    """Bytes for the program that the person typed, pasted or clicked. Never printed: a password may be among them."""

    data: bytes = field(repr=False)


@dataclass
class Answer(ViewMessage, namespace="terminal_view"):
    """Bytes for the program that nobody typed: what the terminal answers, its focus, where the mouse passes."""

    data: bytes


@dataclass
class Resized(ViewMessage, namespace="terminal_view"):
    """The screen has another size, in cells; the PTY needs it too."""

    columns: int
    lines: int


@dataclass
class TitleChanged(ViewMessage, namespace="terminal_view"):
    """The program set its title. Untrusted: show it as `Content(title)` or with `markup=False`."""

    title: str


@dataclass
class Bell(ViewMessage, namespace="terminal_view"):
    """The program rang."""


@dataclass
class Reported(ViewMessage, namespace="terminal_view"):
    """The program said something else about itself: its folder, command boundaries and exit codes."""

    event: TerminalEvent


@dataclass
class Leave(ViewMessage, namespace="terminal_view"):
    """The person pressed ctrl+]: give the focus to something else."""


@dataclass
class Scrolled(ViewMessage, namespace="terminal_view"):
    """The person looks `lines` above the newest line (0 at the bottom)."""

    lines: int


@dataclass
class ReadingChanged(ViewMessage, namespace="terminal_view"):
    """The person began or ended reading, moved, selected, or something was found; see the view's `reader`."""


@dataclass
class FindAsked(ViewMessage, namespace="terminal_view"):
    """The person wants to seek something: ask them what, and call `find`."""


@dataclass
class Copied(ViewMessage, namespace="terminal_view"):
    """The person selected text, which is on the clipboard now."""

    text: str


@dataclass
class Wake(ViewMessage, namespace="terminal_view"):
    """The engine has something to draw; sent by the feeding thread to the view itself."""


@dataclass
class Clipboard(ViewMessage, namespace="terminal_view"):
    """The program put text on the clipboard, and its screen allows that; the view does it."""

    text: str
