"""What the terminal pane asks of the house and tells the dashboard; reachable there as `TerminalPane.Typed` and so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from textual.message import Message

from ollm_tui.tui.protocol import Intent
from ollm_tui.tui.terminal_references import TerminalExcerpt


@dataclass
class OpenShell(Intent):
    """Start the person's shell at this size, in cells; `typed` goes into it as soon as it stands."""

    columns: int
    lines: int
    typed: str = ""


@dataclass
class AttachTerminal(Intent):
    """Bytes of this command should go to `feed`, which takes them in any thread."""

    command_id: str
    feed: Callable[[bytes], None]


@dataclass
class DetachTerminal(Intent):
    """They should not any more."""

    command_id: str


@dataclass
class TypeKeys(Intent):
    """Bytes for a command that the person typed. Never printed: a password may be among them."""

    command_id: str
    data: bytes = field(repr=False)


@dataclass
class SendReply(Intent):
    """Bytes for a command that nobody typed: its terminal answers."""

    command_id: str
    data: bytes


@dataclass
class InterruptCommand(Intent):
    """Ctrl+C for a command."""

    command_id: str


@dataclass
class TakeOverCommand(Intent):
    """The person goes on with a command of the agent themselves."""

    command_id: str


@dataclass
class ResizeTerminal(Intent):
    """A command's screen has another size, in cells."""

    command_id: str
    columns: int
    lines: int


class FocusLeft(Message):
    """The person wants out of the terminal."""


@dataclass
class SelectionSent(Message):
    """What is selected should go into the prompt."""

    excerpt: TerminalExcerpt


class SelectionChanged(Message):
    """Something is selected, or nothing is any more."""
