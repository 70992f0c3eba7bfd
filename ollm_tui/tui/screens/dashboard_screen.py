"""The dashboard: panes in their places, focus, and the news of the house handed to whom it concerns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.timer import Timer

from ollm_tui.core.base.escape import visible
from ollm_tui.tui import protocol
from ollm_tui.tui.layout import Pane
from ollm_tui.tui.panes.confirmations_pane import QueuePane
from ollm_tui.tui.protocol import Intent
from ollm_tui.tui.screens.confirmation_review import ConfirmationReview
from ollm_tui.tui.screens.pane_screen import TerminalFocusScreen
from ollm_tui.tui.styled_text import app_of
from ollm_tui.tui.values import Activity, SessionStatus
from ollm_tui.tui.widgets.prompt import Prompt
from ollm_tui.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from ollm_tui.tui.screens.jobs_screen import JobsScreen

UNDER_TERMINAL = ("review", "leave_terminal")
"""Actions whose keys stay with the app while a program has the keyboard."""


class Dashboard(TerminalFocusScreen):
    """The one main screen. Knows panes and values; never bus, agent or store."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f3", "jobs", "Jobs", id="jobs.list", tooltip="List the jobs: age, CPU, ports; end one", priority=True),
        Binding("f4", "mode", "Mode", id="app.mode", tooltip="Next policy mode: ask, auto-edit, plan", priority=True),
        Binding("f6", "pane(1)", "Next pane", id="pane.next", tooltip="Go to the next pane", priority=True),
        Binding(
            "shift+f6", "pane(-1)", "Pane before", id="pane.previous", tooltip="Go to the pane before", priority=True
        ),
        Binding("f7", "terminal_tab", "Next tab", id="terminal.tab", tooltip="Next tab of the terminal", priority=True),
        Binding(
            "f8", "review", "Review", id="queue.review", tooltip="Decide on the oldest open question", priority=True
        ),
        Binding("f9", "sidebar", "Sidebar", id="layout.sidebar", tooltip="Show or hide queue and todos", priority=True),
        Binding(
            "f10",
            "zoom",
            "Zoom",
            id="layout.zoom",
            tooltip="Give one pane the whole screen, or end that",
            priority=True,
        ),
        Binding(
            "f5",
            "read_terminal",
            "Read terminal",
            id="terminal.read",
            tooltip="Move over the terminal with keys: scroll, search, select",
            priority=True,
        ),
        Binding(
            "f12",
            "send_selection",
            "Send selection",
            id="terminal.send_selection",
            tooltip="Put what is selected in the terminal into the prompt",
            priority=True,
        ),
        Binding("ctrl+t", "terminal", "Terminal", id="terminal.focus", tooltip="Go to the terminal", priority=True),
        Binding(
            "ctrl+right_square_bracket",
            "leave_terminal",
            "Leave terminal",
            id="terminal.leave",
            tooltip="From the terminal to the prompt; twice sends it",
        ),
        Binding(
            "ctrl+f",
            "search",
            "Search",
            id="chat.search",
            tooltip="Search the chat, or the terminal you are in",
            priority=True,
        ),
        Binding("ctrl+o", "fold", "Fold all", id="chat.fold", tooltip="Open or fold all tool calls", priority=True),
        Binding("escape", "interrupt", "Interrupt", id="turn.interrupt", tooltip="Stop the running turn"),
    ]

    @dataclass
    class ModeWanted(Intent):
        """Another policy mode; None for the next in the circle."""

        mode: str | None

    @dataclass
    class InterruptWanted(Intent):
        """Stop the running turn."""

    @dataclass
    class TrustWanted(Intent):
        """Show the folder's own config file, and let it count if the person trusts it."""

    @dataclass
    class FocusChanged(Intent):
        """The window has the person's attention, or lost it."""

        focused: bool

    def __init__(self, now: Callable[[], float], *, blink: bool = True) -> None:
        super().__init__(now, blink=blink)
        self.reviewing = ConfirmationReview(self, now)
        self._started = 0.0
        self._what = ""
        self._ticker: Timer | None = None
        self._jobs: JobsScreen | None = None

    def on_mount(self) -> None:
        self._ticker = self.set_interval(1.0, self.tick, pause=True)
        self.rearrange(columns=self.size.width, rows=self.size.height)

    # -- news --------------------------------------------------------------------------------------------------------

    @on(protocol.Update)
    def take(self, message: protocol.Update) -> None:
        """Hand news to whom it concerns."""
        match message:
            case protocol.ConversationUpdate(change):
                self.chat.apply(change)
            case protocol.QueueUpdate(queue):
                self.reviewing.take(queue)
                self._show_waiting()
            case protocol.TodosUpdate(todos):
                self.todo.todos = todos
                self.draw_tabs()
            case protocol.ActivityUpdate(activity, what, fault):
                self._take_activity(activity, what, fault)
            case protocol.StatusUpdate(around):
                self._take_surroundings(around)
            case protocol.CommandsUpdate(commands):
                self.term.show_commands(commands)
                self.draw_tabs()
                self._pace()
            case protocol.JobsUpdate(jobs, unknown):
                if self._jobs is not None and self._jobs.is_attached:
                    self._jobs.show_jobs(jobs, unknown)
            case protocol.ReviewUpdate(item_id, review, arguments):
                self.reviewing.show_review(item_id, review, arguments)
            case protocol.TrustQuestionUpdate(path, content):
                self._ask_for_trust(path, content)
            case protocol.ConfigErrorsUpdate(faults):
                # Several would lie over half the screen; each is a note in the chat as well.
                one = faults[0].as_text() if len(faults) == 1 else f"{len(faults)} faults in your files: see the chat."
                self.notify(visible(one), severity="warning", timeout=15, markup=False)
            case protocol.ShellErrorUpdate(why):
                self.term.shell_failed(why)
            case protocol.ToastUpdate(text, failed):
                self.notify(visible(text), severity="error" if failed else "information", markup=False)
            case _:
                pass

    @on(Intent)
    def _pass_on(self, intent: Intent) -> None:
        """Wishes go to the app by hand: Textual ends the bubbling of what was made while this screen handled news."""
        intent.stop()
        app_of(self).post_message(intent)

    def tick(self) -> None:
        """A second has passed while something runs or a question's clock does."""
        self._show_detail()
        self.reviewing.tick()
        self.term.tick()
        self.chat.transcript.tick()
        self._show_waiting()

    def _take_activity(self, activity: Activity, what: str, fault: str) -> None:
        if activity is not self.status.activity or activity is Activity.RUNNING:
            self._started = self._now()
        self._what = what
        self.status.activity = activity
        self.chat.fault = fault
        self._show_detail()
        self._pace()
        self.refresh_bindings()

    def _take_surroundings(self, around: SessionStatus) -> None:
        self.status.session = around
        self.queue.policy_words = around.mode if not around.denied_because else "everything is denied"
        words = [] if not around.model else [f"Model: {around.model}{'  (offline)' if around.offline else ''}"]
        self.chat.welcome([*words, f"Workspace: {around.workspace}", f"Policy: {around.mode}"])

    def _show_detail(self) -> None:
        seconds = f"{int(self._now() - self._started)}s"
        self.status.detail = " ".join(part for part in (self._what, seconds) if part)

    def _show_waiting(self) -> None:
        queue = self.reviewing.queue
        waiting = len(queue.pending)
        self.waiting = self.status.waiting = self.banner.waiting = waiting
        deadline = queue.next_deadline
        self.banner.seconds_left = None if deadline is None else max(0.0, deadline - self._now())
        self.keys.labels = {"queue.review": f"Review({waiting})"}
        self.draw_tabs()
        self._pace()
        self.refresh_bindings()

    def _pace(self) -> None:
        """Count seconds only while some are to be seen: an idle screen runs no timer."""
        busy = self.status.activity not in (Activity.IDLE, Activity.FAILED)
        if self._ticker is not None:
            if busy or self.term.busy or self.reviewing.queue.next_deadline is not None:
                self._ticker.resume()
            else:
                self._ticker.pause()

    # -- actions -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if self.term.captures_keys and action not in UNDER_TERMINAL:
            return False
        match action:
            case "review":
                return bool(self.reviewing.queue.pending)
            case "leave_terminal":
                return self.term.has_focus_within or self.just_left_terminal
            case "send_selection":
                return self.term.has_selection
            case "interrupt":
                return self.status.activity not in (Activity.IDLE, Activity.FAILED)
            case _:
                return True

    def action_mode(self) -> None:
        self.post_message(self.ModeWanted(None))

    def action_choose_mode(self, mode: str) -> None:
        """Another mode by name; the one without questions is asked about first."""
        if mode != "yolo":
            self.post_message(self.ModeWanted(mode))
            return
        from ollm_tui.tui.screens.yes_no_screen import YesNoScreen

        def settle(yes: bool | None) -> None:
            if yes:
                self.post_message(self.ModeWanted("yolo"))

        facts = ("What the policy would ask about runs without a question.", "Denies and deletions' questions stay.")
        app_of(self).push_screen(YesNoScreen("Mode yolo?", facts, "let it run"), settle)

    def action_trust(self) -> None:
        self.post_message(self.TrustWanted())

    def _ask_for_trust(self, path: str, content: bytes) -> None:
        from ollm_tui.tui.screens.trust_screen import TrustScreen

        if self.is_current:  # else keys meant for what is open would land in it
            app_of(self).push_screen(TrustScreen(path, content, self._now))
        else:
            self.notify("Something else is open. Close it, then /trust again.", markup=False)

    def action_jobs(self) -> None:
        from ollm_tui.tui.screens.jobs_screen import JobsScreen

        if self.is_current:
            self._jobs = JobsScreen()
            app_of(self).push_screen(self._jobs, self._jobs_closed)

    def _jobs_closed(self, job_id: str | None) -> None:
        from ollm_tui.tui.screens.jobs_screen import JobsScreen

        self.post_message(JobsScreen.Watched(False))
        self._jobs = None
        if job_id is not None:
            self.term.choose(job_id)
            self.go_to(Pane.TERM)

    def action_review(self) -> None:
        self.reviewing.open_oldest()

    def action_fold(self) -> None:
        self.chat.transcript.fold_all()

    def action_interrupt(self) -> None:
        self.post_message(self.InterruptWanted())

    @on(QueuePane.ReviewAsked)
    def _review_asked(self, event: QueuePane.ReviewAsked) -> None:
        self.reviewing.open(event.item_id)

    @on(Transcript.CopyAsked)
    def _copy(self, event: Transcript.CopyAsked) -> None:
        app_of(self).copy_to_clipboard(event.text)
        self.notify(f"{len(event.text)} characters copied.", markup=False)

    @on(Prompt.Edited)
    def _draft_edited(self) -> None:
        self.reviewing.key_pressed()
