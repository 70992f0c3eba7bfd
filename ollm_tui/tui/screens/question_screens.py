"""Questions about the app itself, which Enter never answers.

Yes or no, one of several choices, whether to trust files, and how to quit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.dom import DOMNode

from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.policy.repository_trust import REPOSITORY_CONFIG
from ollm_tui.core.shell.status import CommandStatus
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import DecisionGuard, KeyPresses, Readiness
from ollm_tui.tui.durations import exact_age
from ollm_tui.tui.protocol.intents import TrustFiles
from ollm_tui.tui.protocol.policy import Choice
from ollm_tui.tui.screens.key_timing import after_burst
from ollm_tui.tui.styled_text import StyledLine, TextRole, app_of, line, lines_of, spread
from ollm_tui.tui.values import UnfinishedWork
from ollm_tui.tui.widgets.line_view import LineView
from ollm_tui.tui.widgets.overlay_screen import OverlayScreen
from ollm_tui.tui.widgets.tab_strip import state_words
from ollm_tui.tui.widgets.text_box import TextBox

Answer = TypeVar("Answer")


class GuardedScreen(OverlayScreen[Answer]):
    """Base of the questions: keys count only after a moment without keys."""

    def __init__(self, presses: KeyPresses) -> None:
        super().__init__()
        self.guard = DecisionGuard(presses)

    @on(events.ScreenResume)
    def _shown(self) -> None:
        self.call_after_refresh(self.guard.show, self.guard.hide())

    def may(self, decision: str, *, whole: bool = False) -> bool:
        """Return whether the pressed key counts; say what it waits for where it does not."""
        readiness = self.guard.press(decision, whole=whole)
        if readiness is not Readiness.READY:
            wait = "Read it to its end" if readiness is Readiness.UNREAD else "Wait a moment"
            self.notify(f"{wait}, then press the key.", markup=False, timeout=2)
        return readiness is Readiness.READY

    def decide(self, act: Callable[[], object]) -> None:
        """Do what a key that may decide decides, unless another key follows at once."""
        after_burst(self, self.guard, lambda: act() if self.is_current else None)


class WordsScreen(GuardedScreen[Answer]):
    """Base of the questions that are a few lines in a box."""

    def __init__(self, title: str, lines: Sequence[StyledLine], presses: KeyPresses) -> None:
        super().__init__(presses)
        self._title, self._lines = title, lines

    def compose(self) -> ComposeResult:
        """Compose the question."""
        words = TextBox("ask-words")
        words.show_lines(self._lines)
        with Vertical(id="ask-box") as box:
            box.border_title = Content(self._title)
            yield words


@register_keys(KeyGroup.DIALOGS, 1)
class YesNoScreen(WordsScreen[bool]):
    """Dismissed with True for yes. Enter does nothing."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("y", "answer(True)", "Yes", "ask.yes", "Yes"),
        ("escape,n", "answer(False)", "No", "ask.no", "No"),
    )

    def __init__(self, title: str, facts: tuple[str, ...], yes: str, presses: KeyPresses) -> None:
        keys = line(("y", TextRole.ACCENT), f" {yes}   ", ("Esc", TextRole.ACCENT), " no")
        shown = (line(f"- {visible(fact)}", hang=2, prose=True) for fact in facts)
        super().__init__(title, [*shown, line(), keys], presses)

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        if not self.is_current:
            return
        if not yes:
            self.dismiss(False)
        elif self.may("yes"):
            self.decide(lambda: self.dismiss(True))


def ask_first(owner: DOMNode, question: YesNoScreen, act: Callable[[], object]) -> None:
    """Ask before something is done, and do it at a yes."""

    def settle(yes: bool | None) -> None:
        if yes:
            act()

    app_of(owner).push_screen(question, settle)


@register_keys(KeyGroup.DIALOGS, 3)
class ChoiceScreen(GuardedScreen[str]):
    """Dismissed with the value that was chosen, empty for none. Enter does nothing.

    No number counts before all of the choices have been in sight.
    """

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("escape,n", "leave", "Leave it", "choice.leave", "Leave it as it is; the number of a choice takes that one")
    )

    def __init__(self, title: str, choices: Sequence[Choice], presses: KeyPresses) -> None:
        super().__init__(presses)
        self._title, self._choices = title, choices
        self._text = LineView("choice-text")

    def compose(self) -> ComposeResult:
        """Compose the choices."""
        with Vertical(id="choice-box") as box:
            box.border_title, box.border_subtitle = Content(self._title), "PgUp/PgDn scroll   Esc leave it"
            yield self._text

    def on_mount(self) -> None:
        """Show what there is to choose."""
        rows: list[StyledLine] = []
        for number, choice in enumerate(self._choices, 1):
            role = TextRole.STRONG if choice.now else TextRole.PLAIN
            rows.append(line((f"{number} ", TextRole.ACCENT), (choice.value, role), "  (now)" if choice.now else ""))
            rows.append(line((f"  {choice.meaning}", TextRole.MUTED), hang=2, prose=True))
        self._text.show_lines(rows)
        self._text.focus()

    @on(LineView.EndSeen)
    def _end_seen(self) -> None:
        self.guard.see_end()

    def on_key(self, event: events.Key) -> None:
        """Close with the value whose number was pressed; the one that holds is none."""
        number = int(event.character) if event.character in tuple("123456789") else 0
        if self.is_current and 0 < number <= len(self._choices) and self.may(f"choose {number}", whole=True):
            choice = self._choices[number - 1]
            self.decide(lambda: self.dismiss("" if choice.now else choice.value))

    def action_leave(self) -> None:
        """Close without a choice."""
        if self.is_current:
            self.dismiss("")


