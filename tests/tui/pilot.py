"""Drives the dashboard in tests: a backend that only records intents, a clock that only moves when told."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from textual.events import Key, MouseDown, MouseUp
from textual.keys import _character_to_key  # the name a terminal's driver gives a character
from textual.pilot import Pilot

from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.confirmation import (
    CommandPreview,
    ConfirmationDetails,
    ConfirmationRequest,
    DiffPreview,
    Preview,
)
from ollm_tui.core.bus.notices import Confirmation
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.execution.calls import CallReview
from ollm_tui.core.files.diff import diff_texts
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.shell.status import CommandKind, CommandPhase, CommandStatus, ProcessName, ProcessUsage
from ollm_tui.core.todos.todo import Todo, TodoStatus
from ollm_tui.options import Options
from ollm_tui.testing import FakeClock
from ollm_tui.testing.dashboard_harness import screen_text, wait_until
from ollm_tui.tui.app import DashboardApp
from ollm_tui.tui.protocol import Backend, PostUpdate, updates
from ollm_tui.tui.protocol.intents import DecideConfirmation, Intent
from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
from ollm_tui.tui.terminal.terminal_view import TerminalView
from ollm_tui.tui.values import (
    ConfirmationQueueSnapshot,
    SessionStatus,
    UnfinishedWork,
)

SHORT_DIFF = DiffPreview(
    diff=diff_texts(
        "cli/export.py",
        "def export(\n    out: Path,\n) -> int:\n",
        "def export(\n    out: Path,\n    as_json: bool = False,\n) -> int:\n",
    ),
    created=False,
)

I = TypeVar("I", bound=Intent)  # noqa: E741  # the kind of intent that is looked for


class Recorder:
    """A backend that does nothing but record intents."""

    def __init__(self) -> None:
        self.intents: list[Intent] = []
        self.live = UnfinishedWork()
        self.cannot_leave: tuple[str, ...] = ()
        self.settled: list[str] = []

    def handle(self, intent: Intent) -> None:
        self.intents.append(intent)

    def unfinished(self) -> UnfinishedWork:
        return self.live

    async def leave_jobs(self) -> tuple[str, ...]:
        self.settled.append("left")
        return self.cannot_leave

    async def end_jobs(self) -> None:
        self.settled.append("ended")

    def closing_lines(self) -> tuple[str, ...]:
        return ("words for the terminal",)

    def of(self, kind: type[I]) -> list[I]:
        return [intent for intent in self.intents if isinstance(intent, kind)]


class Stage:
    """An app under test with its recorder and clock; `post` posts updates as the controllers would."""

    def __init__(self, app: DashboardApp, pilot: Pilot[int], backend: Recorder, clock: FakeClock) -> None:
        self.app, self.pilot, self.backend, self.clock = app, pilot, backend, clock

    async def post(self, *messages: updates.Update) -> None:
        for message in messages:
            self.app.post_update(message)
        await self.settle()

    async def settle(self) -> None:
        """Let everything that is on its way arrive."""
        for _ in range(3):
            await self.pilot.pause()
        await wait_until(self.pilot, lambda: not (self.app.key_order.busy or self.app.dashboard.reviewing.deciding))
        await self.pilot.pause()

    async def show_queue(self, *items: Confirmation) -> None:
        await self.post(updates.QueueUpdate(ConfirmationQueueSnapshot(items)))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def click(self, selector: str, x: int, y: int) -> None:
        """Press and release the mouse button, by the way that a terminal's events go."""
        corner = self.app.screen.query_one(selector).content_region.offset
        at = (corner.x + x, corner.y + y)
        for kind in (MouseDown, MouseUp):
            self.app.post_message(kind(None, *at, 0, 0, 1, False, False, False, *at))
        await self.settle()

    async def burst(self, *keys: str) -> None:
        """Keys that are all on their way before the first is looked at; names as Textual's, or single characters."""
        for key in keys:
            character = key if len(key) == 1 else None
            self.app.post_message(Key(_character_to_key(key) if character else key, character))
        await self.settle()

    async def arm(self) -> None:
        """Let the time pass in which no key decides; on a busy machine a key is handled late, so more of it."""
        self.clock.seconds += 3.0
        await self.settle()

    @property
    def modal(self) -> ConfirmationScreen | None:
        return self.app.screen if isinstance(self.app.screen, ConfirmationScreen) else None

    @property
    def decisions(self) -> list[DecideConfirmation]:
        return self.backend.of(DecideConfirmation)

    @property
    def text(self) -> str:
        """Every cell of the screen as it would be painted."""
        return screen_text(self.app)


