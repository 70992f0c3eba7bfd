"""Screens over the dashboard that its own keys and updates open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ollm_tui.tui.layout import Pane
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.command_intents import CloseShell, WatchJobs
from ollm_tui.tui.protocol.intents import ChangeMode
from ollm_tui.tui.protocol.undo import UndoUpdate
from ollm_tui.tui.styled_text import app_of

if TYPE_CHECKING:
    from ollm_tui.tui.screens.jobs_screen import JobsScreen
    from ollm_tui.tui.screens.pane_screen import PaneScreen
    from ollm_tui.tui.screens.undo_screen import UndoScreen

SHOWN_PROCESSES = 5


class DashboardDialogs:
    """Jobs, undo and questions over the dashboard, imported when first opened.

    What would open over another screen is not opened: that screen's keys would reach it.
    """

    def __init__(self, screen: PaneScreen) -> None:
        self._screen = screen
        self._jobs: JobsScreen | None = None
        self._undo: UndoScreen | None = None

    def take(self, update: updates.Update) -> None:
        """Hand an update to its screen, or ask what it asks."""
        match update:
            case updates.JobsUpdate(jobs, unknown):
                if self._jobs is not None and self._jobs.is_attached:
                    self._jobs.show_jobs(jobs, unknown)
            case UndoUpdate():
                if self._undo is not None and self._undo.is_attached:
                    self._undo.take(update)
            case updates.TrustQuestionUpdate(files):
                self._ask_for_trust(files)
            case updates.ShellBusyUpdate():
                self._ask_to_close(update)
            case _:
                pass

    def open_jobs(self) -> None:
        """Open the list of jobs."""
        from ollm_tui.tui.screens.jobs_screen import JobsScreen

        if self._screen.is_current:
            self._jobs = JobsScreen(self._screen.presses)
            app_of(self._screen).push_screen(self._jobs, self._jobs_closed)

    def _jobs_closed(self, job_id: str | None) -> None:
        self._screen.post_message(WatchJobs(False))
        self._jobs = None
        if job_id is not None:
            self._screen.term.choose(job_id)
            self._screen.go_to(Pane.TERM)

    def open_undo(self, call_id: str = "") -> None:
        """Open the list of what calls changed, one of them marked."""
        from ollm_tui.tui.screens.undo_screen import UndoScreen

        if self._screen.is_current:
            self._undo = UndoScreen(self._screen.presses, call_id)
            app_of(self._screen).push_screen(self._undo)

    def choose_mode(self, mode: str) -> None:
        """Change to a mode by name; yolo asks first."""
        if mode != "yolo":
            self._screen.post_message(ChangeMode(mode))
            return
        from ollm_tui.tui.screens.question_screens import YesNoScreen, ask_first

        facts = (
            "What the policy would ask about runs without a question.",
            "What is denied stays denied, and deletions still ask.",
        )
        question = YesNoScreen("Mode yolo?", facts, "let it run", self._screen.presses)
        ask_first(self._screen, question, lambda: self._screen.post_message(ChangeMode("yolo")))

    def _ask_for_trust(self, files: tuple[tuple[str, bytes], ...]) -> None:
        from ollm_tui.tui.screens.question_screens import TrustScreen

        if self._screen.is_current:
            app_of(self._screen).push_screen(TrustScreen(files, self._screen.presses))
        else:
            self._screen.notify("Something else is open. Close it, then /trust again.", markup=False)

    def _ask_to_close(self, update: updates.ShellBusyUpdate) -> None:
        """Ask before a shell is closed in which something runs."""
        from ollm_tui.tui.screens.question_screens import YesNoScreen, ask_first

        names = ", ".join(map(str, update.processes[:SHOWN_PROCESSES]))
        more = len(update.processes) - SHOWN_PROCESSES
        facts = (
            f"It runs {names}{f' and {more} more' if more > 0 else ''}.",
            "All of it is hung up, and forced to end after two seconds.",
        )
        question = YesNoScreen("Close this shell?", facts, "close it", self._screen.presses)
        close = CloseShell(update.command_id, although_busy=True)
        ask_first(self._screen, question, lambda: self._screen.post_message(close))
