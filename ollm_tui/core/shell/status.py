"""What is known about a command at one moment, for tools, tabs and notices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from signal import Signals

from ollm_tui.core.shell.process_tree import ProcessName
from ollm_tui.core.shell.user_input import NO_HAND, UserInput


class CommandPhase(StrEnum):
    """Where a command stands (contract `shell_output`)."""

    RUNNING = "running"
    EXITED = "exited"
    KILLED = "killed"
    """Ended by a signal, ours or another's."""


class CommandKind(StrEnum):
    """Whose command it is."""

    AGENT = "agent"
    PERSON = "person"
    """The person's own interactive shell."""


class CommandEnding(StrEnum):
    """Why we ended a command ourselves."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    IDLE = "idle"
    ABORTED = "aborted"
    NEEDS_INPUT = "needs input"
    """It asked at its terminal, and nobody is there to type."""


@dataclass(frozen=True)
class TimeLimits:
    """Seconds; None is no limit. Idle time is time without output and typed input and, with `idle_counts_cpu`,
    without any processor time."""

    wall: float | None = None
    idle: float | None = None
    idle_counts_cpu: bool = False


@dataclass(frozen=True)
class CommandStatus:
    """A command as it stands. `started` and `ended` are monotonic seconds; `exit_code` is 128+n after signal n."""

    id: str
    command: str
    cwd: str
    call_id: str
    kind: CommandKind
    started: float
    ended: float | None = None
    background: bool = False
    can_stay: bool = True
    """Whether it can be left running when this process ends; a sandbox ends with who made it."""
    pid: int = 0
    state: CommandPhase = CommandPhase.RUNNING
    exit_code: int | None = None
    signal: str | None = None
    """Name of the signal that ended the leader, `SIGTERM`."""
    ending: CommandEnding | None = None
    waiting_for_input: bool = False
    on_terminal: bool = True
    """False where the system gave no terminal and output comes through a pipe."""
    leftovers: tuple[ProcessName, ...] = ()
    """Processes that went on when the command was over."""
    hand: UserInput = NO_HAND
    """What the person did at an agent's command."""

    @property
    def running(self) -> bool:
        return self.state is CommandPhase.RUNNING

    @property
    def unfinished(self) -> bool:
        """Whether anything of it may still run."""
        return self.running or bool(self.leftovers)

    @property
    def is_job(self) -> bool:
        """Whether it goes on by itself: started or moved to the background, or over and not gone."""
        return self.kind is CommandKind.AGENT and (self.background or bool(self.leftovers))


def exit_code_of(returncode: int) -> tuple[int, str | None]:
    """A process's end as shells number it: code, or 128+n and the name of signal n."""
    if returncode >= 0:
        return returncode, None
    try:
        name = Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return 128 - returncode, name
