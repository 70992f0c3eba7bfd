"""Dashboard screen: its keys, and where its updates go."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events, on
from textual.binding import BindingType

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.panes.confirmations_pane import QueuePane
from ollm_tui.tui.panes.terminal_prefix import TerminalPrefix
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import AskForTrust, ChangeMode, Intent, InterruptTurn, OpenSession, SendMessage
from ollm_tui.tui.protocol.undo import UndoUpdate
from ollm_tui.tui.screens.confirmation_review import ConfirmationReview
from ollm_tui.tui.screens.dashboard_dialogs import DashboardDialogs
from ollm_tui.tui.screens.dashboard_updates import DashboardUpdates
from ollm_tui.tui.screens.pane_screen import TerminalFocusScreen
from ollm_tui.tui.styled_text import app_of
from ollm_tui.tui.values import Activity
from ollm_tui.tui.widgets.prompt import Prompt
from ollm_tui.tui.widgets.transcript import Transcript

ESCAPE_SECONDS = 1.5
"""Within this time a second Esc stops the turn."""

ALWAYS_ACTIVE = ("review", "leave_terminal")
"""Actions whose keys work while a program in the terminal has the keyboard."""


class InterruptKey:
    """Esc in the prompt, which stops the turn when pressed twice."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._pressed_at = float("-inf")

    def press(self) -> bool:
        """Take a press; return whether it is the second."""
        second = self._now() - self._pressed_at <= ESCAPE_SECONDS
        self._pressed_at = float("-inf") if second else self._now()
        return second

    def hinted(self) -> None:
        """Let the time run from here, where the hint is painted.

        A busy machine paints it late.
        """
        if self._pressed_at > float("-inf"):
            self._pressed_at = self._now()

    def key_typed(self, key: str) -> None:
        """Note that another key came between two."""
        if key != "escape":
            self._pressed_at = float("-inf")


