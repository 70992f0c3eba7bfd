"""Form for a rule about similar questions, with its effect before it is saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input

from ollm_tui.core.base.escape import visible
from ollm_tui.core.bus.states import RememberScope
from ollm_tui.tui.protocol.intents import PreviewRule, SaveRule
from ollm_tui.tui.styled_text import StyledLine, TextRole, line
from ollm_tui.tui.widgets.text_box import TextBox

if TYPE_CHECKING:
    from ollm_tui.core.execution.remembering import RuleEffect

PAST_SHOWN = 3
"""Number of earlier calls listed that the rule would have allowed."""


class RuleForm(Vertical):
    """The wording of a rule, its scope and effect; only what is shown is saved."""

    def __init__(self) -> None:
        super().__init__(id="group-rule-form")
        self.item_ids: tuple[str, ...] = ()
        """The questions it is about, those that still wait."""
        self.scope = RememberScope.SESSION
        self.shown: RuleEffect | None = None
        """The effect on the screen, of the wording as it stands."""
        self._input = Input(id="group-rule", compact=True, select_on_focus=False)
        self._words = TextBox("group-effect")

    def compose(self) -> ComposeResult:
        """Compose the wording and its effect."""
        yield self._input
        yield self._words

    @property
    def wording(self) -> str:
        """The rule as it stands in the form."""
        return self._input.value.strip()

    @property
    def can_be_saved(self) -> bool:
        """Whether the effect of this wording is known and it is not refused."""
        return self.shown is not None and not self.shown.refusal and any(self.shown.allows)

    def begin(self, wording: str, item_ids: tuple[str, ...], open_ids: tuple[str, ...]) -> None:
        """Write a rule about those of the questions that still wait."""
        self.item_ids = tuple(item_id for item_id in item_ids if item_id in open_ids)
        self.display = True
        self._input.value = wording
        if not self._input.has_focus:
            self._input.focus()
        self.judge()

    def judge(self) -> None:
        """Ask for the effect of the wording as it stands."""
        self.shown = None
        if self.item_ids and self.wording:
            # Posted here while the screen handles a message it would not rise beyond the screen.
            self.screen.post_message(PreviewRule(self.item_ids, self.wording))
        self._words.show_lines([line(("Checking what it would do ...", TextRole.MUTED))])

    def show_effect(self, item_ids: tuple[str, ...], effect: RuleEffect) -> None:
        """Show the effect, unless the wording or the questions are others by now."""
        if effect.wording == self.wording and item_ids == self.item_ids:
            self.shown = effect
            self._words.show_lines(effect_lines(effect))

    def save(self) -> None:
        """Save the rule as it is shown."""
        if self.shown is not None:
            allowed = zip(self.item_ids, self.shown.allows, strict=True)
            item_ids = tuple(item_id for item_id, yes in allowed if yes)
            self.screen.post_message(SaveRule(item_ids, self.shown.wording, self.scope))

    def rows_at(self, width: int) -> int:
        """Return the rows that it takes."""
        return 1 + self._words.rows_at(width)

    def widen(self) -> None:
        """Change to the next scope."""
        scopes = list(RememberScope)
        self.scope = scopes[(scopes.index(self.scope) + 1) % len(scopes)]

    def key_line(self, *, ready: bool) -> StyledLine:
        """Return its keys."""
        role = TextRole.ACCENT if ready and self.can_be_saved else TextRole.MUTED
        reach = {
            RememberScope.SESSION: "this session",
            RememberScope.WORKSPACE: "this workspace",
            RememberScope.USER: "every workspace",
        }[self.scope]
        return line(
            ("^S", role),
            " save it and approve  ",
            ("Tab", TextRole.ACCENT),
            f" holds for {reach}  ",
            ("Esc", TextRole.ACCENT),
            " back",
        )


def effect_lines(effect: RuleEffect) -> list[StyledLine]:
    """Return what a rule would do, or why it cannot be saved."""
    if effect.refusal:
        return [line((f"! {visible(effect.refusal)}", TextRole.ERROR), hang=2, prose=True)]
    count, past = len(effect.allows), len(effect.past)
    rows = [line(f"Allows {sum(effect.allows)} of these {count}.", prose=True)]
    words = f"Of the last {effect.looked_at} other calls it would have let {past} run that asked"
    if not past:
        said = f"{words}." if effect.looked_at else "There are no other calls yet to hold it against."
        rows.append(line((said, TextRole.MUTED), prose=True))
        return rows
    more = f" and {past - PAST_SHOWN} more" if past > PAST_SHOWN else ""
    listed = "; ".join(visible(one) for one in effect.past[:PAST_SHOWN])
    rows.append(line((f"{words}: {listed}{more}", TextRole.WARNING), hang=2, prose=True))
    return rows
