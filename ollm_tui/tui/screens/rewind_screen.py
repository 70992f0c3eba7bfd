"""Screen to go back to a message, with what that does to files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from textual import on
from textual.binding import BindingType

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import KeyPresses
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import ListRequests
from ollm_tui.tui.protocol.undo import UndoPlanUpdate, since
from ollm_tui.tui.screens.undo_screen import PlanScreen
from ollm_tui.tui.styled_text import TextRole, line
from ollm_tui.tui.values import RequestRow
from ollm_tui.tui.widgets.row_list import ListRow, RowList

NOTHING_ASKED = "Nothing has been asked in this session yet."
KEPT = (
    "The conversation goes on in a fork, with the message back in the prompt; this session stays in the list. Nothing "
    "is deleted: files that go are in the trash, and /undo brings them back."
)
NO_WAY_BACK = "What commands did outside the workspace, over the network or to ignored files stays as it is."
NO_FILES = "No file has changed since that can be taken back. Enter goes back with the conversation alone."


class Scope(StrEnum):
    """What goes back."""

    CONVERSATION = "conversation"
    FILES = "files"
    BOTH = "both"


@dataclass(frozen=True)
class RewindChoice:
    """The message to go back to before, and what goes back."""

    request: RequestRow
    scope: Scope


@register_keys(KeyGroup.SESSIONS, 1)
class RewindScreen(PlanScreen[RewindChoice | None]):
    """Dismissed with the choice."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("b", "go_back('both')", "Both", "rewind.both", "Go back with conversation and files"),
        ("f", "go_back('files')", "Files", "rewind.files", "Take the files back, and stay in the conversation"),
        ("tab", "other_side", "Diff", "rewind.side", "Go between the messages and the diff"),
        ("escape,q", "close", "Close", "rewind.close", "Stay where you are"),
    )
    TITLE_TEXT = "Go back to before which message?"
    KEYS = (
        ("Enter", "conversation alone", "screen.go_back('conversation')"),
        ("b", "both", "screen.go_back('both')"),
        ("f", "files alone", "screen.go_back('files')"),
        ("Tab", "diff", "screen.other_side"),
        ("Esc", "close", "screen.close"),
    )

    def __init__(self, presses: KeyPresses) -> None:
        super().__init__(presses)
        self._requests: tuple[RequestRow, ...] = ()

    def on_mount(self) -> None:
        """Ask for the messages."""
        self.say("Looking ...")
        self.post_message(ListRequests())

    def take(self, update: updates.Update) -> None:
        """Show the messages, the last one marked, and what going back would do."""
        match update:
            case updates.RequestsUpdate(_, requests):
                self._requests = requests
                self._rows.show_rows([_request_row(row) for row in requests])
                if requests:
                    self._rows.choose(str(requests[-1].event_id))
                self.say(NOTHING_ASKED if not requests else "")
                self._ask()
            case UndoPlanUpdate(plan) if self._chosen is not None and plan.wanted == since(self._chosen.event_id):
                self.show_plan(plan, "What going back does to the files")
                found = f"Files: {plan.summary}. {NO_WAY_BACK}" if plan.parts else f"Files: {plan.summary}."
                self.say(found, KEPT)
            case _:
                pass

    @on(RowList.Moved)
    def _ask(self) -> None:
        self.ask_plan("" if self._chosen is None else since(self._chosen.event_id))

    @on(RowList.Opened)
    def _opened(self, event: RowList.Opened) -> None:
        event.stop()
        self.action_go_back(Scope.CONVERSATION.value)

    def action_go_back(self, scope: str) -> None:
        """Close with the marked message; files go back by a deliberate key only."""
        if self._chosen is None or not self.is_current:
            return
        if scope != Scope.CONVERSATION:
            if self._plan is None or not self.may(scope):
                return
            if not self._plan.works:
                self.notify(NO_FILES, markup=False)
                return
            choice = RewindChoice(self._chosen, Scope(scope))
            self.decide(lambda: self.dismiss(choice))
        else:
            self.dismiss(RewindChoice(self._chosen, Scope.CONVERSATION))

    @property
    def _chosen(self) -> RequestRow | None:
        return next((row for row in self._requests if str(row.event_id) == self._rows.chosen_id), None)


def _request_row(row: RequestRow) -> ListRow:
    lines = row.text.strip().splitlines() or [""]
    more = f"  +{len(lines) - 1} lines" if len(lines) > 1 else ""
    beside = line((f"{more}  {row.time:>5}", TextRole.MUTED))
    return ListRow(str(row.event_id), (line(visible(lines[0])),), beside)