@register_keys(KeyGroup.EVERYWHERE, 1)
class Dashboard(TerminalFocusScreen):
    """The main screen; knows panes and values only."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *key_bindings(
            ("f2", "messages", "Messages", "messages.go", "Go to the messages that wait: edit, reorder, drop"),
            ("f2", "go_on", "Go on", "session.go_on", "Go on with the session that ended unexpectedly"),
            ("f3", "jobs", "Jobs", "jobs.list", "List the jobs: age, CPU, ports; end one"),
            ("f4", "mode", "Mode", "app.mode", "Next policy mode: ask, auto-edit, plan"),
            ("f6", "pane(1)", "Next pane", "pane.next", "Go to the next pane"),
            ("shift+f6", "pane(-1)", "Pane before", "pane.previous", "Go to the pane before"),
            ("f7", "terminal_tab", "Next tab", "terminal.tab", "Next tab of the terminal"),
            ("f8", "review", "Review", "queue.review", "Decide on the oldest open question"),
            ("f9", "sidebar", "Queue and todos", "layout.sidebar", "Show or hide queue and todos"),
            ("f10", "zoom", "Zoom", "layout.zoom", "Give one pane the whole screen, or end that"),
            (
                "f5",
                "read_terminal",
                "Read terminal",
                "terminal.read",
                "Move over the terminal with keys: scroll, search, select",
            ),
            (
                "f12",
                "send_selection",
                "Send selection",
                "terminal.send_selection",
                "Put what is selected in the terminal into the prompt",
            ),
            ("ctrl+t", "terminal", "Terminal", "terminal.focus", "Go to the terminal"),
            priority=True,
        ),
        *key_bindings(
            (
                "ctrl+right_square_bracket",
                "leave_terminal",
                "Leave terminal",
                "terminal.leave",
                "From the terminal to the prompt; with a key behind it more",
            ),
        ),
        *key_bindings(
            ("ctrl+f", "search", "Search", "chat.search", "Search the chat, or the terminal you are in"),
            ("ctrl+o", "fold", "Fold all", "chat.fold", "Open or fold all tool calls"),
            priority=True,
        ),
        *key_bindings(
            ("escape", "to_prompt", "Prompt", "pane.prompt", "From a pane back to the prompt"),
            ("escape", "interrupt", "Interrupt", "turn.interrupt", "In the prompt, twice: stop the running turn"),
        ),
    ]

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self.reviewing = ConfirmationReview(self, self.presses)
        self.updates = DashboardUpdates(self, self.reviewing, now)
        self.dialogs = DashboardDialogs(self)
        self.interrupting = InterruptKey(now)

    def on_mount(self) -> None:
        """Arrange the panes for the size."""
        self.updates.start()
        self.rearrange(columns=self.size.width, rows=self.size.height)

    # -- updates -----------------------------------------------------------------------------------------------------

    @on(updates.Update)
    def take(self, update: updates.Update) -> None:
        """Hand an update to the panes, or to what is over them."""
        match update:
            case updates.ReviewUpdate(item_id, review, arguments):
                self.reviewing.show_review(item_id, review, arguments)
            case updates.RuleEffectUpdate(item_ids, effect):
                self.reviewing.show_effect(item_ids, effect)
            case updates.JobsUpdate() | updates.TrustQuestionUpdate() | updates.ShellBusyUpdate() | UndoUpdate():
                self.dialogs.take(update)
            case _:
                self.updates.take(update)

    @on(Intent)
    def _pass_on(self, intent: Intent) -> None:
        """Hand an intent to the app.

        Textual does not bubble what was posted while this screen handled a message.
        """
        intent.stop()
        if isinstance(intent, SendMessage):
            self.give_room(also_less=True)
        app_of(self).post_message(intent)

    # -- actions -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key works now."""
        if self.term.captures_keys and action not in ALWAYS_ACTIVE:
            return False
        match action:
            case "review":
                return bool(self.reviewing.queue.pending) and not isinstance(self.focused, TerminalPrefix)
            case "messages":
                return self.messages.display and not self.messages.has_focus_within
            case "go_on":
                return bool(self.status.session.broken_off) and not self.messages.display
            case "leave_terminal":
                return self.term.has_focus_within
            case "send_selection":
                return self.term.has_selection
            case "to_prompt":
                return not self.prompt.has_focus
            case "interrupt":
                return self.updates.running
            case _:
                return True

    def action_go_on(self) -> None:
        """Go on with the session that ended unexpectedly."""
        self.post_message(OpenSession(self.status.session.broken_off))

    def action_mode(self) -> None:
        """Change to the next policy mode."""
        self.post_message(ChangeMode(None))

    def action_trust(self) -> None:
        """Show the workspace's own config file and instructions, and ask whether to trust them."""
        self.post_message(AskForTrust())

    def action_jobs(self) -> None:
        """Open the list of jobs."""
        self.dialogs.open_jobs()

    def action_undo(self) -> None:
        """Open the list of what calls changed."""
        self.dialogs.open_undo()

    @on(Transcript.UndoAsked)
    def _undo_asked(self, event: Transcript.UndoAsked) -> None:
        self.dialogs.open_undo(event.call_id)

    def action_messages(self) -> None:
        """Go to the messages that wait for the model."""
        self.messages.rows.focus()

    def action_review(self) -> None:
        """Open the oldest confirmation."""
        self.reviewing.open_oldest()

    def action_fold(self) -> None:
        """Open or fold all tool calls."""
        self.chat.transcript.fold_all()

    def action_to_prompt(self) -> None:
        """Go back to the prompt."""
        self.go_to_prompt()

    def action_interrupt(self) -> None:
        """Stop the turn when pressed twice; the first press says what the second would stop."""
        if self.interrupting.press():
            self.post_message(InterruptTurn())
            return
        self.call_after_refresh(self.interrupting.hinted)
        running = self.updates.detail if self.status.activity is Activity.RUNNING else ""
        what = f"the turn and {visible(running)}" if running else "the turn"
        waiting = f", and withdraws {self.waiting} open question{'s' if self.waiting > 1 else ''}"
        words = f"Esc again stops {what}{waiting if self.waiting else ''}."
        self.notify(words, timeout=ESCAPE_SECONDS, markup=False)

    def on_key(self, event: events.Key) -> None:
        """Give a letter that is no key of its pane to the prompt."""
        free = event.is_printable and event.character is not None and event.key not in self.active_bindings
        if free and not self.prompt.has_focus and not self.term.has_focus_within:
            event.stop()
            self.go_to_prompt()
            self.prompt.insert(event.character or "")

    @on(QueuePane.ReviewAsked)
    def _review_asked(self, event: QueuePane.ReviewAsked) -> None:
        match event.item_ids:
            case (item_id,):
                self.reviewing.open(item_id)
            case item_ids:
                self.reviewing.open_group(item_ids)

    @on(Prompt.Edited)
    def _draft_edited(self) -> None:
        self.reviewing.consider()
