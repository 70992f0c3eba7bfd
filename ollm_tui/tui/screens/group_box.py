"""Box of the group screen: head, list, forms and keys."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from ollm_tui.core.base.escape import visible
from ollm_tui.core.bus.states import ConfirmationState
from ollm_tui.tui.decisions import DecisionGuard, KeyPresses, Readiness
from ollm_tui.tui.question_groups import QuestionGroup, subject
from ollm_tui.tui.question_queue import GroupSelection
from ollm_tui.tui.screens.group_rule import RuleForm
from ollm_tui.tui.screens.key_timing import KeyTiming
from ollm_tui.tui.styled_text import StyledLine, TextRole, line, set_border
from ollm_tui.tui.widgets.row_list import DoubleClickList, ListRow
from ollm_tui.tui.widgets.text_box import TextBox
from ollm_tui.tui.widgets.tool_call_view import MANY_BLANKS, argument_lines, preview_lines

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.bus.notices import Confirmation
    from ollm_tui.core.execution.calls import CallReview
    from ollm_tui.core.execution.remembering import RuleEffect


INDENT = 8  # a mark and a number
"""Cells in front of what a question is about."""


class QuestionList(DoubleClickList):
    """Questions in full."""

    class Seen(Message):
        """More questions have been in sight as a whole."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.whole: set[str] = set()
        """The ids of questions whose every line has been in sight."""
        self._lines_seen: dict[str, set[int]] = {}
        """Lines seen of the others, at the current width."""

    def measure(self, width: int) -> int:
        """Wrap anew; what was seen in part at another width must be seen again."""
        if width != self.row_width:
            self._lines_seen.clear()
        return super().measure(width)

    def _check_end(self) -> None:
        """Note which lines are in sight."""
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        before = len(self.whole)
        for row_id, first, last in self.rows_between(top, top + height):
            if row_id not in self.whole:
                seen = self._lines_seen.setdefault(row_id, set())
                seen.update(range(max(first, top) - first, min(last, top + height) - first))
                if len(seen) == last - first:
                    self.whole.add(row_id)
                    del self._lines_seen[row_id]
        if len(self.whole) > before:
            self.post_message(self.Seen())


ENDED_MARKS = {
    ConfirmationState.APPROVED: ("yes ", TextRole.OK),
    ConfirmationState.DENIED: ("no  ", TextRole.ERROR),
    ConfirmationState.EXPIRED: ("late", TextRole.MUTED),
    ConfirmationState.CANCELLED: ("gone", TextRole.MUTED),
}
"""Words in place of a mark, as wide, so that rows do not move."""


def question_row(item: Confirmation, *, marked: bool, sent: bool) -> ListRow:
    """Return the row of a question with its whole effect."""
    mark = ENDED_MARKS.get(item.state)
    if mark is None:
        mark = ("... " if sent else "[x] " if marked else "[ ] ", TextRole.ACCENT if marked else TextRole.MUTED)
    head = line(
        mark,
        (f"#{item.ordinal:<3}", TextRole.MUTED),
        (visible(subject(item)), TextRole.STRONG if item.pending else TextRole.MUTED),
        hang=INDENT,
    )
    return ListRow(item.id, (head, *_effect(item)), wrap=True)


def _effect(item: Confirmation) -> list[StyledLine]:
    """Return what the first line leaves out; nothing for a plain command."""
    details, preview = item.details, item.details.preview
    lines: list[StyledLine] = []
    if preview is not None and preview.kind == "command":
        plain = len(preview.parts) <= 1 and visible(preview.command) == preview.command
        if plain and " " * MANY_BLANKS not in preview.command:
            return []
    elif preview is None or preview.kind != "diff":
        lines.append(line((visible(details.description), TextRole.MUTED)))
    lines += argument_lines(details.args) if preview is None else preview_lines(preview)
    return [
        line(" " * INDENT, *((span.text, span.role) for span in one.spans), hang=INDENT + one.hang) for one in lines
    ]


WIDTH, SHARE_OF_HEIGHT, BORDERS = 120, 0.96, 2
"""Widest box in cells, its share of the window, its border rows."""

HEAD_CHARACTERS = 300
"""Characters of a fact in the head; the list has all."""

ESC = ("Esc", TextRole.ACCENT)


