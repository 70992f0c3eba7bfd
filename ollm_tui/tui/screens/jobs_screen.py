"""List of jobs to inspect, interrupt and end."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content

from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.status import CommandStatus
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import KeyPresses
from ollm_tui.tui.durations import exact_age
from ollm_tui.tui.protocol.command_intents import EndJob, InterruptJob, WatchJobs
from ollm_tui.tui.screens.question_screens import NAME_CELLS, YesNoScreen, ask_first, job_state
from ollm_tui.tui.styled_text import StyledLine, TextRole, app_of, line
from ollm_tui.tui.widgets.overlay_screen import OverlayScreen
from ollm_tui.tui.widgets.row_list import DoubleClickList, ListRow, RowList
from ollm_tui.tui.widgets.text_box import TextBox

EMPTY = "No jobs. The agent starts one with background=true, and a command that runs long becomes one."
LOOKING = "Looking ..."
ACTIONS = (
    ("Enter", "open", "open_tab"),
    ("i", "interrupt", "interrupt"),
    ("x", "end", "end"),
    ("c", "copy address", "copy"),
    ("Esc", "close", "close"),
)


@register_keys(KeyGroup.JOBS)
class JobsScreen(OverlayScreen[str | None]):
    """Dismissed with the id of the job whose tab to open."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("i", "interrupt", "Interrupt", "jobs.interrupt", "Press ctrl+c in the marked job"),
        ("x,delete", "end", "End", "jobs.end", "End the marked job with all it started; asks"),
        ("c", "copy", "Copy address", "jobs.copy", "Copy where it listens; again for the next one"),
        ("escape,f3,q", "close", "Close", "jobs.close", "Close the list of jobs"),
    )

    def __init__(self, presses: KeyPresses) -> None:
        super().__init__(name="jobs")
        self._presses = presses
        self._jobs: tuple[CommandStatus, ...] = ()
        self._copied: dict[str, int] = {}
        """Index of the address copied next, by job."""
        self._rows = DoubleClickList("job-rows")
        self._words = TextBox("job-words")
        self._keys = TextBox("job-keys")
        self._box = Vertical(id="jobs-box")
        self._box.border_title = "Jobs"

    def compose(self) -> ComposeResult:
        """Compose list, message and keys."""
        with self._box:
            yield self._rows
            yield self._words
            yield self._keys

    def on_mount(self) -> None:
        """Show the keys and focus the list."""
        self._say(LOOKING)
        self._keys.show_keys([(key, words, f"screen.{action}") for key, words, action in ACTIONS], gap=2)
        self._rows.focus()

    @on(events.ScreenResume)
    def _in_sight(self) -> None:
        self.post_message(WatchJobs(True))

    @on(events.ScreenSuspend)
    def _out_of_sight(self) -> None:
        self.post_message(WatchJobs(False))

    def show_jobs(self, jobs: tuple[CommandStatus, ...], unknown: str) -> None:
        """Show the jobs; `unknown` names what this system cannot report."""
        self._jobs = jobs
        running = sum(job.unfinished for job in jobs)
        self._box.border_title = Content(f"Jobs  {running} running" if jobs else "Jobs")
        self._box.border_subtitle = "CPU in % of one processor" if running else ""
        now = self._presses.now()
        self._rows.show_rows([ListRow(job.id, (_first_line(job), _second_line(job)), _usage(job, now)) for job in jobs])
        self._say(unknown if jobs else EMPTY)

    # -- actions -----------------------------------------------------------------------------------------------------

    @on(RowList.Opened)
    def _opened(self, event: RowList.Opened) -> None:
        event.stop()
        self.action_open_tab()

    def action_open_tab(self) -> None:
        """Close the list and open the job's tab."""
        job = self._chosen
        if job is None or not self.is_current:
            return
        self.dismiss(job.id)

    def action_interrupt(self) -> None:
        """Interrupt the marked job."""
        job = self._chosen
        if job is None:
            return
        if job.detached:
            self.notify(f"{job.name} has no terminal here any more; x ends it.", markup=False)
        elif not job.running:
            self.notify(f"{job.name} is over.", markup=False)
        else:
            self.post_message(InterruptJob(job.id))
            self.notify(f"^C sent to {job.name}.", markup=False)

    def action_end(self) -> None:
        """End the marked job after asking."""
        job = self._chosen
        if job is None or not self.is_current:
            return
        if not job.unfinished:
            self.notify(f"{job.name} is over.", markup=False)
            return
        facts = (job.command, "All its processes are asked to end, and forced after two seconds.")
        question = YesNoScreen(f"End {job.name}?", facts, "end it", self._presses)
        ask_first(self, question, lambda: self.post_message(EndJob(job.id)))

    def action_copy(self) -> None:
        """Copy the next of the job's addresses."""
        job = self._chosen
        if job is None:
            return
        if not job.addresses:
            self.notify(f"{job.name} listens nowhere.", markup=False)
            return
        place = self._copied.get(job.id, 0) % len(job.addresses)
        self._copied[job.id] = place + 1
        app_of(self).copy_to_clipboard(job.addresses[place])
        of = f" ({place + 1} of {len(job.addresses)})" if len(job.addresses) > 1 else ""
        self.notify(f"Copied {job.addresses[place]}{of}", markup=False)

    def action_close(self) -> None:
        """Close the list."""
        if self.is_current:
            self.dismiss(None)

    # -- helpers ------------------------------------------------------------------------------------------------------

    @property
    def _chosen(self) -> CommandStatus | None:
        return next((job for job in self._jobs if job.id == self._rows.chosen_id), None)

    def _say(self, words: str) -> None:
        self._words.show_lines([line((words, TextRole.MUTED), prose=True)] if words else [])


def _first_line(job: CommandStatus) -> StyledLine:
    return line((f"{job.name:<{NAME_CELLS}}", TextRole.STRONG), visible(job.command))


def _usage(job: CommandStatus, now: float) -> StyledLine:
    cpu = f"{'':6}" if not job.unfinished else f"{'..':>4} %" if job.cpu is None else f"{job.cpu:4.0f} %"
    return line(job_state(job), f" {exact_age(job.seconds(now)):>6}", cpu)


def _second_line(job: CommandStatus) -> StyledLine:
    lead = " " * NAME_CELLS
    if not job.unfinished:
        return line((f"{lead}pid {job.first_pid}", TextRole.MUTED))
    count = len(job.processes)
    number = f"{count} processes" if count > 1 else "1 process" if count else ""
    facts = ", ".join(part for part in (f"pid {job.first_pid}", number) if part)
    if not job.addresses:
        return line((f"{lead}{facts}", TextRole.MUTED))
    return line((f"{lead}{facts}, listens on ", TextRole.MUTED), (" ".join(job.addresses), TextRole.ACCENT))
