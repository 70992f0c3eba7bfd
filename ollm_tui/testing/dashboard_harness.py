"""Drive the whole dashboard without a terminal: press keys, wait for text; only the model is scripted."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from ollm_tui.core.base.clock import Clock
from ollm_tui.options import Options
from ollm_tui.testing.fakes import Reply, script_values
from ollm_tui.tui.app import DashboardApp
from ollm_tui.tui.decisions import DecisionGuard, Readiness
from ollm_tui.tui.first_frame import DEFAULT_THEME
from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
from ollm_tui.tui.screens.group_screen import GroupScreen
from ollm_tui.tui.screens.question_screens import ChoiceScreen, GuardedScreen, TrustScreen
from ollm_tui.tui.values import Activity

PATIENCE_SECONDS = 60.0
"""How long to wait for what should happen."""


class DashboardHarness:
    """A running dashboard; `app` and `pilot` are Textual's own."""

    def __init__(self, app: DashboardApp, pilot: Pilot[int]) -> None:
        self.app, self.pilot = app, pilot

    @property
    def text(self) -> str:
        """Every cell of the screen as it is painted."""
        return screen_text(self.app)

    async def press(self, *keys: str) -> None:
        """Press keys, by Textual's names."""
        await self.pilot.press(*keys)

    async def send(self, text: str) -> None:
        """Type into the prompt and press Enter."""
        await self.pilot.press(*text, "enter")

    async def wait_for(self, text: str) -> None:
        """Wait until the screen shows this text."""
        await wait_until(self.pilot, lambda: text in self.text, what=lambda: f"{text!r} on\n{self.text}")

    async def wait_until(self, predicate: Callable[[], bool]) -> None:
        """Wait until something becomes true."""
        await wait_until(self.pilot, predicate)

    async def wait_for_idle(self) -> None:
        """Wait until no turn runs."""
        idle = (Activity.IDLE, Activity.FAILED)
        await self.wait_until(lambda: self.app.dashboard.status.activity in idle)

    async def wait_for_confirmation(self) -> ConfirmationScreen:
        """Wait until a confirmation is open and its keys count."""
        await self.wait_until(lambda: isinstance(self.app.screen, ConfirmationScreen))
        screen = self.app.screen
        assert isinstance(screen, ConfirmationScreen)
        await self.wait_until(lambda: screen.guard.readiness(whole=True) is Readiness.READY)
        return screen

    async def decide(self, key: str, guard: DecisionGuard | None = None) -> None:
        """Press a key that decides, once the question on the screen (or what `guard` guards) lets it count."""

        def ready() -> bool:
            screen = self.app.screen
            if guard is not None:
                return guard.readiness(whole=False) is Readiness.READY
            if not isinstance(screen, ConfirmationScreen | GroupScreen | GuardedScreen):
                return False
            if key in ("a", "A") and isinstance(screen, ConfirmationScreen) and screen.case.review is None:
                return False  # what could be remembered is not known yet
            whole = isinstance(screen, ConfirmationScreen | GroupScreen | TrustScreen | ChoiceScreen)
            return screen.guard.readiness(whole=whole) is Readiness.READY

        await self.wait_until(ready)
        await self.pilot.press(key)


@asynccontextmanager
async def open_dashboard(
    workspace: Path,
    script: Sequence[Reply] | None = None,
    *,
    options: Options | None = None,
    clock: Clock | None = None,
    size: tuple[int, int] = (120, 40),
) -> AsyncGenerator[DashboardHarness]:
    """Open the dashboard in `workspace` on a real runtime; commands that still run are ended at the end.

    Settings, data and sessions are those of the environment: point `XDG_CONFIG_HOME`, `XDG_DATA_HOME` and
    `XDG_STATE_HOME` into a temporary directory first.

    Args:
        workspace: The directory to work in.
        script: The model's replies; without it the provider of `options`.
        options: Further options, as the command line gives them; the provider is `offline` unless they name one.
        clock: The dashboard's time.
        size: Columns and lines.
    """
    options = replace(options or Options(), workspace=workspace)
    options = replace(options, provider=options.provider or "offline", theme=options.theme or DEFAULT_THEME)
    with tempfile.TemporaryDirectory(prefix="ollm-script-") as folder:
        if script is not None:
            path = Path(folder) / "script.json"
            path.write_text(json.dumps(script_values(script)), encoding="utf-8")
            options = replace(options, provider="scripted", script=path)
        app = DashboardApp(options, clock=clock)
        async with app.run_test(size=size, notifications=True) as pilot:
            await wait_until(pilot, lambda: app.holder.backend is not None)
            yield DashboardHarness(app, pilot)
            await app.leaving.leave()


async def wait_until(
    pilot: Pilot[int],
    predicate: Callable[[], bool],
    seconds: float = PATIENCE_SECONDS,
    what: Callable[[], str] = lambda: "a condition",
) -> None:
    """Wait until something becomes true.

    Raises:
        AssertionError: It did not within `seconds`; the message has `what`.
    """
    loop = asyncio.get_running_loop()
    end, pause = loop.time() + seconds, 0.01
    while not predicate():
        if loop.time() >= end:
            raise AssertionError(f"waited {seconds} s for {what()}")
        await pilot.pause(pause)
        pause = min(pause * 1.3, 0.05)  # reading the whole screen takes longer than most of what is waited for


def screen_text(app: DashboardApp) -> str:
    """Return every cell of the screen as it is painted, lines without the spaces at their ends."""
    strips = app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]  # textual has no public call for cells
    assert len(strips) in (0, app.size.height), "a screen that was just opened has no cells yet, else all"
    return "\n".join(strip.text.rstrip() for strip in strips)
