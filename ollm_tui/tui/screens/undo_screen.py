"""What calls changed, with the diff that undoing it would make; undone by a deliberate key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.files.diff import FileDiff
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import KeyPresses
from ollm_tui.tui.layout import WIDE_COLUMNS
from ollm_tui.tui.protocol.undo import (
    ApplyUndo,
    ChangesUpdate,
    ListChanges,
    PlanUndo,
    UndoPart,
    UndoPlan,
    UndoPlanUpdate,
    UndoRow,
    UndoUpdate,
)
from ollm_tui.tui.screens.question_screens import GuardedScreen
from ollm_tui.tui.styled_text import StyledLine, TextRole, line, lines_of, set_rule
from ollm_tui.tui.widgets.diff_view import diff_lines
from ollm_tui.tui.widgets.line_view import LineView
from ollm_tui.tui.widgets.row_list import ListRow, RowList
from ollm_tui.tui.widgets.text_box import TextBox

EMPTY = "Nothing recorded yet. What calls change in this workspace is listed here, and can be undone."
NOT_RECORDED = "That call changed nothing that is recorded."

Answer = TypeVar("Answer")


class PlanScreen(GuardedScreen[Answer]):
    """Base: a list, and beside it the diff of what undoing would do to the files."""

    TITLE_TEXT: ClassVar[str]
    KEYS: ClassVar[tuple[tuple[str, str, str], ...]]

    def __init__(self, presses: KeyPresses) -> None:
        super().__init__(presses)
        self._plan: UndoPlan | None = None
        self._rows = RowList("undo-rows")
        self._text = LineView("undo-text")
        self._words = TextBox("undo-words")
        self._keys = TextBox("undo-keys")

    def compose(self) -> ComposeResult:
        """Compose list, diff, message and keys."""
        with Vertical(id="undo-box") as box:
            box.border_title = self.TITLE_TEXT
            with Horizontal(id="undo-body"):
                yield self._rows
                yield self._text
            yield self._words
            yield self._keys

    def on_mount(self) -> None:
        """Show the keys and focus the list."""
        self._keys.show_keys(list(self.KEYS), gap=3)
        self._rows.focus()

    def on_resize(self, event: events.Resize) -> None:
        """Put the diff below the list in a narrow window."""
        self.set_class(event.size.width < WIDE_COLUMNS, "-narrow")

    def action_other_side(self) -> None:
        """Focus the diff, or the list again."""
        (self._rows if self._text.has_focus else self._text).focus()

    def action_close(self) -> None:
        """Close the list, and do nothing."""
        if self.is_current:
            self.dismiss()

    def ask_plan(self, wanted: str) -> None:
        """Ask what undoing it would do; until that is shown, no key undoes."""
        self._plan = None
        self.guard.hide()
        if wanted:
            self.post_message(PlanUndo(wanted))

    def show_plan(self, plan: UndoPlan, what: str) -> None:
        """Show what undoing would do to the files."""
        self._plan = plan
        self._text.show_lines([shown for part in plan.parts for shown in _part_lines(part)])
        set_rule(self._text, what)
        self.call_after_refresh(self.guard.show, self.guard.hide())

    def say(self, *words: str) -> None:
        """Show a message below."""
        self._words.show_lines([line((each, TextRole.MUTED), prose=True) for each in words if each])


@register_keys(KeyGroup.UNDO)
class UndoScreen(PlanScreen[None]):
    """List of what was changed; `call` is the one to mark first."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("u", "undo", "Undo", "undo.apply", "Undo what is shown"),
        ("t", "turn", "Whole turn", "undo.turn", "Show the marked call's whole turn, or the call alone"),
        ("tab", "other_side", "Diff", "undo.side", "Go between the list and the diff"),
        ("escape,q", "close", "Close", "undo.close", "Close the list of changes"),
    )
    TITLE_TEXT = "Undo"
    KEYS = (
        ("u", "undo what is shown", "screen.undo"),
        ("t", "whole turn", "screen.turn"),
        ("Tab", "diff", "screen.other_side"),
        ("Esc", "close", "screen.close"),
    )

    def __init__(self, presses: KeyPresses, call: str = "") -> None:
        super().__init__(presses)
        self._call = call
        self._entries: tuple[UndoRow, ...] = ()
        self._whole_turn = False

    def on_mount(self) -> None:
        """Ask for the list."""
        self.post_message(ListChanges())

    def take(self, update: UndoUpdate) -> None:
        """Show the list, or what undoing would do."""
        match update:
            case ChangesUpdate(rows):
                self._show_rows(rows)
            case UndoPlanUpdate(plan) if plan.wanted == self._wanted:
                self._show_plan(plan)
            case _:
                pass

    def _show_rows(self, rows: tuple[UndoRow, ...]) -> None:
        self._entries = rows
        self._rows.show_rows([_list_row(row) for row in rows])
        if self._call:
            found = next((row.id for row in rows if row.call == self._call), "")
            self._call = ""
            if found:
                self._rows.choose(found)
            else:
                self.notify(NOT_RECORDED, markup=False)
        self.say(EMPTY if not rows else "")
        self.ask_plan(self._wanted)

    @on(RowList.Moved)
    def _moved(self) -> None:
        self._whole_turn = False
        self.ask_plan(self._wanted)

    def _show_plan(self, plan: UndoPlan) -> None:
        self.show_plan(plan, f"Undoing {'the whole turn' if self._whole_turn else self._wanted}")
        works = f"What + marks comes back, what - marks goes. {plan.summary.capitalize()}"
        self.say(works if plan.works else f"Nothing to do: {plan.summary}")

    # -- actions -----------------------------------------------------------------------------------------------------

    def action_undo(self) -> None:
        """Undo what is shown."""
        if not self.is_current or self._plan is None:
            return
        if not self._plan.works:
            self.notify("There is nothing here that can be undone.", markup=False)
        elif self.may("undo"):
            self.decide(lambda: self._undo(self._plan))

    def _undo(self, plan: UndoPlan | None) -> None:
        if plan is not None:
            self.post_message(ApplyUndo(plan.wanted))
            self._plan = None

    def action_turn(self) -> None:
        """Show the whole turn, or the marked call alone again."""
        if self._marked is None or not self._marked.turn:
            self.notify("It is not part of a turn.", markup=False)
            return
        self._whole_turn = not self._whole_turn
        self.ask_plan(self._wanted)

    # -- helpers -----------------------------------------------------------------------------------------------------

    @property
    def _marked(self) -> UndoRow | None:
        return next((row for row in self._entries if row.id == self._rows.chosen_id), None)

    @property
    def _wanted(self) -> str:
        marked = self._marked
        if marked is None:
            return ""
        return marked.turn if self._whole_turn else marked.id


def _list_row(row: UndoRow) -> ListRow:
    paths = f"{row.paths} path{'s' if row.paths != 1 else ''}"
    role = TextRole.WARNING if "cannot" in row.status else TextRole.MUTED
    facts = ", ".join(part for part in (row.at[11:19], paths, row.status) if part)
    return ListRow(row.id, (line((f"{row.id:<5}", TextRole.STRONG), visible(row.title)), line((f"     {facts}", role))))


def _part_lines(part: UndoPart) -> Iterator[StyledLine]:
    yield line((visible(part.title), TextRole.STRONG), (f"  {part.why}" if part.why else "", TextRole.WARNING))
    if isinstance(part.diff, FileDiff):
        yield from diff_lines(part.diff)
    elif part.diff:
        yield line((visible(part.diff), TextRole.MUTED))
    if part.since:
        yield line(("after that:", TextRole.MUTED))
        yield from lines_of(visible_block(part.since))
    yield line()
