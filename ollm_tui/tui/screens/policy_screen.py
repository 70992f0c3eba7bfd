"""Policy screen: what holds and where it stands, what was decided, and what would happen to a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import KeyPresses
from ollm_tui.tui.external_editor import EditorError, ExternalEditor
from ollm_tui.tui.protocol.policy import (
    ChangeSetting,
    JudgeCall,
    JudgedUpdate,
    ListPolicy,
    PolicyRow,
    PolicyRowsUpdate,
    PolicySection,
    PolicyUpdate,
    ReadPolicyAgain,
    RevokeApproval,
)
from ollm_tui.tui.protocol.updates import Update
from ollm_tui.tui.screens.list_and_text import KeyHint, SearchedListScreen
from ollm_tui.tui.screens.question_screens import ChoiceScreen, YesNoScreen
from ollm_tui.tui.styled_text import TextRole, app_of, line
from ollm_tui.tui.widgets.row_list import ListRow, RowList

NO_FILE = "It is no part of a file of yours. Rules in the file that `ollm-tui config path` tells come before it."
NOTHING_FOUND = "Nothing here contains that. Esc shows all again."
NOT_REVOCABLE = "d takes an approved command back; a rule is changed in its file (e)."
NO_CHOICES = "Enter changes a setting that has a choice of values; everything else is changed in its file (e)."
MOST_BESIDE = 24
"""Cells at the right edge of a row that say where it comes from."""
ABOUT = {
    PolicySection.FINDINGS: "What is wrong or does nothing in your policy files, as `ollm-tui policy lint` finds it.",
    PolicySection.SETTINGS: "What holds beside the rules; [policy] of the file that `ollm-tui config path` tells.",
    PolicySection.RULES: "A tool's own rules come before those for *, and the first that fits decides. What your "
    "files deny holds, whatever the preset says.",
    PolicySection.APPROVALS: "Commands that run unasked because somebody said so, and how often they did.",
    PolicySection.DECISIONS: "What was decided lately, the newest first, as `ollm-tui policy log` prints it.",
}
TYPING_SECONDS = 0.15
"""A call is judged once nothing was typed for that long."""
WHAT_IF = "What would happen to: a command, or TOOL {arguments}"
_ROLES = {"allow": TextRole.OK, "ask": TextRole.WARNING, "deny": TextRole.ERROR}


@register_keys(KeyGroup.POLICY)
class PolicyScreen(SearchedListScreen):
    """List of what holds beside the marked entry; a line above it takes a call to be judged, which runs nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *key_bindings(
            ("escape", "back", "Close", "policy.back", "Leave the line, then the policy"),
            priority=True,
        ),
        *key_bindings(
            ("slash", "search", "Search", "policy.search", "Show the entries that contain something"),
            ("w", "try_call", "What would happen", "policy.try", "Type a call to see what would happen to it"),
            ("s", "next_part", "Next part", "policy.part", "Go to the next part of the list"),
            ("e", "edit", "Edit", "policy.edit", "Open its file at its line; what you change there counts at once"),
            ("d,delete", "revoke", "Take back", "policy.revoke", "Take the marked approval back, after a question"),
            ("tab", "read", "Read", "policy.read", "From the list to the text, and back"),
            ("q", "close", "Close", "policy.close", "Close the policy"),
        ),
    ]

    TITLE_TEXT = "Policy"
    SEARCH = "Search"
    KEYS = (
        KeyHint("/", "search", "search"),
        KeyHint("w", "what would happen", "try_call"),
        KeyHint("s", "next part", "next_part"),
        KeyHint("Enter", "change a setting", "change"),
        KeyHint("e", "edit its file", "edit"),
        KeyHint("d", "take back", "revoke"),
        KeyHint("Tab", "read", "read"),
        KeyHint("Esc", "close", "back"),
    )

    def __init__(self, editor: ExternalEditor, presses: KeyPresses) -> None:
        super().__init__("policy", "")
        self._editor = editor
        self._presses = presses
        self._listed: tuple[PolicyRow, ...] = ()
        self._call = Input(placeholder=WHAT_IF, id="policy-call", compact=True)
        self._call.cursor_blink = False
        self._pause: Timer | None = None

    def above(self) -> Iterator[Widget]:
        """Yield the line that searches, and the one that takes a call."""
        yield from super().above()
        yield self._call

    def on_mount(self) -> None:
        """Ask for what holds."""
        self.post_message(ListPolicy())

    def take(self, message: Update) -> None:
        """Show an update that concerns the policy."""
        match message:
            case PolicyRowsUpdate(mode, rows):
                self.entitle(f"Policy  mode {mode}")
                self._listed = rows
                self._show_found()
            case JudgedUpdate(text, decision, details) if text == self._call.value:
                self.show(f"{decision.upper()}  {text}" if decision else text, details)
            case PolicyUpdate():
                pass
            case _:
                pass

    # -- moving ------------------------------------------------------------------------------------------------------

    @on(RowList.Moved)
    def _show_marked(self) -> None:
        chosen, row = self._rows.chosen_id, self._marked
        if row is not None:
            title = f"{row.title}  {row.conditions}".rstrip()
            self.show(row.section.value, f"{title}\n{row.facts}\n\n{row.details}")
        elif chosen is not None:
            self.show(chosen, ABOUT[PolicySection(chosen)])
        else:
            self.show("", NOTHING_FOUND)

    @on(Input.Changed, "#list-search")
    def _show_found(self) -> None:
        self._rows.show_rows(list(_list_rows(self._found)))
        self._show_marked()

    @on(Input.Changed, "#policy-call")
    def _typed(self) -> None:
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(TYPING_SECONDS, self._judge)

    @on(Input.Submitted, "#policy-call")
    def _judge(self) -> None:
        if self._pause is not None:
            self._pause.stop()
        if self._call.value.strip():
            self.post_message(JudgeCall(self._call.value))
        else:
            self._show_marked()

    # -- actions -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key works now: letters are the line's while it is typed in."""
        return action == "back" or not (self._call.has_focus or self._search.has_focus)

    def action_try_call(self) -> None:
        """Focus the line."""
        self._call.focus()

    def action_next_part(self) -> None:
        """Mark the next part."""
        found, chosen = self._found, self._rows.chosen_id
        parts = list(dict.fromkeys(row.section for row in found))
        marked = next((row.section for row in found if chosen in (row.id, row.section)), None)
        if marked is not None:
            self._rows.choose(parts[(parts.index(marked) + 1) % len(parts)].value)

    def action_edit(self) -> None:
        """Open the marked entry's file at its line, and let what was changed hold."""
        row = self._marked
        if row is None or not row.file:
            self.notify(NO_FILE, markup=False)
        elif not self._editor.is_open:
            self.run_worker(self._edit(row), name="editor", exit_on_error=False)

    @on(RowList.Opened)
    def action_change(self) -> None:
        """Let a setting be changed by a choice."""
        row = self._marked
        if row is None or not row.choices:
            self.notify(NO_CHOICES, markup=False)
            return
        name = row.title.partition(" = ")[0]

        def settle(value: str | None) -> None:
            if value:
                self.post_message(ChangeSetting(name, value, row.file))

        app_of(self).push_screen(ChoiceScreen(f"{name}?", row.choices, self._presses), settle)

    def action_revoke(self) -> None:
        """Take the marked approval back after asking."""
        row = self._marked
        if row is None or not row.revocable:
            self.notify(NOT_REVOCABLE, markup=False)
            return

        def settle(yes: bool | None) -> None:
            if yes:
                self.post_message(RevokeApproval(row.title, row.file))

        facts = (visible(row.title), "It asks again from then on.", visible(row.facts))
        question = YesNoScreen("Take this approval back?", facts, "take it back", self._presses)
        app_of(self).push_screen(question, settle)

    async def _edit(self, row: PolicyRow) -> None:
        try:
            await self._editor.open_file(Path(row.file), row.line)
        except EditorError as error:
            self.notify(visible(str(error)), severity="error", markup=False, timeout=15)
            return
        self.post_message(ReadPolicyAgain())

    def action_back(self) -> None:
        """Leave the line, then the screen."""
        typed = self._search if self._search.value and not self._call.has_focus else self._call
        if typed.value or typed.has_focus or self._search.has_focus or self._shown.has_focus:
            typed.value = ""
            self._rows.focus()
            self._show_marked()
        else:
            self.action_close()

    @property
    def _found(self) -> list[PolicyRow]:
        """Return the entries that contain each word that is searched for."""
        words = self._search.value.casefold().split()
        texts = (
            (row, " ".join((row.title, row.conditions, row.facts, row.details, row.decision)).casefold())
            for row in self._listed
        )
        return [row for row, text in texts if all(word in text for word in words)]

    @property
    def _marked(self) -> PolicyRow | None:
        return next((row for row in self._listed if row.id == self._rows.chosen_id), None)


def _list_rows(rows: Sequence[PolicyRow]) -> Iterator[ListRow]:
    """Yield a row for each entry, and one for each part, which tells what it is."""
    before: PolicySection | None = None
    for row in rows:
        if row.section is not before:
            before = row.section
            yield ListRow(before.value, (line((before.value, TextRole.MUTED)),))
        decision = (f"{row.decision:<7}", _ROLES.get(row.decision, TextRole.MUTED))
        first = line(*([decision] if row.decision else []), visible(row.title))
        second = (line(f"{'':<7}", (visible(row.conditions), TextRole.MUTED)),) if row.conditions else ()
        yield ListRow(row.id, (first, *second), line((visible(row.beside), TextRole.MUTED)).cut(MOST_BESIDE))
