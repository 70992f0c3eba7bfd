"""Dashboard screen: routes updates to panes and handles its keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.timer import Timer

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.layout import Pane
from ollm_tui.tui.panes.confirmations_pane import QueuePane
from ollm_tui.tui.panes.terminal_prefix import TerminalPrefix
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.command_intents import WatchJobs
from ollm_tui.tui.protocol.intents import AskForTrust, ChangeMode, Intent, InterruptTurn, OpenSession, SendMessage
from ollm_tui.tui.protocol.undo import UndoUpdate
from ollm_tui.tui.screens.confirmation_review import ConfirmationReview
from ollm_tui.tui.screens.pane_screen import TerminalFocusScreen
from ollm_tui.tui.styled_text import app_of
from ollm_tui.tui.values import Activity, SessionStatus
from ollm_tui.tui.widgets.prompt import Prompt
from ollm_tui.tui.widgets.tab_strip import short_label
from ollm_tui.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from ollm_tui.agent.message_queue import QueuedMessage
    from ollm_tui.core.shell.status import CommandStatus
    from ollm_tui.tui.screens.jobs_screen import JobsScreen
    from ollm_tui.tui.screens.undo_screen import UndoScreen

ESCAPE_SECONDS = 1.5
"""Within this time a second Esc stops the turn."""

ALWAYS_ACTIVE = ("review", "leave_terminal")
"""Actions whose keys work while a program in the terminal has the keyboard."""


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
        self._started = 0.0
        self._escape_at = float("-inf")
        """When Esc was pressed first to stop the turn."""
        self._activity_detail = ""
        self._ticker: Timer | None = None
        self._jobs: JobsScreen | None = None
        self._undo: UndoScreen | None = None

    def on_mount(self) -> None:
        """Arrange the panes for the size."""
        self._ticker = self.set_interval(1.0, self.tick, pause=True)
        self.rearrange(columns=self.size.width, rows=self.size.height)

    # -- updates -----------------------------------------------------------------------------------------------------

    @on(updates.Update)
    def take(self, update: updates.Update) -> None:
        """Hand an update to the panes it concerns."""
        match update:
            case updates.ConversationUpdate(change):
                self.chat.apply(change)
            case updates.QueueUpdate(queue):
                self.reviewing.take(queue)
                self._show_waiting()
            case updates.TodosUpdate(todos):
                self.todo.todos = todos
                self.draw_tabs()
                self.give_room()
            case updates.ActivityUpdate():
                self._show_activity(update)
            case updates.StatusUpdate(status):
                self._show_status(status)
            case updates.CommandsUpdate(commands):
                self._show_commands(commands)
            case updates.JobsUpdate(jobs, unknown):
                if self._jobs is not None and self._jobs.is_attached:
                    self._jobs.show_jobs(jobs, unknown)
            case updates.ReviewUpdate(item_id, review, arguments):
                self.reviewing.show_review(item_id, review, arguments)
            case updates.MessagesUpdate(messages, held):
                self._show_messages(messages, held=held)
            case updates.ShellErrorUpdate(reason):
                self.term.shell_failed(reason)
                self.give_room()
            case _:
                self._show_message(update)

    def _show_message(self, update: updates.Update) -> None:
        match update:
            case updates.DraftUpdate(text):
                self.prompt.put_back(text)
                self.go_to_prompt()
            case updates.FoundUpdate(words, entry_id):
                self.chat.show_found(words, entry_id)
            case UndoUpdate():
                if self._undo is not None and self._undo.is_attached:
                    self._undo.take(update)
            case updates.RuleEffectUpdate(item_ids, effect):
                self.reviewing.show_effect(item_ids, effect)
            case updates.TrustQuestionUpdate(files):
                self._ask_for_trust(files)
            case updates.ConfigErrorsUpdate(errors):
                # Several would cover half the screen; each is a note in the chat as well.
                text = str(errors[0]) if len(errors) == 1 else f"{len(errors)} errors in your files: see the chat."
                self.notify(visible(text), severity="warning", timeout=15, markup=False)
            case updates.ToastUpdate(text, failed):
                self.notify(visible(text), severity="error" if failed else "information", markup=False)
            case _:
                pass

    @on(Intent)
    def _pass_on(self, intent: Intent) -> None:
        """Hand an intent to the app: Textual does not bubble what was posted while this screen handled a message."""
        intent.stop()
        if isinstance(intent, SendMessage):
            self.give_room(also_less=True)
        app_of(self).post_message(intent)

    def tick(self) -> None:
        """Redraw ages and clocks, each second while there are some."""
        self._show_detail()
        self.reviewing.tick()
        self.term.tick()
        self.chat.transcript.tick()
        self._show_waiting()

    def _show_activity(self, update: updates.ActivityUpdate) -> None:
        if update.activity is not self.status.activity or update.activity is Activity.RUNNING:
            self._started = self._now()
        self._activity_detail = update.detail
        self.status.activity = update.activity
        self.chat.error = update.error
        self._show_detail()
        self._pace()
        self.refresh_bindings()

    def _show_status(self, status: SessionStatus) -> None:
        self.status.session = status
        self.queue.policy = status.mode if not status.denied_because else "everything is denied"
        model = [] if not status.model else [f"Model: {status.model}{'  (offline)' if status.offline else ''}"]
        self.refresh_bindings()
        self.chat.welcome([*model, f"Workspace: {status.workspace}", f"Policy: {status.mode}"])

    def _show_messages(self, messages: tuple[QueuedMessage, ...], *, held: bool) -> None:
        here = self.messages.has_focus_within
        self.messages.show_messages(messages, held=held)
        if here and not messages:
            self.go_to_prompt()
        self.refresh_bindings()

    def _show_detail(self) -> None:
        seconds = f"{int(self._now() - self._started)}s"
        self.status.detail = " ".join(part for part in (self._activity_detail, seconds) if part)

    def _show_commands(self, commands: tuple[CommandStatus, ...]) -> None:
        asking = [command for command in commands if command.waits_for_person]
        self.status.asking = short_label(asking[-1]) if asking else ""
        self.status.jobs = sum(command.is_job and command.unfinished for command in commands)
        self.chat.transcript.show_asking(frozenset(command.call_id for command in asking))
        self.term.show_commands(commands)
        self.draw_tabs()
        self.give_room()
        self._pace()

    def _show_waiting(self) -> None:
        queue = self.reviewing.queue
        waiting = len(queue.pending)
        self.waiting = self.status.waiting = self.banner.waiting = waiting
        deadline = queue.next_deadline
        self.banner.seconds_left = None if deadline is None else max(0.0, deadline - self._now())
        self.keys.labels = {"queue.review": f"Review({waiting})"}
        self.draw_tabs()
        self.give_room()
        self._pace()
        self.refresh_bindings()

    def _pace(self) -> None:
        """Run the timer only while seconds are shown."""
        busy = self.status.activity not in (Activity.IDLE, Activity.FAILED)
        if self._ticker is not None:
            if busy or self.term.busy or self.reviewing.queue.next_deadline is not None:
                self._ticker.resume()
            else:
                self._ticker.pause()

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
                return self.status.activity not in (Activity.IDLE, Activity.FAILED)
            case _:
                return True

    def action_go_on(self) -> None:
        """Go on with the session that ended unexpectedly."""
        self.post_message(OpenSession(self.status.session.broken_off))

    def action_mode(self) -> None:
        """Change to the next policy mode."""
        self.post_message(ChangeMode(None))

    def action_choose_mode(self, mode: str) -> None:
        """Change to a mode by name; yolo asks first."""
        if mode != "yolo":
            self.post_message(ChangeMode(mode))
            return
        from ollm_tui.tui.screens.question_screens import YesNoScreen, ask_first

        facts = (
            "What the policy would ask about runs without a question.",
            "What is denied stays denied, and deletions still ask.",
        )
        question = YesNoScreen("Mode yolo?", facts, "let it run", self.presses)
        ask_first(self, question, lambda: self.post_message(ChangeMode("yolo")))

    def action_trust(self) -> None:
        """Show the workspace's own config file and instructions, and ask whether to trust them."""
        self.post_message(AskForTrust())

    def _ask_for_trust(self, files: tuple[tuple[str, bytes], ...]) -> None:
        from ollm_tui.tui.screens.question_screens import TrustScreen

        if self.is_current:  # else it would get keys meant for the open screen
            app_of(self).push_screen(TrustScreen(files, self.presses))
        else:
            self.notify("Something else is open. Close it, then /trust again.", markup=False)

    def action_jobs(self) -> None:
        """Open the list of jobs."""
        from ollm_tui.tui.screens.jobs_screen import JobsScreen

        if self.is_current:
            self._jobs = JobsScreen(self.presses)
            app_of(self).push_screen(self._jobs, self._jobs_closed)

    def _jobs_closed(self, job_id: str | None) -> None:

        self.post_message(WatchJobs(False))
        self._jobs = None
        if job_id is not None:
            self.term.choose(job_id)
            self.go_to(Pane.TERM)

    def action_undo(self, call_id: str = "") -> None:
        """Open the list of what calls changed, one of them marked."""
        from ollm_tui.tui.screens.undo_screen import UndoScreen

        if self.is_current:
            self._undo = UndoScreen(self.presses, call_id)
            app_of(self).push_screen(self._undo)

    @on(Transcript.UndoAsked)
    def _undo_asked(self, event: Transcript.UndoAsked) -> None:
        self.action_undo(event.call_id)

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
        if self._now() - self._escape_at <= ESCAPE_SECONDS:
            self._escape_at = float("-inf")
            self.post_message(InterruptTurn())
            return
        self._escape_at = self._now()
        self.call_after_refresh(self._escape_hinted)
        running = self._activity_detail if self.status.activity is Activity.RUNNING else ""
        what = f"the turn and {visible(running)}" if running else "the turn"
        waiting = f", and withdraws {self.waiting} open question{'s' if self.waiting > 1 else ''}"
        words = f"Esc again stops {what}{waiting if self.waiting else ''}."
        self.notify(words, timeout=ESCAPE_SECONDS, markup=False)

    def _escape_hinted(self) -> None:
        # The time runs from where the person can read what the second press does: a busy machine paints late.
        if self._escape_at > float("-inf"):
            self._escape_at = self._now()

    def key_typed(self, key: str) -> None:
        """Note that another key came between two."""
        if key != "escape":
            self._escape_at = float("-inf")

    def on_key(self, event: events.Key) -> None:
        """Give a letter that is no key of its pane to the prompt."""
        free = event.is_printable and event.character is not None and event.key not in self.active_bindings
        if free and not self.prompt.has_focus and not self.term.has_focus_within:
            event.stop()
            self.go_to_prompt()
            self.prompt.insert(event.character or "")

    @on(QueuePane.ReviewAsked)
    def _review_asked(self, event: QueuePane.ReviewAsked) -> None:
        self.reviewing.open(event.item_id)

    @on(QueuePane.GroupAsked)
    def _group_asked(self, event: QueuePane.GroupAsked) -> None:
        self.reviewing.open_group(event.item_ids)

    @on(Transcript.CopyAsked)
    def _copy(self, event: Transcript.CopyAsked) -> None:
        app_of(self).copy_to_clipboard(event.text)
        self.notify(f"{len(event.text)} characters copied.", markup=False)

    @on(Prompt.Edited)
    def _draft_edited(self) -> None:
        self.reviewing.consider()