class ReasonLine(Input):
    """Line for the reason why questions are denied."""

    def __init__(self) -> None:
        super().__init__(id="group-reason", compact=True, placeholder="why not; the model reads this")
        self._item_ids: tuple[str, ...] = ()

    def begin(self, item_ids: tuple[str, ...]) -> None:
        """Ask for the reason for denying these questions."""
        self._item_ids = item_ids
        self.value, self.display = "", True
        self.focus()

    def left(self, open_ids: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the questions that still wait."""
        return tuple(item_id for item_id in self._item_ids if item_id in open_ids)

    def key_line(self, left: int) -> StyledLine:
        """Return its keys while so many questions wait."""
        if not left:
            return line("These questions have ended: what you type decides nothing.   ", ESC, " back")
        return line(("Enter", TextRole.ACCENT), f" denies {counted(left)} with this reason   ", ESC, " back")


class GroupBox(Vertical):
    """Parts of the list, their sizes, and when its keys count.

    It decides nothing.
    """

    def __init__(self, selection: GroupSelection, presses: KeyPresses) -> None:
        super().__init__(id="group-box", classes="-high" if selection.high_risk else None)
        self.selection = selection
        self.guard = DecisionGuard(presses)
        self.timing = KeyTiming(self, self.guard, self.draw)
        self._head = TextBox("group-head")
        self.list = QuestionList("group-list")
        self.reason = ReasonLine()
        self.rule = RuleForm()
        self._keys = TextBox("group-keys")

    def compose(self) -> ComposeResult:
        """Compose head, list, forms and keys."""
        yield self._head
        yield self.list
        yield self.reason
        yield self.rule
        yield self._keys

    def on_mount(self) -> None:
        """Show the questions."""
        self.leave_form()
        self.rearm()

    @property
    def unread(self) -> int:
        """How many targets have not been in sight as a whole."""
        return len(set(self.selection.targets) - self.list.whole)

    @property
    def form_open(self) -> bool:
        """Whether a reason or a rule is being written."""
        return self.reason.display or self.rule.display

    def leave_form(self) -> None:
        """Go back to the list."""
        self.reason.display = self.rule.display = False
        self.list.focus()

    def show_review(self, item_id: str, review: CallReview, arguments: JsonObject | None) -> None:
        """Take no notice: reviews are for the confirmation of one question."""

    def show_effect(self, item_ids: tuple[str, ...], effect: RuleEffect) -> None:
        """Show what the rule would do."""
        self.rule.show_effect(item_ids, effect)
        self.rearm()

    @on(Input.Changed, "#group-rule")
    def _rule_changed(self) -> None:
        self.rule.judge()
        self.rearm()

    @on(QuestionList.Seen)
    def _seen(self) -> None:
        self.rearm()

    # -- when keys count ---------------------------------------------------------------------------------------------

    def may(self, verb: str, *, twice: bool) -> bool:
        """Return whether the pressed key does this to the targets now."""
        if not self.selection.targets or self.form_open:
            return False
        return self.guard.press(self._decision(verb), whole=True, twice=twice) is Readiness.READY

    def _decision(self, verb: str) -> Hashable:
        return (verb, self.selection.targets)

    def rearm(self) -> None:
        """Let no key decide until what is shown is painted and read."""
        change = self.guard.renew()
        if not self.unread:
            self.guard.see_end()
        self.timing.rearm(change)

    # -- drawing -----------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw head, list and keys; called each second while a clock runs."""
        selection = self.selection
        details = selection.first.details
        what = f"{len(selection.shown)} similar questions   {details.risk.value.upper()}   {visible(details.tool_name)}"
        set_border(self, what, "PgUp/PgDn scroll   Enter opens one")
        self._head.show_lines(head_lines(selection.group))
        self.list.show_rows(
            [
                question_row(item, marked=item.id in selection.marked, sent=item.id in selection.sent)
                for item in selection.shown.values()
            ]
        )
        self._keys.show_lines(self._key_lines())
        self._fit()

    def _fit(self) -> None:
        """Limit the list so that head and keys stay visible."""
        window = self.screen.size
        width = min(WIDTH, window.width) - 4
        around = self._head.rows_at(width) + self._keys.rows_at(width) + (1 if self.reason.display else 0)
        around += self.rule.rows_at(width) if self.rule.display else 0
        self.list.styles.max_height = max(3, int(window.height * SHARE_OF_HEIGHT) - BORDERS - around)

    def _key_lines(self) -> list[StyledLine]:
        selection = self.selection
        ready = self.guard.readiness(whole=True) is Readiness.READY
        if self.reason.display:
            return [self.reason.key_line(len(self.reason.left(selection.open_ids)))]
        if self.rule.display:
            return [self.rule.key_line(ready=ready)]
        if not selection.open_ids:
            return [line("Nothing here waits any more.   ", ESC, " close")]
        again = next((verb for verb in ("approve", "deny") if self.guard.again(self._decision(verb))), "")
        return list_keys(selection, self.unread, again, ready=ready)


def head_lines(group: QuestionGroup) -> list[StyledLine]:
    """Return what the questions have in common."""
    first = group.oldest
    preview = first.details.preview
    facts = [("What", group.pattern.text), ("Why", first.request.reason)]
    if preview is not None and preview.kind == "command":
        cwd = "the workspace itself" if preview.cwd == "." else preview.cwd
        facts.insert(1, ("Where", f"{cwd}, {preview.place.value}"))
    rows = [
        line((f"{name:<6} ", TextRole.MUTED), visible(text[:HEAD_CHARACTERS]), hang=7, prose=True)
        for name, text in facts
    ]
    warnings = preview.warnings if preview is not None else ()
    return rows + [line((f"! {visible(one)}", TextRole.WARNING), hang=2, prose=True) for one in warnings]


def list_keys(selection: GroupSelection, unread: int, again: str, *, ready: bool) -> list[StyledLine]:
    """Return what the keys would decide, and the keys.

    `again` is what one more press of the same key would do.
    """
    targets, newer = len(selection.targets), len(selection.newer)
    role = TextRole.ACCENT if ready else TextRole.MUTED
    if again:
        key = "y" if again == "approve" else "n"
        said = (f"Press {key} again: {again} {counted(targets)}", TextRole.ERROR)
    elif not targets:
        said = ("What you chose has ended; space chooses others", TextRole.WARNING)
    elif unread:
        said = (f"Scroll on: {unread} of {targets} not shown in full yet", TextRole.WARNING)
    else:
        said = (f"{'Chosen' if selection.marked else 'All'}: {counted(targets)}", TextRole.MUTED)
    keys = [("y", " approve  "), ("n", " deny  "), ("r", " why  "), ("A", " rule  ")]
    more = (("m", TextRole.ACCENT), f" {newer} more since  ") if newer else ()
    return [
        line(said),
        line(
            *(part for key, words in keys for part in ((key, role), words)),
            *(("space", TextRole.ACCENT), " choose  ", *more, ESC, " later"),
        ),
    ]


def counted(count: int) -> str:
    """Return so many questions in words."""
    return f"{count} question{'s' if count > 1 else ''}"
