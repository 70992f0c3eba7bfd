"""Box of the confirmation: head, effect or form, input and keys."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.widgets import Input, TextArea

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.decisions import ConfirmationCase
from ollm_tui.tui.screens.confirmation_text import facts_left_out
from ollm_tui.tui.styled_text import TextRole, line
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


WIDTH = 80
SHARE_OF_HEIGHT = 0.96
BORDERS = 2


class ConfirmationBox(Vertical):
    """Holds the parts and sizes them; decides nothing.

    The focus moves at once, so that the next key reaches what is asked for.
    """

    def __init__(self) -> None:
        super().__init__(id="confirm-box")
        self.head = TextBox("confirm-head")
        self.detail = LineView("confirm-detail")
        self.form = EditForm()
        self.input = Input(id="confirm-input", compact=True, select_on_focus=False)
        self.keys = TextBox("confirm-keys")

    def compose(self) -> ComposeResult:
        """Compose the parts from head to keys."""
        yield self.head
        yield self.detail
        yield self.form
        yield self.input
        yield self.keys

    def show_effect(self, case: ConfirmationCase, *, arguments: bool, tight: bool) -> None:
        """Show the preview, or the arguments when asked or without preview.

        Facts that the head has no room for come first: they must be read too.
        """
        preview = case.preview
        left_out = facts_left_out(case, tight=tight)
        if preview is None or arguments:
            self.detail.border_title = "Arguments"
            self.detail.show_lines([*left_out, *argument_lines(case.arguments)])
        else:
            self.detail.border_title = preview_title(preview)
            self.detail.show_lines([*left_out, *preview_lines(preview)])
        swap = "   Tab effect / arguments" if preview is not None else ""
        self.detail.border_subtitle = f"PgUp/PgDn scroll{swap}"

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

    def ask_line(self, text: str, hint: str) -> None:
        """Show a one-line input below the effect."""
        self.input.value, self.input.placeholder = text, hint
        self.input.display = True
        self.screen.set_focus(self.input)

    def fit(self, screen: Size, *, tight: bool) -> None:
        """Limit the middle so that head and keys stay visible."""
        width = min(WIDTH, screen.width) - BORDERS - (0 if tight else 2)
        rows = screen.height if tight else int(screen.height * SHARE_OF_HEIGHT)
        line = 1 if self.input.display else 0
        room = max(1, rows - BORDERS - line - self.head.rows_at(width) - self.keys.rows_at(width))
        self.detail.styles.max_height = room
        self.form.styles.max_height = room
