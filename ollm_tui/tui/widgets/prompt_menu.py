"""The menu above the prompt: what may stand in place of the word before the cursor, or what was sent before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.styled_text import TextRole, line, set_rule
from ollm_tui.tui.widgets.prompt_completion import Choice, Completion, DraftCompleter, best, last_word, lowered
from ollm_tui.tui.widgets.row_list import ListRow, RowList

HINT = "Enter send  ^J newline  /cmd  !shell"
FINDING = "Enter take  ^R older  Esc back"
MOST_ROWS = 8


class PromptMenu(RowList):
    """Rows of choices, the marked one in colour; never has the focus."""

    can_focus = False

    def __init__(self) -> None:
        super().__init__("prompt-menu")
        self._shown: tuple[Choice, ...] = ()
        self.display = False

    @property
    def marked(self) -> Choice | None:
        """The choice that Enter and Tab take, while the menu is open."""
        at = self.chosen_id
        return self._shown[int(at)] if self._shown and at else None

    def show_choices(self, choices: Sequence[Choice]) -> None:
        """Show the choices, the first marked; none closes the menu."""
        if tuple(choices) == self._shown:
            return
        self._shown = tuple(choices)
        named = [choice for choice in choices if choice.summary]
        width = max((len(choice.text) + len(choice.argument) + 2 for choice in named), default=0)
        rows: list[ListRow] = []
        for at, choice in enumerate(choices):
            summary = " " * (width - len(choice.text) - len(choice.argument)) + choice.summary
            text = line(f" {visible(choice.text)} ", (choice.argument, TextRole.ACCENT), (summary, TextRole.MUTED))
            rows.append(ListRow(str(at), (text,)))
        self.show_rows(rows)
        self.display = bool(rows)
        self.styles.height = min(len(rows), MOST_ROWS)
        self.action_move(-len(rows))

    def row_role(self, row: int) -> TextRole:
        """Mark the chosen row."""
        first, last = self.span
        return TextRole.CHOSEN if first <= row < last else TextRole.PLAIN


class CompletingTextArea(TextArea):
    """A draft with a menu above it; keys stay here, the menu shows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "tab,shift+tab",
            "complete",
            "Complete",
            id="prompt.complete",
            tooltip="Complete a command, or a file name that begins with @",
            show=False,
        ),
        Binding("escape", "close_menu", "Close", id="prompt.close_menu", tooltip="Close the menu of the prompt"),
        Binding(
            "ctrl+r",
            "find_sent",
            "History",
            id="prompt.history",
            tooltip="Find a message that was sent before by some of its letters",
            show=False,
        ),
    ]

    def __init__(self, **options: Any) -> None:
        """`options` are those of a TextArea."""
        super().__init__(**options)
        self.completer = DraftCompleter()
        self.menu = PromptMenu()
        self.sent: list[str] = []
        """What was sent before, the oldest first."""
        self._found_from: str | None = None
        """The draft that comes back, while what is in its place is words to find a sent message by."""
        self._completion = Completion()
        self._completes = ""
        """The text before the cursor that the menu is for."""
        self._asked = 0
        """Counts what was asked of the completer: only the last answer is shown."""
        self._asked_about = ""
        self._closed_at: int | None = None
        """Where the word begins whose menu was closed."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key works now."""
        if action == "close_menu":
            return self.menu.display or self._found_from is not None
        return super().check_action(action, parameters)

    def action_close_menu(self) -> None:
        """Close the menu until another word begins."""
        draft = self._end_finding()
        if draft is not None:
            self.text = draft
            self.move_cursor(self.document.end)
        begin = len(self._before()) - len(self._completion.word)
        self._show_menu(Completion())
        self._closed_at = begin

    def action_find_sent(self) -> None:
        """Show what was sent before, narrowed by the draft; again: the one before."""
        if self._found_from is not None:
            self.menu.action_move(1)
        else:
            self._found_from, self._closed_at = self.text, None
            set_rule(self, "Sent before", FINDING)
            self.move_cursor(self.document.end)
            self.ask_completer(by_key=True)

    def _end_finding(self) -> str | None:
        """Return the draft from before."""
        draft, self._found_from = self._found_from, None
        if draft is not None:
            set_rule(self, "Prompt", HINT)
        return draft

    @property
    def menu_answers(self) -> bool:
        """Whether Enter is for the menu: it would change the draft, or the draft is words to find something by."""
        marked = self.menu.marked
        return self._found_from is not None or (marked is not None and marked.text != self._completion.word)

    def action_complete(self) -> None:
        """Take the marked choice; without a menu open one."""
        self._closed_at = None
        if not self.accept():
            self.ask_completer(by_key=True)

    def accept(self) -> bool:
        """Put the marked choice in the place of the word before the cursor. False without a menu."""
        choice, fresh = self.menu.marked, self._completes == self._before()
        finding = self._found_from is not None
        if finding and choice is None:
            return True  # nothing was found by these words, which are no message
        (row, column), word = self.cursor_location, self._completion.word
        self._end_finding()
        self._show_menu(Completion())
        if choice is None or not fresh:  # typed on since the menu was made
            return finding
        if finding:
            self.text = choice.text
            self.move_cursor(self.document.end)
            self._show_menu(Completion())
        else:
            self.replace(choice.insertion, (row, column - len(word)), (row, column))
        return True

    def _before(self) -> str:
        return self.get_text_range((0, 0), self.cursor_location)

    def ask_completer(self, *, by_key: bool = False) -> None:
        """Show what there is for the text before the cursor, by itself only where a menu is wanted."""
        before = self._before()
        if not by_key and before == self._asked_about:
            return
        self._asked, self._asked_about = self._asked + 1, before
        found = self.completer.at_once(before) if by_key or before.startswith("/") else None
        if self._found_from is not None:
            fitting = best(before, lowered(dict.fromkeys(reversed(self.sent))))
            self._show_menu(Completion(before, tuple(map(Choice, fitting))))
        elif found is not None:
            self._show_menu(found, by_key=by_key)
        elif by_key or last_word(before).startswith("@"):
            self.run_worker(partial(self._complete, before, by_key), exclusive=True)
        else:
            self._closed_at = None
            self._show_menu(Completion())

    async def _complete(self, before: str, by_key: bool) -> None:
        asked = self._asked
        found = await asyncio.to_thread(self.completer.complete, before, lambda: asked != self._asked)
        if asked == self._asked and before == self._before():
            self._show_menu(found, by_key=by_key)

    def _show_menu(self, found: Completion, *, by_key: bool = False) -> None:
        """Show what there is to choose; a key takes the only choice at once, or what all choices share."""
        closed = self._closed_at == len(self._before()) - len(found.word)
        if not closed:
            self._closed_at = None
        choices = () if closed or [choice.text for choice in found.choices] == [found.word] else found.choices
        self._completion, self._completes = found, self._before()
        self.menu.show_choices(choices)
        if by_key and len(choices) == 1:
            self.accept()
        elif by_key and len(found.common) > len(found.word):
            self.insert(found.common[len(found.word) :])
        self.refresh_bindings()

    @on(TextArea.SelectionChanged)
    def _cursor_moved(self) -> None:
        self.ask_completer()
