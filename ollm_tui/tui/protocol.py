"""What the bridge tells the screen: messages of frozen values, safe to post from any task or thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from textual.message import Message
from textual.theme import Theme

from ollm_tui.tui.conversation_entries import Change
from ollm_tui.tui.memory_values import MemoryName, MemoryQuery
from ollm_tui.tui.values import (
    Activity,
    CommandTab,
    ConfirmationQueueSnapshot,
    FileError,
    JobRow,
    ReviewValue,
    SessionStatus,
    TodoRow,
    UnfinishedWork,
)

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.tui.memory_values import MemoryListing, MemoryName, MemoryOutcome, MemoryText


class Update(Message):
    """Base of all of them."""


@dataclass
class ConversationUpdate(Update):
    """Something was said or done."""

    change: Change


@dataclass
class QueueUpdate(Update):
    """The queue as it is now."""

    queue: ConfirmationQueueSnapshot


@dataclass
class TodosUpdate(Update):
    """The todo list as it is now."""

    todos: tuple[TodoRow, ...]


@dataclass
class ActivityUpdate(Update):
    """What the turn does now; `what` names the running tool or the rate, `fault` says why it failed."""

    activity: Activity
    what: str = ""
    fault: str = ""


@dataclass
class StatusUpdate(Update):
    """Model, workspace, mode, tokens."""

    surroundings: SessionStatus


@dataclass
class CommandsUpdate(Update):
    """The commands that have or had a terminal."""

    commands: tuple[CommandTab, ...]


@dataclass
class ShellErrorUpdate(Update):
    """The person's shell could not be started."""

    why: str


@dataclass
class JobsUpdate(Update):
    """The jobs as they are now, while their list is in sight; `unknown` says what the system does not tell."""

    jobs: tuple[JobRow, ...]
    unknown: str = ""


@dataclass
class ReviewUpdate(Update):
    """The core's word on a question's arguments, or on changed ones."""

    item_id: str
    review: ReviewValue
    arguments: JsonObject | None = None


@dataclass
class TrustQuestionUpdate(Update):
    """May the folder's own config file count, as long as it says just this?"""

    path: str
    content: bytes


class MemoryUpdate(Update):
    """For the memory screen, if it is open."""


@dataclass
class MemoryListUpdate(MemoryUpdate):
    """The memories that were asked for, as they are now."""

    listing: MemoryListing


@dataclass
class MemoryTextUpdate(MemoryUpdate):
    """The whole text of one memory, as it is now."""

    text: MemoryText


@dataclass
class MemoryChangeUpdate(MemoryUpdate):
    """How a change of the person's went; `stored` is what stands there now, None for nothing."""

    outcome: MemoryOutcome
    words: str = ""
    name: MemoryName | None = None
    stored: str | None = None


@dataclass
class ConfigErrorsUpdate(Update):
    """Files of the person's that could not be used."""

    faults: tuple[FileError, ...]


@dataclass(frozen=True)
class ScreenSettings:
    """Themes that are sound, the chosen one, changed keys, when the confirmation opens by itself, and whether programs
    may write the clipboard."""

    themes: tuple[Theme, ...] = ()
    theme: str = ""
    keys: dict[str, str] = field(default_factory=dict[str, str])
    auto_open: str = "idle"
    allow_clipboard: bool = False


@dataclass
class SettingsUpdate(Update):
    """What the settings say about the screen; for the app."""

    settings: ScreenSettings


@dataclass
class ToastUpdate(Update):
    """A short word to the person that they need not act on."""

    text: str
    failed: bool = False


class Intent(Message):
    """A wish of the person, carrying plain data. Subclasses are nested in the widget that emits them."""


class Backend(Protocol):
    """What stands behind the screen; the bridge in life, something smaller in tests."""

    def handle(self, intent: Intent) -> None:
        """Take a wish; what comes of it arrives as news. Returns at once."""
        ...

    def unfinished(self) -> UnfinishedWork:
        """What quitting now would end."""
        ...

    async def leave_jobs(self) -> tuple[str, ...]:
        """Let the jobs go on when the dashboard is gone; says which could not, and those are as before."""
        ...

    async def end_jobs(self) -> None:
        """End what would not end by itself with the dashboard."""
        ...

    def last_words(self) -> tuple[str, ...]:
        """What the person has to know after the dashboard has closed, for their terminal."""
        ...


Tell = Callable[[Update], object]
"""Posts news to the screen; safe from any task or thread."""

OpenBackend = Callable[[Tell], AbstractAsyncContextManager[Backend]]
"""Builds everything behind the screen and takes it down again."""


class MemoryIntent(Intent):
    """Base of all of them."""


@dataclass
class ListMemories(MemoryIntent):
    """Tell which there are, now and after each change."""

    query: MemoryQuery


@dataclass
class ReadMemory(MemoryIntent):
    """Tell the whole text, now and after each change."""

    name: MemoryName


@dataclass
class SaveMemory(MemoryIntent):
    """Put `value` where `expected` stands, None for nothing; do nothing where another text does."""

    name: MemoryName
    expected: str | None
    value: str


@dataclass
class DeleteMemory(MemoryIntent):
    """Forget it."""

    name: MemoryName


class UndoMemoryChange(MemoryIntent):
    """Put back what stood where the person changed something last."""


class CloseMemory(MemoryIntent):
    """Nobody looks any more."""