@asynccontextmanager
async def stage(
    size: tuple[int, int] = (120, 40), *, notifications: bool = False, options: Options | None = None
) -> AsyncGenerator[Stage]:
    """A dashboard whose backend is open, with nothing in it."""
    backend, clock = Recorder(), FakeClock()
    opened: list[PostUpdate] = []

    @asynccontextmanager
    async def open_backend(post: PostUpdate) -> AsyncGenerator[Backend]:
        opened.append(post)
        yield backend

    app = DashboardApp(options or Options(theme="ollm-dark"), open_backend=open_backend, clock=clock)
    async with app.run_test(size=size, notifications=notifications) as pilot:
        await wait_until(pilot, lambda: bool(opened))
        here = Stage(app, pilot, backend, clock)
        await here.post(updates.StatusUpdate(SessionStatus("qwen3-coder:30b", "~/src/app", "ask")))
        yield here


def question(
    number: int = 1,
    *,
    tool: str = "edit_file",
    risk: Risk = Risk.MEDIUM,
    description: str = "Edit cli/export.py (1 edit, +1 -0)",
    reason: str = "policy rule 3: tool=edit_file -> ask",
    locations: tuple[str, ...] = ("cli/export.py",),
    arguments: JsonObject | None = None,
    preview: Preview | None = SHORT_DIFF,
    timeout: float | None = None,
    cage_problem: str | None = None,
    **more: Any,
) -> Confirmation:
    """An open question with a short diff."""
    edit: JsonObject = {"path": "cli/export.py", "edits": [{"target": "a", "replacement": "b"}]}
    details = ConfirmationDetails(
        tool_name=tool,
        description=description,
        risk=risk,
        locations=locations,
        args=edit if arguments is None else arguments,
        preview=preview,
        cage_problem=cage_problem,
    )
    request = ConfirmationRequest(
        id=f"confirm-{number}",
        call_id=f"call-{number}",
        details=details,
        reason=reason,
        created_at="2026-01-31T10:00:00Z",
        timeout=timeout,
    )
    return Confirmation(request, number, **more)


def command_question(number: int, command: str, *, risk: Risk = Risk.HIGH, **more: Any) -> Confirmation:
    """An open question about a command."""
    preview = CommandPreview(command=command, cwd="/home/u/src/app", parts=(command,))
    return question(
        number,
        tool="shell",
        risk=risk,
        **{
            "description": "Run a command",
            "preview": preview,
            "arguments": {"command": command},
            "locations": (),
            "cage_problem": "",
            **more,
        },
    )


def reviewed(risk: Risk = Risk.MEDIUM, *, decision: Decision = Decision.ASK, **more: Any) -> CallReview:
    """A review of a call."""
    return CallReview(decision, risk, "", **more)


SHELL = CommandStatus("s1", "/bin/bash", kind=CommandKind.PERSON)
"""The person's own shell."""


def todo(todo_id: str, task: str, status: TodoStatus) -> Todo:
    """An item of the todo list."""
    return Todo(todo_id, task, status, "2026-01-31T10:00:00Z")


def agents_command(command: str = "pytest -q", **more: object) -> CommandStatus:
    """A command of the agent's that began when the clock did."""
    values: dict[str, object] = {"id": "c1", "command": command, "started": 1_000.0}
    return CommandStatus(**{**values, **more})


def job(
    job_id: str,
    command: str,
    pid: int,
    *,
    age: float = 0,
    cpu: float | None = None,
    processes: int = 1,
    addresses: tuple[str, ...] = (),
    **more: object,
) -> CommandStatus:
    """A job of this age in seconds, with what its processes use; `processes=0` where all of them have ended."""
    left = tuple(ProcessName(pid + at, "sh") for at in range(processes))
    values: dict[str, object] = {"background": True, "started": 1_000.0 - age, "ended": 1_000.0}
    values["leftovers"] = left if more.get("phase", CommandPhase.RUNNING) is not CommandPhase.RUNNING else ()
    return CommandStatus(job_id, command, pid=pid, usage=ProcessUsage(left, cpu, addresses), **{**values, **more})


async def terminal_of(here: Stage, *tabs: CommandStatus, output: bytes = b"") -> TerminalView:
    """The terminal in front with these commands, focused, once its program has written `output`."""
    await here.post(updates.CommandsUpdate(tabs))
    await here.press("ctrl+t")
    await wait_until(here.pilot, lambda: here.app.dashboard.term.view is not None)
    view = here.app.dashboard.term.view
    assert view is not None
    await wait_until(here.pilot, lambda: view.has_focus)
    view.engine.feed(output)
    await here.settle()
    return view
