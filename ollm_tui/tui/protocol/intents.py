"""Messages from panes and screens: what the person wants done. Each controller takes one family of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from textual.message import Message

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.bus.states import RememberScope
    from ollm_tui.tui.terminal_references import Reference
    from ollm_tui.tui.values import Entry, MemoryName, MemoryQuery


class Intent(Message):
    """Base of all intents; they carry plain data."""


@dataclass
class ReportFocus(Intent):
    """The terminal window got the keyboard focus, or lost it."""

    focused: bool


# -- conversation ------------------------------------------------------------------------------------------------------


class TurnIntent(Intent):
    """Base of the intents about turns."""


@dataclass
class SendMessage(TurnIntent):
    """Send this message; `references` are the terminal excerpts that it names."""

    text: str
    references: tuple[Reference, ...] = ()


@dataclass
class EditQueued(TurnIntent):
    """Take a waiting message back into the prompt."""

    message_id: int


@dataclass
class DropQueued(TurnIntent):
    """Drop a waiting message."""

    message_id: int


@dataclass
class MoveQueued(TurnIntent):
    """Send a waiting message earlier (-1) or later (1)."""

    message_id: int
    step: int


class ReleaseQueued(TurnIntent):
    """Send the messages that were kept when the turn was stopped."""


class RetryTurn(TurnIntent):
    """Send the last message again."""


@dataclass
class CompactConversation(TurnIntent):
    """Sum up the earlier conversation; `hint` says what to keep above all."""

    hint: str = ""


@dataclass
class ShowContext(TurnIntent):
    """Tell what fills the model's window; `drop N` drops an item of what was told last."""

    words: str = ""


class ModelIntent(Intent):
    """Base of the intents about models."""


@dataclass
class ChooseModel(ModelIntent):
    """Take another model for the session; without `server` the one of that name, wherever it is."""

    name: str
    server: str = ""


class Connect(ModelIntent):
    """Look for model servers again."""


@dataclass
class PullModel(ModelIntent):
    """Have Ollama load a model; without a name stop the pull that runs."""

    name: str = ""


class InterruptTurn(TurnIntent):
    """Stop the running turn."""


@dataclass
class StopTask(TurnIntent):
    """Stop one sub-agent; the turn goes on without its result."""

    call_id: str


class EntryIntent(Intent):
    """Base of the intents about entries whose text is in the log alone."""


@dataclass
class ReadEntries(EntryIntent):
    """Read these entries' texts back."""

    entries: tuple[Entry, ...]


@dataclass
class FindEntry(EntryIntent):
    """Find the first of these entries that has `words` in its text; else it is the entry `otherwise`, if any."""

    words: str
    entries: tuple[Entry, ...]
    otherwise: str = ""


# -- sessions ----------------------------------------------------------------------------------------------------------


class SessionIntent(Intent):
    """Base of the intents about sessions."""


@dataclass
class ListSessions(SessionIntent):
    """List the sessions in which this was said, or all."""

    containing: str = ""


@dataclass
class PreviewSession(SessionIntent):
    """Show the last of what was said in a session."""

    session_id: str


@dataclass
class ExportSession(SessionIntent):
    """Write this session as Markdown to a new file; without a path to one in the workspace that is named after it."""

    path: str = ""


@dataclass
class ShowReport(Intent):
    """Show what works on this machine, the MCP servers, or other sessions that wait."""

    subject: Literal["doctor", "mcp", "sources"]


@dataclass
class AttachCommand(Intent):
    """Start a command that speaks as `run --ask stdio` does, and take its questions."""

    command: tuple[str, ...]


@dataclass
class OpenSession(SessionIntent):
    """Go on with a session, a new one where none is named.

    With `fork` in a copy of it; of this session, up to an event, where `before` is given, and with `files` these go
    back to that state first.
    """

    session_id: str | None = None
    fork: bool = False
    before: int | None = None
    files: bool = False


@dataclass
class DeleteSession(SessionIntent):
    """Delete a session with its outputs."""

    session_id: str


