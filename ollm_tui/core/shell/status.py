"""What is known of a command or job at one moment: for tools, events and screen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class CommandPhase(StrEnum):
    """Whether a command runs and how it ended (contract `shell_output`)."""

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
    """Limits in seconds; None is no limit.

    Idle time is time without output and typed input and, with `idle_counts_cpu`, without any processor time.
    """

    wall: float | None = None
    idle: float | None = None
    idle_counts_cpu: bool = False


@dataclass(frozen=True)
class ProcessName:
    """A process as people read of it."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.pid} ({self.name})"


@dataclass(frozen=True)
class ProcessUsage:
    """What a command's processes use. `cpu` is in percent of one processor, None at the first look."""

    processes: tuple[ProcessName, ...]
    cpu: float | None
    addresses: tuple[str, ...]
    """The addresses they listen on."""


@dataclass(frozen=True)
class UserInput:
    """What the person did at a command's terminal."""

    typed: bool = False
    unseen: bool = False
    """Some of it was typed while the echo was off, as for a password; that part is saved nowhere."""
    lines: tuple[str, ...] = ()
    """The last lines typed while the terminal showed them, safe to print."""
    interrupted: bool = False
    took_over: bool = False

    def for_model(self) -> tuple[str, ...]:
        """Return one note for each thing they did."""
        notes: list[str] = []
        if self.took_over:
            notes.append("the person took this command over in its terminal; its time limits no longer hold")
        if self.lines:
            notes.append("the person typed into its terminal: " + ", ".join(f'"{line}"' for line in self.lines))
        if self.unseen:
            notes.append("the person typed into its terminal; what is not told, since its echo was off")
        if self.typed and not (self.lines or self.unseen or self.interrupted):
            notes.append("the person pressed keys in its terminal")
        if self.interrupted:
            notes.append("the person interrupted it with Ctrl+C")
        return tuple(notes)


NO_USER_INPUT = UserInput()


@dataclass(frozen=True)
class CommandStatus:
    """A command at one moment. `started` and `ended` are monotonic seconds."""

    id: str
    command: str
    phase: CommandPhase = CommandPhase.RUNNING
    exit_code: int | None = None
    """128+n after signal n."""
    name: str = ""
    """What people call it: its id, or for a detached job the id it had in its own dashboard."""
    kind: CommandKind = CommandKind.AGENT
    cwd: str = ""
    call_id: str = ""
    started: float | None = None
    ended: float | None = None
    pid: int = 0
    """The pid of its leader, the first process."""
    background: bool = False
    detached: bool = False
    """It outlived the dashboard that started it: it has no terminal here, and no model knows its id."""
    can_detach: bool = True
    """Whether it can go on when this process ends; a sandbox ends with its maker."""
    signal: str | None = None
    """Name of the signal that ended the leader, such as `SIGTERM`."""
    ending: CommandEnding | None = None
    waiting_for_input: bool = False
    on_terminal: bool = True
    """False where the system gave no terminal and output comes through a pipe."""
    leftovers: tuple[ProcessName, ...] = ()
    """Processes that went on when the command, or the dashboard that started it, was over."""
    disk_errors: tuple[str, ...] = ()
    """What could not be written about it, in clauses that begin with "its"."""
    user_input: UserInput = NO_USER_INPUT
    """What the person did at an agent's command."""
    usage: ProcessUsage | None = None
    """What it uses, where somebody looks; the hub does not."""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.id)

    @property
    def running(self) -> bool:
        """Whether its leader has not ended."""
        return self.phase is CommandPhase.RUNNING

    @property
    def attached(self) -> bool:
        """Whether it runs under this dashboard, so that keys reach it."""
        return self.running and not self.detached

    @property
    def waits_for_person(self) -> bool:
        """Whether it is the agent's and waits for input that the person has not taken on."""
        asks = self.attached and self.waiting_for_input and not self.user_input.took_over
        return asks and self.kind is CommandKind.AGENT

    @property
    def unfinished(self) -> bool:
        """Whether anything of it may still run."""
        return self.running or bool(self.leftovers)

    @property
    def is_job(self) -> bool:
        """Whether it goes on by itself: in the background, or over with processes left."""
        return self.kind is CommandKind.AGENT and (self.background or bool(self.leftovers))

    @property
    def processes(self) -> tuple[ProcessName, ...]:
        """Its processes, as far as somebody has looked."""
        return self.leftovers if self.usage is None else self.usage.processes

    @property
    def cpu(self) -> float | None:
        """Percent of one processor; None while unknown."""
        return None if self.usage is None else self.usage.cpu

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses its processes listen on."""
        return () if self.usage is None else self.usage.addresses

    @property
    def first_pid(self) -> int:
        """The leader's pid, or where that is gone the first process that still runs."""
        running = [process.pid for process in self.processes]
        return self.pid if self.pid in running or not running else running[0]

    def seconds(self, now: float) -> float:
        """Return how long it has run; time goes on while anything of it does."""
        end = now if self.ended is None or self.unfinished else self.ended
        return 0.0 if self.started is None else end - self.started

    def with_usage(self, usage: ProcessUsage | None) -> CommandStatus:
        """Return the same command with what its processes use."""
        return replace(self, usage=usage)
