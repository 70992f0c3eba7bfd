"""Sessions screen: list, search, preview, go on, fork and delete."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.widgets import Input

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import KeyPresses
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import DeleteSession, ListSessions, OpenSession, PreviewSession
from ollm_tui.tui.screens.list_and_text import LOOKING, KeyHint, SearchedListScreen
from ollm_tui.tui.screens.memory_browser import size_words
from ollm_tui.tui.screens.question_screens import YesNoScreen, ask_first
from ollm_tui.tui.styled_text import TextRole, app_of, line, set_rule
from ollm_tui.tui.values import SessionRow
from ollm_tui.tui.widgets.row_list import ListRow, RowList

NOTHING_KEPT = "No session yet in which something was asked. This one will be here once you ask."
NOTHING_FOUND = "No session has that in its title or text. Esc shows all again."
OPEN = "It is open in another window. Go on there, or f goes on in a copy of it here."


@register_keys(KeyGroup.SESSIONS)
class SessionsScreen(SearchedListScreen):
    """Posts what to do with a session, and closes when another one is to be opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *key_bindings(
            ("escape", "back", "Close", "sessions.back", "Leave the search, then the sessions"),
            ("ctrl+s", "close", "Close", "sessions.close", "Close the sessions"),
            priority=True,
        ),
        *key_bindings(
            ("slash", "search", "Search", "sessions.search", "Search titles and texts"),
            ("f", "fork", "Fork", "sessions.fork", "Go on in a copy of the marked session"),
            ("n", "new", "New", "sessions.new", "Begin a new session"),
            ("d,delete", "delete", "Delete", "sessions.delete", "Delete the marked session, after a question"),
            ("tab", "read", "Read", "sessions.read", "From the list to the text, and back"),
        ),
    ]

    TITLE_TEXT = "Sessions"
    SEARCH = "Search titles and texts"
    KEYS = (
        KeyHint("Enter", "go on", "go_on"),
        KeyHint("f", "fork", "fork"),
        KeyHint("n", "new", "new"),
        KeyHint("d", "delete", "delete"),
        KeyHint("/", "search", "search"),
        KeyHint("Tab", "read", "read"),
        KeyHint("Esc", "close", "back"),
    )

    def __init__(self, presses: KeyPresses, containing: str = "") -> None:
        super().__init__("sessions", containing)
        self._presses = presses
        self._listed: tuple[SessionRow, ...] = ()
        self._containing = containing

    def on_mount(self) -> None:
        """Ask for the sessions."""
        self.post_message(ListSessions(self._containing))

    def take(self, message: updates.Update) -> None:
        """Show an update that concerns the sessions."""
        match message:
            case updates.SessionsUpdate(containing, rows, complete) if containing == self._containing:
                self._show_sessions(rows, complete=complete)
            case updates.SessionPreviewUpdate(session_id, text):
                if session_id == self._rows.chosen_id:
                    self._shown.show_text(text or "(nothing)", role=TextRole.PLAIN if text else TextRole.MUTED)
            case _:
                pass

    def _show_sessions(self, rows: tuple[SessionRow, ...], *, complete: bool) -> None:
        before = self._rows.chosen_id
        self._listed = rows
        self._rows.show_rows([_list_row(row) for row in rows])
        what = f"{len(rows)} found" if self._containing else f"{len(rows)} kept"
        self.entitle(f"Sessions  {what}{'' if complete else ', searching ...'}")
        if not rows:
            empty = LOOKING if not complete else NOTHING_FOUND if self._containing else NOTHING_KEPT
            self._shown.show_text(empty, role=TextRole.MUTED)
            set_rule(self._side, "", "")
        elif self._rows.chosen_id != before:
            self._marked_another()
        else:
            self._draw_title()

    # -- moving ------------------------------------------------------------------------------------------------------

    @on(Input.Changed, "#list-search")
    def _searched(self, event: Input.Changed) -> None:
        if event.value != self._containing:
            self._containing = event.value
            self.post_message(ListSessions(event.value))

    @on(RowList.Moved)
    def _marked_another(self) -> None:
        row = self._chosen
        self.say("")
        self._draw_title()
        if row is not None:
            self._shown.show_text(LOOKING, role=TextRole.MUTED)
            self.post_message(PreviewSession(row.id))

    @on(RowList.Opened)
    def _opened(self, event: RowList.Opened) -> None:
        event.stop()
        self.action_go_on()

    # -- actions -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key works now."""
        return action in ("back", "close") or not self._search.has_focus

    def action_go_on(self) -> None:
        """Go on with the marked session."""
        row = self._chosen
        if row is None:
            return
        if row.state == "this one":
            self.action_close()
        elif row.state == "open":
            self.say(OPEN)
        else:
            self._leave(OpenSession(row.id))

    def action_fork(self) -> None:
        """Go on in a copy of the marked session."""
        if (row := self._chosen) is not None:
            self._leave(OpenSession(row.id, fork=True))

    def action_new(self) -> None:
        """Begin a new session."""
        self._leave(OpenSession())

    def action_delete(self) -> None:
        """Delete the marked session after asking."""
        row = self._chosen
        if row is None or not self.is_current:
            return
        facts = (f"{row.title} ({row.id})", "Its log, outputs and recordings are deleted for good.")
        question = YesNoScreen("Delete this session?", facts, "delete it", self._presses)
        ask_first(self, question, lambda: self.post_message(DeleteSession(row.id)))

    def action_back(self) -> None:
        """Leave the search, then the screen."""
        if self.leave_search():
            return
        if self._shown.has_focus:
            self._rows.focus()
        else:
            self.action_close()

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _leave(self, intent: OpenSession) -> None:
        if self.is_current:
            app_of(self).post_message(intent)
            self.dismiss()

    @property
    def _chosen(self) -> SessionRow | None:
        return next((row for row in self._listed if row.id == self._rows.chosen_id), None)

    def _draw_title(self) -> None:
        row = self._chosen
        words = "" if row is None else f"{row.id}  {size_words(row.size)}"
        set_rule(self._side, words, "" if row is None or row.here else f"worked in {visible(row.workspace)}")


def _list_row(row: SessionRow) -> ListRow:
    """Return the two lines of a session in the list."""
    state = "" if not row.state else f"{row.state}  "
    second = row.excerpt or f"{row.facts}{'' if row.here else f'  {visible(row.workspace)}'}"
    role = TextRole.WARNING if row.state == "broken off" else TextRole.ACCENT
    beside = line((state, role), (row.age, TextRole.MUTED))
    return ListRow(row.id, (line((visible(row.title), TextRole.STRONG)), line((f"  {second}", TextRole.MUTED))), beside)
