"""Where a question stands in the queue, what is like it, and what was decided here; without a screen."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ollm_tui.core.bus.notices import Confirmation
from ollm_tui.core.bus.states import ConfirmationState
from ollm_tui.tui.decisions import ConfirmationCase
from ollm_tui.tui.question_groups import group_questions
from ollm_tui.tui.values import ConfirmationQueueSnapshot


@dataclass(frozen=True)
class QueuePlace:
    """Where the question stands in the queue, and the ids of those that wait."""

    number: int
    count: int
    waiting: tuple[str, ...]
    alike: tuple[str, ...]
    """The ids of the open questions that are like it, itself among them."""


class QuestionQueue:
    """The questions that are decided one after the other."""

    def __init__(self, snapshot: ConfirmationQueueSnapshot) -> None:
        self.snapshot = snapshot
        self.sent: set[str] = set()
        """The ids of the questions that were decided here."""
        self._groups: tuple[ConfirmationQueueSnapshot, dict[str, tuple[str, ...]]] | None = None

    @property
    def next_id(self) -> str | None:
        """The oldest question that is still to be decided."""
        return next((item.id for item in self.snapshot.pending if item.id not in self.sent), None)

    def case(self, item_id: str) -> ConfirmationCase | None:
        """Return a question as it was asked; None once the queue has it no more."""
        item = self.snapshot.find(item_id)
        said = self.snapshot.said_before(item) if item is not None else ""
        return ConfirmationCase(item, said, sent=item_id in self.sent) if item is not None else None

    def now(self, item: Confirmation) -> Confirmation:
        """Return what became of a question."""
        gone = replace(item, state=ConfirmationState.CANCELLED) if item.pending else item
        return self.snapshot.find(item.id) or gone

    def place(self, item_id: str) -> QueuePlace:
        """Return where a question stands."""
        items, waiting = self.snapshot.items, tuple(item.id for item in self.snapshot.pending)
        number = next((at for at, one in enumerate(items, 1) if one.id == item_id), 1)
        return QueuePlace(number, max(1, len(items)), waiting, self.alike(item_id))

    def alike(self, item_id: str) -> tuple[str, ...]:
        """Return the open questions like this one; grouped once for each state of the queue."""
        if self._groups is None or self._groups[0] is not self.snapshot:
            groups = group_questions(item for item in self.snapshot.pending if item.id not in self.sent)
            self._groups = self.snapshot, {item.id: group.ids for group in groups for item in group.items}
        return self._groups[1].get(item_id, ())

    def neighbour(self, item_id: str, step: int) -> str | None:
        """Return the question so many places further on, around the ends."""
        items = self.snapshot.items
        place = next((at for at, item in enumerate(items) if item.id == item_id), -1)
        return items[(place + step) % len(items)].id if items else None
