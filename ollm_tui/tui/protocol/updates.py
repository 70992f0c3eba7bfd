"""Messages from the backend to the screen: frozen values, safe to post from any task or thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from textual.message import Message

from ollm_tui.tui.values import Activity

if TYPE_CHECKING:
    from textual.theme import Theme

    from ollm_tui.agent.message_queue import QueuedMessage
    from ollm_tui.agent.prompt_files import PromptFile
    from ollm_tui.config import ConfigError
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.execution.calls import CallReview
    from ollm_tui.core.execution.remembering import RuleEffect
    from ollm_tui.core.shell.status import CommandStatus, ProcessName
    from ollm_tui.core.todos.todo import Todo
    from ollm_tui.tui.notifications import Notify
    from ollm_tui.tui.values import (
        Change,
        ConfirmationQueueSnapshot,
        MemoryListing,
        MemoryName,
        MemoryOutcome,
        MemoryText,
        RequestRow,
        SessionRow,
        SessionStatus,
    )


class Update(Message):
    """Base of all updates."""


@dataclass
class ConversationUpdate(Update):
    """The conversation changed."""

    change: Change


@dataclass
class FoundUpdate(Update):
    """The answer to `FindEntry`; without an id nothing has the words in it."""

    words: str
    entry_id: str


@dataclass
class QueueUpdate(Update):
    """The queue of confirmations as it is now."""

    queue: ConfirmationQueueSnapshot


@dataclass
class ReviewUpdate(Update):
    """The review of a confirmation's call, or of that call with changed `arguments`."""

    item_id: str
    review: CallReview
    arguments: JsonObject | None = None


@dataclass
class RuleEffectUpdate(Update):
    """What a rule would do to these confirmations and to the last calls."""

    item_ids: tuple[str, ...]
    effect: RuleEffect


@dataclass
class TodosUpdate(Update):
    """The todo list as it is now."""

    todos: tuple[Todo, ...]


@dataclass
class ActivityUpdate(Update):
    """What the turn does; `detail` names the running tool or the rate, `error` says why it failed."""

    activity: Activity
    detail: str = ""
    error: str = ""


@dataclass
class MessagesUpdate(Update):
    """The messages that wait for the model; `held` ones wait for the person to send again."""

    messages: tuple[QueuedMessage, ...]
    held: bool = False


@dataclass
class DraftUpdate(Update):
    """A waiting message that goes back into the prompt."""

    text: str


@dataclass
class StatusUpdate(Update):
    """Model, workspace, mode and tokens as they are now."""

    status: SessionStatus


@dataclass
class CommandsUpdate(Update):
    """The commands that have or had a terminal."""

    commands: tuple[CommandStatus, ...]


@dataclass
class ShellErrorUpdate(Update):
    """The person's shell could not be started."""

    reason: str


@dataclass
class ShellBusyUpdate(Update):
    """A shell that the person closes runs these processes beside itself."""

    command_id: str
    processes: tuple[ProcessName, ...]


@dataclass
class JobsUpdate(Update):
    """The jobs as they are now; `unknown` says what the system does not tell about them."""

    jobs: tuple[CommandStatus, ...]
    unknown: str = ""


@dataclass
class TrustQuestionUpdate(Update):
    """Ask whether to trust files of the workspace as they are now: names and contents."""

    files: tuple[tuple[str, bytes], ...]


class MemoryUpdate(Update):
    """Base of the updates for the memory screen."""


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
    """How a change by the person ended; `stored` is the text there is now, None for none."""

    outcome: MemoryOutcome
    message: str = ""
    name: MemoryName | None = None
    stored: str | None = None


class SessionUpdate(Update):
    """Base of the updates for the sessions screen."""


@dataclass
class SessionsUpdate(SessionUpdate):
    """The sessions in which `containing` was said, as they are now."""

    containing: str
    rows: tuple[SessionRow, ...]
    complete: bool = True
    """False while their texts are still searched."""


@dataclass
class SessionPreviewUpdate(SessionUpdate):
    """The last of what was said in a session."""

    session_id: str
    text: str


@dataclass
class RequestsUpdate(SessionUpdate):
    """The person's messages of a session, the first one first."""

    session_id: str
    requests: tuple[RequestRow, ...]


@dataclass
class ConfigErrorsUpdate(Update):
    """Errors in the person's files."""

    errors: tuple[ConfigError, ...]


@dataclass(frozen=True)
class ScreenSettings:
    """The settings that concern the screen, with the valid themes."""

    themes: tuple[Theme, ...] = ()
    theme: str = ""
    keys: dict[str, str] = field(default_factory=dict[str, str])
    auto_open: bool = True
    notify: Notify = "all"
    allow_clipboard: bool = False


@dataclass
class PromptFilesUpdate(Update):
    """The commands and skills that are kept as files and count now, and what MCP servers offer."""

    files: tuple[PromptFile, ...]
    resources: tuple[tuple[str, str], ...] = ()
    """How a message refers to each resource of a server, and its name."""


@dataclass
class SettingsUpdate(Update):
    """The settings were loaded; taken by the app."""

    settings: ScreenSettings


@dataclass
class ToastUpdate(Update):
    """A short message that needs no answer."""

    text: str
    failed: bool = False
