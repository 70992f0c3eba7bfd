"""What calls changed, for the screen: listed, shown as a diff, undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ollm_tui.core.base.errors import InvalidArguments, ToolFailure
from ollm_tui.core.files.journal import undone
from ollm_tui.core.files.journal_text import changes_since, compared, line_of, status_of, summary_of, title_of
from ollm_tui.core.files.journal_undo import Outcome, Step, Undo
from ollm_tui.tui.protocol import PostUpdate, undo, updates
from ollm_tui.tui.protocol.undo import UndoPart, UndoPlan, UndoRow, message_of

MOST_LISTED = 300
MOST_SHOWN = 200
"""Changes of one plan that are shown with their diff."""


class UndoController:
    """Handler of the intents about undo."""

    def __init__(
        self,
        journal_undo: Undo,
        post: PostUpdate,
        report: Callable[[str], object],
        since_message: Callable[[int], list[Step]],
    ) -> None:
        """`report` puts a line into the conversation; `since_message` plans to go back to before a message."""
        self._undo = journal_undo
        self._since_message = since_message
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
                    if said := await self.take_back(wanted):
                        self._report(said)
                    self._post(undo.ChangesUpdate(await asyncio.to_thread(self._rows)))
                case _:
                    pass
        except (ToolFailure, OSError) as failure:
            self._post(updates.ToastUpdate(str(failure), failed=True))

    async def take_back(self, wanted: str) -> str:
        """Undo, and say so; return the line for the conversation. Raises ToolFailure and OSError."""
        title, summary, whole = await asyncio.to_thread(self._apply, wanted)
        self._post(updates.ToastUpdate(f"{title}: {summary}" if title else summary, failed=not whole))
        return f"Your files went back: {title} ({summary}). /undo can take that back too." if title else ""

    def _find(self, wanted: str) -> list[Step]:
        message = message_of(wanted)
        return self._undo.find(wanted) if message is None else self._since_message(message)

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
            steps = self._find(wanted)
        except InvalidArguments:
            return UndoPlan(wanted, "nothing is recorded", ())
        parts = [self._part(step) for step in steps[:MOST_SHOWN]]
        noted = {step.entry.id: step.entry for step in steps if step.entry.note}
        parts += [UndoPart(f"{entry.name} {entry.title}", "", entry.note) for entry in noted.values()]
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
        steps = self._find(wanted)
        if not any(step.outcome is Outcome.UNDO for step in steps):
            return "", summary_of(steps), False
        entry, went = self._undo.apply(steps, title_of(steps))
        whole = all(step.outcome in (Outcome.UNDO, Outcome.DONE) for step in went)
        return entry.title, summary_of(went), whole
