"""What a command's outcome says besides its output: notes, the file of the whole, and what a cage refused it."""

from __future__ import annotations

import re
import signal as signals
from contextlib import suppress

from ollm_tui.core.base.results import Artifact
from ollm_tui.core.shell.shell_service import CommandOutcome, OutputExcerpt
from ollm_tui.core.shell.status import CommandEnding, CommandStatus


def timed_out(state: CommandStatus) -> bool:
    """Return whether a limit in time ended it."""
    return state.ending in (CommandEnding.TIMED_OUT, CommandEnding.IDLE)


def outcome_notes(outcome: CommandOutcome) -> tuple[str, ...]:
    """Return what the model should know of it besides output and exit code."""
    state = outcome.status
    notes = list(state.user_input.for_model())
    if not state.on_terminal:
        notes.append("the system gave no terminal; the output came through a pipe")
    if state.running and state.waiting_for_input:
        notes.append("it waits for input; the person can type into its terminal")
    notes += state.disk_errors
    if state.ending is CommandEnding.KILLED:
        notes.append("it was ended from outside before it was done")
    elif state.signal is not None and state.ending is None:
        notes.append(f"it was ended by {state.signal}")
    elif state.exit_code is not None and 128 < state.exit_code <= 192 and state.ending is None:
        with suppress(ValueError):
            name = signals.Signals(state.exit_code - 128).name
            notes.append(f"code {state.exit_code} usually means that a command in the line was ended by {name}")
    if state.leftovers:
        processes = ", ".join(map(str, state.leftovers))
        ended = "could not be ended and" if state.ending is not None else "of it"
        notes.append(f"processes {ended} still run: {processes}")
    return tuple(notes)


_REFUSALS = {
    "network": re.compile(
        r"unreachable|name resolution|resolve host|socket.*not permitted|create (inet|tcp|udp|unix)? ?socket", re.I
    ),
    "writing": re.compile(r"cannot (create|touch|remove|move|overwrite|change|make)|unable to (create|write)", re.I),
    "what lies outside the workspace, writing, network and other processes": re.compile(
        r"permission denied|operation not permitted|read-only file system|does not exist; check"
        r"|errno 13|errno 1\b|\beacces\b|\beperm\b",
        re.I,
    ),
}
"""What programs say where the cage refused them something."""


LOOKED = (
    "It ran unasked, where it can only read the workspace. If it needs more, send the same call again: the person is "
    "then asked whether it may run on this machine."
)
"""What the model is told of a refusal where it could only read."""

WORKED = (
    "It ran in the sandbox of the settings: only the workspace can be written, .git and protected files cannot, and "
    "this machine's home and network are not there. Ask the person if it has to run outside."
)
"""The same where it could write in the workspace."""


def likely_refusal(text: str) -> str:
    """Return what a cage probably refused a program that failed with this output; empty for nothing."""
    return next((what for what, words in _REFUSALS.items() if words.search(text)), "")


def full_text(output: OutputExcerpt) -> tuple[Artifact, ...]:
    """Return the file that holds an output whole, where it was cut."""
    return () if output.full_text is None else (Artifact(kind="full-text", path=str(output.full_text)),)
