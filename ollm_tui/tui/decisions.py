"""What a key may decide, and when a confirmation may open by itself (contract section 6).

Nothing is decided by accident: a held key, a burst, a paste or the rest of a sentence never is an answer. Without
widgets and with times as arguments, so that every rule can be tested by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING

from ollm_tui.core.bus.states import RememberScope, Risk

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.bus.confirmation import Preview
    from ollm_tui.core.bus.notices import Confirmation
    from ollm_tui.core.execution.calls import CallReview
    from ollm_tui.core.policy.approvals import RememberOffer


QUIET_SECONDS = 0.5
"""A deciding key counts only after this long without any key over what it decides."""


BURST_SECONDS = 0.1
"""A decision takes effect when no other key follows within this: the first letter of a paste is none."""


class Readiness(StrEnum):
    """Whether a deciding key counts, and if not, why."""

    READY = "ready"
    EARLY = "early"
    """Not shown long enough, or a key was pressed meanwhile."""
    UNREAD = "unread"
    """Its end has not been in sight."""
    AGAIN = "again"
    """It counts when it is pressed once more."""


@dataclass
class KeyPresses:
    """When keys were pressed, pastes and mouse buttons included: of typing, not of handling."""

    now: Callable[[], float]
    """The clock, in monotonic seconds; all times here are its."""
    last: float = -inf
    """The press that is being handled, or the last one."""
    before: float = -inf
    count: int = 0
    run: str = ""
    """The characters of the last presses that had no silence between them."""
    answer: str = ""
    """The same, ending in the press of the last decision."""
    deciding: int | None = None
    """The number of a press whose decision has not taken effect yet."""

    def add(self, age: float = 0.0, character: str = "") -> None:
        """Note a press of `age` seconds ago, before it takes effect."""
        self.before, self.last = self.last, max(self.now() - age, self.last)
        self.count += 1
        goes_on = bool(character) and self.last - self.before < QUIET_SECONDS
        if self.deciding is not None:  # it was the beginning of a message after all
            self.run, self.deciding = self.answer, None
        self.run = self.run + character if goes_on else character


@dataclass
class DecisionGuard:
    """Says whether a deciding key counts for what stands on the screen.

    Time passes only while it is painted: `hide` with each change, `show` once the change is painted.
    """

    presses: KeyPresses
    shown_at: float = inf
    end_seen_at: float = inf
    """When the end of what is decided came into sight."""
    asked: tuple[Hashable, int] | None = None
    """A decision that takes two presses, and the number of its first."""
    change: int = 0

    def hide(self) -> int:
        """Take note that something else is about to be shown; return the number of the change, for `show`."""
        self.shown_at, self.asked = inf, None
        self.change += 1
        return self.change

    def renew(self) -> int:
        """Take note that something else is decided: its end has not been seen either."""
        self.end_seen_at = inf
        return self.hide()

    def show(self, change: int) -> None:
        """Take note that a change is painted; with the last one time begins to count."""
        if change == self.change:
            self.shown_at = min(self.presses.now(), self.shown_at)

    def see_end(self) -> None:
        """Take note that its end is in sight."""
        self.end_seen_at = min(self.presses.now(), self.end_seen_at)

    def readiness(self, *, whole: bool) -> Readiness:
        """Return what a key pressed now would meet; `whole` where the end must have been seen."""
        return self._after(self.presses.now(), self.presses.last, whole=whole)

    def press(self, decision: Hashable, *, whole: bool = False, twice: bool = False) -> Readiness:
        """Return whether the press that is being handled makes this decision.

        Args:
            decision: What would be decided, with all that it is about.
            whole: The end must have been seen.
            twice: It takes a second press of the same key, with no other between.
        """
        found = self._after(self.presses.last, self.presses.before, whole=whole)
        if found is not Readiness.READY:
            return found
        if not twice or self.asked == (decision, self.presses.count - 1):
            self.presses.answer, self.presses.run = self.presses.run, ""  # as it seems, no beginning of a message
            return found
        self.asked = (decision, self.presses.count)
        return Readiness.AGAIN

    def hold(self) -> tuple[int, int]:
        """Let the decision of the press that is handled wait for BURST_SECONDS; return it for `stands`."""
        self.presses.deciding = self.presses.count
        return self.presses.count, self.change

    def stands(self, held: tuple[int, int]) -> bool:
        """Return whether a decision may take effect: no key followed, and the screen shows what it did."""
        if self.presses.deciding == held[0]:
            self.presses.deciding = None
        return held == (self.presses.count, self.change)

    def again(self, decision: Hashable) -> bool:
        """Return whether one more press of its key makes this decision."""
        return self.asked == (decision, self.presses.count)

    def _after(self, time: float, press: float, *, whole: bool) -> Readiness:
        if whole and self.shown_at < inf and self.end_seen_at == inf:
            return Readiness.UNREAD
        since = max(self.shown_at, press, self.end_seen_at if whole else -inf)
        return Readiness.READY if time - since >= QUIET_SECONDS else Readiness.EARLY


def deny_all(item_ids: tuple[str, ...]) -> Hashable:
    """Return the decision to deny these questions; it takes two presses over the same ones."""
    return ("deny all", item_ids)


@dataclass
class ConfirmationCase:
    """One question on the screen: as asked, or with the arguments the person gave it."""

    item: Confirmation
    said: str = ""
    """The model's last sentence before the call."""
    review: CallReview | None = None
    edited: JsonObject | None = None
    sent: bool = False
    """The decision has been sent."""

    @property
    def open(self) -> bool:
        """Return whether it can still be decided."""
        return self.item.pending and not self.sent

    def change_arguments(self, arguments: JsonObject, review: CallReview) -> None:
        """Replace the arguments; their effect must be read and approved again."""
        self.edited, self.review = arguments, review

    def offer(self, scope: RememberScope) -> RememberOffer | None:
        """Return what an approval could remember in this scope.

        Changed arguments offer nothing, HIGH risk nothing beyond the session.
        """
        offer = None if self.review is None or self.changed else self.review.offer
        if offer is None or scope is RememberScope.SESSION:
            return offer
        return None if self.risk is Risk.HIGH or offer.session_only else offer

    @property
    def changed(self) -> bool:
        """Return whether the person changed the arguments."""
        return self.edited is not None

    @property
    def risk(self) -> Risk:
        """Return the risk of the current arguments."""
        return self.review.risk if self.changed and self.review is not None else self.item.details.risk

    @property
    def reason(self) -> str:
        """Return the reason for the confirmation."""
        return self.review.reason if self.changed and self.review is not None else self.item.request.reason

    @property
    def preview(self) -> Preview | None:
        """Return the preview of the current arguments."""
        return self.review.preview if self.changed and self.review is not None else self.item.details.preview

    @property
    def arguments(self) -> JsonObject:
        """Return the arguments that would run."""
        return self.edited if self.edited is not None else self.item.details.args


IDLE_SECONDS = 1.0
"""A question opens by itself only after this long without a key."""


@dataclass(frozen=True)
class ScreenSituation:
    """What the person is doing. `last_key` is monotonic, in seconds."""

    modal_open: bool
    app_focused: bool
    terminal_focused: bool
    draft_empty: bool
    mouse_down: bool
    last_key: float
    now: float


@dataclass
class AutoOpenTimer:
    """Knows which confirmations were seen: each opens by itself at most once."""

    enabled: bool = True
    """`[ui] auto_open`."""
    seen: set[str] = field(default_factory=set[str])

    def unseen(self, pending_ids: tuple[str, ...]) -> str | None:
        """Return the oldest question not shown yet."""
        return next((item_id for item_id in pending_ids if item_id not in self.seen), None)

    def wait_before_opening(self, situation: ScreenSituation) -> float | None:
        """Return seconds until it may open; None while something prevents it, a draft above all."""
        busy = situation.modal_open or situation.terminal_focused or situation.mouse_down
        if not self.enabled or busy or not situation.app_focused or not situation.draft_empty:
            return None
        return max(0.0, situation.last_key + IDLE_SECONDS - situation.now)
