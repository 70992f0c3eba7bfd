"""Question before quitting while something still runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.status import CommandStatus
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.durations import exact_age
from ollm_tui.tui.screens.jobs_screen import NAME_CELLS, state_words
from ollm_tui.tui.styled_text import StyledLine, TextRole, line, spread
from ollm_tui.tui.values import UnfinishedWork
from ollm_tui.tui.widgets.text_box import TextBox

SHOWN_JOBS = 6
INNER_CELLS = 66
"""Width of the box content in cells, if the window allows."""

MEANING = (
    "A job that is left running goes on writing into a log, which is named when you have quit. Nobody can type into "
    "it then, and no time limit ends it. The next ollm-tui in this folder tells what became of it."
)


class QuitChoice(StrEnum):
    """How to quit."""

    END = "end"
    """Quit and end everything."""
    LEAVE = "leave"
    """Quit and leave jobs running where possible."""


@register_keys(KeyGroup.DIALOGS, 2)
class QuitScreen(ModalScreen[QuitChoice | None]):
    """Dismissed with the choice, None to stay. Enter does nothing."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("y", "answer('end')", "End", "leave.end", "Quit, and end all that still runs"),
        ("l", "answer('leave')", "Leave", "leave.running", "Quit, and leave the jobs running"),
        ("escape,n", "answer('')", "Stay", "leave.stay", "Stay here"),
    )

    def __init__(self, unfinished: UnfinishedWork, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._unfinished = unfinished
        self._words = TextBox("leave-words")
        self._keys = TextBox("leave-keys")

    @property
    def _can_leave(self) -> bool:
        return any(job.can_detach for job in self._unfinished.jobs)

    def compose(self) -> ComposeResult:
        """Compose text and keys."""
        with Vertical(id="leave-box") as box:
            box.border_title = "Quit?"
            yield self._words
            yield self._keys

    def on_mount(self) -> None:
        """Show what quitting would end, and the choices."""
        jobs = self._unfinished.jobs
        shown = [_job_line(job, self._now()) for job in jobs[:SHOWN_JOBS]]
        if len(jobs) > SHOWN_JOBS:
            shown.append(line((f"and {len(jobs) - SHOWN_JOBS} more; /jobs shows all", TextRole.MUTED)))
        facts = [line(f"- {visible(fact)}", hang=2, prose=True) for fact in self._unfinished.facts]
        meaning = [line(), line((MEANING, TextRole.MUTED), prose=True)] if self._can_leave else []
        self._words.show_lines([*facts, *shown, *meaning, line()])
        choices = [("y", "quit and end all" if jobs else "quit", "end"), ("Esc", "stay", "")]
        if self._can_leave:
            choices.insert(1, ("l", "quit, leave running", "leave"))
        self._keys.show_keys([(key, words, f"screen.answer({answer!r})") for key, words, answer in choices], gap=3)

    def action_answer(self, answer: str) -> None:
        """Close with the chosen answer."""
        if self.is_current and (answer != QuitChoice.LEAVE or self._can_leave):
            self.dismiss(QuitChoice(answer) if answer else None)


def _job_line(job: CommandStatus, now: float) -> StyledLine:
    state = state_words(job)
    if not job.can_detach:
        state = ("ends, sandboxed", TextRole.WARNING)
    left = line((f"{job.name:<{NAME_CELLS}}", TextRole.STRONG), visible(job.command))
    return spread(left, line(state, f" {exact_age(job.seconds(now)):>6}"), INNER_CELLS)
