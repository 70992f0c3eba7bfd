"""The context of a call: workspace, services and limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.files.snapshots import SeenFiles
from ollm_tui.core.sandbox.engines import Sandbox

if TYPE_CHECKING:
    from ollm_tui.core.base.abort import AbortSignal
    from ollm_tui.core.browser.session import BrowserSession
    from ollm_tui.core.fence.workspace import Workspace
    from ollm_tui.core.files.trash import Trash
    from ollm_tui.core.files.unasked_writes import UnaskedWrites
    from ollm_tui.core.files.vacated_paths import VacatedPaths
    from ollm_tui.core.memory import Memory
    from ollm_tui.core.search.code_vectors import CodeVectors
    from ollm_tui.core.shell.hub import CommandHub
    from ollm_tui.core.storage.store import Store
    from ollm_tui.core.todos.todo_list import TodoList
    from ollm_tui.core.web.client import WebAccess


@dataclass(frozen=True)
class Limits:
    """Bounds on what tools read and return (`[limits]`): bytes, lines, characters, seconds."""

    file_bytes: int = 20_000_000
    result_lines: int = 2_000
    result_chars: int = 100_000
    entries: int = 100_000
    call_seconds: float = 300.0


class DefaultServices:
    """Default services of an executor, created on first use until closed."""

    @cached_property
    def web(self) -> WebAccess:
        """Return access to public addresses, without a search provider."""
        from ollm_tui.core.web.client import WebAccess

        return WebAccess()

    @cached_property
    def browser(self) -> BrowserSession:
        """Return a browser that starts with its first page."""
        from ollm_tui.core.browser.session import BrowserSession

        return BrowserSession(self.web)

    @cached_property
    def trash(self) -> Trash:
        """Return the user's trash, which `ollm-tui trash restore` reads."""
        from ollm_tui.core.base.app_dirs import state_dir
        from ollm_tui.core.files.trash import Trash

        return Trash(state_dir())

    @cached_property
    def commands(self) -> CommandHub:
        """Return the hub of commands, which end on close."""
        from ollm_tui.core.shell.hub import CommandHub

        return CommandHub()

    @cached_property
    def store(self) -> Store:
        """Return a store in memory."""
        from ollm_tui.core.storage.store import InMemoryStore

        return InMemoryStore()

    async def aclose(self) -> None:
        """End browser and commands, and forget what was stored."""
        if "browser" in self.__dict__:
            await self.browser.aclose()
        if "commands" in self.__dict__:
            await self.commands.close()
        if "store" in self.__dict__:
            self.store.close()
        self.__dict__.clear()


@dataclass(frozen=True)
class ToolContext:
    """The context of a call; services that are None come from `defaults`."""

    bus: MessageBus
    workspace: Workspace | None = None
    commands: CommandHub | None = None
    todos: TodoList | None = None
    memory: Memory | None = None
    trash: Trash | None = None
    vacated: VacatedPaths | None = None
    unasked: UnaskedWrites | None = None
    web: WebAccess | None = None
    browser: BrowserSession | None = None
    command_reader: CommandReader | None = None
    """The executor sets it where a caller gives none."""
    clock: Clock = field(default_factory=SystemClock)
    limits: Limits = field(default_factory=Limits)
    seen: SeenFiles = field(default_factory=SeenFiles)
    strict_edits: bool = False
    test_command: str | None = None
    """What runs the project's tests, where that is not to be found out."""
    code_vectors: CodeVectors | None = None
    """Lets `search_code` go by meaning as well; without, it goes by words alone."""
    sandbox: Sandbox = field(default_factory=Sandbox)
    adopt_plan: Callable[[tuple[PlanGrant, ...]], None] | None = None
    """Lets an approved plan bind; the executor sets it."""
    tasks: TaskService | None = None
    """Runs sub-agents; an agent sets it."""
    attended: bool = False
    """A person is at the dashboard and can answer and type."""
    call_id: str = ""
    defaults: DefaultServices = field(default_factory=DefaultServices)

    def bind(self, workspace: Workspace) -> None:
        """Let the one call of this context work in a fence of its own."""
        self.__dict__["workspace"] = workspace

    @property
    def fence(self) -> Workspace:
        """Return the workspace; raises RuntimeError where there is none."""
        if self.workspace is None:
            raise RuntimeError("this tool needs a workspace: build its ToolContext with one")
        return self.workspace

    @property
    def command_hub(self) -> CommandHub:
        """Return the hub of commands."""
        return self.commands or self.defaults.commands

    @property
    def web_access(self) -> WebAccess:
        return self.web or self.defaults.web

    @property
    def browser_session(self) -> BrowserSession:
        """Return the session's browser."""
        return self.browser or self.defaults.browser

    @property
    def trash_folder(self) -> Trash:
        """Return the trash for deleted files."""
        return self.trash or self.defaults.trash

    @property
    def vacated_paths(self) -> VacatedPaths:
        """Return the paths that calls moved away or deleted."""
        if self.vacated is not None:
            return self.vacated
        from ollm_tui.core.files.vacated_paths import VacatedPaths

        return VacatedPaths(self.defaults.store, self.clock)

    @property
    def unasked_writes(self) -> UnaskedWrites:
        """Return the paths that calls wrote although nobody was asked."""
        if self.unasked is not None:
            return self.unasked
        from ollm_tui.core.files.unasked_writes import UnaskedWrites

        return UnaskedWrites(self.defaults.store, self.clock)

    @property
    def memories(self) -> Memory:
        """Return the memories of workspace and user."""
        if self.memory is not None:
            return self.memory
        from ollm_tui.core.memory import Memory

        return Memory(self.defaults.store, self.fence.root)

    @property
    def todo_list(self) -> TodoList:
        """Return the workspace's todo list."""
        if self.todos is not None:
            return self.todos
        from ollm_tui.core.todos.todo_list import TodoList

        return TodoList(self.defaults.store, self.fence.root)


@dataclass(frozen=True)
class TaskOrder:
    """What a sub-agent is to do."""

    call_id: str
    name: str
    prompt: str
    tools: tuple[str, ...] | None = None
    """As the caller named them; None for all that sub-agents may have."""


class TaskService(Protocol):
    """Runs sub-agents."""

    def unknown_tools(self, names: Sequence[str]) -> list[str]:
        """Return those of the names that no sub-agent can have."""
        ...

    async def run(self, order: TaskOrder, signal: AbortSignal) -> str:
        """Return the sub-agent's last text. Raises ToolFailure."""
        ...


@dataclass(frozen=True)
class CommandFacts:
    """The simple commands of a line, and the warnings for its confirmation."""

    parts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class CommandReader(Protocol):
    """Reads command lines as the policy does."""

    def facts(self, command: str, workspace: Workspace | None = None, cwd: str = "") -> CommandFacts:
        """Return what a confirmation shows about a line; reads the disk and blocks."""
        ...

    def exit_code_is_answer(self, command: str, code: int | None) -> bool:
        """Return whether the exit code is an answer ("not found", "differs") rather than a failure."""
        ...


PATH_PARAMETERS = ("path", "from", "to", "directory", "paths")
"""Parameters that name what a call touches."""

PATH_TOOLS = ("write_file", "edit_file")
"""The tools of a step that names paths and no tool."""


@dataclass(frozen=True)
class PlanGrant:
    """One thing that an approved plan lets run; a `path` that ends with `/` is a folder."""

    tool: str
    path: str = ""
    command: str = ""

    def __str__(self) -> str:
        return f"{self.tool} {self.path or self.command}".rstrip()
