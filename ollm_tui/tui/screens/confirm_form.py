"""The edit form of the confirmation: arguments as JSON, their faults, and what the core says to them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import TextArea

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.styled_text import Ink, line
from ollm_tui.tui.values import ReviewValue
from ollm_tui.tui.widgets.inkbox import InkBox

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject

HINT = line(("^S check these arguments   Esc back without changes", Ink.MUTED))


class EditForm(Vertical):
    """A text area and the word of the core below it."""

    def __init__(self) -> None:
        super().__init__(id="confirm-form")
        self._area = TextArea(id="confirm-area", compact=True, show_line_numbers=True, tab_behavior="indent")
        self._area.cursor_blink = False
        self._said = InkBox("confirm-said")

    def compose(self) -> ComposeResult:
        yield self._area
        yield self._said

    def begin(self, arguments: JsonObject) -> None:
        """Start from these arguments."""
        self._area.text = json.dumps(arguments, indent=2, ensure_ascii=False)
        self._said.show_lines([HINT])
        self.screen.set_focus(self._area)

    def parse(self) -> JsonObject | None:
        """The arguments as typed; None when they are no JSON object, and then the form says where and why."""
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

    def show_review(self, review: ReviewValue) -> None:
        """What the core says; shown where it stands in the way."""
        if review.faults:
            self._complain(list(review.faults))
        elif review.decision == "deny":
            self._complain([f"denied: {review.reason}"])

    def _complain(self, faults: list[str]) -> None:
        self._said.show_lines([*(line((f"! {visible(fault)}", Ink.ERROR), hang=2) for fault in faults), HINT])
