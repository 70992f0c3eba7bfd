"""Messages of a `TerminalView`, reachable there as `TerminalView.Input` and so on."""

from __future__ import annotations

from dataclasses import dataclass, field

from textual.message import Message
from textual.widget import Widget

from ollm_tui.tui.terminal.emulator.osc import TerminalEvent


@dataclass
class ViewMessage(Message, namespace="terminal_view"):
    """A message of one view; `@on(TerminalView.Input, "#shell")` can select by it."""

    view: Widget

    @property
    def control(self) -> Widget:
        """The view, for selectors of `@on`."""
        return self.view


@dataclass
class Input(ViewMessage, namespace="terminal_view"):
    """Bytes the person typed, pasted or clicked; hidden in `repr`, may be a password."""

    data: bytes = field(repr=False)


@dataclass
class DeviceReply(ViewMessage, namespace="terminal_view"):
    """Bytes nobody typed: the terminal's answers, focus, passing mouse."""

    data: bytes


@dataclass
class Resized(ViewMessage, namespace="terminal_view"):
    """The screen has another size, in cells; the PTY must get it."""

    columns: int
    lines: int


@dataclass
class TitleChanged(ViewMessage, namespace="terminal_view"):
    """The program set its title; untrusted, never markup."""

    title: str


@dataclass
class Bell(ViewMessage, namespace="terminal_view"):
    """The program rang the bell."""


@dataclass
class Reported(ViewMessage, namespace="terminal_view"):
    """The program reported its directory, a prompt, a command or an exit code."""

    event: TerminalEvent


@dataclass
class Leave(ViewMessage, namespace="terminal_view"):
    """The person pressed ctrl+]: focus something else."""


@dataclass
class Scrolled(ViewMessage, namespace="terminal_view"):
    """The person scrolled; `lines` above the newest line, 0 at the bottom."""

    lines: int


@dataclass
class ReadingChanged(ViewMessage, namespace="terminal_view"):
    """Reading began or ended, the pointer moved, a selection or match changed."""


@dataclass
class FindAsked(ViewMessage, namespace="terminal_view"):
    """The person wants to search: ask for a query and call `find`."""


@dataclass
class Copied(ViewMessage, namespace="terminal_view"):
    """The person copied text to the clipboard."""

    text: str


@dataclass
class Wake(ViewMessage, namespace="terminal_view"):
    """The engine has something to draw; sent from the feeding thread."""


@dataclass
class Clipboard(ViewMessage, namespace="terminal_view"):
    """The program sets the clipboard, which its screen allows."""

    text: str
