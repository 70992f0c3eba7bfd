"""Decides when the confirmation may open by itself; who types or works in the terminal is not interrupted."""

from __future__ import annotations

from dataclasses import dataclass, field

IDLE_SECONDS = 1.0
"""Without a key this long, a draft in the prompt no longer holds the confirmation back."""


@dataclass(frozen=True)
class Scene:
    """Where the person's attention is. `last_key` is monotonic, in seconds."""

    modal_open: bool
    app_focused: bool
    terminal_focused: bool
    draft_empty: bool
    mouse_down: bool
    last_key: float
    now: float


@dataclass
class ReviewDesk:
    """Remembers which questions were seen: each opens by itself at most once."""

    auto_open: str = "idle"
    """`idle`, `always` or `never` (`[ui] auto_open`)."""
    seen: set[str] = field(default_factory=set[str])

    def unseen(self, pending_ids: tuple[str, ...]) -> str | None:
        """The oldest question nobody has looked at."""
        return next((item_id for item_id in pending_ids if item_id not in self.seen), None)

    def wait_before_opening(self, scene: Scene) -> float | None:
        """Seconds until it may open if nothing else happens; 0 for now; None while something stands against it."""
        if self.auto_open == "never" or scene.modal_open:
            return None
        if self.auto_open == "always":
            return 0.0
        if not scene.app_focused or scene.terminal_focused or scene.mouse_down:
            return None
        if scene.draft_empty:
            return 0.0
        return max(0.0, scene.last_key + IDLE_SECONDS - scene.now)
