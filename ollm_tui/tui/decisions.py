"""State of one confirmation: what was read, changed, and can be approved.

Without widgets and with the clock as an argument, so that every safety rule can be tested by itself.
"""

from __future__ import annotations

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


ARM_SECONDS = 0.5
"""Approve keys are disabled this long after a change (contract section 6)."""


class Standing(StrEnum):
    """State of the approve keys."""

    READY = "ready"
    ARMING = "arming"
    UNREAD = "unread"
    OVER = "over"


@dataclass
class DecisionGuard:
    """State of one question on screen, and the guard of its approval.

    `shown_at` is monotonic seconds, infinite until painted; `effect_seen`: the end of the effect was visible.
    """

    item: Confirmation
    shown_at: float = inf
    review: CallReview | None = None
    edited: JsonObject | None = None
    effect_seen: bool = False
    pressed_once: bool = False
    sent: bool = False
    """The decision has been sent."""

    def standing(self, now: float) -> Standing:
        """Return whether an approval counts now, and if not, why."""
        if self.sent or not self.item.pending:
            return Standing.OVER
        if now - self.shown_at < ARM_SECONDS:
            return Standing.ARMING
        return Standing.READY if self.effect_seen else Standing.UNREAD

    def say_yes(self, now: float) -> bool:
        """Return whether this key press approves; HIGH risk takes two."""
        if self.standing(now) is not Standing.READY:
            return False
        if self.risk is Risk.HIGH and not self.pressed_once:
            self.pressed_once = True
            return False
        return True

    def disarm(self) -> None:
        """Ignore approve keys until what is shown now has been painted."""
        self.shown_at = inf
        self.pressed_once = False

    def change_arguments(self, arguments: JsonObject, review: CallReview) -> None:
        """Replace the arguments; their effect must be read and approved again."""
        self.edited, self.review = arguments, review
        self.effect_seen = False
        self.disarm()

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
"""Without a key this long, a draft no longer delays the confirmation."""


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

    setting: str = "idle"
    """`idle`, `always` or `never` (`[ui] auto_open`)."""
    seen: set[str] = field(default_factory=set[str])

    def unseen(self, pending_ids: tuple[str, ...]) -> str | None:
        """Return the oldest question not shown yet."""
        return next((item_id for item_id in pending_ids if item_id not in self.seen), None)

    def wait_before_opening(self, situation: ScreenSituation) -> float | None:
        """Return seconds until it may open; None while something prevents it."""
        if self.setting == "never" or situation.modal_open:
            return None
        if self.setting == "always":
            return 0.0
        if not situation.app_focused or situation.terminal_focused or situation.mouse_down:
            return None
        if situation.draft_empty:
            return 0.0
        return max(0.0, situation.last_key + IDLE_SECONDS - situation.now)
