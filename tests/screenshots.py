"""Makes the README's pictures: `python -m tests.screenshots FOLDER` plays the tour in the real dashboard, by keys.

Policy, tools, store and files are real and live in a temporary home; only the clock is not, so that the same screen
gives the same bytes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from textual.pilot import Pilot

from ollm_tui.agent.providers.scripted import TOUR
from ollm_tui.options import Options
from ollm_tui.testing import FakeClock
from ollm_tui.testing.dashboard_harness import screen_text, wait_until
from ollm_tui.tui.app import DashboardApp
from ollm_tui.tui.decisions import QUIET_SECONDS
from ollm_tui.tui.layout import Pane
from ollm_tui.tui.panes.terminal_prefix import PREFIX_SECONDS
from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen

PATIENCE = 60.0
"""Seconds to wait for what the tour shows next."""

MOMENT_SECONDS = 0.012
"""How far the clock moves with each moment that is recorded."""

WIDE, NARROW = (120, 40), (80, 24)
PROMPT = "~/demo $ "
COMMAND = "wc -l README.md */*.py"
REQUEST = "Names that contain a comma break the export. Please mend it."


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tests.screenshots FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(take_all(folder))
    return 0


async def take_all(folder: Path) -> None:
    """Write every picture."""
    first = await tour(WIDE, "ollm-dark")
    light = await tour(WIDE, "ollm-light")
    narrow = await tour(NARROW, "ollm-dark")
    pictures = {
        "confirmation": first.confirmation,
        "dashboard": first.dashboard,
        "light": light.dashboard,
        "narrow": narrow.dashboard,
    }
    for name, picture in pictures.items():
        path = folder / f"{name}.svg"
        path.write_text(picture, encoding="utf-8")
        print(path)


@dataclass(frozen=True)
class Pictures:
    """What one run of the tour looks like where three changes wait, as SVG: under the confirmation, and without it."""

    confirmation: str
    dashboard: str


async def tour(size: tuple[int, int], theme: str) -> Pictures:
    """Play the tour up to its three questions, in a home of its own."""
    with tempfile.TemporaryDirectory() as home:
        workspace = Path(home).resolve() / "demo"
        workspace.mkdir()
        live_in(workspace.parent)
        clock = CountingClock()
        # The tour's own script by name: without one it plays in a folder whose name is another each time.
        options = Options(workspace=workspace, provider="scripted", script=TOUR, theme=theme)
        app = DashboardApp(options, clock=clock)
        async with app.run_test(size=size) as pilot:
            pictures = await play(app, pilot, clock)
            await app.action_leave()
            await settle(pilot)
            clock.seconds += QUIET_SECONDS
            await pilot.press("y")
        for picture in (pictures.confirmation, pictures.dashboard):
            assert home not in picture, "a temporary folder is in the picture"
        return pictures


class CountingClock(FakeClock):
    """Moves with each moment that the conversation records, and never by itself: what is shown of time is exact."""

    def now(self) -> datetime:
        # Threads that write the audit log ask too, each time at another place in the order of things.
        if threading.current_thread() is threading.main_thread():
            self.seconds += MOMENT_SECONDS
        return super().now()


async def play(app: DashboardApp, pilot: Pilot[int], clock: CountingClock) -> Pictures:
    """Ask, wait for the three questions, and look at the first."""
    await wait_until(pilot, lambda: "Model: tour" in screen_text(app), PATIENCE)
    await pilot.press(*REQUEST, "enter")
    await wait_until(pilot, lambda: app.dashboard.waiting == 3, PATIENCE)
    await pilot.press("f8")
    await wait_until(pilot, lambda: isinstance(app.screen, ConfirmationScreen), PATIENCE)
    modal = app.screen
    assert isinstance(modal, ConfirmationScreen)
    await wait_until(pilot, lambda: modal.case.review is not None, PATIENCE)
    clock.seconds += QUIET_SECONDS
    modal.box.draw()
    await settle(pilot)
    confirmation = app.export_screenshot()
    await pilot.press("escape")
    await wait_until(pilot, lambda: app.screen is app.dashboard, PATIENCE)
    await pilot.press("pageup")
    if app.dashboard.arrangement.in_sight(Pane.TERM):
        await look_around(app, pilot)
        clock.seconds += PREFIX_SECONDS + 1
    app.dashboard.refresh_bindings()
    await settle(pilot)
    return Pictures(confirmation, app.export_screenshot())


async def look_around(app: DashboardApp, pilot: Pilot[int]) -> None:
    """Type a command into the shell of the terminal pane, and go back to the prompt."""
    await pilot.press("ctrl+t")
    await wait_until(pilot, lambda: PROMPT in screen_text(app), PATIENCE)
    await pilot.press(*COMMAND, "enter")
    await wait_until(pilot, lambda: screen_text(app).count(PROMPT) == 2, PATIENCE)
    await pilot.press("ctrl+right_square_bracket")
    await wait_until(pilot, lambda: app.dashboard.prompt.has_focus, PATIENCE)


async def settle(pilot: Pilot[int]) -> None:
    """Let everything that is on its way be painted."""
    for _ in range(5):
        await pilot.pause(0.1)


def live_in(home: Path) -> None:
    """Configuration, data and sessions of a person who has none yet; clocks show UTC."""
    for name in [name for name in os.environ if name.startswith(("OLLM_", "XDG_"))]:
        del os.environ[name]
    os.environ.pop("NO_COLOR", None)
    os.environ["HOME"] = str(home)
    os.environ["TZ"] = "UTC"
    # A shell whose prompt is the same everywhere: it reads no start-up file.
    os.environ["SHELL"] = "/bin/sh"
    os.environ["PS1"] = PROMPT
    time.tzset()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
