"""What the status line says of model, folder and mode, and the person's changes of the mode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ollm_tui.core.policy.modes import Mode
from ollm_tui.runtime import House
from ollm_tui.tui import news
from ollm_tui.tui.intents import Tell
from ollm_tui.tui.values import Surroundings

CIRCLE = (Mode.ASK, Mode.AUTO_EDIT, Mode.PLAN)
"""What F4 goes through; yolo is chosen by name only."""


class SurroundingsKeeper:
    """Knows them as they are now; each change is told whole."""

    def __init__(self, house: House, tell: Tell) -> None:
        self._executor = house.core.executor
        self._tell = tell
        configuration = house.core.configuration
        described = house.agent.provider.describe()
        self.now = Surroundings(
            model=described.model or described.provider,
            workspace=_short(configuration.workspace.root),
            tokens_limit=described.context_window,
            mode=self._executor.mode.value,
            offline=described.provider == "offline",
            denied_because=configuration.policy_fault or "",
        )

    def tell(self) -> None:
        self._tell(news.SurroundingsChanged(self.now))

    def tokens_used(self, count: int) -> None:
        """The model server reported usage; 0 says nothing."""
        self._change(replace(self.now, tokens_used=count or self.now.tokens_used))

    def policy_read(self, fault: str | None) -> None:
        """With a fault everything is denied."""
        self._change(replace(self.now, denied_because=fault or ""))

    def change_mode(self, wanted: str | None) -> None:
        """To the mode of that name, or to the next of CIRCLE."""
        if wanted is None:
            place = CIRCLE.index(self._executor.mode) if self._executor.mode in CIRCLE else -1
            self._executor.mode = CIRCLE[(place + 1) % len(CIRCLE)]
        else:
            self._executor.mode = Mode(wanted)
        self._change(replace(self.now, mode=self._executor.mode.value))

    def _change(self, surroundings: Surroundings) -> None:
        self.now = surroundings
        self.tell()


def _short(path: Path) -> str:
    """A folder as people call it: `~/src/app`."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except ValueError:
        return str(path)
