"""What calls changed, for the screen: listed, shown as a diff, undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ollm_tui.core.base.errors import InvalidArguments, ToolFailure
from ollm_tui.core.files.journal import undone
from ollm_tui.core.files.journal_text import changes_since, compared, line_of, status_of, summary_of, title_of
from ollm_tui.core.files.journal_undo import Outcome, Step, Undo
from ollm_tui.tui.protocol import PostUpdate, undo, updates
from ollm_tui.tui.protocol.undo import UndoPart, UndoPlan, UndoRow

MOST_LISTED = 300
MOST_SHOWN = 200
"""Changes of one plan that are shown with their diff."""


class UndoController:
    """Handler of the intents about undo."""

    def __init__(self, journal_undo: Undo, post: PostUpdate, report: Callable[[str], object]) -> None:
        """`report` puts a line into the conversation."""
        self._undo = journal_undo
        self._report = report
        self._post = post

    async def handle(self, intent: undo.UndoIntent) -> None:
        """List, plan or undo, in a thread; report a failure."""
        try:
            match intent:
                case undo.ListChanges():
                    self._post(undo.ChangesUpdate(await asyncio.to_thread(self._rows)))
                case undo.PlanUndo(wanted):
                    self._post(undo.UndoPlanUpdate(await asyncio.to_thread(self._plan, wanted)))
                case undo.ApplyUndo(wanted):
                    title, summary, whole = await asyncio.to_thread(self._apply, wanted)
                    self._post(updates.ToastUpdate(f"{title}: {summary}", failed=not whole))
                    if title:
                        self._report(f"Your files went back: {title} ({summary}). /undo can take that back too.")
                    self._post(undo.ChangesUpdate(await asyncio.to_thread(self._rows)))
                case _:
                    pass
        except (ToolFailure, OSError) as failure:
            self._post(updates.ToastUpdate(str(failure), failed=True))

    def _rows(self) -> tuple[UndoRow, ...]:
        entries = self._undo.journal.entries()
        taken = undone(entries)
        return tuple(
            UndoRow(
                entry.name, entry.call, entry.turn, entry.at, entry.title, len(entry.changes), status_of(entry, taken)
            )
            for entry in reversed(entries[-MOST_LISTED:])
        )

    def _plan(self, wanted: str) -> UndoPlan:
        try:
            steps = self._undo.find(wanted)
        except InvalidArguments:
            return UndoPlan(wanted, "nothing is recorded", ())
        parts = [self._part(step) for step in steps[:MOST_SHOWN]]
        if len(steps) > MOST_SHOWN:
            parts.append(UndoPart(f"and {len(steps) - MOST_SHOWN:,} more", ""))
        works = any(step.outcome is Outcome.UNDO for step in steps)
        return UndoPlan(wanted, summary_of(steps, ahead=True), tuple(parts), works=works)

    def _part(self, step: Step) -> UndoPart:
        journal = self._undo.journal
        title = line_of(journal, step.change)
        why = step.why if step.outcome is not Outcome.DONE else step.why or "as before already"
        match step.outcome:
            case Outcome.UNDO:
                return UndoPart(title, compared(journal, step.change, back=True))
            case Outcome.CHANGED:
                return UndoPart(title, compared(journal, step.change), why, changes_since(journal, step.change))
            case Outcome.DONE | Outcome.IMPOSSIBLE:
                return UndoPart(title, "", why)

    def _apply(self, wanted: str) -> tuple[str, str, bool]:
        """Return the title of the new entry, what came of it, and whether that is all."""
        steps = self._undo.find(wanted)
        if not any(step.outcome is Outcome.UNDO for step in steps):
            return "", summary_of(steps), False
        entry, went = self._undo.apply(steps, title_of(steps))
        whole = all(step.outcome in (Outcome.UNDO, Outcome.DONE) for step in went)
        return entry.title, summary_of(went), whole
