"""Box of the confirmation: head, effect or form, input and keys."""

from __future__ import annotations

import json
from abc import abstractmethod
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.widgets import Input, TextArea

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import ConfirmationCase, DecisionGuard, KeyPresses
from ollm_tui.tui.screens.confirmation_text import head_layout
from ollm_tui.tui.screens.key_timing import KeyTiming
from ollm_tui.tui.styled_text import StyledLine, TextRole, line, set_rule
from ollm_tui.tui.widgets.line_view import LineView
from ollm_tui.tui.widgets.text_box import TextBox
from ollm_tui.tui.widgets.tool_call_view import argument_lines, preview_lines, preview_title

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.execution.calls import CallReview


HINT = line(("^S check these arguments   Esc back without changes", TextRole.MUTED))


class EditForm(Vertical):
    """A text area with the review of its arguments below."""

    def __init__(self) -> None:
        super().__init__(id="confirm-form")
        self._area = TextArea(id="confirm-area", compact=True, show_line_numbers=True, tab_behavior="indent")
        self._area.cursor_blink = False
        self._message = TextBox("confirm-message")

    def compose(self) -> ComposeResult:
        """Compose the text area and the message."""
        yield self._area
        yield self._message

    def begin(self, arguments: JsonObject) -> None:
        """Start editing these arguments."""
        self._area.text = json.dumps(arguments, indent=2, ensure_ascii=False)
        self._message.show_lines([HINT])
        self.screen.set_focus(self._area)

    def parse(self) -> JsonObject | None:
        """Return the typed JSON object; None after showing its error."""
        from pydantic import TypeAdapter, ValidationError

        from ollm_tui.core.base.results import JsonObject

        try:
            json.loads(self._area.text)
            return TypeAdapter(JsonObject).validate_json(self._area.text)
        except json.JSONDecodeError as error:
            self._complain([f"line {error.lineno}, column {error.colno}: {error.msg}"])
        except ValidationError:
            self._complain(["the arguments must be one JSON object: { ... }"])
        return None

    def show_review(self, review: CallReview) -> None:
        """Show what prevents the typed arguments."""
        if review.errors:
            self._complain(list(review.errors))
        elif review.decision == "deny":
            self._complain([f"denied: {review.reason}"])

    def _complain(self, errors: list[str]) -> None:
        self._message.show_lines([*(line((f"! {visible(error)}", TextRole.ERROR), hang=2) for error in errors), HINT])


class AnswerLine(Input):
    """Line for the reason of a denial or the wording of a rule; what was said of a wording goes with it."""

    def __init__(self) -> None:
        super().__init__(id="confirm-input", compact=True, select_on_focus=False)
        self.checked = ""
        """A rule as it was typed, until it is known whether it would allow this call."""
        self.refusal = ""
        """Why the rule in it cannot be saved."""

    def ask(self, text: str, hint: str) -> None:
        """Show it, with this text, for typing."""
        self.value, self.placeholder = text, hint
        self.display = True
        self.screen.set_focus(self)

    def watch_value(self) -> None:
        """Forget what was found out about another wording."""
        self.checked = self.refusal = ""


WIDEST = 120
BORDERS = 2
TIGHT_ROWS = 17
"""On fewer rows the keys take one line, and the head only its first; borders and footer are left out."""
MOST_HEAD_ROWS = 12
LEAST_BESIDE_HEAD = 8
"""Rows that the head leaves, at least: for the keys and the beginning of the effect."""


@register_keys(KeyGroup.CONFIRMATION, place=2)
class EffectView(LineView):
    """The effect of a call, or its arguments, to be read to the end."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("space", "page_down", "Scroll on", "confirm.page", "Scroll on by a page, as PgDn"),
        ("j", "scroll_down", "Down", "confirm.down", "Scroll on by a row, as Down"),
        ("k", "scroll_up", "Up", "confirm.up", "Scroll back by a row, as Up; PgUp, Home and End work too"),
        priority=True,  # otherwise the letter begins a message
    )


class ConfirmationBox(Vertical):
    """Holds the parts, sizes them, and tells the guard what has been shown; decides nothing.

    The focus moves at once, so that the next key reaches what is asked for.
    """

    def __init__(self, presses: KeyPresses) -> None:
        super().__init__(id="confirm-box")
        self.guard = DecisionGuard(presses)
        self.timing = KeyTiming(self, self.guard, self.draw)
        self.head = TextBox("confirm-head")
        self.detail = EffectView("confirm-detail")
        self.form = EditForm()
        self.input = AnswerLine()
        self.keys = TextBox("confirm-keys", actions_of=self)
        self.arguments_shown = False
        """The arguments stand in place of the effect."""
        self._effect: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Compose the parts from head to keys."""
        yield self.head
        yield self.detail
        yield self.form
        yield self.input
        yield self.keys

    def show_case(self, case: ConfirmationCase, screen: Size) -> None:
        """Show the facts in the head and the effect, from its top where that is another."""
        tight = screen.height < TIGHT_ROWS
        width = min(WIDEST, screen.width) - (0 if tight else 2) - BORDERS
        rows = 1 if tight else min(MOST_HEAD_ROWS, screen.height - BORDERS - LEAST_BESIDE_HEAD - 3)
        layout = head_layout(case, max(1, width), rows)
        self.head.show_lines(layout.shown)
        effect = (case.item.id, case.preview, self.arguments_shown, layout.left_out)
        if effect != self._effect:
            self._effect = effect
            self._show_effect(case, layout.left_out)

    def forget_effect(self) -> None:
        """Show the effect from its top again, so that its end is seen anew where it stays the same."""
        self._effect = ()

    def _show_effect(self, case: ConfirmationCase, left_out: tuple[StyledLine, ...]) -> None:
        """Show the preview, or the arguments when asked or without preview.

        Facts that the head has no room for come first: they must be read too.
        """
        preview = case.preview
        if preview is None or self.arguments_shown:
            head = "Arguments"
            self.detail.show_lines([*left_out, *argument_lines(case.arguments)])
        else:
            head = preview_title(preview)
            self.detail.show_lines(chain(left_out, preview_lines(preview)))
        swap = "   Tab effect / arguments" if preview is not None else ""
        set_rule(self.detail, head, f"Up Down PgUp PgDn Home End scroll{swap}")

    def show_detail(self) -> None:
        """Hide form and input; focus the detail, where no key decides."""
        self.form.display = self.input.display = False
        self.detail.display = True
        if self.is_attached:
            self.screen.set_focus(self.detail)

    def show_form(self, arguments: JsonObject) -> None:
        """Show the edit form instead of the effect."""
        self.detail.display = False
        self.form.display = True
        self.form.begin(arguments)

    def fit(self, screen: Size) -> None:
        """Limit the middle so that head and keys stay visible."""
        tight = screen.height < TIGHT_ROWS
        width = min(WIDEST, screen.width) - BORDERS - (0 if tight else 2)
        rows = screen.height - (0 if tight else 1)
        line = 1 if self.input.display else 0
        room = max(1, rows - BORDERS - line - self.head.rows_at(width) - self.keys.rows_at(width))
        self.detail.styles.max_height = room
        self.form.styles.max_height = room

    @abstractmethod
    def draw(self) -> None:
        """Draw what is shown now."""

    def rearm(self) -> None:
        """Let no key decide until what is shown now has been painted."""
        self.timing.rearm(self.guard.hide())

    @on(LineView.EndSeen)
    def _end_seen(self, event: LineView.EndSeen) -> None:
        event.stop()
        if not self.arguments_shown and self.detail.seen_end:
            self.guard.see_end()
            self.timing.wait()
        else:
            self.draw()
