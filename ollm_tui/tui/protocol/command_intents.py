"""Messages about commands, their terminals and jobs: what the person wants done with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ollm_tui.tui.protocol.intents import Intent

if TYPE_CHECKING:
    pass


# -- commands and their terminals --------------------------------------------------------------------------------------


class CommandIntent(Intent):
    """Base of the intents about commands and their terminals."""


@dataclass
class OpenShell(CommandIntent):
    """Start the person's shell at this size in cells, and type `typed` into it."""

    columns: int
    lines: int
    typed: str = ""


@dataclass
class CloseShell(CommandIntent):
    """End a shell of the person's; where something runs in it, say so first."""

    command_id: str
    although_busy: bool = False


@dataclass
class AttachTerminal(CommandIntent):
    """Send the bytes of a command to `feed`, which takes them in any thread."""

    command_id: str
    feed: Callable[[bytes], None]


@dataclass
class DetachTerminal(CommandIntent):
    """Stop sending the bytes of a command."""

    command_id: str


@dataclass
class TypeKeys(CommandIntent):
    """Send what the person typed to a command. Never printed: a password may be among it."""

    command_id: str
    data: bytes = field(repr=False)


@dataclass
class SendReply(CommandIntent):
    """Send what the terminal itself answers to a command."""

    command_id: str
    data: bytes


@dataclass
class InterruptCommand(CommandIntent):
    """Send ctrl+c to a command."""

    command_id: str


@dataclass
class TakeOverCommand(CommandIntent):
    """Hand a command of the agent over to the person."""

    command_id: str


@dataclass
class ResizeTerminal(CommandIntent):
    """Give a command's terminal another size in cells."""

    command_id: str
    columns: int
    lines: int


# -- jobs --------------------------------------------------------------------------------------------------------------


class JobIntent(Intent):
    """Base of the intents about jobs."""


@dataclass
class WatchJobs(JobIntent):
    """Start or stop updating the list of jobs."""

    on: bool


@dataclass
class InterruptJob(JobIntent):
    """Send ctrl+c to a job."""

    job_id: str


@dataclass
class EndJob(JobIntent):
    """End a job with everything it started."""

    job_id: str
