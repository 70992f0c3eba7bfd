"""Updates that the dashboard's panes show, and the clocks there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.timer import Timer

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.values import Activity, SessionStatus
from ollm_tui.tui.widgets.tab_strip import short_label

if TYPE_CHECKING:
    from ollm_tui.agent.message_queue import QueuedMessage
    from ollm_tui.core.shell.status import CommandStatus
    from ollm_tui.tui.screens.confirmation_review import ConfirmationReview
    from ollm_tui.tui.screens.pane_screen import PaneScreen


class DashboardUpdates:
    """Updates shown in their panes, and ages redrawn each second."""

    def __init__(self, screen: PaneScreen, reviewing: ConfirmationReview, now: Callable[[], float]) -> None:
        self._screen = screen
        self._reviewing = reviewing
        self._now = now
        self._started = 0.0
        """When the activity began."""
        self.detail = ""
        """What the activity is about."""
        self._ticker: Timer | None = None

    def start(self) -> None:
        """Get ready to redraw each second."""
        self._ticker = self._screen.set_interval(1.0, self.tick, pause=True)

    @property
    def running(self) -> bool:
        """Whether a turn runs."""
        return self._screen.status.activity not in (Activity.IDLE, Activity.FAILED)

    def take(self, update: updates.Update) -> None:
        """Show an update in its pane."""
        screen = self._screen
        match update:
            case updates.ConversationUpdate(change):
                screen.chat.apply(change)
            case updates.QueueUpdate(queue):
                self._reviewing.take(queue)
                self._show_waiting()
            case updates.TodosUpdate(todos):
                screen.todo.todos = todos
                screen.draw_tabs()
                screen.give_room()
            case updates.ActivityUpdate():
                self._show_activity(update)
            case updates.StatusUpdate(status):
                self._show_status(status)
            case updates.CommandsUpdate(commands):
                self._show_commands(commands)
            case updates.MessagesUpdate(messages, held):
                self._show_messages(messages, held=held)
            case updates.ShellErrorUpdate(reason):
                screen.term.shell_failed(reason)
                screen.give_room()
            case updates.DraftUpdate(text):
                screen.prompt.put_back(text)
                screen.go_to_prompt()
            case updates.FoundUpdate(words, entry_id):
                screen.chat.show_found(words, entry_id)
            case _:
                self._tell(update)

    def _tell(self, update: updates.Update) -> None:
        """Show a notice over the panes."""
        match update:
            case updates.ConfigErrorsUpdate(errors):
                # Several would cover half the screen; each is a note in the chat as well.
                text = str(errors[0]) if len(errors) == 1 else f"{len(errors)} errors in your files: see the chat."
                self._screen.notify(visible(text), severity="warning", timeout=15, markup=False)
            case updates.ToastUpdate(text, failed):
                self._screen.notify(visible(text), severity="error" if failed else "information", markup=False)
            case _:
                pass

    def tick(self) -> None:
        """Redraw ages and clocks."""
        self._show_detail()
        self._reviewing.tick()
        self._screen.term.draw_tabs()
        self._screen.chat.transcript.tick()
        self._show_waiting()

    def _show_activity(self, update: updates.ActivityUpdate) -> None:
        status = self._screen.status
        if update.activity is not status.activity or update.activity is Activity.RUNNING:
            self._started = self._now()
        self.detail = update.detail
        status.activity = update.activity
        self._screen.chat.error = update.error
        self._show_detail()
        self._pace()
        self._screen.refresh_bindings()

    def _show_status(self, status: SessionStatus) -> None:
        screen = self._screen
        screen.status.session = status
        screen.queue.policy = status.mode if not status.denied_because else "everything is denied"
        model = [] if not status.model else [f"Model: {status.model}{'  (offline)' if status.offline else ''}"]
        screen.refresh_bindings()
        screen.chat.welcome([*model, f"Workspace: {status.workspace}", f"Policy: {status.mode}"])

    def _show_messages(self, messages: tuple[QueuedMessage, ...], *, held: bool) -> None:
        screen = self._screen
        here = screen.messages.has_focus_within
        screen.messages.show_messages(messages, held=held)
        if here and not messages:
            screen.go_to_prompt()
        screen.refresh_bindings()

    def _show_detail(self) -> None:
        seconds = f"{int(self._now() - self._started)}s"
        self._screen.status.detail = " ".join(part for part in (self.detail, seconds) if part)

    def _show_commands(self, commands: tuple[CommandStatus, ...]) -> None:
        screen = self._screen
        asking = [command for command in commands if command.waits_for_person]
        screen.status.asking = short_label(asking[-1]) if asking else ""
        screen.status.jobs = sum(command.is_job and command.unfinished for command in commands)
        screen.chat.transcript.show_asking(frozenset(command.call_id for command in asking))
        screen.term.show_commands(commands)
        screen.draw_tabs()
        screen.give_room()
        self._pace()

    def _show_waiting(self) -> None:
        screen = self._screen
        screen.status.waiting = screen.banner.waiting = screen.waiting
        deadline = self._reviewing.queue.next_deadline
        screen.banner.seconds_left = None if deadline is None else max(0.0, deadline - self._now())
        screen.keys.labels = {"queue.review": f"Review({screen.waiting})"}
        screen.draw_tabs()
        screen.give_room()
        self._pace()
        screen.refresh_bindings()

    def _pace(self) -> None:
        """Run the timer only while seconds are shown."""
        if self._ticker is not None:
            if self.running or self._screen.term.tabs.running or self._reviewing.queue.next_deadline is not None:
                self._ticker.resume()
            else:
                self._ticker.pause()