class ListRequests(SessionIntent):
    """List the person's messages of this session, to go back to one."""


# -- mode and trust ----------------------------------------------------------------------------------------------------


@dataclass
class ChangeMode(Intent):
    """Change the policy mode; None for the next one."""

    mode: str | None


class TrustIntent(Intent):
    """Base of the intents about the workspace's own config file and instructions."""


class AskForTrust(TrustIntent):
    """Show the workspace's own config file and instructions, and ask whether to trust them."""


@dataclass
class TrustFiles(TrustIntent):
    """Trust each file as long as it says just what was shown."""

    shown: tuple[tuple[str, bytes], ...]


# -- confirmations -----------------------------------------------------------------------------------------------------


class ConfirmationIntent(Intent):
    """Base of the intents about confirmations."""


@dataclass
class DecideConfirmation(ConfirmationIntent):
    """Settle a confirmation; `remember` and `rule` where the answer is to be remembered."""

    item_id: str
    approved: bool
    reason: str | None = None
    modified: JsonObject | None = None
    remember: RememberScope | None = None
    rule: str | None = None
    caged: bool = False
    reviewed: str | None = None
    """The digest of the review that showed what `modified` does."""


@dataclass
class DenyConfirmations(ConfirmationIntent):
    """Deny several confirmations."""

    item_ids: tuple[str, ...]


@dataclass
class DecideGroup(ConfirmationIntent):
    """Settle several confirmations that were shown together, each by its own id."""

    item_ids: tuple[str, ...]
    approved: bool
    reason: str | None = None


@dataclass
class PreviewRule(ConfirmationIntent):
    """Show what a rule would do to these confirmations and to the last calls."""

    item_ids: tuple[str, ...]
    wording: str


@dataclass
class SaveRule(ConfirmationIntent):
    """Save a rule, and approve those of these confirmations that it allows."""

    item_ids: tuple[str, ...]
    wording: str
    scope: RememberScope


@dataclass
class HoldGroup(ConfirmationIntent):
    """Stop the clocks of confirmations that are shown together; with `on` false they go on."""

    item_ids: tuple[str, ...]
    on: bool


@dataclass
class HoldConfirmation(ConfirmationIntent):
    """Stop the clock of a confirmation that is being read, and review its call."""

    item_id: str


@dataclass
class ReleaseConfirmation(ConfirmationIntent):
    """Let the clock of a confirmation go on."""

    item_id: str


@dataclass
class ReviewArguments(ConfirmationIntent):
    """Judge the call of a confirmation with changed arguments."""

    item_id: str
    arguments: JsonObject


# -- todos -------------------------------------------------------------------------------------------------------------


class TodoIntent(Intent):
    """Base of the intents about todos."""


@dataclass
class AddTodo(TodoIntent):
    """Add a todo at the end of the list."""

    task: str


@dataclass
class MarkTodo(TodoIntent):
    """Mark a todo as done, or as open again."""

    todo_id: str
    done: bool


@dataclass
class RemoveTodo(TodoIntent):
    """Delete a todo."""

    todo_id: str


class RestoreTodo(TodoIntent):
    """Bring back the todo that was deleted last."""


# -- memory ------------------------------------------------------------------------------------------------------------


class MemoryIntent(Intent):
    """Base of the intents about the memory."""


@dataclass
class ListMemories(MemoryIntent):
    """List the memories that match, now and after each change."""

    query: MemoryQuery


@dataclass
class ReadMemory(MemoryIntent):
    """Read the whole text of a memory, now and after each change."""

    name: MemoryName


@dataclass
class SaveMemory(MemoryIntent):
    """Replace `expected` (None for nothing) by `value`, unless another text is stored."""

    name: MemoryName
    expected: str | None
    value: str


@dataclass
class DeleteMemory(MemoryIntent):
    """Delete a memory."""

    name: MemoryName


class UndoMemoryChange(MemoryIntent):
    """Undo the person's last change."""


class CloseMemory(MemoryIntent):
    """Stop listing: the memory screen was closed."""
