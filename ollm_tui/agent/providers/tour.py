"""The tour: the script that plays when none is named. It wants an empty workspace and writes its files itself."""

from __future__ import annotations

from pathlib import Path

from ollm_tui.agent.providers.scripted import ScriptedReply, load_script

TOUR = Path(__file__).with_name("tour.json")


def tour_script() -> tuple[ScriptedReply, ...]:
    """Raises ScriptFault when the installed file is damaged."""
    return load_script(TOUR)
