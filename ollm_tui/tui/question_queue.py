"""Where a question stands in the queue, which of a list are chosen, what was decided here; without a screen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ollm_tui.core.bus.notices import Confirmation
from ollm_tui.core.bus.states import ConfirmationState, Risk
from ollm_tui.tui.decisions import ConfirmationCase
from ollm_tui.tui.question_groups import QuestionGroup, group_questions
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


@dataclass
class GroupSelection:
    """Questions of a list, oldest first; keys decide the chosen, else all waiting."""

    queue: ConfirmationQueueSnapshot
    shown: dict[str, Confirmation]
    """The questions of the list as they stand."""
    marked: set[str] = field(default_factory=set[str])
    sent: set[str] = field(default_factory=set[str])
    answered: bool = False
    """Something was decided here: the list closes once nothing of it waits."""
    _asked: dict[str, Confirmation] = field(init=False)
    """The same as they were asked: what newer ones are compared with."""

    def __post_init__(self) -> None:
        self._asked = dict(self.shown)

    @classmethod
    def of(cls, queue: ConfirmationQueueSnapshot, item_ids: tuple[str, ...]) -> GroupSelection:
        """Select these questions of a queue."""
        return cls(queue, {item.id: item for item in queue.items if item.id in item_ids})

    @property
    def first(self) -> Confirmation:
        """The question that stands for all."""
        return next(iter(self._asked.values()))

    @property
    def high_risk(self) -> bool:
        """Whether they are of HIGH risk, which similar questions share."""
        return self.first.details.risk is Risk.HIGH

    @property
    def group(self) -> QuestionGroup:
        """What they have in common."""
        return group_questions(self._asked.values())[0]

    @property
    def open_ids(self) -> tuple[str, ...]:
        """The listed questions that wait for a decision."""
        return tuple(item.id for item in self.shown.values() if item.pending and item.id not in self.sent)

    @property
    def targets(self) -> tuple[str, ...]:
        """The questions that a key decides."""
        return tuple(item_id for item_id in self.open_ids if item_id in self.marked) if self.marked else self.open_ids

    @property
    def target_group(self) -> QuestionGroup:
        """What those have in common."""
        return group_questions(item for item_id, item in self._asked.items() if item_id in self.targets)[0]

    @property
    def is_over(self) -> bool:
        """Whether the list has done its work."""
        return self.answered and not any(item.pending for item in self.shown.values())

    @property
    def newer(self) -> tuple[Confirmation, ...]:
        """The similar questions that came since; no key decides them."""
        others = [item for item in self.queue.pending if item.id not in self.shown]
        groups = group_questions([*self._asked.values(), *others])
        alike = (group for group in groups if any(item.id in self.shown for item in group.items))
        return tuple(item for group in alike for item in group.items if item.id not in self.shown)

    def take(self, queue: ConfirmationQueueSnapshot) -> bool:
        """Take another snapshot, rows staying where they are; return whether what waits has changed."""
        self.queue = queue
        before = self.open_ids
        for item_id, shown in self.shown.items():
            gone = replace(shown, state=ConfirmationState.CANCELLED) if shown.pending else shown
            self.shown[item_id] = queue.find(item_id) or gone
        return self.open_ids != before

    def toggle(self, item_id: str) -> bool:
        """Choose a question, or not; return whether it could be."""
        possible = item_id in self.open_ids or item_id in self.marked
        if possible:
            self.marked ^= {item_id}
        return possible

    def take_newer(self) -> tuple[str, ...]:
        """Add the questions that came since; return their ids."""
        newer = {item.id: item for item in self.newer}
        self.shown |= newer
        self._asked |= newer
        return tuple(newer)

    def decided(self, item_ids: tuple[str, ...]) -> None:
        """Take note that a decision about these was sent."""
        self.answered = True
        self.sent.update(item_ids)
        self.marked.difference_update(item_ids)