CONFIG_MEANING = (
    "Trusted, a config file can only tighten: its asks and denies count beside yours, nothing in it can allow."
)
INSTRUCTIONS_MEANING = (
    "Trusted instructions go to the model with your messages. They allow nothing: every call is judged as before."
)
TRUST_MEANING = "A yes is for this text alone: once a file changes, it no longer counts."


class TrustScreen(GuardedScreen[None]):
    """Question answered by y only after the end was visible."""

    BINDINGS: ClassVar[list[BindingType]] = YesNoScreen.BINDINGS

    def __init__(self, files: tuple[tuple[str, bytes], ...], presses: KeyPresses) -> None:
        super().__init__(presses)
        self._files = files
        self._text = LineView("trust-text")
        self._words = TextBox("trust-words")

    def compose(self) -> ComposeResult:
        """Compose the file and the question."""
        with Vertical(id="trust-box") as box:
            first, *others = [visible(name) for name, _ in self._files]
            box.border_title = Content(f"Trust {first}{f' and {len(others)} more' if others else ''}?")
            box.border_subtitle = "PgUp/PgDn scroll"
            yield self._text
            yield self._words

    def on_mount(self) -> None:
        """Show the text and focus it."""
        texts = [content.decode("utf-8", "backslashreplace") for _, content in self._files]
        if len(texts) > 1:
            texts = [f"=== {visible(name)} ===\n{text}" for (name, _), text in zip(self._files, texts, strict=True)]
        self._text.show_lines(lines_of(visible_block("\n\n".join(texts))))
        self._text.focus()
        self._draw_words()

    @on(LineView.EndSeen)
    def _end_seen(self) -> None:
        self.guard.see_end()
        self._draw_words()

    def _draw_words(self) -> None:
        yes = " trust it" if self._text.seen_end else " trust it, once you have read to its end"
        self._words.show_lines(
            [
                line(),
                line(
                    ("y", TextRole.ACCENT),
                    f"{yes}   ",
                    ("n", TextRole.ACCENT),
                    " or ",
                    ("Esc", TextRole.ACCENT),
                    " not now",
                ),
                line(),
                *(line(words, prose=True) for words in self._meaning()),
            ]
        )

    def _meaning(self) -> list[str]:
        config = [CONFIG_MEANING] if any(name == str(REPOSITORY_CONFIG) for name, _ in self._files) else []
        instructions = [INSTRUCTIONS_MEANING] if len(self._files) > len(config) else []
        return [*config, *instructions, TRUST_MEANING]

    def action_answer(self, yes: bool) -> None:
        """Answer; an approval that comes too early is ignored."""
        if not self.is_current:
            return
        if not yes:
            self.dismiss()
        elif self.may("trust", whole=True):
            self.decide(self._trust)

    def _trust(self) -> None:
        self.post_message(TrustFiles(self._files))
        self.dismiss()


SHOWN_JOBS = 6
NAME_CELLS = 4
INNER_CELLS = 66
"""Width of the box content in cells, if the window allows."""

LEAVE_MEANING = (
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
class QuitScreen(GuardedScreen[QuitChoice | None]):
    """Dismissed with the choice, None to stay. Enter does nothing."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("y", "answer('end')", "End", "leave.end", "Quit, and end all that still runs"),
        ("l", "answer('leave')", "Leave", "leave.running", "Quit, and leave the jobs running"),
        ("escape,n", "answer('')", "Stay", "leave.stay", "Stay here"),
    )

    def __init__(self, unfinished: UnfinishedWork, presses: KeyPresses) -> None:
        super().__init__(presses)
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
        shown = [_job_line(job, self.guard.presses.now()) for job in jobs[:SHOWN_JOBS]]
        if len(jobs) > SHOWN_JOBS:
            shown.append(line((f"and {len(jobs) - SHOWN_JOBS} more; /jobs shows all", TextRole.MUTED)))
        facts = [line(f"- {visible(fact)}", hang=2, prose=True) for fact in self._unfinished.facts]
        meaning = [line(), line((LEAVE_MEANING, TextRole.MUTED), prose=True)] if self._can_leave else []
        self._words.show_lines([*facts, *shown, *meaning, line()])
        choices = [("y", "quit and end all" if jobs else "quit", "end"), ("Esc", "stay", "")]
        if self._can_leave:
            choices.insert(1, ("l", "quit, leave running", "leave"))
        self._keys.show_keys([(key, words, f"screen.answer({answer!r})") for key, words, answer in choices], gap=3)

    def action_answer(self, answer: str) -> None:
        """Close with the chosen answer."""
        if not self.is_current or (answer == QuitChoice.LEAVE and not self._can_leave):
            return
        if not answer:
            self.dismiss(None)
        elif self.may(answer):
            self.decide(lambda: self.dismiss(QuitChoice(answer)))


def _job_line(job: CommandStatus, now: float) -> StyledLine:
    state = job_state(job)
    if not job.can_detach:
        state = ("ends, sandboxed", TextRole.WARNING)
    left = line((f"{job.name:<{NAME_CELLS}}", TextRole.STRONG), visible(job.command))
    return spread(left, line(state, f" {exact_age(job.seconds(now)):>6}"), INNER_CELLS)


def job_state(job: CommandStatus) -> tuple[str, TextRole]:
    """Return the state in a word or two."""
    if job.running and job.detached:
        return "LEFT RUNNING", TextRole.ACCENT
    if job.unfinished and not job.running:
        return "OVER, NOT GONE", TextRole.WARNING
    return state_words(job)
